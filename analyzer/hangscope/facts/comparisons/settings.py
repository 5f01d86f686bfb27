"""Compares the settings that processes print: NCCL's and PyTorch's, by name."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts.agreed_settings import must_agree
from hangscope.facts.comparisons.said import Holders, compared
from hangscope.facts.settings import settings_of
from hangscope.model import Comparison

TOPIC = "settings"
ORDER = 2

_FEW = 2


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison for each setting; those that every process has its own value of are no settings of the job."""
    holders = Holders(job)
    for setting in settings_of(job):
        values = setting.values
        if not must_agree(setting.name) and len(set(values.values())) == len(values) > _FEW:
            continue
        said = [holders.of_process(job.processes[n], value, setting.said.get(n)) for n, value in values.items()]
        # 0 here and not set there is the same for most switches
        matters = not setting.agrees(job) or (must_agree(setting.name) and len(set(values.values())) == 1)
        found = compared(TOPIC, setting.name, said, must_agree=matters)
        if found is not None:
            yield found
