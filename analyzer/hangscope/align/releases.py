"""Infers releases of NCCL and PyTorch where no line states them.

Wording changes between releases, and so do the lines of PyTorch's sources that its headers, tracebacks and stack dumps
name. grammars/releases/ says what belongs to which release (tests/make_release_tables.py makes it from NCCL 2.3.5 to
2.32.3 and PyTorch 1.8 to 2.14); a release is a bit of a mask, the bit behind the last stands for all later ones.
Builds of vendors and nightly builds fit none: clues of one process that contradict each other say nothing.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hangscope.align.process import Process
from hangscope.align.stacks import Stacks
from hangscope.align.versions import Inferred
from hangscope.expressions import expression
from hangscope.model import Event, Evidence, Line, Location
from hangscope.parse.by_kind import ByKind
from hangscope.parse.recorder.recording import Recording
from hangscope.resources import grammars_dir

PRODUCTS = ("nccl", "torch")
_OF_TORCH = ("torch", "elastic", "gloo")
_SAME_KIND = 3
"""Lines of one kind and process that are looked at: the next thousand of them are worded alike."""
_MOST_FRAMES = 60
_MOST_CITED = 3
_SHIFT = 6
"""Lines by which a function may have moved between patch releases; the tables know one of each minor release."""

_WORD = expression(r"[A-Za-z_]{4,}")
_ORIGIN = expression(r"(?P<file>[\w./-]+):(?P<line>\d{1,6})")
_FRAME = expression(r"(?P<file>.+?):(?P<line>\d{1,6}) (?P<function>\w+)")
_WITH_FUNCTION = expression(r"\.(?:cc|h|cu):\d+ \(\w+\) NCCL (?:WARN|ATTN) ")
_STAMPED = expression(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] [^\s:]+:\d+:\d+ ")
_GROUP = expression(r"\[PG (?:(?P<guid>ID \d+ PG GUID )|\d+ (?P<named>\([^)]*\) )?Rank)")
_RECORDER_FORMATS = {(1, 0): ("2.2", "2.2"), (1, 4): ("2.3", "2.3"), (2, 1): ("2.4", "2.4"), (2, 4): ("2.5", "2.7")}
_RECORDER_FORMATS |= {(2, 9): ("2.8", "2.8"), (2, 10): ("2.9", "")}
"""Format of a flight recorder's dump -> first and last PyTorch that writes it, "" = still."""

_WORDING = "the wording of its messages"
_HEADER = "the form of its line headers"
_LINES = "source line numbers"
_FORMAT = "the format of its flight recorder"


_Template = tuple[list[str], int, int, *tuple[int, ...]]
"""Pieces and holes by turns, the first release, the number behind the last one; a 1 when it has to begin the text."""
_DIGITS = expression(r"[0-9]+")
_HEX_DIGITS = expression(r"\x01[0-9a-f]*")
_IN_NUMBERS = expression(r"[1-9]|0(?!x)|0x[0-9a-f]|^[a-fx]")
"""A piece whose place numbers decide: it has digits, or may begin with the end of a hexadecimal one."""
_MOST_OUTLINES = 4096


class _Clue(NamedTuple):
    """The releases that print a line, by what it tells them, and where it stands."""

    mask: int
    by: str
    file: str
    number: int | None
    offset: int
    text: str
    known: tuple[Evidence, ...] = ()

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        at = Location(self.file, self.number, self.offset)
        return self.known or (Evidence(at, self.text, f"tells the release by {self.by}"),)


def _clue(mask: int, by: str, line: Line, text: str | None = None) -> _Clue:
    return _Clue(mask, by, line.file, line.number, line.offset, line.raw if text is None else text)


