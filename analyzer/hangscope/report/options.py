"""What a format may be told about the place its output goes to."""

from __future__ import annotations

from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How to render a report.

    Attributes:
        width: columns of the output.
        color: colours and other terminal styles are wanted.
        quiet: only the verdict, on one line.
        verbose: every finding, every line of evidence, every rank.
        encoding: encoding of the stream; characters that it lacks are replaced or escaped.
    """

    width: int = 100
    color: bool = False
    quiet: bool = False
    verbose: bool = False
    encoding: str = "utf-8"

    @property
    def takes_all(self) -> bool:
        """The encoding has every character."""
        return self.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
