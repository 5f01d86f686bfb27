"""Tells of the ranks that the launcher ended once the first one had failed: their deaths need no other reason."""

from __future__ import annotations

from collections import defaultdict

from hangscope.model import Event, Evidence, Finding, StoryStep
from hangscope.report.inputs import JobView
from hangscope.report.spans import count_words, rank_words
from hangscope.report.times import delay_words, iso_time

# torch's elastic agent (1.9 to 2.14): "Sending process 4922 closing signal SIGTERM"; DeepSpeed: "Killing subprocess 7"
_SAYS = {"closing_signal": "worker_pid", "forced_kill": "worker_pid", "deepspeed_killing": "killed_pid"}
_EVIDENCE = 2


def tell_of_launcher(job: JobView, verdict: Finding) -> StoryStep | None:
    """A step of the story: whom the launchers ended, and how much later than the root cause; None for nobody.

    A rank that is itself at fault is left out: that a launcher ended it too explains nothing.
    """
    said = [event for process in job.processes for event in process.by_kind.of(*_SAYS)]
    said.sort(key=lambda event: (event.time is None, event.time or 0.0, event.line.file, event.line.number))
    owners: dict[int, set[tuple[int, str | None]]] = defaultdict(set)
    for rank, process in job.ranks.items():
        if process.pid is not None:
            owners[process.pid].add((rank, process.host))
    ranks: set[int] = set()
    ended: list[Event] = []
    for event in said:
        pid = event.number(_SAYS[event.kind])
        found = _owner(owners.get(pid, set()) if pid is not None else set(), event.host)
        if found is None or found not in verdict.ranks:
            ended.append(event)
            ranks.update(() if found is None else (found,))
    if not ended:
        return None
    pids = {event.number(_SAYS[event.kind]) for event in ended}
    who = rank_words(ranks) if len(ranks) == len(pids) else count_words(len(pids), "process")
    first = ended[0]
    began = None if verdict.is_time_of_report else verdict.time
    delay_s = first.time - began if first.time is not None and began is not None else None
    return StoryStep(
        iso_time(first.time),
        tuple(sorted(ranks)),
        f"The launcher ended {who}{delay_words(delay_s)}",
        tuple(Evidence(event.line.location, event.line.raw, "the launcher ends it") for event in ended[:_EVIDENCE]),
        None,
        verdict.cause,
        delay_s,
    )


def _owner(owners: set[tuple[int, str | None]], host: str | None) -> int | None:
    """The one rank that has the pid, on that host where both are known."""
    there = {rank for rank, at in owners if host is None or at is None or at == host}
    return next(iter(there)) if len(there) == 1 else None
