"""Comparisons: what the ranks or hosts of a job have in one respect, line by line; one module a topic.

Every module of this package that has ``TOPIC`` and ``compare(job)`` is found by being there. ``compare`` yields a
comparison for each aspect of which processes or hosts say something, those that agree included.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from types import ModuleType

from hangscope.align.job import Job
from hangscope.model import Comparison

log = logging.getLogger(__name__)

_FEWEST = 2
"""One process alone has nothing to be compared with, but in another job."""


def comparison_modules() -> tuple[ModuleType, ...]:
    """The modules that compare, in the order in which reports show them."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((m for m in modules if hasattr(m, "TOPIC")), key=lambda m: (m.ORDER, m.TOPIC)))


def compare(job: Job, fewest: int = _FEWEST) -> tuple[Comparison, ...]:
    """All comparisons of a job, topic by topic. A module that fails costs its own only, and says so in the log.

    Args:
        job: the job.
        fewest: aspects of which fewer processes or hosts say anything are left out.
    """
    found: list[Comparison] = []
    for module in comparison_modules():
        try:
            found.extend(one for one in module.compare(job) if sum(value.count for value in one.values) >= fewest)
        except Exception as error:
            name = f"{type(error).__name__}: {error}"
            log.error("a part of the analysis failed (%s: %s); its comparisons are missing", module.__name__, name)  # noqa: TRY400 (no trace for users)
            log.debug("the trace", exc_info=True)
    return tuple(found)
