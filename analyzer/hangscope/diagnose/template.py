"""Renders the texts of a rule with the ranks, hosts and fields of the facts it bound."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence

from hangscope.expressions import expression
from hangscope.model import Fact, Value
from hangscope.ranges import count_off
from hangscope.records import dataclass

UNKNOWN = "?"
SUMMARY_NAMES = ("ranks", "hosts", "group", "affected", "count")
"""What a template may name without a bound fact."""

# A list of whole numbers is written as rank ranges only where its name says that it holds ranks: shapes are lists too.
_RANK_FIELDS = ("ranks", "affected", "arrived", "missing", "further", "members", "witnesses", "absent", "known")

_MOST_VALUES = 4
_MOST_HOSTS = 8
_FORMATTER = string.Formatter()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One ``{...}``: a summary name, or ``name.field``; with a format and what to say when nothing is known."""

    name: str
    field: str
    format: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """What a template speaks about; `are_all`: the ranks are all of the job's."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    groups: tuple[str, ...]
    affected: tuple[int, ...]
    count: int
    bound: Mapping[str, Sequence[Fact]]
    are_all: bool = False


def placeholders(template: str) -> list[Placeholder]:
    """The placeholders of a template.

    Raises:
        ValueError: the braces do not match, or a placeholder has a format that does not exist.
    """
    found = []
    for _, named, spec, conversion in _FORMATTER.parse(template):
        if named is not None:
            if conversion:
                raise ValueError(f"{{{named}!{conversion}}} has a conversion")
            found.append(_placeholder(named, spec or ""))
    return found


def render(template: str, subject: Subject) -> str:
    """Fills in a template; what is not known becomes the placeholder's default (``{f.field|}``: none), else ``?``."""
    parts = []
    for literal, named, spec, _ in _FORMATTER.parse(template):
        parts.append(literal)
        if named is not None:
            parts.append(_fill(_placeholder(named, spec or ""), subject))
    return "".join(parts)


def headline(text: str) -> str:
    """A rendered title as a headline: one line of bounded length, with a capital if a rank or a host begins it."""
    line = _NOWHERE.sub("", " ".join(text.split()))
    if len(line) > _LONGEST_TITLE:
        line = line[: _LONGEST_TITLE - 1].rstrip() + "…"
    return line[:1].upper() + line[1:] if line.startswith(_HEADLINE_STARTS) else line


def sentences(text: str) -> str:
    """A rendered explanation on one line: a sentence that begins with a rank or a witness begins with a capital."""
    # the lines are those of the rule's file; whoever shows the text breaks it anew
    text = " ".join(text.split("\n")).strip()
    # a placeholder of which nothing is known leaves the spaces around it
    return _SENTENCE_START.sub(lambda start: start[1] + start[2].upper(), _SPARE_SPACES.sub("", text).rstrip())


def field_value(fact: Fact, name: str) -> Value:
    """A field of a fact, or one of the keys that every fact carries; None when it has neither."""
    if name in fact.fields:
        return fact.fields[name]
    if name == "group":
        return fact.group or None
    if name in ("ranks", "affected"):
        return (fact.ranks if name == "ranks" else fact.affected) or None
    return fact.hosts or None if name == "hosts" else None


def _placeholder(expression: str, spec: str) -> Placeholder:
    path, bar, default = expression.partition("|")
    name, _, field = path.strip().partition(".")
    if spec and spec not in _FORMATS and not (spec == "named" and name in _NAMED and not field):
        raise ValueError(f"{{{expression}:{spec}}} has no format {spec!r} (there are named, {', '.join(_FORMATS)})")
    return Placeholder(name, field, spec, default if bar else None)


def _fill(wanted: Placeholder, subject: Subject) -> str:
    facts = subject.bound.get(wanted.name, ())
    text = _fill_field(wanted, facts) if wanted.field else _fill_summary(wanted, subject)
    if text or wanted.default is not None:
        return text or wanted.default or ""
    return UNKNOWN if wanted.field else _NOTHING_KNOWN.get(wanted.name, UNKNOWN)