class _Table:
    """What grammars/releases/ says of one product."""

    def __init__(self, product: str) -> None:
        table = json.loads((grammars_dir() / "releases" / f"{product}.json").read_text(encoding="utf-8"))
        self.releases: list[str] = table["releases"]
        self.everything = (2 << len(self.releases)) - 1
        self._texts: dict[str, list[_Template]] = table["texts"]
        self._lines: dict[str, dict[str, list[int]]] = table.get("lines", {})
        self._functions: dict[str, list[tuple[int, int, int]]] = table.get("functions", {})
        whole = product == "nccl"
        self._outlines: dict[str, tuple[int, list[_Template]]] = {}
        self.of_text = functools.lru_cache(4096)(self._of_whole_text if whole else self._of_text_within)
        self._messages_of = functools.lru_cache(256)(self._find_messages)
        self.of_frame = functools.lru_cache(4096)(self._of_frame)

    def between(self, first: str, last: str = "") -> int:
        """The releases from one to another (as in the table), or to all that are still to come."""
        end = self.releases.index(last) + 1 if last else len(self.releases) + 1
        return _span(self.releases.index(first) if first else 0, end)

    def _of_whole_text(self, text: str, *, headed: bool) -> int:  # noqa: ARG002 - NCCL's always are
        """The releases that print this; 0 when the text tells nothing.

        NCCL's templates cover a whole text, and a later one may have a hole where an earlier one has words: all count.
        """
        # the lines of a thousand ranks differ in their numbers: what these do not decide is found once
        outline = _outline(text)
        known = self._outlines.get(outline)
        if known is None:
            if len(self._outlines) == _MOST_OUTLINES:
                self._outlines.clear()
            known = self._outlines[outline] = self._look_at(text)
        mask, numbered = known
        for pieces, begin, end, *_ in numbered:
            if _has(text, pieces, whole=True):
                mask |= _span(begin, end)
        return mask

    def _look_at(self, text: str) -> tuple[int, list[_Template]]:
        """The releases that print a text, whatever its numbers are, and the templates that they decide about."""
        mask = 0
        numbered: list[_Template] = []
        for word in set(_WORD.findall(text)):
            for template in self._texts.get(word, ()):
                pieces, begin, end, *_ = template
                # nothing stands before the first one
                if _IN_NUMBERS.search(pieces[0].lstrip("abcdefx")) or any(map(_IN_NUMBERS.search, pieces[2::2])):
                    numbered.append(template)
                elif text.startswith(pieces[0]) and text.endswith(pieces[-1]) and _has(text, pieces, whole=True):
                    mask |= _span(begin, end)
        return mask, numbered

    def _of_text_within(self, text: str, *, headed: bool) -> int:
        """The same for PyTorch's, which are found anywhere in a text, so the longest counts.

        Those with which a later text ends have to begin it, right behind a header.
        """
        longest, mask = 0, 0
        for word in set(_WORD.findall(text)):
            for pieces, begin, end, *begins in self._texts.get(word, ()):
                if begins and not (headed and text.startswith(pieces[0])):
                    continue
                length = sum(map(len, pieces[::2]))
                if length >= longest and _has(text, pieces, whole=False):
                    mask = _span(begin, end) | (mask if length == longest else 0)
                    longest = length
        return mask

    def of_line(self, file: str, line: int, text: str) -> int:
        """The releases that print this text from this line of this file."""
        best, at = "", len(text)
        for key, says in self._messages_of(file):
            found = text.find(says)
            # a message may quote another one
            if 0 <= found < at:
                best, at = key, found
        return sum(1 << number for number in self._lines.get(best, {}).get(str(line), ()))

    def _find_messages(self, file: str) -> list[tuple[str, str]]:
        """The messages of a file: their keys in the table, and their words."""
        keys = (key for key in self._lines if file.endswith(key.partition(" ")[0]))
        return [(key, key.partition(" ")[2]) for key in keys]

    def _of_frame(self, file: str, line: int, function: str) -> int:
        """The releases whose function of this name has this line."""
        inside = file.replace("\\", "/").rpartition("torch/")[2]
        mask = 0
        for number, first, last in self._functions.get(f"{inside} {function}", ()):
            if first - _SHIFT <= line <= last + _SHIFT:
                mask |= 1 << number
        return mask | (1 << len(self.releases) if mask >> (len(self.releases) - 1) else 0)


@functools.cache
def _table(product: str) -> _Table:
    return _Table(product)


