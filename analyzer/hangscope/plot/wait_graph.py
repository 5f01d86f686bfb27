"""Folds the stuck calls of a report into a small graph: which calls wait for which, and at which ranks it begins.

A rank that several calls are waiting for, or that made several of them, stands in the one that the report lists first:
the others are queued behind it. A thousand ranks have hundreds of calls that wait alike; these are one node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field

from hangscope.model import CollectiveState, RankState, Report
from hangscope.plot.findings import GROUP_ORDER, group_words, name_of
from hangscope.ranges import rank_numbers, rank_words
from hangscope.records import dataclass

_MOST_CALLS = 4000
_MOST_COLUMNS = 3
_MOST_ROWS = 6
_NUMBERS = 22


@dataclass(slots=True)
class Node:
    """A box of the picture.

    Attributes:
        column: 0 is where it begins, each next one waits for the one before.
        lines: what stands in it, the first one large.
        ranks: who waits in it, or is waited for.
        is_root: ranks that are waited for; else calls.
        weight: how many ranks it concerns.
    """

    column: int
    lines: tuple[str, ...]
    ranks: tuple[int, ...]
    is_root: bool
    weight: int = 0


@dataclass(slots=True)
class WaitGraph:
    """Boxes and arrows.

    Attributes:
        nodes: by column, those that concern most ranks first.
        edges: (from, to), indexes into `nodes`: the first waits for the second.
        left_out: how many nodes are not shown.
        ring: the calls of column 0 wait for each other.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    left_out: int = 0
    ring: bool = False


Key = tuple[object, ...]


def find_wait_graph(report: Report) -> WaitGraph:
    """The graph of a report's stuck calls."""
    calls = report.collectives[:_MOST_CALLS]
    # in a circle all wait; else those to blame stand nowhere
    free = frozenset(report.verdict.ranks) if report.verdict.cause != GROUP_ORDER else frozenset[int]()
    stands = _stands(calls, free)
    blockers = [_blockers(number, call, stands) for number, call in enumerate(calls)]
    columns, ring = _columns(blockers, stands)
    states = {state.rank: state for state in report.ranks}
    call_keys = [_call_key(number, call, columns[number]) for number, call in enumerate(calls)]
    members: dict[Key, list[int]] = defaultdict(list)
    for number, key in enumerate(call_keys):
        members[key].append(number)
    roots: dict[Key, set[int]] = defaultdict(set)
    arrows: set[tuple[Key, Key]] = set()
    for number, key in enumerate(call_keys):
        for rank in blockers[number]:
            there = stands.get(rank)
            if there is None or there == number:
                root = _root_key(states.get(rank), calls[number], rank)
                roots[root].add(rank)
                arrows.add((key, root))
            else:
                arrows.add((key, call_keys[there]))
    nodes: dict[Key, Node] = {key: _root_node(sorted(ranks), states, calls) for key, ranks in roots.items()}
    nodes |= {key: _call_node(key, numbers, calls, stands) for key, numbers in members.items()}
    return _laid_out(nodes, {(one, other) for one, other in arrows if one != other}, ring=ring)


def _call_key(number: int, call: CollectiveState, column: int) -> Key:
    """What calls have in common that are one node; those of a circle are a node each."""
    if column == 0:
        return 0, number
    return min(column, _MOST_COLUMNS), call.op, call.description or call.group_size or call.group


def _stands(calls: Sequence[CollectiveState], free: frozenset[int]) -> dict[int, int]:
    """Rank -> number of the call in which it stands; `free` ranks that are missing somewhere stand nowhere."""
    missed = {rank for call in calls for rank in (*call.missing, *call.differing)} & free
    found: dict[int, int] = {}
    for number, call in enumerate(calls):
        for rank in call.arrived:
            if rank not in call.missing and rank not in call.differing and rank not in missed:
                found.setdefault(rank, number)
    return found


def _blockers(number: int, call: CollectiveState, stands: Mapping[int, int]) -> set[int]:
    queued = {rank for rank in call.arrived if stands.get(rank, number) != number}
    return {*call.missing, *call.differing, *queued}


