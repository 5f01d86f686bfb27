"""Tells what a tool reports from what it only supposes: lists of possible causes are no evidence of any of them.

Ray lists the OOM killer, ``ray stop`` and SIGSEGV behind every worker that is gone ("Some common causes include: (1)
the process was killed by the OOM killer ...", Ray 1.11 on), and other tools have such lists too. Behind the words that
open a list nothing is read.
"""

from __future__ import annotations

import re

from hangscope.expressions import expression

_OPENING = expression(
    r"(?:(?:\b[Tt]here (?:are|is) |\b[Tt]his (?:has|is) |\b[Ss]ome |\b[Tt]he |\b[Aa] )(?:some |several |the |a )?)?"
    r"\b(?:(?:most|more) )?(?:common|potential|possible|likely|usual|typical|probable)"
    r"(?: root)? (?:causes?|reasons?)\b",
    re.IGNORECASE,
)
_ITEM = expression(r"\s*(?:\(?\d{1,2}[.)]|[-*\u2022])\s")


def may_open_list(text: str) -> bool:
    """A quick look, without a loop: a text with neither word opens no list."""
    return "ause" in text or "eason" in text


def before_advice(text: str) -> str:
    """The text up to where a list of possible causes begins; all of it when there is none."""
    if not may_open_list(text):
        return text
    opening = _OPENING.search(text)
    return text if opening is None else text[: opening.start()].rstrip()


class AdviceSkipper:
    """Leaves out lists of possible causes, also those that go on over the lines below, an item a line.

    Attributes:
        listing: the writers that are in the middle of one.
    """

    def __init__(self) -> None:
        self.listing: set[tuple[str, int | None]] = set()

    def reported(self, text: str, writer: tuple[str, int | None]) -> str:
        """What of a writer's next line is a report."""
        if writer in self.listing:
            if _ITEM.match(text):
                return ""
            self.listing.discard(writer)
        kept = before_advice(text)
        if kept != text:
            self.listing.add(writer)
        return kept
