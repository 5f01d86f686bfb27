"""The shape of a job, to compare jobs by: ranks, hosts, GPUs, launcher, groups, rings and trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hangscope.align.job import Job
from hangscope.facts.comparisons.said import Holders, Said, compared
from hangscope.model import Comparison, Event

TOPIC = "topology"


def shape_of(job: Job) -> Iterator[Comparison]:
    """A comparison for each aspect of the shape that anything tells."""
    holders = Holders(job)
    found = (
        ("ranks", [Said(str(job.world_size))] if job.world_size else []),
        ("hosts", [Said(str(len(job.hosts)))] if job.hosts else []),
        ("ranks of each host", _ranks_of_hosts(holders)),
        ("launcher", [Said(job.launcher)] if job.launcher else []),
        ("groups", _groups(job)),
        ("rings", _rings(holders)),
        ("trees", _trees(holders)),
    )
    for aspect, said in found:
        comparison = compared(TOPIC, aspect, said, must_agree=False)
        if comparison is not None:
            yield comparison


def _ranks_of_hosts(holders: Holders) -> list[Said]:
    counts = Counter(process.host for process in holders.job.ranks.values() if process.host)
    return [holders.of_host(host, str(count), None) for host, count in sorted(counts.items())]


def _groups(job: Job) -> list[Said]:
    """``1 of 8, 4 of 2``: how many groups there are of which size."""
    sizes = Counter(group.size for group in job.groups)
    words = [f"{count} of {size}" for size, count in sorted(sizes.items(), reverse=True)]
    return [Said(", ".join(words))] if words else []


def _rings(holders: Holders) -> list[Said]:
    """The order of the ranks in each ring of the first communicator, as its first rank prints it."""
    said = []
    for process in holders.job.processes:
        lines = list(_first_run(process.events, "ring_order"))
        if lines:
            orders = [" ".join(_runs(str(line.fields.get("order", "")).split())) for line in lines]
            same = Counter(orders)
            words = "; ".join(f"{count} x {order}" if len(same) > 1 else order for order, count in same.items())
            said.append(holders.of_process(process, f"{len(lines)}: {words}", lines[0]))
    return said[:1]


def _trees(holders: Holders) -> list[Said]:
    """What each rank is between, in the trees of its first communicator."""
    said = []
    for process in holders.job.processes:
        line = next((event for event in process.events if event.kind == "trees"), None)
        if line is not None and process.rank is not None:
            said.append(holders.of_process(process, " ".join(str(line.fields.get("trees", "")).split()), line))
    return said


def _first_run(events: Iterable[Event], kind: str) -> Iterator[Event]:
    """The events of a kind up to the first whose channel was there already: it is of the next communicator."""
    seen: set[object] = set()
    for event in events:
        if event.kind == kind:
            if event.fields.get("channel") in seen:
                return
            seen.add(event.fields.get("channel"))
            yield event


def _runs(numbers: list[str]) -> Iterator[str]:
    """``0-7 15-8``: neighbours in a ring that count up or down by one, put together."""
    if not all(number.isdecimal() for number in numbers):
        yield from numbers
        return
    at = 0
    ranks = [int(number) for number in numbers]
    while at < len(ranks):
        step = ranks[at + 1] - ranks[at] if at + 1 < len(ranks) else 0
        end = at + 1
        while abs(step) == 1 and end < len(ranks) and ranks[end] - ranks[end - 1] == step:
            end += 1
        yield f"{ranks[at]}-{ranks[end - 1]}" if end - at > 2 else " ".join(map(str, ranks[at:end]))
        at = end
