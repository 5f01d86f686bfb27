"""Facts about ranks that all wait, but not in the same call."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from hangscope.align.job import Job
from hangscope.align.recorder_trouble import Fault
from hangscope.facts import FactKind
from hangscope.facts.stack_lines import lines_of
from hangscope.facts.stack_picture import Picture, has_signs_of_hang, picture_of
from hangscope.facts.stack_stands import NAMED, ON_GPU, Stand, hosts_of, named, ranks_of
from hangscope.facts.stack_threads import collective_threads
from hangscope.model import Evidence, Fact, Value
from hangscope.records import dataclass

_FIELDS = (*NAMED, "in_call", "where", "peers_call", "sure", "places", "tie", "detail", "against", "pid")
KINDS = {
    "stack_call_skipped": FactKind(_FIELDS, "A rank waits past the call, or in another one, in which its peers wait."),
    "stack_op_differs": FactKind(_FIELDS, "In one function ranks took branches with different operations."),
    "stack_roots_differ": FactKind(_FIELDS, "Ranks stand in one line with different sources of the operation."),
    "stack_group_order": FactKind(_FIELDS, "Ranks wait in the same operation at different lines of one function."),
    "stack_p2p_unmatched": FactKind(_FIELDS, "A send or receive waits while the other side is in another call."),
    "stack_setup_partial": FactKind(_FIELDS, "Some ranks make a process group, others do not take part in that."),
    "stack_wrapper_partial": FactKind(_FIELDS, "Some ranks set up the checks of TORCH_DISTRIBUTED_DEBUG=DETAIL alone."),
    "stack_left_early": FactKind(_FIELDS, "A rank tears down or exits while others wait in a collective."),
    "stack_idle_server": FactKind(_FIELDS, "A server's worker waits for requests while others wait in a collective."),
    "stack_threads_collide": FactKind(_FIELDS, "Two threads of one process stand in collectives at once."),
    "stack_scattered": FactKind(_FIELDS, "Ranks wait in so many different calls that none of them is the odd one."),
}

_FAULTS = {
    Fault.OPERATION: "stack_op_differs",
    Fault.ORDER: "stack_group_order",
    Fault.P2P: "stack_p2p_unmatched",
    Fault.SKIPPED: "stack_call_skipped",
    Fault.MISSING: "stack_call_skipped",
    Fault.LEFT_EARLY: "stack_call_skipped",
}
"""What flight recorders tell decides what kind of parting the stacks show: they know groups and numbers."""

_HANDS_OUT = ("recv_requests", "broadcast_pyobj", "broadcast_tensor_dict", "broadcast_object")
"""Functions of servers in which all workers but one wait for the next request: normal."""

_WRAPPER = "_create_process_group_wrapper"
_CULPRITS, _PEERS = 4, 2
_FEW = 2
"""So many at one place may stand there by chance."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The processes that stand at one place."""

    stands: tuple[Stand, ...]

    @property
    def first(self) -> Stand:
        return self.stands[0]

    @property
    def size(self) -> int:
        return len(self.stands)


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    picture = picture_of(job)
    if picture.moves and not has_signs_of_hang(job):
        return
    colliding = list(_colliding_threads(picture))
    yield from colliding
    wrapping = [stand for stand in picture.stands if stand.calls(_WRAPPER)]
    others = [stand for stand in picture.stands if not stand.calls(_WRAPPER) and (stand.waits or stand.in_init)]
    if wrapping and others:
        yield _fact("stack_wrapper_partial", wrapping, others, picture)
        return
    if not picture.waiting:
        return
    if picture.leaving:
        yield _fact("stack_left_early", picture.leaving, picture.waiting, picture)
    in_forward = [s for s in picture.waiting if s.state != "in-object-collective" and not s.calls(*_HANDS_OUT)]
    if picture.idle and in_forward and not picture.busy:
        yield _fact("stack_idle_server", picture.idle, in_forward, picture)
    if not picture.busy and not picture.leaving and not any(fact.fields["sure"] for fact in colliding):
        yield from _partings(job, picture)


