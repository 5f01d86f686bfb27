"""Makes logical lines of physical ones: prefixes and headers become attributes, glued lines are parted."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.sources.decode import RawLine
from hangscope.sources.decode import clean as clean_text
from hangscope.sources.headers import Header, find_headers, may_have_header, may_have_host, start_header
from hangscope.sources.hosts import Hosts
from hangscope.sources.origin import FileHints, hints
from hangscope.sources.prefixes import Styles, choose_styles, may_have_prefix, strip
from hangscope.sources.stamps import REFERENCE_YEAR, moment, month_number, year_in
from hangscope.sources.wrapped import join_wrapped, width_of
from hangscope.sources.writer import Template, Writer

NCCL = b" NCCL "
"""What stands in every line of NCCL since 2.3."""
SAMPLE = 400
"""So many lines are looked at to learn how a file's prefixes look."""
_OFTEN = 16
"""Of so many of them with one header, the names of hosts are counted: enough to outweigh a name that is glued."""

_HEAD_LENGTH = len(" NCCL INFO ")
_MAX_HEADS = 1 << 15
_TAGS_LENGTH = 200
"""The tags of launchers take no more; a search for their beginning grows with the square of what it looks at."""
_LEVELS = frozenset({" NCCL INFO ", " NCCL WARN "})
_PROGRAM = expression(r"[\w./@-]+(?:\[\d+\])?: ")
_STAMP_ONLY = expression(r"[\d\s:/.,\-+TZ|\[\]()]*")
# tags that a launcher may have put before a header that is glued to another line
_TAGS_BEHIND = expression(
    r"(?:\[(?:\d+,)?\d+\]<std\w+>:|\[[A-Za-z_]+\d+\]: ?| ?\d{1,6}: |\[\d{4}-\d\d-\d\d[ T][\d:.,]+\] )+$"
)
_RFC3339 = expression(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_TEXT_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE")
_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp")
_ALL_STYLES = Styles(task=True, bracket=True, host=True, pipe=True)


def front_of(text: str) -> str:
    """What stands in front of NCCL's message in a line, empty when it has none."""
    at = text.find(" NCCL ")
    return text[: at + _HEAD_LENGTH] if at > 0 else ""


def may_be_glued(message: str) -> bool:
    """Whether another header may stand in a message: a line of another writer is glued to it then."""
    return "NCCL " in message or ".cpp:" in message


class Unwrapper:
    """Unwraps the lines of one file; learns on the way which hosts and styles the file has.

    Attributes:
        joins: a terminal broke the lines, so that one line alone may be a piece of a message.
    """

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        told: FileHints = hints(file_name)
        self._rank = told.rank
        self._local_rank = told.local_rank
        self._bare = self._named(Writer()).template()
        self._styles = Styles()
        self._heads: dict[str, Template] = {}
        self._hosts = Hosts()
        self._learned = False
        self.joins = False

    def learn(self, raws: Iterable[RawLine]) -> Iterator[RawLine]:
        """Looks at the first lines to learn the file's prefixes, then yields all lines, unchanged or unbroken.

        Without it, prefixes that one line alone cannot prove (``3: ``, ``node01: ``) are left in the text.
        """
        lines = iter(raws)
        # reading the first one may have shown them to `look` already
        sample = list(itertools.islice(lines, 1))
        if self._learned:
            return itertools.chain(sample, lines)
        sample += itertools.islice(lines, SAMPLE - len(sample))
        if width := width_of([raw.text for raw in sample]):
            self.joins = True
            lines = join_wrapped(itertools.chain(sample, lines), width)
            sample = list(itertools.islice(lines, SAMPLE))
        self._learn([raw.text for raw in sample])
        return itertools.chain(sample, lines)

    def look(self, texts: Sequence[str]) -> bool:
        """Learns from the first lines of the file; False, and nothing is learned, when a terminal broke them."""
        if width_of(texts):
            return False
        self._learn(texts)
        return True

    def _learn(self, texts: Sequence[str]) -> None:
        self._learned = True
        self._styles = choose_styles(texts, year_in("\n".join(texts)) or REFERENCE_YEAR)
        self._heads.clear()
        seen: dict[str, int] = {}
        for text in texts:
            # for the names of hosts, which only these headers have; not the short way, which does not count them
            at = text.find(" NCCL ")
            if at < 0 and not may_have_host(text):
                continue
            front = text[:at] if at >= 0 else text
            times = seen[front] = seen.get(front, 0) + 1
            if times <= _OFTEN and not (times > 1 and at > 0 and self._saw_again(text, at)):
                self._slow(RawLine(0, 0, text, 0))
        self._heads.clear()

    def _saw_again(self, text: str, at: int) -> bool:
        """Whether it was enough to count a line of which more is not worth knowing."""
        end = at + _HEAD_LENGTH
        head = self._heads.get(text[:end])
        if head is None or text.find("NCCL ", end) >= 0 or ".cpp:" in text:
            return False
        # with the name at the very start it is the header's, not a launcher's
        _, _, _, _, host, pid, *_ = head
        if host is None or pid is None or not text.startswith(f"{host}:{pid}:"):
            return False
        return self._hosts.saw_again(host, pid)

    def told_by(self, front: str) -> Template | None:
        """What a line tells whose head (see `front_of`) has come before; None when it has not, or is not all there is.

        The message behind it must not be one that `may_be_glued`.
        """
        return None if ".cpp:" in front else self._heads.get(front)

    def lines(self, raw: RawLine) -> list[Line]:
        """The logical lines of one physical line; most often one."""
        text = raw.text
        at = text.find(" NCCL ")
        if at > 0:
            end = at + _HEAD_LENGTH
            template = self._heads.get(text[:end])
            # a second header further right means glued lines: those take the long way
            if template is not None and text.find("NCCL ", end) < 0 and ".cpp:" not in text:
                return [Line(self._file, raw.number, raw.offset, text[end:], text, *template)]
        if text[:1] == "{" or may_have_prefix(text, self._styles) or may_have_header(text, 0):
            return self._slow(raw)
        # nothing but the file's name tells anything of who wrote it
        return [Line(self._file, raw.number, raw.offset, text, text, *self._bare)]

    def saw(self, host: str, pid: int, lines: int) -> None:
        """Counts lines of a process that somebody else took, for the names of hosts."""
        self._hosts.saw(host, pid, lines)

    def _slow(self, raw: RawLine) -> list[Line]:
        text = raw.text
        if text.startswith("{") and text.endswith("}"):
            writer = Writer()
            payloads = _json_payloads(text, writer)
            if payloads is not None:
                return [line for payload in payloads for line in self._unwrap(raw, payload, writer.copy())]
        made = self._unwrap(raw, text, Writer())
        if len(made) == 1 and made[0].header == "nccl" and not made[0].damaged:
            self._remember(text, made[0])
        return made

    def _unwrap(self, raw: RawLine, text: str, writer: Writer) -> list[Line]:
        position = strip(text, writer, self._styles)
        text = _without_repeat(text, position)
        headers = find_headers(text, position, writer, self._styles.year)
        if not headers:
            end = start_header(text, position, writer, self._styles.year)
            # a rank prefix may stand behind Python's header, too
            return [self._line(raw, writer, text[end:])]
        return self._parted(raw, text, position, writer, headers)

    def _parted(self, raw: RawLine, text: str, position: int, writer: Writer, headers: list[Header]) -> list[Line]:
        """One line for each header, and one for text in front of the first that no launcher put there."""
        made: list[Line] = []
        for header in headers:
            self._settle_host(text, position, header)
        for index, header in enumerate(headers):
            if index:
                header.start = _before_tags(text, headers[index - 1].end, header)
        foreign = self._foreign(text, position, writer, headers[0])
        damaged = len(headers) > 1 or headers[0].torn
        if foreign:
            front = writer.copy()
            front.damaged = True
            made.append(self._line(raw, front, foreign))
            damaged = damaged or not foreign[-1].isspace()
        for index, header in enumerate(headers):
            end = headers[index + 1].start if index + 1 < len(headers) else len(text)
            message = text[header.end : end]
            clean = index == 0 and not foreign and not header.torn and message.strip() != ""
            header.writer.damaged |= writer.damaged or (damaged and not clean)
            made.append(self._line(raw, header.writer, message))
        return made

    def _foreign(self, text: str, position: int, before: Writer, header: Header) -> str:
        """Text between prefixes and first header; a prefix that the file's style did not cover is none."""
        if header.start <= position:
            return ""
        front = text[position : header.start]
        if before.header == "syslog" and _PROGRAM.fullmatch(front):
            # which program wrote it, as a syslog's line says behind the host; a header tells more
            return ""
        if _STAMP_ONLY.fullmatch(front):
            self._strip_all(front, header.writer)
            return ""
        return "" if self._strip_all(front, header.writer) else front

    def _strip_all(self, front: str, into: Writer) -> bool:
        """Whether the text is nothing but prefixes, whatever the file's style; they are taken then."""
        writer = Writer()
        if strip(front, writer, _ALL_STYLES) < len(front):
            return False
        if writer.stream:
            into.add_stream(writer.stream)
        into.see_time(writer.time)
        into.local_rank = into.local_rank if into.local_rank is not None else writer.local_rank
        into.host = into.host or writer.host
        if into.rank is None:
            into.rank, into.rank_source = writer.rank, writer.rank_source
        return True

    def _settle_host(self, text: str, position: int, header: Header) -> None:
        """Corrects a host that foreign text is glued to, or whose beginning is torn off."""
        writer = header.writer
        if writer.header != "nccl" or writer.pid is None or header.torn:
            return
        shown = text[header.start : header.end].partition(":")[0]
        host = shown if shown == writer.host else None
        if host is None and (shown or writer.host):
            # no name in the header (CCOM), or a launcher's prefix gave one already
            return
        settled = self._hosts.settle(host, writer.pid, at_start=header.start == position)
        if settled == host:
            return
        writer.host = settled
        if host is not None and settled is not None and host.endswith(settled):
            header.start += len(host) - len(settled)
        else:
            writer.damaged = True

    def _remember(self, text: str, line: Line) -> None:
        """The head of this line always means the same, so the next line with it needs no search."""
        at = text.find(" NCCL ")
        end = at + _HEAD_LENGTH
        if at <= 0 or text[at:end] not in _LEVELS or line.text != text[end:]:
            return
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        self._heads[text[:end]] = (
            *(line.stream, line.rank, line.rank_source, line.local_rank, line.host, line.pid, line.tid, line.time),
            *(line.level, line.origin, line.header),
        )

    def _line(self, raw: RawLine, writer: Writer, text: str) -> Line:
        return self._named(writer).line(self._file, raw.number, raw.offset, text, raw.text)

    def _named(self, writer: Writer) -> Writer:
        """Who wrote it, as far as prefixes do not tell and the file's name does."""
        if writer.rank is None and self._rank is not None:
            writer.rank, writer.rank_source = self._rank, "file-name"
        if writer.local_rank is None:
            writer.local_rank = self._local_rank
        return writer


def _before_tags(text: str, floor: int, header: Header) -> int:
    """Where a glued header's own launcher tags begin; the header takes them."""
    tags = _TAGS_BEHIND.search(text, max(floor, header.start - _TAGS_LENGTH), header.start)
    if tags is None:
        return header.start
    writer = Writer()
    strip(tags[0], writer, _ALL_STYLES)
    own = header.writer
    own.stream = writer.stream or own.stream
    if writer.rank is not None:
        own.rank, own.rank_source = writer.rank, writer.rank_source
    own.local_rank = writer.local_rank if writer.local_rank is not None else own.local_rank
    return tags.start()


def _without_repeat(text: str, position: int) -> str:
    """A table export prints the message twice, `text | text`: one is enough."""
    if "NCCL" not in text:
        return text
    left, _, right = text.rpartition(" | ")
    twice = "NCCL" in right and left.endswith(right) and len(left) >= position + len(right)
    return left if twice else text


def _json_payloads(text: str, writer: Writer) -> list[str] | None:
    """The lines in a log driver's JSON envelope; None when it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    payload = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    if payload is None:
        return None
    for key in _TIME_KEYS:
        found = _RFC3339.match(value[key]) if isinstance(value.get(key), str) else None
        if found:
            writer.see_time(moment(int(found[1]), month_number(found[2]), int(found[3]), found[4], found[5] or ""))
            break
    pod = value.get("kubernetes")
    if isinstance(pod, dict) and isinstance(pod.get("pod_name"), str):
        writer.host = pod["pod_name"]
        writer.add_stream(pod["pod_name"])
    pieces = re.split(r"\r\n|\n|\r", payload.rstrip("\r\n"))
    return [clean_text(piece) for piece in pieces] or [""]
