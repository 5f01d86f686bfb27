"""Makes text that came out of a log harmless to show: nothing in it can steer a terminal or hide."""

from __future__ import annotations

from hangscope.expressions import expression

# C0 and C1 controls, DEL, the bidirectional controls (they can turn a line around), zero-width and other invisible
# format characters, line separators, lone surrogates (undecodable file names) and the tag block.
_HARMFUL = expression(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

# Paragraphs, lists and indented lines keep their line ends.
_LINE_END_IN_PARAGRAPH = expression(r"(?<!\n)[ ]*\n(?=\S)(?![-*] |\d+[.)] )")

# A cut may move this far to fall between two words.
_WORD = 16


def printable(text: str, *, keep: str = "\t") -> str:
    r"""Escape what a terminal would obey or hide: ``\x1b`` becomes the four characters ``\x1b``.

    Applying it twice changes nothing more.

    Args:
        text: anything, from anywhere.
        keep: control characters that stay as they are.
    """
    return _HARMFUL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def one_line(text: str) -> str:
    """`printable` for a place that holds one line: tabs become blanks, line ends are escaped."""
    return printable(text.replace("\t", "    "), keep="")


def join_lines(text: str) -> str:
    """Plain words whose paragraphs are a line each: the line ends of whoever wrote them give way; lists keep theirs."""
    return _LINE_END_IN_PARAGRAPH.sub(" ", text.strip().replace("\t", "    "))


def shorten_middle(text: str, limit: int, mark: str = "...") -> str:
    """Cut out the middle, between words if there are any, so that both ends of the text can be read."""
    if len(text) <= limit:
        return text
    room = max(limit - len(mark), 2)
    first = (room * 2 + 2) // 3
    head, tail = text[:first], text[len(text) - (room - first) :]
    last_blank, next_blank = head.rfind(" "), tail.find(" ")
    if last_blank > first - _WORD:
        head = head[:last_blank]
    if 0 <= next_blank < min(_WORD, len(tail) - 1):
        tail = tail[next_blank + 1 :]
    return head + mark + tail


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
