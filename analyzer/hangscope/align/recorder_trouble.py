"""What flight recorders show to be wrong: the kinds of faults, and one fault."""

from __future__ import annotations

import enum

from hangscope.align.collectives import StuckCall
from hangscope.records import dataclass


class Fault(enum.StrEnum):
    """What the dumps show to be wrong."""

    MISSING = "missing"
    LEFT_EARLY = "left-early"
    SKIPPED = "skipped"
    OPERATION = "operation"
    SIZE = "size"
    ORDER = "order"
    P2P = "p2p"
    NO_DUMP = "no-dump"
    ALL_JOINED = "all-joined"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault: the call at which it shows, and who is to blame.

    Attributes:
        fault: its kind.
        call: the stuck call.
        ranks: who is to blame, () when nobody is.
        last_seen: what the ranks to blame did last, in words, or "".
        last_where: line of code of that.
        last_seq: last number that the call can have had, where several look the same; else the call's.
        groups: for cycles, the names of the groups.
        waits: number of ranks that wait, here or elsewhere.
    """

    fault: Fault
    call: StuckCall
    ranks: tuple[int, ...]
    last_seen: str = ""
    last_where: str = ""
    last_seq: int = -1
    groups: tuple[str, ...] = ()
    waits: int = 0
