"""Assembles Python exceptions out of the traceback lines of one writer.

The shapes of the lines are those of CPython's traceback module (3.8 to 3.14; grammars/python.lark lists them).
A traceback comes with whatever stood in front of it: launcher prefixes that the sources layer does not know,
the bars of an exception group, lost indentation, line breaks of an 80-column terminal, or several ranks that
wrote into one file without prefixes. The assembler takes what it can and marks what it doubts as damaged.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.records import dataclass

MAX_FRAMES = 200
MAX_MESSAGE_LINES = 12
MAX_MESSAGE_CHARS = 4000
COLUMNS = 80
MAX_STRAY_LINES = 40
"""So many lines that are no part of a traceback may stand inside one before it is given up as cut off."""

HEADER = "Traceback (most recent call last)"
FRAME = expression(
    r'File\s+"(?P<file>[^"]+)", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}?))?(?=\s*$|\s+File ")'
)
FRAME_START = expression(r'^\s*File(?:\s+"[^"]*)?"?,?(?: line)?\s*$')
CARETS = expression(r"^(?:[\s|+]*+[\^~]++)++\s*+$")
# What the interpreter prints in front of a traceback that ends nothing: a failing __del__ or callback, logging itself.
IGNORED = expression(r"^(?:Exception ignored (?:in|while|on)\b|--- Logging error ---)")
GROUP_MARK = expression(r"^ *(?:\| ?|\+ (?=\S)|\+(?=-))(?P<rest>.*)$")
GROUP_RULER = expression(r"^[-+]*-{4,}(?P<number> (?:\d+|\.\.\.) -+)?$")
RANK_TAG = expression(r"^\[rank\d+\]: ?")
PYTHON_TAG = expression(r"^\s*(?:Original|Exception Group)\s*$")
CHAINS = {
    "During handling of the above exception, another exception occurred": "context",
    "The above exception was the direct cause of the following exception": "cause",
}

_STRONG_SUFFIX = (
    r"(?:Error|Exception|Interrupt|Exit|Warning|StopIteration|StopAsyncIteration|Timeout|TimeoutExpired|Failure|"
    r"Cancelled|Aborted|ExceptionGroup|NotFound|Empty|Full|Died|Crashed|Preempted|Unavailable|Refused)"
)
STRONG = expression(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?" + _STRONG_SUFFIX + r"(?:\(\w+\))?)(?::(?: (?P<message>.*))?)?$"
)
DOTTED = expression(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)+(?:[A-Z]\w*|error|timeout|gaierror|herror)(?:\(\w+\))?)(?::(?: (?P<message>.*))?)?$"
)
NAMED = expression(r"^(?P<type>[A-Z]\w*)(?::(?: (?P<message>.*))?)?$")
# What may follow the first line of a message, unindented, whoever prints it: the trailer of a CUDA error (2.0 on),
# NCCL's own explanation, and the place where a C++ exception was raised.
MESSAGE_TRAILER = expression(
    r"^(?:CUDA kernel errors might be|For debugging consider|Compile with `?TORCH_USE|Device-side assertion|"
    r"Search for `|nccl\w+(?:Error|Argument|Usage|Progress)\b|Last error:|Exception raised from|This may indicate|"
    r"Please (?:check|try|make|see)|Bucket |Parameter |In addition, |If you already )"
)
# init_process_group("gloo", ...), init_process_group(init_method=url, backend="cpu:gloo,cuda:nccl")
ASKED_BACKEND = expression(
    r"""\binit_process_group\((?:[^()]*\bbackend\s*=\s*)?["'](?P<backend>[A-Za-z][\w:,]{1,60})["']\s*(?:[,)]|$)"""
)
_NOT_EXCEPTIONS = expression(r"^\s*(?:\w*Warning\b|nccl\w+Error\b|cuda\w+Error\b|OSError$|Last error)")
_LIBRARY = expression(
    r"(?:site|dist)-packages[/\\]|^<(?:frozen|string|stdin|eval)|[/\\]lib[/\\]python3[.\d]*[/\\]|"
    r"[/\\]python3?[.\d]*[/\\]lib[/\\]|(?:^|[/\\])torch[/\\](?:distributed|nn|utils|_|autograd|cuda|multiprocessing)|"
    r"[/\\]s?bin[/\\][^/\\.]+$"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One level of a traceback, as printed."""

    file: str
    line: int
    function: str
    code: str = ""

    @property
    def is_user_code(self) -> bool:
        """Whether the file belongs to the job itself, not to a library, the standard library or a launcher script."""
        return not _LIBRARY.search(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}".rstrip()


@dataclass(frozen=True, slots=True)
class ExceptionRecord:
    """One exception that a process printed.

    Attributes:
        type: qualified name as printed ("torch.OutOfMemoryError").
        message: first line and what continues it, bounded.
        frames: outermost first, as printed; empty when only the last line is there.
        user_frame: innermost frame of the job's own code, or None.
        chain: place in a chain of exceptions, 0 for the one that was raised first (or stands alone).
        relation: how it follows from the exception printed before it: "context" (raised while handling it), "cause"
            (raise ... from), "original" (the exception inside a worker that the one before quotes), "group" (member of
            an exception group), "ignored" (the interpreter says that it ignores it), "" if it stands alone.
        superseded: an exception printed after this one took its place (or quotes it).
        damaged: cut off, or lines of several writers are mixed in it.
        line: the line "Type: message".
        first_line: the first line of the traceback.
    """

    type: str
    message: str
    frames: tuple[Frame, ...]
    user_frame: Frame | None
    chain: int
    relation: str
    superseded: bool
    damaged: bool
    line: Line
    first_line: Line

    @property
    def in_function(self) -> str:
        """The function of the innermost frame, "" when there is no frame."""
        return self.frames[-1].function if self.frames else ""

    @property
    def asked_backend(self) -> str:
        """The backend that a call of init_process_group in the traceback names as a literal, "" when none does."""
        found = (ASKED_BACKEND.search(frame.code) for frame in self.frames if frame.code)
        return next((match["backend"].lower() for match in found if match), "")


def is_exception_line(text: str) -> re.Match[str] | None:
    """The match of a line "package.TypeError: message" that is an exception beyond doubt, else None."""
    if text[:1] == "[":
        text = RANK_TAG.sub("", text)
    found = STRONG.match(text)
    return found if found and not _NOT_EXCEPTIONS.match(text) else None


class TracebackAssembler:
    """Takes the lines of one writer in order, gives the exceptions among them.

    An exception is given out when the line after it shows that it is complete, so call `flush` at the end.
    """

    def __init__(self) -> None:
        self._finished: ExceptionRecord | None = None
        self._message: list[str] = []
        self._chain = 0
        self._relation = ""
        self._open = 0  # headers whose exception line has not come yet
        self._frames: list[Frame] = []
        self._first: Line | None = None
        self._damaged = False
        self._wrapped = ""  # the beginning of a frame line that a terminal broke
        self._stray = 0
        self._prefix = 0  # width of what stands in front of every line of this traceback
        self._prefix_shape = ""
        self._indent = 0
        self._tagged = False
        self._gap = False

    def feed(self, line: Line) -> ExceptionRecord | None:
        """Takes one line; gives the exception that this line shows to be complete, if any."""
        text = line.text
        if not self._open and self._finished is None and not _may_begin(text):
            if self._relation and text.strip():
                self._relation, self._chain = "", 0
            return None
        if not self._open and self._finished is None and IGNORED.match(text):
            self._relation, self._chain = "ignored", 0
            return None
        text = self._strip(text)
        if self._finished is not None:
            return self._feed_after(line, text)
        self._feed_traceback(line, text)
        return None

    def flush(self) -> ExceptionRecord | None:
        """Ends the input; gives the exception that was still waiting for its end, if any."""
        return self._give_out(superseded=False)

    # -- inside a traceback ------------------------------------------------------------------------

    def _feed_traceback(self, line: Line, text: str) -> None:
        header = text.find(HEADER)
        if header >= 0:
            self._begin(line, text, header)
            return
        if '"' in text and "line " in text and self._take_frames(line, text):
            return
        if self._wrapped:
            self._continue_wrapped(line, text)
            return
        if not self._open:
            self._take_bare(line, text)
            return
        if self._take_exception(line, text):
            return
        if not text.strip() or text.strip() == '"""':
            return
        if FRAME_START.match(text):
            self._wrapped = text.rstrip()
            return
        if self._frames and (text[:4] == "    " or not self._frames[-1].code):
            if not CARETS.match(text) and not self._frames[-1].code:
                self._frames[-1] = replace(self._frames[-1], code=text.strip()[:300])
            return
        if text.lstrip().startswith("[Previous line repeated"):
            return
        self._stray += 1
        if self._stray > MAX_STRAY_LINES:
            self._reset()

    def _begin(self, line: Line, text: str, column: int) -> None:
        if self._open:
            # Two headers without an exception between them: ranks without prefixes write into one stream, or the
            # first traceback was cut off. The frames cannot be told apart.
            self._open += 1
            self._damaged = True
        else:
            self._reset()
            self._open = 1
            self._first = line
        before = text[:column]
        self._indent = len(before) - len(before.lstrip())
        if before.strip() and not PYTHON_TAG.match(before):
            self._prefix, self._prefix_shape = column, _shape(before)

    def _take_frames(self, line: Line, text: str) -> bool:
        found = list(FRAME.finditer(text))
        if not found:
            return False
        if not self._open:
            before = text[: found[0].start()]
            if before.strip() and not before.endswith(" "):
                return False
            self._reset()
            self._open, self._first, self._damaged = 1, line, True
            if before.strip():
                self._prefix = max(0, len(before) - 2)
                self._prefix_shape = _shape(before[: self._prefix])
            else:
                self._indent = max(0, len(before) - 2)
        if len(found) > 1:
            self._damaged = True
        self._wrapped = ""
        for match in found:
            self._add(Frame(match["file"], int(match["line"]), (match["function"] or "").strip()))
        return True

    def _continue_wrapped(self, line: Line, text: str) -> None:
        """Joins a frame line that a terminal broke: `File "/long/path",` + `line 83, in wrapper`."""
        joined = (
            f"{self._wrapped} {text.strip()}" if self._wrapped.endswith(("File", ",")) else self._wrapped + text.strip()
        )
        self._wrapped = ""
        if self._take_frames(line, joined):
            self._damaged = True
        elif len(joined) < 400 and FRAME_START.match(joined):
            self._wrapped = joined

    def _add(self, frame: Frame) -> None:
        self._frames.append(frame)
        if len(self._frames) > MAX_FRAMES:
            del self._frames[MAX_FRAMES // 2]

    def _take_exception(self, line: Line, text: str) -> bool:
        text = text[self._indent :] if not text[: self._indent].strip() else text
        match = STRONG.match(text)
        if match is None and self._frames:
            match = DOTTED.match(text)
            if match is None and (named := NAMED.match(text)) and self._names(named["type"]):
                match = named
        if match is None:
            return False
        self._finish(line, match)
        return True

    def _names(self, type_name: str) -> bool:
        """Whether the code of the last frame raises this very type: then any capitalized name is believed."""
        return bool(self._frames) and type_name in self._frames[-1].code

    def _take_bare(self, line: Line, text: str) -> None:
        """The last line of a traceback whose rest is missing."""
        if line.header == "nccl" or _NOT_EXCEPTIONS.match(text):
            return
        match = STRONG.match(text.lstrip())
        indented = text[:1] in (" ", "\t")
        if match and match["type"] != "Error" and (match["message"] is not None or not indented):
            self._reset()
            self._first, self._damaged = line, True
            self._finish(line, match)

    def _finish(self, line: Line, match: re.Match[str]) -> None:
        frames = tuple(self._frames)
        users = [frame for frame in frames if frame.is_user_code]
        message = (match["message"] or "").rstrip()
        self._message = [message]
        self._finished = ExceptionRecord(
            type=match["type"],
            message=message,
            frames=frames,
            user_frame=users[-1] if users else None,
            chain=self._chain,
            relation=self._relation,
            superseded=False,
            damaged=self._damaged or line.damaged,
            line=line,
            first_line=self._first or line,
        )
        self._tagged = _is_tagged(line)
        if self._open > 1:
            self._open -= 1
        else:
            self._open = 0

    # -- after the exception's own line ------------------------------------------------------------

    def _feed_after(self, line: Line, text: str) -> ExceptionRecord | None:
        stripped = text.strip()
        ruler = GROUP_RULER.match(stripped)
        if ruler and ruler["number"] and self._finished is not None:
            return self._give_out(superseded="Group" in self._finished.type, relation="group")
        if not stripped or stripped == '"""' or ruler:
            self._gap = True
            return None
        relation = CHAINS.get(stripped.rstrip(":"))
        if relation is not None:
            return self._give_out(superseded=True, relation=relation)
        quoted = "Original Traceback" in text or stripped.startswith("-- Process ")
        if quoted:
            record = self._give_out(superseded=True, relation="original")
            if HEADER in text:
                self._feed_traceback(line, text)
            return record
        if not self._gap and self._continues(line, text):
            if len(self._message) < MAX_MESSAGE_LINES:
                self._message.append(stripped)
            return None
        record = self._give_out(superseded=False)
        if not self._open and IGNORED.match(text):
            self._relation = "ignored"
        elif self._open or _may_begin(text):
            self._feed_traceback(line, text)
        return record

    def _continues(self, line: Line, text: str) -> bool:
        """Whether a line continues the message: by its own form, or since the message so far is plainly unfinished."""
        if line.header or HEADER in text or FRAME.search(text) or set(text.strip()) <= set("=-*"):
            return False
        tagged = _is_tagged(line)
        if tagged != self._tagged:
            return False
        if MESSAGE_TRAILER.match(text.lstrip()):
            return True
        before = self._message[-1]
        if before.endswith(":") or (not before and len(self._message) == 1):
            return not STRONG.match(text)
        if tagged:
            return True
        if before and (text[:2] == "  " or text[:1] == "\t"):
            return True
        return self._broken_by_terminal(text)

    def _broken_by_terminal(self, text: str) -> bool:
        """Whether an 80-column terminal broke the message: the next word would not have fitted."""
        if not text[:1].islower():
            return False
        width = len(self._message[-1])
        if len(self._message) == 1 and self._finished is not None:
            width += len(self._finished.type) + len(": ")
        return width <= COLUMNS < width + 1 + len(text.split(maxsplit=1)[0])

    def _give_out(self, *, superseded: bool, relation: str = "") -> ExceptionRecord | None:
        record = self._finished
        if record is not None:
            message = "\n".join(self._message).strip()[:MAX_MESSAGE_CHARS]
            record = replace(record, message=message, superseded=superseded)
        self._chain = record.chain + 1 if record is not None and relation else 0
        self._relation = relation
        self._finished = None
        self._message = []
        if self._open:
            # Interleaved tracebacks: another exception line is still to come for the same heap of frames.
            self._gap = False
        else:
            self._reset()
        return record

    def _reset(self) -> None:
        self._open = 0
        self._frames = []
        self._first = None
        self._damaged = False
        self._wrapped = ""
        self._stray = 0
        self._prefix = 0
        self._prefix_shape = ""
        self._indent = 0
        self._tagged = False
        self._gap = False

    def _strip(self, text: str) -> str:
        """Takes off group bars, rank tags, and an unknown prefix of the same shape as the header line's."""
        if self._prefix and len(text) >= self._prefix and _shape(text[: self._prefix]) == self._prefix_shape:
            text = text[self._prefix :]
        if (mark := GROUP_MARK.match(text)) is not None:
            text = mark["rest"]
        if text[:5] == "[rank":
            text = RANK_TAG.sub("", text)
        return text


def _may_begin(text: str) -> bool:
    """A cheap look whether a line can begin an exception: nearly all lines of a log end here."""
    return (
        "Traceback (most" in text
        or 'File "' in text
        or "Error" in text
        or "Exception" in text
        or "Interrupt" in text
        or "SystemExit" in text
        or "Logging error" in text
    )


def _is_tagged(line: Line) -> bool:
    """Whether torch's hook for uncaught exceptions (2.2 on) put the rank in front of this line."""
    return line.rank_source == "rank-prefix" or "[rank" in line.text[:24]


def _shape(prefix: str) -> str:
    return re.sub(r"\d+", "0", prefix)
