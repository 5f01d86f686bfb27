"""Loads `grammars/frames.toml` and tells by its patterns what a thread does, frame by frame from the inside.

The innermost frames decide. A pattern that is `outer` may stand outside of the job's own code too (a sample that is
read below the loader's ``fetch``); the others are looked for only as far as the first frame of that code. A `weak`
pattern (a lock, a queue) gives way to what called it, as long as that is no code of the job.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from hangscope.errors import GrammarError
from hangscope.grammar.globs import Globs, read_globs
from hangscope.grammar.own_code import OwnCode
from hangscope.model import Frame, ThreadStack
from hangscope.records import dataclass
from hangscope.resources import grammars_dir

STATES = frozenset(
    (
        *("in-collective", "in-object-collective", "in-barrier", "in-p2p", "group-setup", "store-wait", "rendezvous"),
        *("launcher", "backward", "gpu-sync", "optimizer", "loading-data", "waiting-for-loader", "loader-idle"),
        *("saving-checkpoint", "loading-checkpoint", "lock-wait", "thread-join", "exit-wait", "queue-wait"),
        *("child-wait", "build-lock", "compiling", "teardown", "server-idle", "importing", "running", "native"),
        *("noise", "unknown"),
    )
)
"""What a thread can be doing; rules and the report know these words."""

COMMUNICATING = frozenset({"in-collective", "in-object-collective", "in-barrier", "in-p2p"})
"""States that have an operation."""

_TEXTS = ("id", "state", "about", "operation")
_LISTS = ("functions", "files", "threads", "sources", "despite", "match", "no_match")
_FLAGS = ("weak", "outer", "native", "user")
_NUMBERS = ("depth",)
_TOP = frozenset({"pattern", "libraries", "library_folders", "operations"})


@dataclass(frozen=True, slots=True)
class FrameMatcher:
    """Which frames are meant: by the last component of the function, and the end of the file's path.

    Attributes:
        functions: globs for the function; None for all.
        files: ends of paths; those that end with "/" are folders, those that hold none of both stand for all.
    """

    functions: Globs | None
    files: tuple[str, ...]

    def fits(self, frame: Frame) -> bool:
        if self.functions is not None:
            name = frame.function if frame.native else last_component(frame.function)
            if not self.functions.fit(name):
                return False
        return not self.files or any(_ends_with(frame.file or "", file) for file in self.files)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of the table.

    Attributes:
        id: its name.
        state: what a thread does whose frames fit.
        about: one line about it.
        frame: the frame that tells.
        then: a frame further out that has to be there as well, or None.
        depth: the frame has at most so many frames further in; None for any number.
        weak: gives way to what stands further out.
        despite: states which the name of a function of the job's own alone does not give to who stands here: its
            ``save`` may wait for a lock.
        outer: may stand outside of the job's own code.
        native: is about frames of C and C++ code.
        user: is about frames of the job's own code.
        threads: globs for the thread's name, None for all; without functions and files it decides by itself.
        sources: expression for the frame's line of code; None for all.
        operation: "function" or "then" (the frame that names it), a name, or "" for none.
        match, no_match: stacks that this pattern decides, and that it does not.
    """

    id: str
    state: str
    about: str
    frame: FrameMatcher
    then: FrameMatcher | None
    depth: int | None
    weak: bool
    despite: frozenset[str]
    outer: bool
    native: bool
    user: bool
    threads: Globs | None
    sources: re.Pattern[str] | None
    operation: str
    match: tuple[str, ...]
    no_match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one thread does.

    Attributes:
        state: one of `STATES`.
        pattern: id of the pattern that says so, "" when none does.
        frame: the frame that tells so, or None.
        operation: the collective or transfer, "" when there is none or it is not known.
        weak: said by a weak pattern.
        despite: the states that the name of an own function does not give it; see `Pattern`.
        named: said by nothing but the name of a function of the job's own.
    """

    state: str
    pattern: str = ""
    frame: Frame | None = None
    operation: str = ""
    weak: bool = False
    despite: frozenset[str] = frozenset()
    named: bool = False


class FrameTable:
    """The patterns, ready to read threads with."""

    def __init__(self, patterns: Sequence[Pattern], own: OwnCode, operations: Mapping[str, str]) -> None:
        self.patterns = tuple(patterns)
        self.own = own
        self._operations = operations
        framed = [p for p in patterns if p.frame.functions is not None or p.frame.files or p.sources is not None]
        self._python = tuple(p for p in framed if not p.native)
        self._native = tuple(p for p in framed if p.native)
        self._named = tuple(p for p in patterns if p.threads is not None)
        self._candidates: dict[tuple[str, str | None, bool, bool], tuple[Pattern, ...]] = {}

    def read(self, thread: ThreadStack) -> Reading:
        """What the thread does: by its Python frames, by native ones where these say nothing, by its name."""
        script = self.own.script(thread.frames)
        python = self._walk(thread, native=False, script=script)
        if python is not None and python.named:
            native = self._walk(thread, native=True, script=script)
            if native is not None and python.state in native.despite and _is_inside(native, python, thread):
                python = native
        elif python is None or python.state in ("running", "backward"):
            native = self._walk(thread, native=True, script=script)
            # below the backward pass the engine's own locks say nothing
            if native is not None and (python is None or python.state == "running" or not native.weak):
                python = native
        if python is None or python.state == "running" or python.weak:
            named = self._by_name(thread)
            if named is not None:
                return named
        return python or self._without_pattern(thread)

    def _by_name(self, thread: ThreadStack) -> Reading | None:
        for pattern in self._named:
            if pattern.threads is not None and pattern.threads.fit(thread.name) and pattern.frame.functions is None:
                return Reading(pattern.state, pattern.id, thread.frames[0] if thread.frames else None)
        return None

    def _without_pattern(self, thread: ThreadStack) -> Reading:
        frames = thread.frames
        if not frames:
            return Reading("unknown")
        return Reading("native", frame=frames[0]) if all(frame.native for frame in frames) else Reading("unknown")

    def _walk(self, thread: ThreadStack, *, native: bool, script: str | None) -> Reading | None:
        """From the inside outward to the first frame that decides; None when there is no frame of this kind at all."""
        frames = tuple(frame for frame in thread.frames if frame.native == native)
        if not frames:
            return None
        walk = _Walk(thread, frames)
        own = False
        user: Frame | None = None
        weak: Reading | None = None
        for index, frame in enumerate(frames):
            mine = not native and self.own.is_own(frame, script)
            if mine and user is None:
                user = frame
            for pattern in self._of(frame, native=native, mine=mine):
                if (own and not pattern.outer) or not walk.fits(pattern, index):
                    continue
                operation = self._operation(pattern, frames, index)
                named = pattern.user and pattern.sources is None
                reading = Reading(
                    pattern.state, pattern.id, frame, operation, pattern.weak, pattern.despite, named=named
                )
                if named and weak is not None and pattern.state in weak.despite:
                    return weak
                if not pattern.weak:
                    return reading
                if not own:
                    weak = reading
                break
            # what runs at the top of a module that is being imported is part of the import
            own = own or (mine and frame.function != "<module>")
        if weak is not None:
            return weak
        if user is not None:
            return Reading("running", frame=user)
        return None if native else Reading("running", frame=frames[0])

    def _of(self, frame: Frame, *, native: bool, mine: bool) -> tuple[Pattern, ...]:
        """The patterns whose frame this may be; worked out once for each function and file."""
        key = (frame.function, frame.file, native, mine)
        found = self._candidates.get(key)
        if found is None:
            patterns = self._native if native else self._python
            found = tuple(p for p in patterns if (mine or not p.user) and p.frame.fits(frame))
            if len(self._candidates) > 100_000:
                self._candidates.clear()
            self._candidates[key] = found
        return found

    def _operation(self, pattern: Pattern, frames: Sequence[Frame], index: int) -> str:
        if pattern.operation == "function":
            name = frames[index].function
        elif pattern.operation == "then" and pattern.then is not None:
            name = next(frame.function for frame in frames[index + 1 :] if pattern.then.fits(frame))
        else:
            return pattern.operation
        bare = last_component(name)
        return self._operations.get(bare, bare.strip("_"))


class _Walk:
    """The frames of one thread, with what is asked about them more than once."""

    def __init__(self, thread: ThreadStack, frames: tuple[Frame, ...]) -> None:
        self.frames = frames
        self._name = thread.name
        self._furthest: dict[FrameMatcher, int] = {}

    def fits(self, pattern: Pattern, index: int) -> bool:
        """Whether a pattern whose frame this is fits here."""
        if pattern.depth is not None and index > pattern.depth:
            return False
        if pattern.threads is not None and not pattern.threads.fit(self._name):
            return False
        if pattern.sources is not None and (index or not pattern.sources.search(self.frames[index].source)):
            return False
        return pattern.then is None or self._furthest_fit(pattern.then) > index

    def _furthest_fit(self, matcher: FrameMatcher) -> int:
        found = self._furthest.get(matcher)
        if found is None:
            last = len(self.frames) - 1
            found = next((at for at in range(last, -1, -1) if matcher.fits(self.frames[at])), -1)
            self._furthest[matcher] = found
        return found


def _is_inside(one: Reading, other: Reading, thread: ThreadStack) -> bool:
    """Whether the frame of the one reading stands further in than that of the other."""
    places = [next((at for at, f in enumerate(thread.frames) if f is r.frame), -1) for r in (one, other)]
    return 0 <= places[0] < places[1]


def last_component(function: str) -> str:
    """``wrapper`` of ``_exception_logger.<locals>.wrapper``: Python prints qualified names since 3.11 only."""
    return function.rpartition(".")[2] or function


def _ends_with(path: str, end: str) -> bool:
    path = "/" + path.replace("\\", "/")
    return f"/{end}" in path if end.endswith("/") else path.endswith(f"/{end}")


# --- loading ------------------------------------------------------------------------------------------------


@functools.cache
def load_frames() -> FrameTable:
    """The table that ships with hangscope; checked and compiled once a process.

    Raises:
        GrammarError: naming the entry that is wrong.
    """
    return load_frame_table(grammars_dir() / "frames.toml")


def load_frame_table(path: Path) -> FrameTable:
    """A table of frame patterns.

    Raises:
        GrammarError: naming the file and the entry that is wrong.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GrammarError(f"{path.name}: cannot be read: {error}") from error
    unknown = sorted(data.keys() - _TOP)
    if unknown:
        raise GrammarError(f"{path.name}: unknown key {unknown[0]}; known are {', '.join(sorted(_TOP))}")
    entries = data.get("pattern", [])
    if not isinstance(entries, list) or not entries:
        raise GrammarError(f"{path.name}: holds no [[pattern]]")
    patterns: list[Pattern] = []
    for number, entry in enumerate(entries, 1):
        patterns.append(_pattern(f"{path.name}: pattern {number}", entry))
    ids = [pattern.id for pattern in patterns]
    for pattern in patterns:
        if ids.count(pattern.id) > 1:
            raise GrammarError(f"{path.name}: two patterns have the id {pattern.id}")
    operations = data.get("operations", {})
    if not isinstance(operations, dict) or not all(isinstance(name, str) for name in operations.values()):
        raise GrammarError(f"{path.name}: [operations] has to give a text for each function")
    libraries = _texts(path.name, data, "libraries")
    folders = _texts(path.name, data, "library_folders")
    return FrameTable(patterns, OwnCode(libraries, folders), operations)


