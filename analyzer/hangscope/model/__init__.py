"""The values that cross layers: lines, events, facts, findings and the report.

Everything here is plain data. Nothing in this module reads, parses or decides.
"""

from __future__ import annotations

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