def _columns(blockers: Sequence[set[int]], stands: Mapping[int, int]) -> tuple[list[int], bool]:
    """How many calls lie between each call and where it begins; whether it begins in a circle."""
    waits_for = [{stands[rank] for rank in ranks if rank in stands} - {n} for n, ranks in enumerate(blockers)]
    begins = [n for n, ranks in enumerate(blockers) if any(rank not in stands for rank in ranks)]
    columns = [-1] * len(blockers)
    ring = False
    layer, depth = begins, 1
    if not begins:
        layer, depth = _ring(waits_for), 0
        ring = bool(layer)
        layer = layer or [n for n, others in enumerate(waits_for) if not others]
    waiting_for: dict[int, list[int]] = defaultdict(list)
    for number, others in enumerate(waits_for):
        for other in others:
            waiting_for[other].append(number)
    while layer:
        for number in layer:
            columns[number] = depth
        depth += 1
        layer = sorted({n for other in layer for n in waiting_for[other] if columns[n] < 0})
    return [column if column >= 0 else 1 for column in columns], ring


def _ring(waits_for: Sequence[set[int]]) -> list[int]:
    """The calls of one circle; empty when there is none."""
    for start in range(len(waits_for)):
        path: list[int] = []
        number: int | None = start
        while number is not None and number not in path:
            path.append(number)
            number = min(waits_for[number], default=None)
        if number is not None:
            return path[path.index(number) :]
    return []


def _root_key(state: RankState | None, call: CollectiveState, rank: int) -> Key:
    if rank in call.differing:
        return ("root", "differs", call.differing[rank])
    return ("root", state.state if state is not None else "", state.where if state is not None else None)


def _root_node(ranks: list[int], states: Mapping[int, RankState], calls: Sequence[CollectiveState]) -> Node:
    known = [states[rank] for rank in ranks if rank in states]
    hosts = sorted({state.host for state in known if state.host})
    called = next((call.differing[ranks[0]] for call in calls if ranks[0] in call.differing), "")
    words = [
        rank_words(ranks, most=_NUMBERS) + (f" on {hosts[0]}" if len(hosts) == 1 else ""),
        f"called {called}" if called else known[0].state if known else "",
        f"at {known[0].where}" if known and known[0].where else "",
    ]
    lines = tuple(word for word in words if word)
    return Node(
        0,
        lines[:1] + tuple(line[:1].upper() + line[1:] for line in lines[1:]),
        tuple(ranks),
        is_root=True,
        weight=len(ranks),
    )


def _call_node(key: Key, numbers: Sequence[int], calls: Sequence[CollectiveState], stands: Mapping[int, int]) -> Node:
    first = calls[numbers[0]]
    here = sorted({rank for n in numbers for rank in calls[n].arrived if rank not in calls[n].missing})
    column = key[0] if isinstance(key[0], int) else 0
    # of those that made the call some may stand in an earlier one
    all_wait = all(stands.get(rank) in numbers for rank in here)
    verb = ("waits" if len(here) == 1 else "wait") if all_wait else "arrived"
    who = f"{len(here):,} {verb}: {rank_numbers(here, most=_NUMBERS)}"
    who = who if len(here) > 1 else f"{rank_words(here)} {verb}"
    if len(numbers) == 1:
        lines = name_of(first), group_words(first.group, first.description), who
    else:
        about = first.description or f"groups of {first.group_size} ranks"
        lines = f"{len(numbers):,} x {first.op}", about, who
    return Node(column, lines, tuple(here), is_root=False, weight=len(here))


def _laid_out(nodes: Mapping[Key, Node], arrows: set[tuple[Key, Key]], *, ring: bool) -> WaitGraph:
    """The nodes that fit, and the arrows between these; what no arrow touches is left out."""
    tied = {key for arrow in arrows for key in arrow}
    nodes = {key: node for key, node in nodes.items() if key in tied} if tied else dict(nodes)
    by_column: dict[int, list[Key]] = defaultdict(list)
    for key, node in nodes.items():
        by_column[node.column].append(key)
    shown: list[Key] = []
    for column in sorted(by_column):
        ordered = sorted(by_column[column], key=lambda key: (-nodes[key].weight, nodes[key].lines, nodes[key].ranks))
        shown += ordered[:_MOST_ROWS]
    place = {key: at for at, key in enumerate(shown)}
    edges = {(place[one], place[other]) for one, other in arrows if one in place and other in place and one != other}
    return WaitGraph([nodes[key] for key in shown], edges, len(nodes) - len(shown), ring)
