"""Watches a job from afar, until all of its ranks stand still."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from hangscope.errors import InputError
from hangscope.expressions import expression
from hangscope.live import procfs, pyspy, refusal
from hangscope.live.capture import Say
from hangscope.live.choose import find_jobs
from hangscope.live.targets import LiveJob

ROUNDS = 3
"""Looks in a row that have to be alike: by chance a job that runs is caught twice in the same collective."""

CHECKS, _PAUSE_S = 10, 0.5
"""Short looks that follow: a job that runs may spend nearly all of its time in one line, and seldom write."""

_ACTIVITY = expression(r" \((?:idle|active)(?:\+gil)?\)")


def wait_until_stuck(pids: Collection[int], every_s: float, say: Say, rounds: int = ROUNDS) -> bool:
    """Looks every `every_s` seconds at the main thread of each rank, without pausing it.

    Returns:
        True when all ranks of a job had the same stacks and wrote no line in so many looks in a row; False when the
        job ended.

    Raises:
        InputError: there is no such job, no py-spy, or no permission to look at a rank.
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
            if alike[number] >= rounds:
                if _stands_still(job, program, seen, min(_PAUSE_S, every_s)):
                    return True
                alike[number] = 1
        if not any(procfs.is_alive(target.pid) for job in jobs for target in job.ranks):
            return False
        say("watching, looks alike", max(alike), rounds)
        time.sleep(every_s)


def _stands_still(job: LiveJob, program: str, seen: object, pause_s: float) -> bool:
    for _ in range(CHECKS):
        time.sleep(pause_s)
        if _signs(job, program) != seen:
            return False
    return True


def _signs(job: LiveJob, program: str) -> object | None:
    """What stays as it is while a job is stuck; None when it could not be seen of every rank.

    Raises:
        InputError: a rank may not be looked at, now or later.
    """
    ranks = [target for target in job.ranks if procfs.is_alive(target.pid)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        dumps = list(pool.map(lambda target: pyspy.take_dump(program, target.pid, nonblocking=True), ranks))
    refused = next((one for one, dump in zip(ranks, dumps, strict=True) if refusal.is_refusal(dump.error)), None)
    if refused is not None and procfs.is_alive(refused.pid):
        raise InputError(f"{refused.label} cannot be watched: {refusal.explain_refusal(refused.pid)}")
    if not dumps or any(not dump.text for dump in dumps):
        return None
    return tuple((dump.pid, _main_thread(dump.text), procfs.log_sizes(dump.pid)) for dump in dumps)


def _main_thread(text: str) -> str:
    """The frames of the thread that py-spy prints first, which is the main one; whether it spins says nothing."""
    blocks = text.split("\n\n")
    return _ACTIVITY.sub("", blocks[1]) if len(blocks) > 1 else ""
