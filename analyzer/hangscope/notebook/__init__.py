"""What notebooks and scripts see: a job whose tables are DataFrames, and a report that shows itself.

Everything here is also an attribute of `hangscope`: ``import hangscope as hs; job = hs.load("logs/")``.
"""

from hangscope.notebook.difference import Difference
from hangscope.notebook.functions import analyze, attach, diff, load
from hangscope.notebook.job import Job, Selection
from hangscope.notebook.report import Report

__all__ = ["Difference", "Job", "Report", "Selection", "analyze", "attach", "diff", "load"]
