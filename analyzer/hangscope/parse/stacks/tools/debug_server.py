"""Reads the pages of torch.distributed.debug (2.9 on) around dumps: whose the next one is, who did not answer."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.parse.stacks.builder import Builder, Step
from hangscope.parse.stacks.headers import Header

BEGINS = ("=== Rank ", "PARTIAL DATA: ")
ORDER = -1

_PAGE = expression(r"=== Rank (\d{1,7}): https?://(\S+?)(?::\d{1,5})?(?:/(?:handler/)?(\w*)\S*)? ===")
_PARTIAL = expression(r"PARTIAL DATA: \d+/\d+ workers responded")
_SILENT = expression(r"\s+Rank (\d{1,7}): (\S.*)$")
_ERROR = expression(r"Error: (\S.*)$")
_TOOLS = {"dump_traceback": "faulthandler", "pyspy_dump": "py-spy"}
_LOCAL = ("localhost", "127.")


class Reader:
    """The pages of one stream; the dumps in them are left to their own readers."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._tool = ""
        self._silent: list[tuple[Line, int, str]] = []
        self._page: tuple[Line, Header] | None = None
        self._partial = False

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line is the head of a page."""
        return bool(_PAGE.match(text) or _PARTIAL.match(text))

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line around a dump."""
        if found := _PAGE.match(text):
            self._begin_page(line, *found.groups())
            return Step.HEAD
        if _PARTIAL.match(text):
            self._builder.end()
            self._page, self._partial = None, True
            return Step.HEAD
        if self._partial and (found := _SILENT.match(text)):
            self._silent.append((line, int(found[1]), found[2]))
            self._tell_silent()
            return Step.HEAD
        if self._page is not None and (found := _ERROR.match(text)):
            self._fail(*self._page, text)
            return Step.HEAD
        return Step.LEFT

    def close(self) -> None:
        """Forgets the page; its header stays for the dump that follows."""
        self._page, self._partial = None, False

    def _begin_page(self, line: Line, rank: str, host: str, handler: str | None) -> None:
        self._builder.end()
        named = host[:1].isalpha() and not host.startswith(_LOCAL)
        header = Header(rank=int(rank), host=host if named else None)
        # the errors of other pages are read with those pages
        self._tool = _TOOLS.get(handler, "") if handler else _by_name(line)
        self._page = (line, header) if self._tool else None
        self._partial = False
        self._tell_silent()
        self._builder.headers.give(header, line)

    def _tell_silent(self) -> None:
        """Ranks that did not answer, as soon as the page is known to be one of stacks."""
        tool = self._tool or (_by_name(self._silent[0][0]) if self._silent else "")
        if not tool:
            return
        for line, rank, error in self._silent:
            self._fail(line, Header(rank=rank), f"no answer: {error}", tool)
        self._silent.clear()

    def _fail(self, line: Line, header: Header, error: str, tool: str = "") -> None:
        self._builder.headers.give(header, line)
        self._builder.begin(tool or self._tool, line)
        self._builder.failed(error)
        self._builder.end()


def _by_name(line: Line) -> str:
    """The tool, as the name of the file says: torch names its periodic dumps after the page."""
    name = line.file.rpartition("/")[2]
    return "py-spy" if "pyspy" in name else "faulthandler" if "stacks" in name else ""