def _partings(job: Job, picture: Picture) -> Iterator[Fact]:
    """All wait: the place where few stand against the one where most do."""
    places = _places(picture.waiting)
    if len(places) == 1 and not picture.on_gpu:
        yield from _one_place(places[0], picture)
        return
    setup = [place for place in places if place.first.state == "group-setup"]
    if len(setup) == 1:
        # all ranks have to make a group together: who is in another call did not
        outside = [stand for place in places if place is not setup[0] for stand in place.stands]
        outside += picture.on_gpu
        if outside and all(stand.path for stand in outside):
            # without a frame of Python it may be in the same set-up
            yield _fact("stack_setup_partial", outside, setup[0].stands, picture, len(places))
        return
    places = _places((*picture.waiting, *picture.on_gpu))
    main, odd = _odd_ones(places)
    if odd is None:
        yield _fact("stack_scattered", (), (*picture.waiting, *picture.on_gpu), picture, len(places))
        return
    tie = len(main.stands) == len(odd)
    yield _fact(_kind(odd[0], main.first, job, odd), odd, main.stands, picture, len(places), tie=tie)


def _odd_ones(places: Sequence[_Place]) -> tuple[_Place, list[Stand] | None]:
    """The place where most stand, and those elsewhere; None for them when nothing tells which of them are odd."""
    for grouped in (places, _by_own_lines(places)):
        main, rest = _majority(grouped)
        if rest:
            return main, [stand for place in rest for stand in place.stands]
    alone = [place for place in places if place.size == 1]
    if len(alone) == 1 and all(place.size > _FEW for place in places if place is not alone[0]):
        return max(places, key=lambda place: place.size), list(alone[0].stands)
    everybody = [stand for place in places for stand in place.stands]
    past = [stand for stand in everybody if stand.state == "in-barrier"]
    if 0 < len(past) * 2 <= len(everybody):
        # no place holds most, but few are in a barrier: they are past what the others still do
        return _Place(tuple(stand for stand in everybody if stand not in past)), past
    return places[0], None


def _by_own_lines(places: Sequence[_Place]) -> list[_Place]:
    """The same stands by the lines of the job's own code alone: parts of one step of a framework are one place."""
    found: dict[object, list[Stand]] = defaultdict(list)
    for place in places:
        for stand in place.stands:
            found[stand.own_path].append(stand)
    return [_Place(tuple(here)) for here in found.values()]


def _places(stands: Sequence[Stand]) -> list[_Place]:
    """The stands by where they are; those that show no frames of Python stand with those in the same operation."""
    found: dict[object, list[Stand]] = defaultdict(list)
    bare = []
    for stand in stands:
        if stand.path:
            found[stand.state, stand.position.operation, stand.path].append(stand)
        else:
            bare.append(stand)
    for stand in bare:
        alike = [f for f in found.values() if f[0].position.operation == stand.position.operation and f[0].path]
        place = alike[0] if len(alike) == 1 else found["bare", stand.state, stand.position.operation]
        place.append(stand)
    return [_Place(tuple(here)) for here in found.values()]


def _majority(places: Sequence[_Place]) -> tuple[_Place, list[_Place]]:
    """The place where most stand, and the others; no others when no place holds more than half."""
    ordered = sorted(places, key=lambda place: -place.size)
    main, rest = ordered[0], ordered[1:]
    total = sum(place.size for place in places)
    if len(places) == 2 and main.size == rest[0].size:
        return (rest[0], [main]) if _is_ahead(main.first, rest[0].first) else (main, rest)
    return (main, rest) if main.size * 2 > total else (main, [])


def _is_ahead(one: Stand, other: Stand) -> bool:
    """Whether one is further in the program than the other: in a barrier, or at a later line of the same function."""
    if (one.state == "in-barrier") != (other.state == "in-barrier"):
        return one.state == "in-barrier"
    for mine, theirs in zip(reversed(one.path), reversed(other.path), strict=False):
        if mine != theirs:
            same = mine[:2] == theirs[:2]
            return same and mine[2] is not None and theirs[2] is not None and mine[2] > theirs[2]
    return False


def _kind(odd: Stand, main: Stand, job: Job, culprits: Sequence[Stand]) -> str:
    """What kind of parting it is."""
    if "in-p2p" in (odd.state, main.state):
        return "stack_p2p_unmatched"
    told = {_FAULTS[t.fault] for t in job.recordings.troubles if t.fault in _FAULTS and _meets(t.ranks, culprits)}
    if len(told) == 1:
        return next(iter(told))
    if odd.state in ON_GPU or main.state in ON_GPU:
        return "stack_call_skipped"
    same_op = odd.position.operation == main.position.operation and odd.state == main.state
    if "in-barrier" in (odd.state, main.state) and not same_op:
        return "stack_call_skipped"
    if _in_one_function(odd, main):
        return "stack_group_order" if same_op else "stack_op_differs"
    return "stack_call_skipped"


def _meets(ranks: tuple[int, ...], culprits: Sequence[Stand]) -> bool:
    known = set(ranks_of(culprits))
    return not ranks or not known or not known.isdisjoint(ranks)


