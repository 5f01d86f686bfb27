"""Looks for the calls of several small files at once: of one alone, numpy's calls cost more than its lines.

What is found for a file is what would be found in it alone; when it is read, that is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.sources.inputs import STDIN_PATH, Input
from hangscope.sources.sniff import Kind
from hangscope.sources.urls import is_url

if TYPE_CHECKING:
    from hangscope.parse.call_batches import Batch
    from hangscope.parse.call_layouts import Found, LayoutFinder

MARK = ": opCount "
_MARK = MARK.encode()
_PROBES, _PROBE = 4, 1 << 12
"""So many pieces of a block, and its end, tell how many of its lines are calls; their bytes."""
_OTHERS_A_CALL = 8
_LARGEST = 1 << 18
"""Bytes of a file that is better looked at with others."""
_AT_ONCE = 1 << 20
"""Bytes of files that are looked at together: as many as of a large one."""
_MOST_FILES = 64


def has_many_calls(block: bytes) -> bool:
    """Whether enough lines here and there in a block are calls: the others are then taken out of it one by one."""
    last = max(0, len(block) - _PROBE)
    spans = [(at, at + _PROBE) for at in range(0, last, max(_PROBE, last // _PROBES))]
    calls, lines = (sum(block.count(what, *span) for span in (*spans, (last, len(block)))) for what in (_MARK, b"\n"))
    return calls * _OTHERS_A_CALL >= lines and calls > 0


class CallsAhead:
    """The calls of inputs.

    Args:
        inputs: in the order in which they are read.
    """

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs
        self._at = {item.name: index for index, item in enumerate(inputs) if _is_small(item)}
        self._batch: Batch | None = None

    def found(self, name: str, block: bytes, offset: int, finder: LayoutFinder) -> Found | None:
        """The call lines of a block, as the finder finds them; None when it was not looked at with others.

        Args:
            name: of the input.
            block: whole lines, without the last newline.
            offset: where it begins.
            finder: who looks.
        """
        index = self._at.get(name)
        if index is None:
            return None
        if self._batch is None or not self._batch.has(name, finder):
            self._batch = self._look(index, finder)
        return None if self._batch is None else self._batch.found(name, block, offset)

    def _look(self, first: int, finder: LayoutFinder) -> Batch | None:
        """Looks at an input and those behind it."""
        from hangscope.parse.call_batches import Batch  # noqa: PLC0415 - numpy takes longer to import than many a log

        texts: dict[str, bytes] = {}
        left = _AT_ONCE
        for item in self._inputs[first : first + _MOST_FILES]:
            left -= item.size
            if left < 0:
                break
            if item.name in self._at:
                try:
                    with Path(item.path).open("rb") as file:
                        text = file.read(_LARGEST + 1)
                except OSError:
                    continue
                if len(text) <= _LARGEST and has_many_calls(text):
                    texts[item.name] = text
        return Batch(texts, finder) if len(texts) > 1 and self._inputs[first].name in texts else None


def _is_small(item: Input) -> bool:
    plain = item.member is None and item.rereadable and item.kind is Kind.TEXT
    return plain and 0 < item.size <= _LARGEST and item.path != STDIN_PATH and not is_url(item.path)
