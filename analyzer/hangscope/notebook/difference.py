"""What two jobs differ in, in a notebook: it shows itself, and its parts are DataFrames."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hangscope.model import ComparedValue
from hangscope.model.difference import JobDifference
from hangscope.records import dataclass
from hangscope.report.difference_card import difference_card
from hangscope.report.differences import to_plain, value_words
from hangscope.report.options import RenderOptions
from hangscope.report.terminal.difference import render_difference


@dataclass(frozen=True, slots=True, repr=False)
class Difference(JobDifference):
    """What a good and a bad job differ in. A notebook shows it; `show` prints it.

    ``calls.differences`` are the first calls at which the jobs part, a group each; ``differences`` what is another, and
    ``equal`` what is not. `table` has the same as a DataFrame.
    """

    @classmethod
    def of(cls, difference: JobDifference) -> Difference:
        """The same difference, able to show itself."""
        return cls(**{field.name: getattr(difference, field.name) for field in dataclasses.fields(JobDifference)})

    def table(self) -> pd.DataFrame:
        """What differs, one row an aspect.

        Returns:
            Columns topic, aspect, change (split, changed, elsewhere, only-good, only-bad), must_agree (ranks of one job
            that differ in it can wait for each other for ever), telling (both jobs say it, or the silent one would have
            if it were so), good and bad (the values in words, and who has them).
        """
        rows = [
            (one.topic, one.aspect, str(one.change), one.must_agree, one.telling, _words(one.good), _words(one.bad))
            for one in self.differences
        ]
        return pd.DataFrame(rows, columns=["topic", "aspect", "change", "must_agree", "telling", "good", "bad"])

    def to_dict(self) -> dict[str, Any]:
        """The same as ``hangscope diff --format json`` prints."""
        return to_plain(self)

    def text(self, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:
        """The page that ``hangscope diff`` prints.

        Args:
            width: columns.
            verbose: every difference and value.
            color: with a terminal's codes for colours.
        """
        return render_difference(self, RenderOptions(width=width, verbose=verbose, color=color))

    def show(self, *, width: int = 100, verbose: bool = False) -> None:
        """Prints the page."""
        print(self.text(width=width, verbose=verbose), end="")  # noqa: T201 (it is asked for)

    def _repr_html_(self) -> str:
        return difference_card(self)

    def __repr__(self) -> str:
        return self.text().rstrip("\n")


def _words(values: Sequence[ComparedValue]) -> str:
    return "; ".join(value_words(value, alone=len(values) == 1) for value in values)
