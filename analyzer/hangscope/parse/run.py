"""Reads all inputs, on several processes when there is enough to read."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from hangscope.grammar import load_set
from hangscope.parse.reader import read_input
from hangscope.parse.source import ParsedSource
from hangscope.sources.inputs import Input

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""

_WORTH_A_POOL = 8 << 20


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
    if workers <= 1 or len(inputs) < 2 or total < _WORTH_A_POOL:
        return [_told(read_input(item), done, total, progress) for item, done in _running(inputs)]
    return _read_in_pool(inputs, workers, total, progress)


def _running(inputs: Sequence[Input]) -> list[tuple[Input, int]]:
    done = 0
    pairs = []
    for item in inputs:
        done += item.size or 0
        pairs.append((item, done))
    return pairs


def _told(source: ParsedSource, done: int, total: int, progress: Progress | None) -> ParsedSource:
    if progress is not None:
        progress(done, total)
    return source


def _read_in_pool(inputs: Sequence[Input], workers: int, total: int, progress: Progress | None) -> list[ParsedSource]:
    load_set()  # before the fork, so that no worker compiles the grammars again
    results: dict[int, ParsedSource] = {}
    done = 0
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(workers, len(inputs)), mp_context=context) as pool:
        # the largest first: the last worker to finish decides how long all takes
        order = sorted(range(len(inputs)), key=lambda i: -(inputs[i].size or 0))
        futures = {pool.submit(read_input, inputs[i]): i for i in order}
        for future in as_completed(futures):
            index = futures[future]
            results[index] = future.result()
            done += inputs[index].size or 0
            if progress is not None:
                progress(done, total)
    return [results[i] for i in range(len(inputs))]