def infer_releases(
    product: str, processes: Sequence[Process], stacks: Stacks, recordings: Mapping[int, Sequence[Recording]]
) -> list[tuple[Process, Inferred]]:
    """What each process can be of, in their order; processes that tell nothing are left out.

    Args:
        product: one of `PRODUCTS`.
        processes: as told apart, with their events.
        stacks: placed stack dumps.
        recordings: ``id`` of a process -> its flight recorder's dumps.
    """
    if product == "nccl" and any(process.by_kind.has("rccl_version") for process in processes):
        return []
    frames = _frames_by_process(stacks) if product == "torch" else {}
    found = []
    for process in processes:
        clues = list(_nccl_clues(process.by_kind) if product == "nccl" else _torch_clues(process.by_kind))
        if product == "torch":
            clues += _frame_clues(frames.get(id(process), ()))
            clues += _recorder_clues(recordings.get(id(process), ()))
        if clues and (inferred := _unite(product, clues)) is not None:
            found.append((process, inferred))
    return found


def common_releases(product: str, found: Iterable[tuple[Process, Inferred]]) -> Inferred | None:
    """What fits all processes; None when nothing does, or nothing is known."""
    clues = []
    for _, inferred in found:
        at = inferred.evidence[0].at
        clues.append(_Clue(inferred.mask, inferred.by, at.file, at.line, at.offset, "", inferred.evidence))
    return _unite(product, clues) if clues else None


def group_by_release(found: Iterable[tuple[Process, Inferred]]) -> list[list[tuple[Process, Inferred]]]:
    """Processes put together as long as a release fits all of a set, as `infer_releases` gives them for one product."""
    groups: list[list[tuple[Process, Inferred]]] = []
    common: list[int] = []
    # exact ones first: a wide range fits several sets, and belongs to the first of them
    for member in sorted(found, key=lambda one: (len(one[1].releases), one[0].rank or 0)):
        mask = member[1].mask
        home = next((number for number, shared in enumerate(common) if shared & mask), None)
        if home is None:
            groups.append([member])
            common.append(mask)
        else:
            groups[home].append(member)
            common[home] &= mask
    return groups


def _unite(product: str, clues: Iterable[_Clue]) -> Inferred | None:
    table = _table(product)
    mask = table.everything
    cited: list[_Clue] = []
    for clue in sorted(clues, key=lambda clue: (clue.mask.bit_count(), clue.file, clue.number or 0)):
        if clue.mask & mask != mask:
            cited.append(clue)
            mask &= clue.mask
    known = [release for number, release in enumerate(table.releases) if mask >> number & 1]
    newer = bool(mask >> len(table.releases))
    if not known or (newer and mask & 1):
        return None
    by = " and ".join(dict.fromkeys(clue.by for clue in cited))
    shown = [item for clue in cited for item in clue.evidence]
    return Inferred(tuple(known), bool(mask & 1), newer, by, tuple(shown[:_MOST_CITED]), mask)


def _nccl_clues(events: ByKind) -> Iterator[_Clue]:
    table = _table("nccl")
    stamped: Event | None = None
    bare = False
    for event in _first_of_each(events, "nccl"):
        line = event.line
        if mask := table.of_text(line.text.rstrip(), headed=True):
            yield _clue(mask, _WORDING, line)
        if _WITH_FUNCTION.search(line.raw):
            yield _clue(table.between("2.30.7"), _HEADER, line)
        if line.origin.startswith("transport/net_ib/"):
            yield _clue(table.between("2.29.2"), _HEADER, line)
        if line.level in ("WARN", "ATTN"):
            stamped = event if _STAMPED.match(line.raw) else stamped
        elif line.level == "INFO":
            bare = bare or not _STAMPED.match(line.raw)
    if stamped is not None and bare:
        # a log driver would have stamped all lines, NCCL stamps its warnings (2.26)
        yield _clue(table.between("2.26.2"), _HEADER, stamped.line)


