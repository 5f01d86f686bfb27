"""Strips what launchers, log collectors and log drivers put in front of a line."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable

from hangscope.expressions import expression
from hangscope.records import dataclass
from hangscope.sources.stamps import REFERENCE_YEAR, moment, month_number
from hangscope.sources.writer import Writer

_MAX_PREFIXES = 12
_MAX_DIGITS = 6
"""No job has a million ranks: a longer number, or a negative one, is an unset variable's or torn from two."""
_CLOCK = r"(?P<clock>[0-2]?\d:[0-5]\d(?::[0-6]\d)?)(?:[.,](?P<frac>\d{1,9}))?"
_DATE = r"(?P<year>20\d\d|19[7-9]\d)[-/](?P<month>\d\d|[A-Z][a-z]{2})[-/](?P<day>\d\d)"
_ZONE = r"(?P<zone> ?Z| ?[+-]\d\d:?\d\d)?"
_ISO = _DATE + r"[T _]" + _CLOCK + _ZONE
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"


@dataclass(slots=True)
class Styles:
    """How this file's prefixes look where one line alone cannot tell; chosen by a look at many lines.

    Attributes:
        task: ``3: `` is ``srun -l``'s task number.
        bracket: ``[3] `` is ``mpiexec -l``'s rank.
        host: ``node01: `` is a host (pdsh, DeepSpeed).
        pipe: ``pod | `` is a container (docker compose, stern).
        task_is_rank: the task or mpirun number is the global rank (false when each task started several ranks).
        year: year of times that print none.
    """

    task: bool = False
    bracket: bool = False
    host: bool = False
    pipe: bool = False
    task_is_rank: bool = True
    year: int = REFERENCE_YEAR


Handler = Callable[[re.Match[str], Writer, Styles], bool]


