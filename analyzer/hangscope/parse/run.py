"""Reads all inputs, on several processes when there is enough to read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from hangscope.grammar import load_set
from hangscope.parse.call_ahead import CallsAhead
from hangscope.parse.reader import read_input
from hangscope.parse.source import ParsedSource
from hangscope.parse.split import WORTH_SPLITTING
from hangscope.sources.inputs import Input

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""

_WORTH_A_POOL = 8 << 20
_BATCH = 2 << 20
_MOST_FILES = 32


def read_inputs(
    inputs: Sequence[Input], jobs: int | None = None, progress: Progress | None = None
) -> list[ParsedSource]:
    """Reads every input; results are in the order of the inputs, whatever order they were read in.

    Args:
        inputs: what to read.
        jobs: processes to use; by default one a core, and no pool at all for small inputs.
        progress: told about the bytes read after each input.
    """
    total = sum(item.size or 0 for item in inputs)
    workers = jobs if jobs is not None else (os.cpu_count() or 1)
    results: dict[int, ParsedSource] = {}
    many: list[int] = []
    done = 0

    def take(index: int, source: ParsedSource) -> None:
        nonlocal done
        results[index] = source
        done += inputs[index].size or 0
        if progress is not None:
            progress(done, total)

    for index, item in enumerate(inputs):
        if workers > 1 and _is_worth_splitting(item, total, workers):
            take(index, read_input(item, workers))
        else:
            many.append(index)
    if workers <= 1 or len(many) < 2 or sum(inputs[index].size or 0 for index in many) < _WORTH_A_POOL:
        for index, source in zip(many, _read_all([inputs[index] for index in many]), strict=True):
            take(index, source)
    else:
        for index, source in _read_in_pool(inputs, many, workers):
            take(index, source)
    return [results[index] for index in range(len(inputs))]


def _is_worth_splitting(item: Input, total: int, workers: int) -> bool:
    """Whether all processes together read this file: it is so large that the others would wait for one at the end."""
    size = item.size or 0
    return item.member is None and size >= WORTH_SPLITTING and size * 2 * workers >= total


def _read_in_pool(inputs: Sequence[Input], many: Sequence[int], workers: int) -> Iterator[tuple[int, ParsedSource]]:
    # most jobs are read without, and these take as long to load as such a job to read
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor, as_completed  # noqa: PLC0415

    load_set()  # before the fork, so that no worker compiles the grammars again
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(workers, len(many)), mp_context=context) as pool:
        futures = {
            pool.submit(_read_batch, [inputs[index] for index in batch]): batch for batch in _batches(inputs, many)
        }
        for future in as_completed(futures):
            # what a future holds is held as long as the future
            yield from zip(futures.pop(future), future.result(), strict=True)


def _read_batch(inputs: Sequence[Input]) -> list[ParsedSource]:
    return list(_read_all(inputs))


def _read_all(inputs: Sequence[Input]) -> Iterator[ParsedSource]:
    ahead = CallsAhead(inputs)
    return (read_input(item, ahead=ahead) for item in inputs)


def _batches(inputs: Sequence[Input], many: Sequence[int]) -> Iterator[list[int]]:
    """The largest first, each alone: the last worker to finish decides how long all takes. The small ones together."""
    batch: list[int] = []
    size = 0
    for index in sorted(many, key=lambda index: -(inputs[index].size or 0)):
        batch.append(index)
        size += inputs[index].size or 0
        if size >= _BATCH or len(batch) >= _MOST_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
