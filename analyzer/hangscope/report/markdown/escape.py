"""Makes any text harmless in GitHub's Markdown: it stays text, pings nobody, and ends no block but its own."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.report.printable import one_line, printable

# What begins markup, HTML, an entity, mathematics or a table cell; an underscore inside of a word begins nothing.
_MARKUP = expression(r"[\\`*\[\]<>&|~$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
# What begins a heading, a quote or a list, when it stands first.
_FIRST = expression(r"[-+#=]|\d{1,9}(?=[.)])")
# Links that GitHub makes by itself, and names that it tells of it: a backslash does not keep it from either, code does.
_LINKED = expression(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)|(?<=\w)://|\bwww\.")
_TICKS = expression("`+")


def prose(text: str) -> str:
    """One paragraph of plain text, on one line."""
    words = printable(" ".join(text.split()))
    pieces: list[str] = []
    end = 0
    for found in _LINKED.finditer(words):
        pieces += [_escaped(words[end : found.start()]), f"`{found[0]}`"]
        end = found.end()
    pieces.append(_escaped(words[end:]))
    line = "".join(pieces)
    first = _FIRST.match(line)
    if first is None:
        return line
    return f"\\{line}" if not first[0].isdigit() else f"{first[0]}\\{line[first.end() :]}"


def code(text: str) -> str:
    """Text as it stands, inside of a line."""
    words = one_line(text).strip() or " "
    fence = "`" * (_longest_run(words) + 1)
    gap = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{gap}{words}{gap}{fence}"


def block(text: str, language: str = "text") -> list[str]:
    """Lines as they stand, in a fence that is longer than any in them."""
    lines = [printable(line) for line in text.strip("\n").split("\n")]
    fence = "`" * max(3, max(map(_longest_run, lines)) + 1)
    return [f"{fence}{language}", *lines, fence]


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
