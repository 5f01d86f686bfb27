"""Reads inputs with the workers of a dask cluster; only what they found travels."""

from __future__ import annotations

import ast
import logging
import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hangscope.errors import InputError
from hangscope.expressions import expression
from hangscope.model import SourceRecord
from hangscope.parse.executors.batches import batches
from hangscope.parse.executors.work import DONE, FAILED, build, pack, unpack
from hangscope.parse.run import read_inputs
from hangscope.parse.source import ParsedSource
from hangscope.sources.archive import Member
from hangscope.sources.around import Around, Spot
from hangscope.sources.container import ContainerError, Limits
from hangscope.sources.inputs import Input
from hangscope.sources.quote import Quoted
from hangscope.sources.urls import is_url

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL = "local"
_ADDRESS = expression(r"(?:\w+://)?[^\s/]+:\d+/?")

CONNECT_S = 15
"""Seconds in which a scheduler has to answer."""
WORKERS_S = 600
"""Seconds to wait for a first worker: those of a batch system wait for their turn."""
_LOOK_S = 5
_MOST_TRIES = 4
"""So often a piece of work is given out whose result was lost with its worker."""

_log = logging.getLogger(__name__)

_Work = tuple[str, tuple[object, ...]]
"""Name of a task of `work`, and its arguments."""


@contextmanager
def open_cluster(scheduler: str, jobs: int | None = None) -> Iterator[Cluster]:
    """A connection to a scheduler, or to a cluster of this machine's processes that ends with it.

    Args:
        scheduler: address, path of a scheduler file, or ``local``.
        jobs: workers of a local cluster; by default one a core.

    Raises:
        InputError: see `open_executor`.
    """
    try:
        import distributed  # noqa: F401, PLC0415 (an extra, and slow to load)
    except ImportError:
        raise InputError("--scheduler needs dask", "Install it: pip install 'hangscope[dask]'") from None
    if scheduler == LOCAL:
        with _local(jobs) as (client, address):
            yield Cluster(client, address)
        return
    if jobs is not None:
        raise InputError("--jobs says nothing about a cluster of its own", "Leave it out, or use --scheduler local.")
    with _connected(scheduler) as client:
        yield Cluster(client, scheduler)


