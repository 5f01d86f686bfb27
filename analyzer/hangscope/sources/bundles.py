"""Knows the folders in which `hangscope attach` keeps several jobs of one host apart."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.errors import InputError
from hangscope.expressions import expression

_JOB = expression(r"(?P<folder>(?:.*/)?job\d+-(?P<job>[^/]+))/[^/]+/attach\.txt")


def check_one_job(names: Iterable[str]) -> None:
    """Refuses what attach saw of several jobs: rank 0 of one and rank 0 of another are no two copies of a rank.

    Raises:
        InputError: the inputs of these names are of several jobs; the advice names their folders.
    """
    folders: dict[str, str] = {}
    for name in names:
        found = _JOB.fullmatch(name)
        if found is not None:
            folders.setdefault(found["job"], found["folder"])
    if len(folders) > 1:
        listed = ", ".join(sorted(folders.values()))
        raise InputError(f"these are {len(folders)} jobs: {listed}", "Analyze each folder by itself.")
