"""The values that cross layers: lines, events, facts, findings and the report.

Everything here is plain data. Nothing in this module reads, parses or decides. A module is loaded when one of its
names is asked for: a list of rules needs no report, and most reports no history.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangscope.model.evidence import (
        Event,
        Evidence,
        Fact,
        Line,
        Location,
        Value,
    )
    from hangscope.model.findings import (
        Consequence,
        Finding,
        Remedy,
        Role,
    )
    from hangscope.model.history import CallHistory, CallState, GroupCounts, GroupHistory, History, Transfer
    from hangscope.model.report import (
        AttemptResult,
        CollectiveState,
        ComparedValue,
        Comparison,
        InferredVersion,
        JobInfo,
        NextStep,
        RankState,
        Report,
        SourceRecord,
        StackNode,
        StackState,
        StoryStep,
    )
    from hangscope.model.stacks import (
        Frame,
        ProcessDump,
        ThreadStack,
    )

__all__ = [
    "AttemptResult",
    "CallHistory",
    "CallState",
    "CollectiveState",
    "ComparedValue",
    "Comparison",
    "Consequence",
    "Event",
    "Evidence",
    "Fact",
    "Finding",
    "Frame",
    "GroupCounts",
    "GroupHistory",
    "History",
    "InferredVersion",
    "JobInfo",
    "Line",
    "Location",
    "NextStep",
    "ProcessDump",
    "RankState",
    "Remedy",
    "Report",
    "Role",
    "SourceRecord",
    "StackNode",
    "StackState",
    "StoryStep",
    "ThreadStack",
    "Transfer",
    "Value",
]

_MODULES = ("evidence", "findings", "stacks", "report", "history")
"""Each needs those before it, if any."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            for module in _MODULES:
                found = getattr(importlib.import_module(f"{__name__}.{module}"), name, None)
                if found is not None:
                    globals()[name] = found
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
