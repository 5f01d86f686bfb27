"""SARIF 2.1.0, for tools that show findings beside the code: the job's own line, and the log lines that prove it."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.sarif import to_sarif
from hangscope.report.serialize import json_text

FILE = "report.sarif"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the log; `quiet`, `verbose` and the width do not change what a program reads."""
    stream.write(json_text(to_sarif(report), options))