def _pattern(where: str, entry: object) -> Pattern:
    if not isinstance(entry, dict):
        raise GrammarError(f"{where}: is no table")
    where = f"{where} ({entry.get('id', 'no id')})"
    _check_entry(where, entry)
    threads = _texts(where, entry, "threads")
    frame = _matcher(where, entry)
    if frame.functions is None and not frame.files and not threads and not entry.get("sources"):
        raise GrammarError(f"{where}: fits every frame; give functions, files, sources or threads")
    then = entry.get("then")
    if then is not None and not isinstance(then, dict):
        raise GrammarError(f"{where}: then has to be a table with functions, files or both")
    return Pattern(
        id=entry["id"],
        state=entry["state"],
        about=entry["about"],
        frame=frame,
        then=None if then is None else _matcher(f"{where}: then", then),
        depth=entry.get("depth"),
        weak=entry.get("weak", False),
        despite=frozenset(_texts(where, entry, "despite")),
        outer=entry.get("outer", False),
        native=entry.get("native", False),
        user=entry.get("user", False),
        threads=_globs(threads),
        sources=_expression(where, _texts(where, entry, "sources")),
        operation=entry.get("operation", "function" if entry["state"] in COMMUNICATING else ""),
        match=_texts(where, entry, "match"),
        no_match=_texts(where, entry, "no_match"),
    )


