"""Keeps the events of one input: what a writer says again is counted, and makes no further event."""

from __future__ import annotations

from hangscope.model import Event
from hangscope.parse.columns import WriterKey
from hangscope.parse.source import RESTART_KINDS

Place = tuple[str, int, str]
"""What repeats have in common: the kind of the event, its writer (`id` of it), and the text."""

_MOST = 200_000
_BY_PLACE = frozenset({"ras", "elastic", "stacks"})
"""Sources whose lines belong to the table or block they stand in: the same words further down say something else."""


class Repeats:
    """The events of one input.

    Attributes:
        events: in the order in which they were added.
        known: those that a repeat is counted to.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.known: dict[Place, Event] = {}
        self._begun: set[WriterKey] = set()

    def add(self, event: Event, place: Place, key: WriterKey) -> None:
        """Adds an event that is no repeat.

        Args:
            event: it.
            place: what its repeats will have.
            key: its writer.
        """
        self.events.append(event)
        kind = event.kind
        if kind in RESTART_KINDS or (kind == "comm_init_start" and key not in self._begun):
            # what follows may be another attempt, of which only lines behind this one are looked at
            self.known.clear()
            self._begun.add(key)
        if len(self.known) < _MOST and event.source not in _BY_PLACE:
            self.known[place] = event
