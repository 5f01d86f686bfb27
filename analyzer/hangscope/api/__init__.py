"""The analysis as functions: what the command line and notebooks call.

Each name is fetched from its module when it is used: to analyze logs loads nothing that only attaching needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangscope.api.analysis import analyze, analyze_text, diagnose, diagnose_attempts, history_of, report_on
    from hangscope.api.attachment import Attachment, attach
    from hangscope.api.comparison import diff
    from hangscope.api.explanation import explain
    from hangscope.api.pictures import plot
    from hangscope.api.reading import Reading, load, read_job

__all__ = [
    "Attachment",
    "Reading",
    "analyze",
    "analyze_text",
    "attach",
    "diagnose",
    "diagnose_attempts",
    "diff",
    "explain",
    "history_of",
    "load",
    "plot",
    "read_job",
    "report_on",
]

_HOMES = {
    "Attachment": "attachment",
    "Reading": "reading",
    "analyze": "analysis",
    "analyze_text": "analysis",
    "attach": "attachment",
    "diagnose": "analysis",
    "diagnose_attempts": "analysis",
    "diff": "comparison",
    "explain": "explanation",
    "history_of": "analysis",
    "load": "reading",
    "plot": "pictures",
    "read_job": "reading",
    "report_on": "analysis",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
