"""Watches a job from afar, until all of its ranks stand still."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from hangscope.live import procfs, pyspy
from hangscope.live.choose import find_jobs
from hangscope.live.targets import LiveJob

ROUNDS = 3
"""Looks in a row that have to be alike: by chance a job that runs is caught twice in the same collective."""

_ACTIVITY = re.compile(r" \((?:idle|active)(?:\+gil)?\)")


def wait_until_stuck(
    pids: Collection[int], every_s: float, say: Callable[[str, int, int], None], rounds: int = ROUNDS
) -> bool:
    """Looks every `every_s` seconds at the main thread of each rank, without pausing it.

    Returns:
        True when all ranks of a job had the same stacks and wrote no line in so many looks in a row; False when the
        job ended.

    Raises:
        InputError: there is no such job, or no py-spy.
    """
    program = pyspy.find_pyspy()
    jobs = find_jobs(pids)
    before: list[object | None] = [None] * len(jobs)
    alike = [1] * len(jobs)
    while True:
        for number, job in enumerate(jobs):
            seen = _signs(job, program)
            alike[number] = alike[number] + 1 if seen is not None and seen == before[number] else 1
            before[number] = seen
        if max(alike) >= rounds:
            return True
        if not any(procfs.is_alive(target.pid) for job in jobs for target in job.ranks):
            return False
        say("watching, looks alike", max(alike), rounds)
        time.sleep(every_s)


def _signs(job: LiveJob, program: str) -> object | None:
    """What stays as it is while a job is stuck; None when it could not be seen of every rank."""
    ranks = [target for target in job.ranks if procfs.is_alive(target.pid)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        dumps = list(pool.map(lambda target: pyspy.take_dump(program, target.pid, nonblocking=True), ranks))
    if not dumps or any(not dump.text for dump in dumps):
        return None
    return tuple((dump.pid, _main_thread(dump.text), _written(dump.pid)) for dump in dumps)


def _main_thread(text: str) -> str:
    """The frames of the thread that py-spy prints first, which is the main one; whether it spins says nothing."""
    blocks = text.split("\n\n")
    return _ACTIVITY.sub("", blocks[1]) if len(blocks) > 1 else ""


def _written(pid: int) -> tuple[int, ...]:
    """Sizes of the logs it writes."""
    sizes = []
    for descriptor in (1, 2):
        path = procfs.regular_file(pid, descriptor)
        try:
            sizes.append(path.stat().st_size if path is not None else 0)
        except OSError:
            sizes.append(0)
    return tuple(sizes)
