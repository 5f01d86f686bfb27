"""Facts: what the evidence shows, typed and without opinion; one module a family of causes.

Every module of this package is found by being there. It declares ``KINDS`` (the facts it can produce, with
their fields) and ``find(job)``, which yields them. Besides, every event kind of every grammar is a fact of
the same name (`hangscope.facts.collect`).
"""

from __future__ import annotations

from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class FactKind:
    """What a fact can carry.

    Attributes:
        fields: names of its fields; rules may test them and quote them.
        about: what it says, one sentence.
    """

    fields: tuple[str, ...]
    about: str
