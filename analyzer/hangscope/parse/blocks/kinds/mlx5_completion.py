"""The dump of a failed completion that the mlx5 library writes to standard error (rdma-core, providers/mlx5/cq.c).

It is there without any setting of NCCL's, for every error but flushed requests and exhausted retries: a head line and
four rows of four words. In the last row the second word ends in the vendor's code and the syndrome.
"""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"mlx5: \S{1,120}: got completion with error:"

_HEAD = expression(r"\s*mlx5: (?P<host>\S{1,120}): got completion with error:")
_ROW = expression(r"\s*[0-9a-fA-F]{8} (?P<second>[0-9a-fA-F]{8}) [0-9a-fA-F]{8} [0-9a-fA-F]{8}\s*$")
_ROWS = 4


def open_block(line: Line, text: str) -> CompletionDump | None:
    """The four rows below a head."""
    head = _HEAD.match(text)
    return CompletionDump(line, head["host"]) if head else None


class CompletionDump:
    """Counts the rows; the last one tells."""

    def __init__(self, head: Line, host: str) -> None:
        self._head = head
        self._host = host
        self._rows = 0

    def feed(self, _line: Line, text: str) -> list[Event] | None:
        """One row."""
        row = _ROW.match(text) if self._rows < _ROWS else None
        if row is None:
            return None
        self._rows += 1
        if self._rows < _ROWS:
            return []
        word = int(row["second"], 16)
        fields: dict[str, Value] = {"said_host": self._host, "vendor_err": word >> 8 & 0xFF, "syndrome": word & 0xFF}
        return [Event("mlx5", "mlx5_completion_dump", fields, self._head)]

    def end(self) -> list[Event]:
        """Nothing: rows that are cut off say nothing."""
        return []
