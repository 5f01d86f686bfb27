"""Reads the texts of a rule without a job: words in the place of ranks, hosts and fields that nobody knows yet."""

from __future__ import annotations

import re
import string

from hangscope.diagnose.template import Placeholder, placeholders
from hangscope.expressions import expression

# What stands for a field, where its name alone would be no word of the sentence.
_WORDS = {
    "absent": "the rank that is missing",
    "affected": "other ranks",
    "bus": "its bus id",
    "by": "the log",
    "check": "what the line names",
    "called": "a call",
    "call": "a call",
    "error": "an error",
    "event": "an event",
    "first_step": "do what its catalog says",
    "found": "one thing",
    "expected": "another",
    "free": "the free part",
    "group": "a group",
    "hosts": "the host",
    "how": "as the log says",
    "in_call": "a call",
    "in_group": "a group",
    "message": "its message",
    "name": "a setting",
    "on_ranks": "some ranks",
    "lines": "some lines",
    "meaning": "what it means",
    "op": "an operation",
    "others": "another",
    "peers_call": "another call",
    "peers_wait": "the others wait",
    "ranks": "a rank",
    "said_by": "the log",
    "tensor": "one tensor",
    "value": "one value",
    "other_value": "another value",
    "what": "a setting",
    "where": "the line named",
    "last_where": "the line before",
    "who": "some ranks",
    "who_does": "a rank does something else",
    "who_is": "a rank is",
    "who_waits": "a rank waits",
    "status": "a status",
    "why": "see the line",
}
_NUMBER, _NAME = "N", "NAME"
_OF_A_UNIT = expression(r"_(?:bytes|ms|s|pid|number|index)\Z")
_NO_ANSWER = expression(r"\b(?:unknown|not (?:said|known|shown|named))\b|\?")
# Behind these words, and before those, stands a name or a number and no description of it.
_NOUN_BEFORE = expression(
    r"\b(?:(?:node |local )?ranks?|groups?|GPUs?|ports?|pids?|S?Xid|(?<!others )call|switch error|Number|errno|"
    r"tasks?)\s+\Z",
    re.IGNORECASE,
)
_NOUN_BEHIND = expression(
    r"\s+(?:ranks?|launchers|members|nodes|others|peers|files|bytes|places|devices|tasks|flight-recorder|workers|"
    r"groups|times|cores|different|of (?:the )?\d|s)\b"
)
_BEGINS = expression(r"(?:\A|[\w)\"][.!?]\s+)\Z")
_FORMATTER = string.Formatter()


def outline(template: str) -> str:
    """A template as it reads without a job: ``{ranks:named} ended in {f.where}`` as ``A rank ended in the line named``.

    No placeholder is left. What a template says itself for the case that nothing is known is taken where it describes
    what is meant (``{f.path|a segment}``), not where it says that it is unknown.

    Args:
        template: a title, an explanation or the text of a remedy of a rule.
    """
    pieces = list(_FORMATTER.parse(template))
    written = ""
    wanted = iter(placeholders(template))
    for at, (literal, named, _, _) in enumerate(pieces):
        written += literal
        if named is not None:
            behind = pieces[at + 1][0] if at + 1 < len(pieces) else ""
            words = _words(next(wanted), literal, behind)
            written += words[:1].upper() + words[1:] if _BEGINS.search(written) else words
    return written


def _words(wanted: Placeholder, before: str, behind: str) -> str:
    name = wanted.field or wanted.name
    if wanted.format.endswith("-count"):
        return f"{_NUMBER} {wanted.format.removesuffix('-count')}s".replace("processs", "processes")
    if _NOUN_BEFORE.search(before) or _NOUN_BEHIND.match(behind):
        return _NUMBER
    if before.rstrip().casefold().endswith(name.rpartition("_")[2]):
        return _NAME
    if wanted.field and wanted.default and not _NO_ANSWER.search(wanted.default):
        return wanted.default
    if wanted.default == "":
        return ""
    if name in _WORDS:
        return _WORDS[name]
    return f"the {_OF_A_UNIT.sub('', name).replace('_', ' ')}"
