"""The head of a page of torch.distributed.debug (2.12 and later) that names the ranks which did not answer."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"PARTIAL DATA: \d"

_HEAD = expression(r"PARTIAL DATA: (\d{1,7})/(\d{1,7}) workers responded\s*$")
_RANK = expression(r"\s+Rank (\d{1,7}): (\S.*)$")


def open_block(_line: Line, text: str) -> SilentRanks | None:
    """The list below the head."""
    found = _HEAD.match(text.strip())
    return SilentRanks(int(found[1]), int(found[2])) if found else None


class SilentRanks:
    """One line a rank, with the error of the one who asked it."""

    def __init__(self, answered: int, workers: int) -> None:
        self._fields: dict[str, Value] = {"answered": answered, "workers": workers}

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """One rank."""
        found = _RANK.match(text)
        if found is None:
            return None
        fields: dict[str, Value] = {"silent_rank": int(found[1]), "error": found[2].strip()[:200]}
        return [Event("debug-server", "debug_no_answer", self._fields | fields, line)]

    def end(self) -> list[Event]:
        """Nothing: every rank was told."""
        return []