def _in_one_function(one: Stand, other: Stand) -> bool:
    """Whether both calls were made in one function, which was called from the same line."""
    return one.path[1:] != () and _outside(one) == _outside(other)


def _outside(stand: Stand) -> tuple[object, ...]:
    """The function that made the call, without its line, and all that called it."""
    own = [at for at, (_, _, line) in enumerate(stand.path) if line is not None]
    if not own:
        return stand.path
    first = own[0]
    return (stand.path[first][:2], *stand.path[first + 1 :])


def _one_place(place: _Place, picture: Picture) -> Iterator[Fact]:
    """All stand in one call; the sources of a broadcast, or the direction of transfers, may still differ."""
    roots = {
        stand.rank: stand.position.dump.values.get("src") or stand.position.dump.values.get("dst")
        for stand in place.stands
    }
    known = Counter(root for root in roots.values() if root is not None)
    if len(known) > 1 and place.first.position.operation in ("broadcast", "scatter", "gather", "reduce"):
        most = max(sorted(known), key=known.__getitem__)
        odd = [stand for stand in place.stands if roots[stand.rank] not in (most, None)]
        half = len(odd) * 2 >= place.size
        detail = f"The sources are {', '.join(sorted(known))}."
        yield _fact("stack_roots_differ", () if half else odd, place.stands, picture, detail=detail)
    together = place.size > 1 and place.size == len(picture.stands)
    if together and place.first.state == "in-p2p" and place.first.position.operation in ("send", "recv"):
        yield _fact("stack_p2p_unmatched", place.stands, (), picture, detail="All of them wait in one direction.")


def _colliding_threads(picture: Picture) -> Iterator[Fact]:
    """Two threads of the job's own in collectives at once; those of a checkpoint have a group of their own."""
    colliding = [stand for stand in picture.stands if _collides(stand)]
    if colliding:
        everybody = len(colliding) == len(picture.stands)
        rest = [stand for stand in picture.waiting if not _collides(stand)]
        fact = _fact("stack_threads_collide", () if everybody else colliding, colliding if everybody else rest, picture)
        yield replace(fact, fields={**fact.fields, "sure": not picture.busy})


def _collides(stand: Stand) -> bool:
    threads = collective_threads(stand.position)
    saving = any("checkpoint" in (frame.file or "") for thread in threads for frame in thread.frames)
    return len(threads) > 1 and not saving


def _fact(
    kind: str,
    culprits: Sequence[Stand],
    peers: Sequence[Stand],
    picture: Picture,
    places: int = 1,
    *,
    tie: bool = False,
    detail: str | None = None,
) -> Fact:
    named_ones = culprits or peers
    first = named_ones[0]
    blamed = ranks_of(culprits)
    fields: dict[str, Value] = {
        **named(named_ones, peers),
        "in_call": first.call,
        "where": first.where or None,
        "peers_call": peers[0].call if peers else None,
        "sure": not tie and places <= 2 and len(culprits) < max(len(peers), 2),
        "places": places,
        "tie": tie,
        "detail": detail,
        "against": _against(peers) if peers else detail,
        "pid": first.pid,
    }
    everybody = ranks_of(picture.stands)
    return Fact(
        kind,
        fields,
        blamed,
        hosts_of(culprits),
        affected=tuple(rank for rank in everybody if rank not in blamed),
        time=first.position.dump.time,
        evidence=tuple(_evidence(culprits, peers)),
    )


def _against(peers: Sequence[Stand]) -> str:
    return f"{'Another process is' if len(peers) == 1 else f'{len(peers)} others are'} in {peers[0].call}."


def _evidence(culprits: Sequence[Stand], peers: Sequence[Stand]) -> Iterator[Evidence]:
    """Lines of the culprits and of their peers, the most telling ones of each first."""
    of_culprits = [lines_of(v, f"{s.name} is in {s.call}") for s in culprits[:_CULPRITS] for v in s.views[:2]]
    chosen = peers[:_PEERS] if culprits else _spread(peers)
    of_peers = [lines_of(v, f"{s.name} waits in {s.call}")[:2] for s in chosen for v in s.views[:2]]
    for lines in (of_culprits, of_peers):
        for row in zip_longest(*lines):
            yield from (line for line in row if line is not None)


def _spread(peers: Sequence[Stand]) -> list[Stand]:
    """One of each place, or of each source."""
    found: dict[object, Stand] = {}
    for stand in peers:
        found.setdefault((stand.path, stand.state, stand.position.dump.values.get("src")), stand)
    return list(found.values())[:4]
