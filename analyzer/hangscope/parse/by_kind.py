"""Finds the events of a list by their kind: two dozen questions to the same list would each go through all of it."""

from __future__ import annotations

import itertools
from collections.abc import KeysView, Sequence

from hangscope.model import Event


class ByKind:
    """The events of one list by kind, each kind's in the order of the list."""

    __slots__ = ("_events", "_length", "_places")

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._length = len(events)
        self._places: dict[str, list[int]] = {}
        places = self._places
        for place, event in enumerate(events):
            if (known := places.get(event.kind)) is None:
                places[event.kind] = [place]
            else:
                known.append(place)

    def is_of(self, events: Sequence[Event]) -> bool:
        """Whether it is of this list, as long as it is now."""
        return self._events is events and self._length == len(events)

    @property
    def kinds(self) -> KeysView[str]:
        """The kinds that there are, in the order of their first events."""
        return self._places.keys()

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in the order of the list."""
        known, events = self._places, self._events
        if len(kinds) == 1:
            return [events[place] for place in known.get(kinds[0], ())]
        found = [known[kind] for kind in kinds if kind in known]
        if not found:
            return []
        places = found[0] if len(found) == 1 else sorted(itertools.chain.from_iterable(found))
        return [events[place] for place in places]

    def at(self, place: int) -> Event:
        """The event at a place of the list."""
        return self._events[place]

    def places(self, *kinds: str) -> Sequence[int]:
        """Where in the list the events of these kinds stand, ascending."""
        if len(kinds) == 1:
            return self._places.get(kinds[0], ())
        return sorted(itertools.chain.from_iterable(self._places.get(kind, ()) for kind in kinds))

    def first(self, *kinds: str) -> Event | None:
        """The first event of any of these kinds."""
        found = [places[0] for kind in kinds if (places := self._places.get(kind)) is not None]
        return self._events[min(found)] if found else None

    def last(self, *kinds: str) -> Event | None:
        """The last event of any of these kinds."""
        found = [places[-1] for kind in kinds if (places := self._places.get(kind)) is not None]
        return self._events[max(found)] if found else None

    def has(self, *kinds: str) -> bool:
        """Whether there is an event of any of these kinds."""
        return any(kind in self._places for kind in kinds)
