"""Facts about ranks whose program ended in order while their peers still needed them, by what is printed at exit.

At the end of a program torch warns of a process group that nobody destroyed (2.4 on), and NCCL tells of its teardown.
A rank that prints either, without a failure before it, is through; peers that wait after that wait for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.exceptions import category_of
from hangscope.facts.vanished import LOSS_KINDS
from hangscope.model import Event, Fact

KINDS = {
    "left_before_others": FactKind(
        ("waits",), "A rank's program ended without a failure, and other ranks then waited for it in vain."
    ),
}
_WAITS = (
    "watchdog_timeout",
    "watchdog_progress",
    "blocking_wait_timeout",
    "gloo_wait_timeout",
    "monitored_barrier_missed",
)
_FAULTS = frozenset(
    {
        *_WAITS,
        *LOSS_KINDS,
        "watchdog_thread_ended",
        "watchdog_async_error",
        "watchdog_dump_signal",
        "watchdog_remote_dump_signal",
        "watchdog_takes_process_down",
        "watchdog_kills_process",
        "watchdog_heartbeat_lost",
        "store_connection_lost",
        "native_signal_handler",
        "fatal_python_error",
        "terminate_called",
        "exception",
    }
)
_CLEARLY_LATER_S = 5.0


def find(job: Job) -> Iterator[Fact]:
    """Ranks that ended first and in order, with those who then waited."""
    waits = [event for event in job.events.of(*_WAITS) if _speaker(event) is not None]
    waiting_themselves = {_speaker(event) for event in waits}
    lost = [
        event for event in job.events.of("exception") if event.rank is not None and category_of(event) == "consequence"
    ]
    for rank, process in sorted(job.ranks.items()):
        end = None if rank in waiting_themselves else _end(process)
        if end is None:
            continue
        left = [event for event in (*waits, *lost) if _speaker(event) != rank and _is_after(event, end)]
        waiting = tuple(sorted({who for event in left if (who := _speaker(event)) is not None}))
        if not waiting:
            continue
        yield Fact(
            "left_before_others",
            {"waits": waiting},
            ranks=(rank,),
            hosts=(process.host,) if process.host else (),
            affected=waiting,
            time=end.time,
            evidence=(
                evidence_of(end, f"rank {rank} ends"),
                *(evidence_of(event, f"rank {_speaker(event)} needs it later") for event in left[:4]),
            ),
        )


def _end(process: Process) -> Event | None:
    """The first sign of the program's end, when no failure of this process stands before it."""
    for event in process.events:
        if event.kind in _FAULTS:
            return None
        if event.kind == "process_group_not_destroyed":
            return event
    return None


def _speaker(event: Event) -> int | None:
    inside = event.number("group_rank")
    return event.rank if event.rank is not None else inside


def _is_after(event: Event, end: Event) -> bool:
    """Clearly later by the clock, or further down in the same file where a line has no time."""
    if event.time is not None and end.time is not None:
        return event.time > end.time + _CLEARLY_LATER_S
    return event.line.file == end.line.file and event.line.number > end.line.number
