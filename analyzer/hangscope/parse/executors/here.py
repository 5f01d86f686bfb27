"""Reads inputs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from hangscope.parse.run import read_inputs
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass
from hangscope.sources.container import Limits
from hangscope.sources.discover import list_here
from hangscope.sources.inputs import Input
from hangscope.sources.quote import Quoted, read_lines

if TYPE_CHECKING:
    from hangscope.sources.archive import Member
    from hangscope.sources.around import Around, Spot


@dataclass(frozen=True, slots=True)
class Here:
    """The executor of one machine.

    Attributes:
        jobs: processes to read with; by default one a core when there is enough to read.
    """

    jobs: int | None = None

    def list_members(self, path: str, limits: Limits) -> list[Member]:
        return list_here(path, limits)

    def read(self, inputs: Sequence[Input], progress: Callable[[int, int], None] | None) -> list[ParsedSource]:
        return read_inputs(inputs, self.jobs, progress)

    def read_lines(
        self, inputs: Sequence[Input], wanted: Mapping[str, AbstractSet[int]]
    ) -> dict[tuple[str, int], Quoted]:
        return read_lines(inputs, wanted)

    def read_around(
        self, inputs: Sequence[Input], wanted: Mapping[str, Sequence[Spot]]
    ) -> dict[tuple[str, int], Around]:
        from hangscope.sources.around import read_around  # noqa: PLC0415 (not for a job without evidence)

        return read_around(inputs, wanted)
