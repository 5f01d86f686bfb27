"""Globs of names: the quick forms answer as Python's own `fnmatch` does."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.grammar.globs import read_globs

LETTERS = st.text(alphabet="ab_.", max_size=4)
GLOBS = st.lists(st.text(alphabet="ab_.*?[]!", min_size=1, max_size=5), max_size=4)


@given(globs=GLOBS, name=LETTERS)
@settings(max_examples=400, derandomize=True, deadline=None)
def test_globs_fit_what_fnmatch_says(globs: list[str], name: str) -> None:
    assert read_globs(globs).fit(name) is any(fnmatchcase(name, glob) for glob in globs)


@pytest.mark.parametrize(
    ("glob", "fits", "differs"),
    [
        ("wait", "wait", "await"),
        ("all_gather*", "all_gather_into_tensor", "_all_gather"),
        ("*_object", "broadcast_object", "object"),
        ("*", "", None),
        ("*reduce*", "all_reduce_", "gather"),
        ("wor[kl]er", "worker", "wor[kl]er"),
    ],
)
def test_each_form_of_a_glob(glob: str, fits: str, differs: str | None) -> None:
    assert read_globs([glob]).fit(fits)
    assert differs is None or not read_globs([glob]).fit(differs)