def _fill_field(wanted: Placeholder, facts: Sequence[Fact]) -> str:
    texts: dict[str, None] = {}
    for fact in facts:
        text = _format_value(field_value(fact, wanted.field), wanted)
        if text:
            texts[text] = None
        if len(texts) > _MOST_VALUES:
            return ", ".join(list(texts)[:_MOST_VALUES]) + ", ..."
    if len(texts) > 1 and all(text.isdecimal() for text in texts):
        # "9637892, 9637888 bytes" reads like one number
        *first, last = texts
        return f"{', '.join(first)} and {last}"
    return ", ".join(texts)


def _fill_summary(wanted: Placeholder, subject: Subject) -> str:
    if wanted.name == "count":
        return str(subject.count)
    if wanted.name == "group":
        return ", ".join(subject.groups[:_MOST_VALUES])
    if wanted.name == "hosts":
        names, text = subject.hosts, _format_hosts(subject.hosts)
        return _named(wanted, len(names), text)
    if wanted.name == "ranks" and wanted.format == "named" and subject.are_all:
        return f"all {len(subject.ranks):,} ranks"
    ranks = subject.ranks if wanted.name == "ranks" else subject.affected
    return _named(wanted, len(ranks), count_off(ranks))


def _named(wanted: Placeholder, count: int, text: str) -> str:
    if wanted.format != "named":
        return text
    noun = _NAMED[wanted.name]
    if not count:
        return wanted.default or f"an unknown {noun}"
    return f"{noun}{'s' if count > 1 else ''} {text}"


def _format_hosts(hosts: Sequence[str]) -> str:
    if len(hosts) <= _MOST_HOSTS:
        return ", ".join(hosts)
    return f"{', '.join(hosts[:_MOST_HOSTS])} and {len(hosts) - _MOST_HOSTS} more"


def _format_value(value: Value, wanted: Placeholder) -> str:
    if isinstance(value, tuple):
        numbers = [item for item in value if isinstance(item, int)]
        holds_ranks = wanted.field.endswith(_RANK_FIELDS) and len(numbers) == len(value)
        items = [str(item) for item in value]
        # names of groups hold commas of their own
        return count_off(numbers) if holds_ranks else ("; " if any("," in i for i in items) else ", ").join(items)
    if wanted.format and isinstance(value, int | float) and not isinstance(value, bool):
        return _FORMATS[wanted.format](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _format_bytes(value: float) -> str:
    size = float(value)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:g} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _format_seconds(value: float) -> str:
    if value < 120:
        return f"{value:.3g} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def _counted(value: float, one: str, many: str) -> str:
    return f"{value:.0f} {one if value == 1 else many}"


_LONGEST_TITLE = 140
# who does not know where leaves it out of a headline
_NOWHERE = expression(r",? (?:on|of|at) an unknown host\b")
_HEADLINE_STARTS = ("all ", "rank ", "ranks ", "host ", "hosts ", "an unknown ", "process ", "a process ")

# Words of logs are quoted in explanations too, so that only the words that templates put in are touched.
_SPARE_SPACES = expression(r" +(?=[ \n]|\.(?:\s|\Z))")
_SENTENCE_START = expression(
    r"(\A\s*|[a-z)>\]]\.\s+)([ratp])"
    r"(?=anks? \d|ll \d[\d,]* ranks|n unknown (?:rank|host)|he (?:shell|kernel|launcher) |rocess \d| process )"
)
_NOTHING_KNOWN = {"hosts": "an unknown host", "group": "an unknown group"}
_NAMED = {"ranks": "rank", "affected": "rank", "hosts": "host"}

_FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": _format_bytes,
    "s": _format_seconds,
    "ms": lambda value: _format_seconds(value / 1000),
    "hex": lambda value: hex(int(value)),
    "rank-count": lambda value: _counted(value, "rank", "ranks"),
    "process-count": lambda value: _counted(value, "process", "processes"),
    "line-count": lambda value: _counted(value, "line", "lines"),
}
