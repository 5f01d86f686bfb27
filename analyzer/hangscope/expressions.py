"""Regular expressions that are compiled when they are first used: a run needs one in ten of those that there are."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, for the constants of a module or class; a wrong one raises where it is first used.

    What a match was made by (`match.re`) is the compiled expression, which is not equal to what this returns.
    """
    return cast("re.Pattern[AnyStr]", _Expression(pattern, flags))


class _Expression:
    """Stands for a compiled expression: hands on each attribute that it is asked for, and keeps it."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever re.Pattern has
        # what Python asks any object for (to copy it, say) is no reason to compile
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value
