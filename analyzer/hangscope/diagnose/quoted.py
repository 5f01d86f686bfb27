"""Tells lines that quote a message (a runbook, a test's name, source code) from lines that report it."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Finding

_QUOTING = (
    # an entry of a list or a row of a table in a document, with the message in quotes or backticks
    expression(r"^\s*(?:[|>*+-]|\d{1,3}[.)])\s[^`\"“]{0,80}(?:`[^`]{16,}`|\"[^\"]{16,}\"|“[^”]{16,}”)"),
    # a statement of a program with the message as a literal; a traceback shows such lines beside the error itself
    expression(r"^\s*(?:(?:el)?if|assert|raise|return|print\(|log(?:ger|ging)?\.\w+\()[^\"']{0,80}[\"'].{12,}[\"']"),
    # pytest's id of a test that has the message as a parameter
    expression(r"^\S{1,200}\.py::test_\w"),
)
_LONGEST = 1000


def is_quotation(text: str) -> bool:
    """Whether a log line quotes what it says, as printed."""
    return any(form.search(text[:_LONGEST]) for form in _QUOTING)


def is_only_quoted(finding: Finding) -> bool:
    """Whether every line that a finding rests on quotes its message; nothing then says that it happened here."""
    return bool(finding.evidence) and all(is_quotation(evidence.text) for evidence in finding.evidence)
