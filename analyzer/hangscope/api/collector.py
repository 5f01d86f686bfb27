"""Lets Python's cyclic collector rest while a job is worked out: what is made lives on, in the job or the report."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """While it lasts, no cycles are looked for: on a large job that takes a tenth of the time, and finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
