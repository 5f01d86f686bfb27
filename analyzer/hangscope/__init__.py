"""hangscope: explains why a distributed GPU job is stuck, from the logs that every rank left behind.

In a notebook or a script:

    import hangscope as hs

    job = hs.load("logs/")
    job.calls, job.events, job.stacks    # DataFrames; help(hs.Job) names them all
    report = job.analyze()
    report
    report.plot("timeline")              # a picture; hs.plot.plot_names() names them all
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangscope import plot
    from hangscope.api import explain
    from hangscope.notebook import Job, Report, analyze, attach, diff, load

__version__ = "0.1.0"

__all__ = ["Job", "Report", "__version__", "analyze", "attach", "diff", "explain", "load", "plot"]

_HOMES = {
    "Job": "notebook",
    "Report": "notebook",
    "analyze": "notebook",
    "attach": "notebook",
    "diff": "notebook",
    "explain": "api",
    "load": "notebook",
}
"""Where each name is from; it is fetched when somebody uses it, so that the command line starts without it."""


def __getattr__(name: str) -> object:
    if name == "plot":
        return importlib.import_module(f"{__name__}.plot")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
