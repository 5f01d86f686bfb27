"""Where inputs are read: in processes of this machine, or by the workers of a dask cluster.

An executor lists archives, reads inputs and quotes lines; what it gives does not depend on where it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from hangscope.parse.executors.here import Here
from hangscope.parse.source import ParsedSource
from hangscope.sources.container import Limits
from hangscope.sources.inputs import Input

if TYPE_CHECKING:
    from hangscope.sources.archive import Member
    from hangscope.sources.around import Around, Spot
    from hangscope.sources.quote import Quoted

__all__ = ["Executor", "open_executor"]

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""


class Executor(Protocol):
    """Something that reads inputs."""

    def list_members(self, path: str, limits: Limits) -> list[Member]:
        """The files of an archive; errors as those of `sources.archive.list_members`."""

    def read(self, inputs: Sequence[Input], progress: Progress | None) -> list[ParsedSource]:
        """Reads every input; results are in the order of the inputs."""

    def read_lines(
        self, inputs: Sequence[Input], wanted: Mapping[str, AbstractSet[int]]
    ) -> dict[tuple[str, int], Quoted]:
        """Lines by input name and number, as `sources.quote.read_lines` gives them."""

    def read_around(
        self, inputs: Sequence[Input], wanted: Mapping[str, Sequence[Spot]]
    ) -> dict[tuple[str, int], Around]:
        """What stands around lines, as `sources.around.read_around` gives it."""


@contextmanager
def open_executor(scheduler: str | None, jobs: int | None) -> Iterator[Executor]:
    """The executor that the user asked for; it is closed at the end.

    Args:
        scheduler: None for this machine alone; the address of a dask scheduler (``tcp://host:8786``), the path of its
            scheduler file, or ``local`` for a cluster on this machine.
        jobs: processes to read with; of a scheduler only for ``local``.

    Raises:
        InputError: the scheduler cannot be reached, dask is missing, or jobs were given for somebody else's cluster.
    """
    if scheduler is None:
        yield Here(jobs)
        return
    from hangscope.parse.executors.cluster import open_cluster  # noqa: PLC0415 (for those who have dask)

    with open_cluster(scheduler, jobs) as cluster:
        yield cluster