def _torch_clues(events: ByKind) -> Iterator[_Clue]:
    table = _table("torch")
    for event in _first_of_each(events):
        line = event.line
        if event.kind == "exception":
            yield from _traceback_clues(event)
            continue
        if line.header == "glog" or line.damaged:
            # glog's headers are those of vendors' builds, whose lines and wording are no release's
            continue
        if (origin := _ORIGIN.fullmatch(line.origin)) is not None:
            if mask := table.of_line(origin["file"], int(origin["line"]), line.text):
                yield _clue(mask, _LINES, line)
            if line.header == "c10":
                dated = re.search(r"\[[DIWEFCV]\d", line.raw) is not None
                form = table.between("2.4") if dated else table.between("", "2.3")
                yield _clue(form, _HEADER, line)
        if mask := table.of_text(line.text, headed=line.header == "c10"):
            yield _clue(mask, _WORDING, line)
        if (group := _GROUP.search(line.text)) is not None:
            if group["guid"]:
                mask = table.between("2.5")
            else:
                mask = table.between("2.4", "2.4") if group["named"] else table.between("2.3", "2.4")
            yield _clue(mask, _WORDING, line)


def _traceback_clues(event: Event) -> Iterator[_Clue]:
    frames = event.fields.get("frames")
    if not isinstance(frames, tuple) or event.line.damaged:
        return
    for shown in frames:
        if "torch" in str(shown) and (frame := _FRAME.fullmatch(str(shown))) is not None:
            mask = _table("torch").of_frame(frame["file"], int(frame["line"]), frame["function"])
            if mask:
                yield _clue(mask, _LINES, event.line, str(shown))


def _frames_by_process(stacks: Stacks) -> dict[int, list[tuple[Location, str, int, str]]]:
    found: dict[int, list[tuple[Location, str, int, str]]] = defaultdict(list)
    for position in stacks.positions:
        own = found[id(position.process)]
        for thread in position.dump.threads:
            for frame in thread.frames:
                if frame.line and frame.file and "torch/" in frame.file and len(own) < _MOST_FRAMES:
                    at = Location(thread.line.file, frame.at)
                    own.append((at, frame.file, frame.line, frame.function.rpartition(".")[2]))
    return found


def _frame_clues(frames: Iterable[tuple[Location, str, int, str]]) -> Iterator[_Clue]:
    for at, file, line, function in frames:
        if mask := _table("torch").of_frame(file, line, function):
            yield _Clue(mask, _LINES, at.file, at.line, at.offset, f"{function} ({file}:{line})")


def _recorder_clues(recordings: Iterable[Recording]) -> Iterator[_Clue]:
    for recording in recordings:
        if (known := _RECORDER_FORMATS.get(recording.version)) is not None:
            version = ".".join(map(str, recording.version))
            yield _Clue(_table("torch").between(*known), _FORMAT, recording.file, None, 0, f"version {version}")


def _first_of_each(events: ByKind, header: str = "") -> list[Event]:
    """The first events of each kind, and all exceptions, in their order.

    With a header, those of whole lines that have it; without, those that are PyTorch's.
    """
    found: list[int] = []
    for kind in events.kinds:
        places = events.places(kind)
        if header:
            whole = (at for at in places if (line := events.at(at).line).header == header and not line.damaged)
            found += whole if kind == "exception" else itertools.islice(whole, _SAME_KIND)
        else:
            first = places if kind == "exception" else places[:_SAME_KIND]
            found += (at for at in first if kind == "exception" or events.at(at).source.startswith(_OF_TORCH))
    return [events.at(place) for place in sorted(found)]


def _outline(text: str) -> str:
    """A text without its numbers; a hexadecimal one is no other number, and stays told from it."""
    if "0x" in text:
        text = _HEX_DIGITS.sub("\x01", text.replace("0x", "\x01"))
    return _DIGITS.sub("\0", text)


def _span(begin: int, end: int) -> int:
    return (1 << end) - (1 << begin)


def _has(text: str, pieces: Sequence[str], *, whole: bool) -> bool:
    """Whether a text spells the pieces out in their order; between them stand a number (``#``) or anything (``*``).

    Args:
        text: what was printed.
        pieces: pieces and holes by turns; the first and the last are pieces, maybe empty ones.
        whole: nothing else may stand around them.
    """
    at = 0
    for number in range(0, len(pieces), 2):
        piece = pieces[number]
        is_last = number == len(pieces) - 1
        found = len(text) - len(piece) if whole and is_last else text.find(piece, at)
        if found < at or not text.startswith(piece, found):
            return False
        if number == 0:
            if whole and found > 0:
                return False
        elif pieces[number - 1] == "#" and (found == at or " " in text[at:found]):
            return False
        at = found + len(piece)
    return True