@contextmanager
def _local(jobs: int | None) -> Iterator[tuple[Client, str]]:
    from distributed import Client, LocalCluster  # noqa: PLC0415

    with (
        LocalCluster(
            n_workers=jobs or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client, cluster.scheduler_address


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    from distributed import Client  # noqa: PLC0415

    by_file = Path(scheduler).is_file()
    if not by_file and not _ADDRESS.fullmatch(scheduler):
        raise InputError(
            f"--scheduler {scheduler}: no address, and no such file",
            "Give an address such as tcp://host:8786, the path of a scheduler file, or local.",
        )
    where = {"scheduler_file": scheduler} if by_file else {"address": scheduler}
    try:
        client = Client(**where, timeout=CONNECT_S, set_as_default=False)
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"the scheduler at {scheduler} cannot be reached: {said[:300]}",
            "Give its address as dask prints it, such as tcp://host:8786, and check that it runs.",
        ) from error
    with client:
        yield client


class LostError(Exception):
    """The result of some work is nowhere any more."""


class Cluster:
    """The executor of a cluster."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._told = False

    def list_members(self, path: str, limits: Limits) -> list[Member]:
        """The files of an archive, listed by a worker, so that the archive does not travel."""
        [(_, members)] = self._results([("members", (_seen_from_afar(path), limits))])
        if isinstance(members, Exception):
            raise members
        return cast("list[Member]", members)

    def read(self, inputs: Sequence[Input], progress: Callable[[int, int], None] | None) -> list[ParsedSource]:
        results: dict[int, ParsedSource] = {}
        total = sum(item.size for item in inputs)
        done = 0

        def take(piece: tuple[int, ...], sources: Sequence[ParsedSource]) -> None:
            nonlocal done
            results.update(zip(piece, sources, strict=True))
            done += sum(inputs[index].size for index in piece)
            if progress is not None:
                progress(done, total)

        for index, item in enumerate(inputs):
            if not item.rereadable:  # standard input
                take((index,), read_inputs([item], 1))
        afar = [index for index, item in enumerate(inputs) if item.rereadable]
        pieces = [tuple(afar[at] for at in piece) for piece in batches([inputs[index] for index in afar])]
        # An input that ends its workers takes along what shares its piece, then what waits beside it: each is blamed
        # only for what it does alone.
        for suspect in self._read_pieces(inputs, self._read_pieces(inputs, pieces, take), take):
            if self._read_pieces(inputs, [suspect], take):
                reason = "could not be read: every worker that tried it ended: too little memory?"
                item = inputs[suspect[0]]
                take(suspect, [ParsedSource(SourceRecord(item.name, "unreadable", 0, item.size, 0, reason))])
        return [results[index] for index in range(len(inputs))]

    def _read_pieces(
        self,
        inputs: Sequence[Input],
        pieces: Sequence[tuple[int, ...]],
        take: Callable[[tuple[int, ...], Sequence[ParsedSource]], None],
    ) -> list[tuple[int, ...]]:
        """Reads pieces, all at once; those whose workers ended are given back, each input a piece of its own."""
        ended: list[int] = []
        for number, sources in self._results([("read", (_sent(inputs, piece),)) for piece in pieces]):
            if isinstance(sources, Exception):
                ended.extend(pieces[number])
            else:
                take(pieces[number], sources)
        return [(index,) for index in sorted(ended)]

    def read_lines(
        self, inputs: Sequence[Input], wanted: Mapping[str, AbstractSet[int]]
    ) -> dict[tuple[str, int], Quoted]:
        return self._looked_up("lines", inputs, {name: set(numbers) for name, numbers in wanted.items()})

    def read_around(
        self, inputs: Sequence[Input], wanted: Mapping[str, Sequence[Spot]]
    ) -> dict[tuple[str, int], Around]:
        return self._looked_up("around", inputs, wanted)

    def _looked_up(self, task: str, inputs: Sequence[Input], wanted: Mapping[str, Any]) -> dict[tuple[str, int], Any]:
        """What the workers find in the inputs in which something is wanted."""
        named = [item for item in inputs if item.rereadable and wanted.get(item.name)]
        pieces = list(batches(named))
        asked = [
            (task, (_sent(named, piece), {named[at].name: wanted[named[at].name] for at in piece})) for piece in pieces
        ]
        found: dict[tuple[str, int], Any] = {}
        for _, result in self._results(asked):
            if not isinstance(result, Exception):
                found.update(result)
        return found

    def _results(self, pieces: Sequence[_Work]) -> Iterator[tuple[int, Any]]:
        """The results with the position of their work, as they come; an error of a worker is a result.

        Raises:
            InputError: the workers have another hangscope or none, there are no workers, or the scheduler is gone.
        """
        function, sender = _carrier(), build()
        finished: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
        running: dict[int, Future] = {}
        tries = [0] * len(pieces)

        def submit(number: int) -> None:
            tries[number] += 1
            running[number] = self._client.submit(function, sender, pack(pieces[number]), pure=False)
            running[number].add_done_callback(lambda done: finished.put((number, done)))

        for number in range(len(pieces)):
            submit(number)
        while running:
            number, future = self._next(finished)
            try:
                value = self._value(future)
            except LostError as error:
                # its worker ended after the work and before the result came
                if self._client.status != "running" or tries[number] == _MOST_TRIES:
                    raise self._gone() from error
                submit(number)
                continue
            del running[number]
            yield number, value
            future.release()

    def _next(self, finished: queue.SimpleQueue[tuple[int, Future]]) -> tuple[int, Future]:
        begun = time.monotonic()
        while True:
            try:
                return finished.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look_for_workers(time.monotonic() - begun)

    def _look_for_workers(self, waited_s: float) -> None:
        if self._client.status != "running":
            raise self._gone()
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            return
        if waited_s > WORKERS_S:
            raise InputError(
                f"the scheduler at {self._address} has had no workers for {WORKERS_S // 60} minutes",
                "Start some: dask worker ADDRESS, or scale the cluster.",
            )
        if not self._told:
            self._told = True
            _log.warning("waiting for workers: the scheduler at %s has none yet", self._address)

    def _value(self, future: Future) -> Any:  # noqa: ANN401 (the result of any task)
        from distributed.scheduler import KilledWorker  # noqa: PLC0415

        if future.status in ("cancelled", "lost"):
            raise LostError(future.status)
        try:
            how, data = future.result(timeout=CONNECT_S * 4)
        except CancelledError as error:
            raise LostError(str(error)) from error
        except KilledWorker as error:
            return ContainerError(f"every worker that tried it ended, the last one at {error.last_worker.address}")
        except (OSError, TimeoutError) as error:
            raise self._gone() from error
        if how in (DONE, FAILED):
            return unpack(data)
        raise self._other_build(data)

    def _gone(self) -> InputError:
        return InputError(
            f"the connection to the scheduler at {self._address} was lost", "Look at its log, and run it again."
        )

    def _other_build(self, theirs: bytes) -> InputError:
        advice = "Install the same hangscope here and on the workers."
        found = ast.literal_eval(theirs.decode())
        version, digest = build()
        if found is None:
            return InputError(f"the workers of {self._address} do not have hangscope", advice)
        if found[0] != version:
            return InputError(f"hangscope is {version} here and {found[0]} on a worker of {self._address}", advice)
        return InputError(
            f"hangscope is {version} here and on a worker of {self._address}, but not the same build of it "
            f"({digest} and {found[1]})",
            advice,
        )


def _carrier() -> Callable[[tuple[str, str], bytes], tuple[str, bytes]]:
    """The function that workers run. Being defined in here it is sent as code, and arrives where hangscope does not."""

    def carry(sender: tuple[str, str], packed: bytes) -> tuple[str, bytes]:
        try:
            from hangscope.parse.executors.work import work  # noqa: PLC0415 (on the worker)
        except ImportError:
            try:
                import hangscope  # noqa: PLC0415
            except ImportError:
                return "other build", b"None"
            return "other build", repr((hangscope.__version__, "unknown")).encode()
        return work(sender, packed)

    return carry


def _sent(inputs: Sequence[Input], piece: Sequence[int]) -> list[Input]:
    return [replace(inputs[index], path=_seen_from_afar(inputs[index].path)) for index in piece]


def _seen_from_afar(path: str) -> str:
    """Workers stand in other folders."""
    return path if is_url(path) else str(Path(path).absolute())
