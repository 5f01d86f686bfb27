"""The index of events by kind: the same answers as going through the list gives."""

from __future__ import annotations

import itertools

from hangscope.model import Event, Line
from hangscope.parse.by_kind import ByKind


def event(kind: str, number: int) -> Event:
    return Event("nccl", kind, {}, Line("a.log", number, 0, "", ""))


EVENTS = [event(kind, number) for number, kind in enumerate(("b", "a", "b", "c", "a", "b"))]


def test_events_of_kinds_come_in_the_order_of_the_list() -> None:
    known = ByKind(EVENTS)
    for kinds in itertools.chain.from_iterable(itertools.permutations("abcd", count) for count in range(5)):
        wanted = [one for one in EVENTS if one.kind in kinds]
        assert known.of(*kinds) == wanted
        assert [known.at(place) for place in known.places(*kinds)] == wanted
        assert known.has(*kinds) is bool(wanted)
        assert known.first(*kinds) is (wanted[0] if wanted else None)
        assert known.last(*kinds) is (wanted[-1] if wanted else None)
    assert list(known.kinds) == ["b", "a", "c"]


def test_it_is_of_one_list_as_long_as_that_does_not_grow() -> None:
    events = list(EVENTS)
    known = ByKind(events)
    assert known.is_of(events)
    assert not known.is_of(list(events))
    events.append(event("a", 9))
    assert not known.is_of(events)
