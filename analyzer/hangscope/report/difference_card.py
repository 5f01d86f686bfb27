"""What two jobs differ in, as a small piece of HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from hangscope.model import ComparedValue
from hangscope.model.difference import CallDifference, Called, Difference, JobDifference
from hangscope.report.card import BLUE, RED, data, framed, head, rows_of, table, text
from hangscope.report.differences import (
    before_words,
    call_title,
    called_words,
    calls_words,
    mark,
    other_hosts,
    ranks_words,
    reading_of,
    silence,
    value_words,
    verdict_words,
)
from hangscope.report.printable import shorten_middle
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words

_GROUPS = 4
_ROWS = 30
_VALUES = 4
_LONGEST = 160


def difference_card(difference: JobDifference) -> str:
    """The difference as a piece of HTML; everything that came from a log is escaped."""
    sides = [("Good", difference.good), ("Bad", difference.bad)]
    parts = [
        rows_of([(label, [side.name, verdict_words(side)]) for label, side in sides]),
        *_calls(difference),
        *_properties(difference),
    ]
    return framed(parts, BLUE)


def _calls(difference: JobDifference) -> list[str]:
    found = difference.calls.differences
    parts = [f"<b>{'Where the calls part' if found else 'Calls'}</b><div>{text(calls_words(difference.calls))}</div>"]
    parts += [_call(one) for one in found[:_GROUPS]]
    if len(found) > _GROUPS:
        parts.append(f"<div>and in {count_words(len(found) - _GROUPS, 'more group')}</div>")
    return parts


def _call(difference: CallDifference) -> str:
    rows = [
        data(label if number == 0 else "")
        + data(text(ranks_words(one, sum(len(c.ranks) for c in called))))
        + _called(one)
        for label, called in (("good", difference.good), ("bad", difference.bad))
        for number, one in enumerate(called)
    ]
    meaning = reading_of(difference)
    title = call_title(difference)
    return f"<div>{text(title[:1].upper() + title[1:])}; {text(before_words(difference))}</div>{table(rows)}" + (
        f"<div>{text(meaning)}</div>" if meaning else ""
    )


def _called(called: Called) -> str:
    place = "" if called.at is None else place_words(called.at)
    return data(f"<b>{text(called_words(called))}</b>") + data(f"<code>{text(called.where)} {text(place)}</code>")


def _properties(difference: JobDifference) -> list[str]:
    rows = [one for one in difference.differences if one.telling]
    parts = [f"<b>What differs</b> ({len(rows)} of {len(rows) + len(difference.equal)} compared)"]
    if rows:
        heads = "".join(map(head, ("", "", "good", "bad")))
        parts.append(table([heads, *map(_property, rows[:_ROWS])]))
    else:
        parts.append("<div>Nothing, as far as both jobs show.</div>")
    if len(rows) > _ROWS:
        parts.append(f"<div>and {count_words(len(rows) - _ROWS, 'more difference')}</div>")
    moved = other_hosts(difference)
    parts += [f"<div>{text(moved)}</div>"] if moved else []
    if difference.equal:
        parts.append(f"<div>Equal: {text(', '.join(aspect for _, aspect in difference.equal))}.</div>")
    return parts


def _property(difference: Difference) -> str:
    marked = mark(difference)
    color = f"color:{RED};font-weight:bold" if marked else ""
    return (
        data(text(marked), color)
        + data(text(difference.aspect))
        + data(_values(difference, difference.good))
        + data(_values(difference, difference.bad), color)
    )


def _values(difference: Difference, values: Sequence[ComparedValue]) -> str:
    if not values:
        return f"<i>{text(silence(difference))}</i>"
    lines = [text(shorten_middle(value_words(v, alone=len(values) == 1), _LONGEST)) for v in values[:_VALUES]]
    if len(values) > _VALUES:
        lines.append(f"and {count_words(len(values) - _VALUES, 'more value')}")
    return "<br>".join(lines)