def _time(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    parts = found.groupdict()
    year = int(parts.get("year") or styles.year)
    when = moment(year, month_number(parts["month"]), int(parts["day"]), parts["clock"], parts.get("frac") or "")
    if when is None:
        return False
    writer.see_time(when)
    return True


def _kernel_time(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    if not _time(found, writer, styles):
        return False
    writer.header = "kernel"
    return True


def _uptime(_found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    writer.header = "kernel"
    return True


def _syslog(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    return _time(found, writer, styles) and _program(found, writer)


def _program(found: re.Match[str], writer: Writer) -> bool:
    writer.host = found["host"]
    writer.header = "kernel" if found["program"].startswith("kernel") else "syslog"
    return True


def _cri(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    writer.damaged = writer.damaged or found["part"] == "P"
    return _time(found, writer, styles)


def _clock_only(_found: re.Match[str], _writer: Writer, _styles: Styles) -> bool:
    return True


def _sglang(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    writer.add_stream(found["tag"])
    return _time(found, writer, styles)


def _mpirun(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    rank = int(found["rank"])
    job = found.groupdict().get("job")
    writer.add_stream(found["rank"] if job is None else f"{job},{rank}")
    writer.task = rank
    if styles.task_is_rank:
        writer.rank, writer.rank_source = rank, "mpirun"
    return True


def _bracket(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    return styles.bracket and _mpirun(found, writer, styles)


def _srun(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    if not styles.task or writer.task is not None:
        return False
    writer.add_stream(found["rank"])
    writer.task = int(found["rank"])
    if styles.task_is_rank:
        writer.rank, writer.rank_source = writer.task, "srun"
    return True


def _rank(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    number = found["number"]
    if len(number) <= _MAX_DIGITS and number.isdecimal():
        writer.rank, writer.rank_source = int(number), "rank-prefix"
    if writer.local_rank is None and writer.task is None:
        writer.add_stream(f"rank{number}")
    return True


def _role(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    role, number = found["role"], found["number"]
    # a number with a leading zero is part of a host's name
    if len(number) > 1 and number.startswith("0"):
        return False
    writer.add_stream(f"{role}{number}")
    writer.local_rank = int(number)
    if writer.rank_source in {"srun", "mpirun"}:
        # the task started several ranks: its number counts nodes
        writer.rank, writer.rank_source = None, ""
    return True


def _ray(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    writer.add_stream(found["tag"])
    writer.pid = int(found["pid"])
    writer.host = found["ip"] or writer.host
    if found["rank"] is not None:
        writer.rank, writer.rank_source = int(found["rank"]), "vllm"
    return True


def _pod(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    writer.add_stream(f"{found['host']}/{found['container']}")
    writer.host = found["host"]
    return True


def _address(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    writer.add_stream(found["host"])
    writer.host = found["host"]
    return True


def _host(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    return styles.host and writer.host is None and looks_like_host(found["host"]) and _address(found, writer, styles)


def _pipe(found: re.Match[str], writer: Writer, styles: Styles) -> bool:
    if not styles.pipe or writer.host is not None:
        return False
    return _address(found, writer, styles)


def _stdio(found: re.Match[str], writer: Writer, _styles: Styles) -> bool:
    writer.add_stream(found["tag"])
    return True


_SYSLOG = expression(
    _MONTH + r" +(?P<day>\d{1,2}) " + _CLOCK + r" (?P<host>[\w.-]+) (?=(?P<program>[\w./@-]+)(?:\[\d+\])?: )"
)
_HOST_PREFIX = expression(r"(?P<host>[A-Za-z0-9][\w.-]{0,62}):(?: |$)")
_TASK_PREFIX = expression(r" {0,6}(?P<rank>\d{1,6}):(?: |$)")
_BRACKET_PREFIX = expression(r"\[(?P<rank>\d{1,6})\] ?")
_PIPE_PREFIX = expression(r"(?P<host>[A-Za-z0-9][\w.-]{0,100}(?: [\w.-]{1,63})?) *\|(?: |$)")

_ISO_RULES: tuple[tuple[re.Pattern[str], Handler], ...] = (
    (expression(_ISO + r" (?:stdout|stderr) (?P<part>[FP])(?: |$)"), _cri),
    # a collector's table: time, bar, text; or a time with a zone that touches the text
    (expression(r" {0,4}\| " + _ISO + r"(?: *\| | )?"), _time),
    (expression(r" ?" + _DATE + r"[T _]" + _CLOCK + r"(?P<zone>Z|[+-]\d\d:?\d\d)(?: *\| |:?[ \t]|(?=\S)|$)"), _time),
    (expression(r" ?" + _ISO + r"(?: *\| |[ \t]|$)"), _time),
)
# journalctl -o short-iso: the time came off, host and program are left
_JOURNAL = expression(r"(?P<host>[\w.-]+) (?=(?P<program>kernel|[\w./@-]+\[\d+\]): )")
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
# mpirun --timestamp-output, alone and with --tag-output
_MPIRUN_TIME = expression(
    _WEEKDAY + _MONTH + r" +(?P<day>\d{1,2}) " + _CLOCK + r" (?P<year>\d{4})(?:<std(?:out|err|diag)>:|(?=\[))"
)
_CTIME = expression(r"\[" + _WEEKDAY + _MONTH + r" +(?P<day>\d{1,2}) " + _CLOCK + r" (?P<year>\d{4})\] ")
# dmesg -x --time-format iso, and Talos
_DMESG_X = expression(
    r"(?:kern|user|daemon|syslog) *: *(?:emerg|alert|crit|err|warn|warning|notice|info|debug) *: \[?" + _ISO + r"\]?:? "
)
# Ray and vLLM name the actor or worker, if at all, before the pid; the actor's name may itself hold parentheses
_RAY = expression(
    r"\((?P<tag>(?:[^()=\s][^()=]{0,80}?(?:\(\d+\))? )?(?:rank=(?P<rank>\d{1,9}),? )?pid=(?P<pid>\d{1,10})"
    r"(?:, ip=(?P<ip>[^)\s]+))?)\)(?: |$)"
)
_MPIRUN = expression(r"\[(?:(?:[\w.-]+@)?(?P<job>\d{1,10}),)?(?P<rank>\d{1,9})\]<(?:stdout|stderr|stddiag)>:")
# Determined's tasks: an allocation's id behind the time, its command line's level before it
_DETERMINED = expression(r"(?P<tag>[0-9a-f]{8}) \|\|(?: |$)")
_ALWAYS: tuple[tuple[str, re.Pattern[str], Handler], ...] = (
    ("[", _MPIRUN, _mpirun),
    # the blank behind [rank3]: belongs to the prefix (torch's excepthook); other roles have none (torchrun --tee)
    ("[", expression(r"\[rank(?P<number>-?\d{1,20})\]: ?"), _rank),
    ("[", expression(r"\[(?P<role>[A-Za-z_][\w.-]{0,60}?)(?<!\d)(?P<number>\d{1,6})\]:"), _role),
    ("[", expression(r"\[(?P<pod>pod/)?(?P<host>[\w.-]+)/(?P<container>[\w.-]+)\] "), _pod),
    ("[", expression(r"\[" + _ISO + r" (?P<tag>(?:[A-Z]{2}\d+ ?)+)\] "), _sglang),
    ("[", expression(r"\[" + _ISO + r"\](?: |:|$)"), _time),
    ("[", _CTIME, _kernel_time),
    ("[", expression(r"\[" + _MONTH + r" +(?P<day>\d{1,2}) (?P<year>\d{4}) " + _CLOCK + r"\] "), _time),
    ("[", expression(r"\[ *\+?\d+\.\d{6}\] "), _uptime),
    ("[", _BRACKET_PREFIX, _bracket),
    ("(", _RAY, _ray),
    ("0", expression(r"(?P<host>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}): "), _address),
    ("0", expression(r"\d\d:\d\d:\d\d[.,]\d{3,6} (?=[\[(])"), _clock_only),
    ("<", expression(r"<(?:info|warning|error|debug|trace)?> +(?=\[)"), _clock_only),
    ("0", _DETERMINED, _stdio),
    ("0", _TASK_PREFIX, _srun),
    ("0", _HOST_PREFIX, _host),
    ("0", _PIPE_PREFIX, _pipe),
    (" ", _TASK_PREFIX, _srun),
    ("a", _SYSLOG, _syslog),
    ("a", _MPIRUN_TIME, _time),
    ("a", _DMESG_X, _kernel_time),
    ("a", expression(r"(?P<tag>[\w.-]+) \[(?:stdout|stderr)\] "), _stdio),
    ("a", _DETERMINED, _stdio),
    ("a", _HOST_PREFIX, _host),
    ("a", _PIPE_PREFIX, _pipe),
)
# words with a digit or dash that stand in front of a colon and are no machines
_NOT_HOST = expression(
    r"python\d|.*\.(?:py|cc|cpp|cu|sh|c|h)$|.*-(?:error|warning|info)$|(?:step|epoch|iter|rank|line|node_rank)[-_]?\d|gpu[-_]?\d{1,2}(?!\d)",
    re.IGNORECASE,
)
_DIGIT_OR_DASH = expression(r"\d|-")
_WITH_TIME = expression(r"[ |]{0,6}[12]\d{3}[-/]")
_BEFORE_TIME = frozenset(" |12")
# what may stand behind a prefix to prove that it is one
_STRONG = expression(
    r"\S+:\d+:\d+ \[-?\d+\] |\[rank\d+\]:|\[[DIWEF]\d{3,4} |\[[DIWEF] \w+\.cpp:\d+\]|[DIWEF]\d{4} \d\d:|\[[a-z]+\d+\]:"
)


_NAMED_GROUP = expression(r"\(\?P<\w+>")
_WHEN_CHOSEN: dict[Handler, str] = {_srun: "task", _bracket: "bracket", _host: "host", _pipe: "pipe"}

Rules = tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Handler], ...]]
"""An expression that matches where any of the others does, and the others with what they mean."""


@functools.cache
def _rules(first: str, task: bool, bracket: bool, host: bool, pipe: bool) -> Rules | None:  # noqa: FBT001
    """What may begin with this character in a file of these styles."""
    chosen = {"task": task, "bracket": bracket, "host": host, "pipe": pipe}
    group = "0" if first.isdigit() else "a" if first.isalpha() else first
    rules = [
        (pattern, handler)
        for key, pattern, handler in _ALWAYS
        if key == group and chosen.get(_WHEN_CHOSEN.get(handler, ""), True)
    ]
    if not rules:
        return None
    any_of = "|".join(f"(?:{_NAMED_GROUP.sub('(?:', pattern.pattern)})" for pattern, _ in rules)
    return re.compile(any_of), tuple(rules)


def strip(text: str, writer: Writer, styles: Styles, position: int = 0) -> int:
    """Takes prefixes off from `position` on, repeatedly; returns where the rest begins."""
    for _ in range(_MAX_PREFIXES):
        end = _strip_one(text, writer, styles, position)
        if end is None:
            break
        position = end
    return position


def may_have_prefix(text: str, styles: Styles) -> bool:
    """A cheap look whether `strip` can take anything off."""
    first = text[:1]
    if first in _BEFORE_TIME:
        return True
    rules = _rules(first, styles.task, styles.bracket, styles.host, styles.pipe) if " " <= first <= "~" else None
    return rules is not None and rules[0].match(text) is not None


def _strip_one(text: str, writer: Writer, styles: Styles, position: int) -> int | None:
    first = text[position : position + 1]
    if first in _BEFORE_TIME and _WITH_TIME.match(text, position):
        for pattern, handler in _ISO_RULES:
            found = pattern.match(text, position)
            if found and handler(found, writer, styles):
                journal = _JOURNAL.match(text, found.end())
                if journal and _program(journal, writer):
                    return journal.end()
                return found.end()
    if not " " <= first <= "~":
        return None
    # by position: names make the look into the cache twice as slow, and this is done for every line
    rules = _rules(first, styles.task, styles.bracket, styles.host, styles.pipe)
    # most lines have no prefix, or none more
    if rules is None or not rules[0].match(text, position):
        return None
    for pattern, handler in rules[1]:
        found = pattern.match(text, position)
        if found and found.end() > position and handler(found, writer, styles):
            return found.end()
    return None


def looks_like_host(token: str) -> bool:
    """Whether a word in front of a colon may be a host's name: it has a digit or a dash and is no known word."""
    return _DIGIT_OR_DASH.search(token) is not None and not token.isdecimal() and not _NOT_HOST.match(token)


_HEADED = expression(r"[A-Za-z][^\s:|]*:\d+:\d+ \[-?\d+\] ")
_CHOICES = (("task", _TASK_PREFIX), ("bracket", _BRACKET_PREFIX), ("host", _HOST_PREFIX), ("pipe", _PIPE_PREFIX))


def choose_styles(texts: Iterable[str], year: int) -> Styles:
    """Decides by many lines what one line cannot tell."""
    lines = [text for text in texts if text.strip()]
    # most files are NCCL's own, and a header with a host's name in front of it is no prefix of any kind; what stands
    # in front of NCCL's marker comes back
    fronts = [text[: text.find(" NCCL ") + 1] for text in lines]
    headed = {front for front in set(fronts) if _HEADED.match(front)}
    rest = [text for text, front in zip(lines, fronts, strict=True) if front not in headed]
    sample = [text for text in rest if not _HEADED.match(text)]
    bare = len(lines) - len(sample)
    styles = Styles(year=year)
    # one style may hide another (pdsh around srun -l), so look again behind what was found
    for _ in range(3):
        writers, rests = _stripped(sample, styles)
        if not _choose_once(rests, bare, styles):
            break
    else:
        writers, _ = _stripped(sample, styles)
    styles.task_is_rank = _task_is_rank(writers)
    return styles


def _stripped(texts: list[str], styles: Styles) -> tuple[list[Writer], list[str]]:
    """What the prefixes of each line tell, and what stands behind them."""
    writers = [Writer() for _ in texts]
    return writers, [text[strip(text, writer, styles) :] for text, writer in zip(texts, writers, strict=True)]


def _choose_once(rests: list[str], bare: int, styles: Styles) -> bool:
    for name, pattern in _CHOICES:
        if not getattr(styles, name) and _is_style(rests, bare, pattern, name):
            setattr(styles, name, True)
            return True
    return False


def _is_style(rests: list[str], bare: int, pattern: re.Pattern[str], name: str) -> bool:
    """Most lines have it and its tokens repeat, or some lines have it in front of something unmistakable.

    Args:
        rests: the lines without the prefixes found so far.
        bare: so many further lines have no prefix.
        pattern: of the style.
        name: of the style.
    """
    tokens: Counter[str] = Counter()
    strong = 0
    for rest in rests:
        found = pattern.match(rest)
        if not found:
            continue
        token = found[1]
        if name in {"host", "pipe"} and not looks_like_host(token.split(" ")[0]):
            continue
        tokens[token] += 1
        strong += _STRONG.match(rest, found.end()) is not None
    total = sum(tokens.values())
    if strong >= 2 and strong * 10 >= total:
        return True
    if total < 3 or total * 10 < (len(rests) + bare) * 6:
        return False
    # line numbers are all different; ranks and hosts come back
    return len(tokens) * 2 <= total or (len(tokens) < 3 and total >= 3)


def _task_is_rank(writers: Iterable[Writer]) -> bool:
    """False when tasks turn out to have started several ranks each, so that their numbers count nodes."""
    for writer in writers:
        if writer.task is None:
            continue
        if writer.local_rank is not None or (writer.rank is not None and writer.rank != writer.task):
            return False
    return True
