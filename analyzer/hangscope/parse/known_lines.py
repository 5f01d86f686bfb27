"""Takes NCCL's lines whose head and wording have come before, at a fraction of what looking at each anew costs.

What a head in front of a message tells is the same on every line, and what a message says is the same in all that
differ in their digits only (`hangscope.grammar.layouts`). A line with both known needs neither a search nor a grammar;
all others, and those with which something may begin or end that goes over several lines, go the usual way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from hangscope.grammar import GrammarSet, Layout, load_set
from hangscope.grammar.layouts import blank
from hangscope.model import Event, Line
from hangscope.parse.advice import AdviceSkipper, may_open_list
from hangscope.parse.call_ahead import MARK
from hangscope.parse.call_texts import CALL_KIND
from hangscope.parse.columns import WriterKey
from hangscope.parse.repeats import Repeats
from hangscope.parse.source import WriterInfo
from hangscope.sources.decode import Lines, RawLine
from hangscope.sources.unwrap import Unwrapper, front_of, may_be_glued
from hangscope.sources.writer import Template

ROUTINE_KIND = "nccl_routine"
"""Lines that are known and from which nothing is concluded: they make no event."""
_NONE = "\n"
"""What no line begins with."""
_MOST = 1 << 13


class Message(NamedTuple):
    """What all messages of one template say.

    Attributes:
        layouts: of its events.
        recognized: whether any grammar knows it.
    """

    layouts: tuple[Layout, ...]
    recognized: bool


class Head(NamedTuple):
    """What stands in front of messages, and what it tells.

    Attributes:
        text: it, up to the message.
        template: what it tells of a line.
        key, info: of its writer.
        writer: the same as `AdviceSkipper` knows it.
        is_routine: a message of it that no grammar knows is none to keep.
    """

    text: str
    template: Template
    key: WriterKey
    info: WriterInfo
    writer: tuple[str, int | None]
    is_routine: bool


class Messages:
    """The messages that may be taken so, by template; shared by all inputs.

    Args:
        grammars: what knows them.
    """

    def __init__(self, grammars: GrammarSet) -> None:
        self._grammars = grammars
        self._known: dict[str, Message | None] = {}

    def get(self, template: str) -> Message | None:
        """What a message says, by its text with all digits zero; None when it has to go the usual way."""
        known = self._known.get(template)
        return known if known is not None or template in self._known else self._find(template)

    def _find(self, template: str) -> Message | None:
        layouts = self._grammars.layouts(template)
        if layouts is None:
            return None
        if len(self._known) >= _MOST:
            self._known.clear()
        message = None
        odd = MARK in template or may_be_glued(template) or may_open_list(template) or not template
        if not odd and all(layout.kind != CALL_KIND for layout in layouts):
            told = tuple(layout for layout in layouts if layout.kind != ROUTINE_KIND)
            message = Message(told, recognized=bool(layouts))
        self._known[template] = message
        return message


@functools.cache
def _messages() -> Messages:
    return Messages(load_set())


class KnownLines:
    """The lines of one input.

    Args:
        file: name of the input.
        unwrapper: knows the heads.
        repeats: gets the events.
        advice: knows who is in the middle of a list, which is looked at line by line.
        writer: tells who wrote a line.

    Attributes:
        unrecognized: lines that no grammar knows.
    """

    def __init__(
        self,
        file: str,
        unwrapper: Unwrapper,
        repeats: Repeats,
        advice: AdviceSkipper,
        writer: Callable[[Line], tuple[WriterKey, WriterInfo]],
    ) -> None:
        self.unrecognized = 0
        self._file = file
        self._unwrapper = unwrapper
        self._repeats = repeats
        self._listing = advice.listing
        self._writer = writer
        self._messages = _messages()
        self._heads: dict[str, Head] = {}

    def take(self, lines: Lines, usual: Callable[[RawLine], None]) -> None:
        """Takes all lines, in their order.

        Args:
            lines: clean ones.
            usual: takes a line the usual way.
        """
        get, listing = self._messages.get, self._listing
        head: Head | None = None
        line: Line | None = None
        front, first = _NONE, 0
        templates = blank("\n".join(lines.texts)).split("\n")
        for index, (text, template) in enumerate(zip(lines.texts, templates, strict=True)):
            if not text.startswith(front):
                if head is not None:
                    self._note(head, lines, first, index, line)
                head = self._head(lines, index)
                front, first = _NONE if head is None else head.text, index
            message = get(template[len(front) :]) if head is not None else None
            if (
                head is None
                or message is None
                or not (message.recognized or head.is_routine)
                or (listing and head.writer in listing)
            ):
                if head is not None and index > first:
                    self._note(head, lines, first, index, line)
                usual(lines.raw(index))
                head, front = None, _NONE
                continue
            line = self._say(message, head, lines, index)
        if head is not None:
            self._note(head, lines, first, len(lines.texts), line)

    def _say(self, message: Message, head: Head, lines: Lines, index: int) -> Line | None:
        """Takes what one line says; gives the line if it was needed."""
        line: Line | None = None
        text = lines.texts[index][len(head.text) :]
        for layout in message.layouts:
            place = (layout.kind, id(head.info), text)
            event = self._repeats.known.get(place)
            if event is not None:
                event.count += 1
                continue
            if line is None:
                line = self._line(head, lines, index)
            self._repeats.add(Event(layout.source, layout.kind, layout.fields(text), line), place, head.key)
        self.unrecognized += not message.recognized
        return line

    def _line(self, head: Head, lines: Lines, index: int) -> Line:
        text = lines.texts[index]
        return Line(
            self._file, lines.numbers[index], lines.offsets[index], text[len(head.text) :], text, *head.template
        )

    def _head(self, lines: Lines, index: int) -> Head | None:
        text = lines.texts[index]
        front = front_of(text)
        template = self._unwrapper.told_by(front)
        if template is None:
            return None
        head = self._heads.get(front)
        if head is None or head.template is not template:
            if len(self._heads) >= _MOST:
                self._heads.clear()
            line = Line(self._file, lines.numbers[index], lines.offsets[index], text[len(front) :], text, *template)
            key, info = self._writer(line)
            head = Head(front, template, key, info, (line.stream, line.rank), line.level == "INFO")
            self._heads[front] = head
        return head

    def _note(self, head: Head, lines: Lines, first: int, behind: int, line: Line | None) -> None:
        """Tells a writer of the lines from the first one up to another, given the last one if it was needed."""
        info = head.info
        last = self._line(head, lines, behind - 1) if line is None else line
        if info.first_line is None or last.time is not None:
            info.note(last if behind - first == 1 else self._line(head, lines, first))
            info.lines -= 1
        info.note(last)
        info.lines += behind - first - 1
