"""Facts about excerpts of NCCL's call lines: calls of one opCount that differ, where the beginning is not shown.

Calls are counted from a communicator's init on (`hangscope.align.numbering`). Of an excerpt only opCount is left to
compare. It is the number of the operation on its communicator up to NCCL 2.27.2 (and RCCL of that age), so it is
compared only between processes that show one communicator each, of one size, with an opCount that grows.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hangscope.align.calls import Call
from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.model import Fact

KINDS = {
    "excerpt_calls_differ": FactKind(
        ("op_count", "found", "expected", "tie", "callers"),
        "At one opCount of communicators of one size, processes called different things; no line shows their init.",
    ),
}
_LONGEST = 20_000
"""An excerpt is short; a whole log without init lines is another matter."""


def find(job: Job) -> Iterator[Fact]:
    """The first opCount at which processes differ."""
    if not 0 < len(job.calls) <= _LONGEST or any(comm.start or comm.complete for comm in job.communicators):
        return
    by_process: dict[int, list[Call]] = defaultdict(list)
    for call in job.calls:
        by_process[id(call.process)].append(call)
    excerpts = [excerpt for calls in by_process.values() if (excerpt := _excerpt(calls))]
    sizes = {next(iter(excerpt.values())).nranks for excerpt in excerpts}
    if len(excerpts) < 2 or len(sizes) != 1:
        return
    for op_count in sorted(set().union(*excerpts)):
        calls = [excerpt[op_count] for excerpt in excerpts if op_count in excerpt]
        if len({call.describe() for call in calls}) > 1:
            yield _fact(job, op_count, calls)
            return


def _excerpt(calls: Sequence[Call]) -> dict[int, Call] | None:
    """opCount -> call of one process; None when they are of several communicators, or do not count up from above 0."""
    counts = [call.op_count for call in calls]
    grows = counts[0] > 0 and all(one < other for one, other in itertools.pairwise(counts))
    collective = all(call.op not in ("Send", "Recv") for call in calls)
    alike = len({(call.comm, call.nranks) for call in calls}) == 1
    return dict(zip(counts, calls, strict=True)) if grows and collective and alike else None


def _fact(job: Job, op_count: int, calls: list[Call]) -> Fact:
    calls = sorted(calls, key=lambda call: (call.process.rank is None, call.process.rank or 0, call.process.pid or 0))
    votes = Counter(call.describe() for call in calls).most_common()
    tie = len(votes) > 1 and votes[0][1] == votes[1][1]
    expected = calls[0].describe() if tie else votes[0][0]
    odd = [call for call in calls if call.describe() != expected]
    rest = [call for call in calls if call.describe() == expected]
    ranks = tuple(sorted({call.process.rank for call in odd if call.process.rank is not None}))
    return Fact(
        "excerpt_calls_differ",
        {
            "op_count": op_count,
            "found": odd[0].describe(),
            "expected": expected,
            "tie": tie,
            "callers": ", ".join(sorted({f"process {call.process.pid}" for call in odd})),
        },
        ranks=ranks,
        hosts=job.hosts_of(ranks),
        affected=tuple(sorted({call.process.rank for call in rest if call.process.rank is not None})),
        evidence=(
            *(call.evidence("called this instead") for call in odd[:4]),
            *(call.evidence("the same opCount elsewhere") for call in rest[:4]),
        ),
    )
