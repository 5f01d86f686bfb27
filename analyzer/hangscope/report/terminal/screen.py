"""The page that the parts of a terminal report write on: width, colours, and the few ways to set text."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hangscope.model import Evidence
from hangscope.records import dataclass
from hangscope.report.options import RenderOptions
from hangscope.report.printable import join_lines, one_line, printable, shorten_middle
from hangscope.report.proof import drop_noise

# Longer lines of prose are hard to read, however wide the terminal is.
_PROSE_WIDTH = 100
_NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The few characters beyond ASCII, and what stands for them where the stream cannot have them."""

    rule: str
    ellipsis: str
    box: box.Box


_UNICODE = Glyphs("\u2500", "\u2026", box.ROUNDED)
_ASCII = Glyphs("-", "...", box.ASCII)


class Screen:
    """Collects the page as text. Nothing given to it is ever taken for markup."""

    def __init__(self, options: RenderOptions) -> None:
        self.options = options
        self.width = max(options.width, _NARROWEST)
        self.glyphs = _UNICODE if options.takes_all else _ASCII
        self._page = io.StringIO()
        self._console = Console(
            file=self._page,
            width=self.width,
            color_system="standard" if options.color else None,
            force_terminal=options.color,
            no_color=not options.color,
            legacy_windows=False,
            force_jupyter=False,  # in a kernel rich would show the parts instead of giving them to the page
            markup=False,
            emoji=False,
            highlight=False,
        )

    @property
    def console(self) -> Console:
        """What lays text out in columns."""
        return self._console

    @property
    def prose_width(self) -> int:
        return min(self.width, _PROSE_WIDTH)

    def written(self) -> str:
        """The page so far, as it was laid out."""
        return self._page.getvalue()

    def text(self) -> str:
        """The page, in characters that its encoding has."""
        page = "\n".join(line.rstrip() for line in self.written().split("\n"))
        return page.encode(self.options.encoding, "backslashreplace").decode(self.options.encoding)

    def blank(self) -> None:
        self._console.print()

    def heading(self, title: str) -> None:
        """Start a part of the page."""
        before = Text(f"{self.glyphs.rule * 2} ", style="blue") + Text(title, style="bold") + Text(" ")
        room = self.prose_width - before.cell_len
        self._console.print()
        self._console.print(before + Text(self.glyphs.rule * max(room, 0), style="blue"), overflow="fold")

    def panel(self, title: str, content: Text, style: str) -> None:
        self._console.print(
            Panel(
                content,
                title=Text(title, style=f"bold {style}"),
                title_align="left",
                border_style=style,
                box=self.glyphs.box,
                width=self.prose_width,
            )
        )

    def plain(self, line: str) -> None:
        """Print a line as it is; it has to be safe to show."""
        self._page.write(f"{line}\n")

    def show(self, content: RenderableType, *, indent: int = 0, width: int | None = None) -> None:
        """Print something of rich's making."""
        self._console.print(Padding(content, (0, 0, 0, indent)), width=width or self.width)

    def prose(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Plain words, wrapped."""
        self.show(self.words(text, style), indent=indent, width=self.prose_width)

    def command(self, command: str, *, indent: int) -> None:
        """A command, never wrapped and never decorated, so that it can be copied as it stands."""
        for line in printable(command, keep="\n").strip("\n").split("\n"):
            content = Text(" " * indent) + Text(line, style="cyan")
            self._console.print(content, soft_wrap=True, no_wrap=True, overflow="ignore", crop=False)

    def quote(self, evidence: Evidence, *, indent: int, rows: int) -> None:
        """A line of a log, over a few rows at most; of longer ones the middle is left out."""
        # wrapping at blanks leaves the ends of the rows unused
        room = (self.width - indent - 8) * rows
        self.show(Text(self.shorten(self.drop_noise(evidence.text), room), overflow="fold"), indent=indent)

    def drop_noise(self, text: str) -> str:
        """`proof.drop_noise`, with the page's own mark."""
        return drop_noise(text, self.glyphs.ellipsis)

    def shorten(self, text: str, limit: int) -> str:
        return shorten_middle(one_line(text), limit, f" {self.glyphs.ellipsis} ")

    def words(self, text: str, style: str = "") -> Text:
        """Plain words from anywhere, made safe; the line ends of whoever wrote them give way to ours."""
        return Text(printable(join_lines(text), keep="\n"), style=style, overflow="fold")


def columns(*widths: int | None, gap: int = 2) -> Table:
    """A table without lines: a column for each entry, of that width, or as wide as it likes."""
    table = Table.grid(padding=(0, gap, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    return table
