"""Knows hangscope's own reports by their first bytes: one that lies among the logs quotes them, and proves nothing."""

from __future__ import annotations

from hangscope.expressions import expression

OWN_REPORT = "a report of hangscope, not a log"
"""What to tell a user who names one."""

_COLOR = rb"(?:\x1b\[[\d;]*m)*"
_HEADLINES = rb"(?:ROOT CAUSE|LIKELY CAUSE|BEST GUESS|NO FAULT FOUND|NOT ENOUGH EVIDENCE|A SYMPTOM ONLY)"
_REPORT = expression(
    b"|".join(
        (
            # text
            _COLOR + "(?:╭─|\\+-)".encode() + _COLOR + b" " + _HEADLINES + rb"[ :]",
            # json
            rb'\{\s*"schema_version": \d+,\s*"hangscope_version": "',
            # html
            rb'<!doctype html>(?s:.{0,4000}?)<meta name="generator" content="hangscope ',
            # markdown
            rb"### [^\n]*\n\n`[a-z0-9-]+`, confidence (?:high|medium|low) \d\.\d\d\n",
            # sarif
            rb'\{\s*"\$schema": "[^"]*sarif[^"]*",\s*"version": "2[^{]*\{\s*"tool": \{[^{]*\{\s*"name": "hangscope"',
            # perfetto
            rb'\{"displayTimeUnit":"ms","otherData":\{"hangscope":',
        )
    )
)


def is_own_report(head: bytes) -> bool:
    """Whether a file that begins with these bytes (give it some hundreds of them) is a report of any format."""
    return _REPORT.match(head) is not None