def _check_entry(where: str, entry: Mapping[str, object]) -> None:
    """Keys and types, as far as they do not depend on each other."""
    known = {*_TEXTS, *_LISTS, *_FLAGS, *_NUMBERS, "then"}
    unknown = sorted(entry.keys() - known)
    if unknown:
        raise GrammarError(f"{where}: unknown key {unknown[0]}; known are {', '.join(sorted(known))}")
    for keys, kind, word in ((_TEXTS, str, "a text"), (_FLAGS, bool, "true or false"), (_NUMBERS, int, "a number")):
        for key in keys:
            if key in entry and not isinstance(entry[key], kind):
                raise GrammarError(f"{where}: {key} has to be {word}")
    for key in ("id", "state", "about"):
        if not entry.get(key):
            raise GrammarError(f"{where}: lacks {key}")
    if entry["state"] not in STATES:
        raise GrammarError(f"{where}: no state {entry['state']!r}; known are {', '.join(sorted(STATES))}")
    if strange := sorted(set(_texts(where, entry, "despite")) - STATES):
        raise GrammarError(f"{where}: no state {strange[0]!r} in despite")
    for key in ("match", "no_match"):
        if not _texts(where, entry, key):
            raise GrammarError(f"{where}: needs one {key} sample at least")


def _matcher(where: str, entry: Mapping[str, object]) -> FrameMatcher:
    return FrameMatcher(_globs(_texts(where, entry, "functions")), _texts(where, entry, "files"))


def _texts(where: str, entry: Mapping[str, object], key: str) -> tuple[str, ...]:
    values = entry.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise GrammarError(f"{where}: {key} has to be a list of texts")
    return tuple(values)


def _globs(globs: Sequence[str]) -> Globs | None:
    return read_globs(globs) if globs else None


def _expression(where: str, expressions: Sequence[str]) -> re.Pattern[str] | None:
    try:
        return re.compile("|".join(f"(?:{one})" for one in expressions)) if expressions else None
    except re.error as error:
        raise GrammarError(f"{where}: sources is a wrong expression: {error}") from error
