"""The report as a SARIF 2.1.0 log: the job's own line of code as the place, the log lines that prove it beside it.

Every cause that was found is a rule, with the catalogue's words as its help; every finding is a result. Where no line
of code is known, the place is logical: the rank or host at fault.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND, Cause, causes
from hangscope.expressions import expression
from hangscope.model import Evidence, Finding, RankState, Report, Role
from hangscope.report.answers import code_places
from hangscope.report.printable import join_lines, one_line, printable
from hangscope.report.proof import at_first_sight
from hangscope.report.spans import HIGH, MEDIUM, rank_words
from hangscope.report.story import says_nothing

Plain = dict[str, Any]

VERSION = "2.1.0"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MOST_PLACES = 8
_FINGERPRINT = "hangscope/v1"

_WHERE = expression(r"(?P<file>.+?):(?P<line>[1-9]\d{0,8})(?: (?P<function>.+))?", re.DOTALL)
_URL = expression(r"[A-Za-z][A-Za-z0-9+.-]+://")
# what SARIF takes for a link to another place of the result, or to the web
_LINK = expression(r"\[(?=[^\[\]]*\]\()")


def to_sarif(report: Report) -> Plain:
    """The log, with one run."""
    findings = [
        finding
        for finding in report.findings
        if finding.cause != NO_FAULT_FOUND and (finding == report.verdict or not says_nothing(finding))
    ]
    ids = list(dict.fromkeys(finding.cause for finding in findings))
    states = {state.rank: state for state in report.ranks}
    return {
        "$schema": _SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "hangscope",
                        "version": report.hangscope_version,
                        "rules": [_rule(name) for name in ids],
                    }
                },
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(report)}],
                "results": [_result(report, finding, ids.index(finding.cause), states) for finding in findings],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _rule(name: str) -> Plain:
    cause = causes().get(name)
    rule: Plain = {"id": name, "name": "".join(word.capitalize() for word in name.split("-"))}
    if cause is None:
        return rule
    return {
        **rule,
        "shortDescription": {"text": _message(cause.means)},
        "fullDescription": {"text": _message(f"{cause.means} {cause.looks}")},
        "help": {"text": _message(_help(cause))},
        "properties": {"tags": [cause.family]},
    }


def _help(cause: Cause) -> str:
    confirm = "\n".join(f"- {sentence}" for sentence in cause.confirm)
    return f"{cause.why}\n\nTo confirm it:\n{confirm}\n\nMore: hangscope explain {cause.id}"


def _result(report: Report, finding: Finding, index: int, states: Mapping[int, RankState]) -> Plain:
    code = [
        _place_in_code(found, ranks)
        for where, ranks in code_places(report, finding)
        if (found := _WHERE.fullmatch(where))
    ]
    places = code[:_MOST_PLACES] or _logical_places(finding, states)
    proofs = [proof.line for proof in at_first_sight(finding.evidence) if proof.line.at.file]
    is_open = finding.cause == INSUFFICIENT_EVIDENCE
    remedies = "".join(f"\n- {one.text}" + (f" {one.command}" if one.command else "") for one in finding.remedies)
    text = f"{finding.title}. {finding.explanation}" + (f"\n\nWhat to do:{remedies}" if remedies else "")
    return {
        "ruleId": finding.cause,
        "ruleIndex": index,
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else _level(finding),
        "message": {"text": _message(text)},
        **({"locations": places} if places else {}),
        "relatedLocations": [{"id": number, **_evidence(item)} for number, item in enumerate(proofs, 1)],
        "rank": round(finding.confidence * 100, 1),
        "partialFingerprints": {_FINGERPRINT: _fingerprint(finding, places)},
        "properties": {
            "verdict": finding == report.verdict,
            "role": str(finding.role),
            "confidence": round(finding.confidence, 3),
            "ranks": list(finding.ranks),
            "hosts": [printable(host) for host in finding.hosts],
            "affectedRanks": list(finding.affected_ranks),
            "explainedBy": finding.explained_by,
            "rule": finding.rule,
        },
    }


def _level(finding: Finding) -> str:
    """A cause is as grave as it is certain; what follows from it, or only contributes, is a note."""
    if finding.role is not Role.CAUSE or finding.explained_by is not None or finding.confidence < MEDIUM:
        return "note"
    return "error" if finding.confidence >= HIGH else "warning"


def _place_in_code(where: re.Match[str], ranks: Sequence[int]) -> Plain:
    function = where["function"]
    return {
        "physicalLocation": _physical(where["file"], int(where["line"])),
        **({"logicalLocations": [{"name": one_line(function), "kind": "function"}]} if function else {}),
        **({"message": {"text": rank_words(ranks, most=60)}} if ranks else {}),
    }


def _logical_places(finding: Finding, states: Mapping[int, RankState]) -> list[Plain]:
    """The ranks at fault, or the hosts where no rank is."""
    if len(finding.ranks) > _MOST_PLACES:
        words = rank_words(finding.ranks, most=60)
        return [{"logicalLocations": [{"name": words, "kind": "process"}]}]
    if finding.ranks:
        return [{"logicalLocations": [_process(rank, states.get(rank))]} for rank in finding.ranks]
    hosts = [one_line(host) for host in finding.hosts[:_MOST_PLACES]]
    return [{"logicalLocations": [{"name": host, "kind": "host"}]} for host in hosts]


def _process(rank: int, state: RankState | None) -> Plain:
    host = one_line(state.host) if state is not None and state.host else ""
    name = f"rank {rank}"
    return {"name": name, "fullyQualifiedName": f"{host}/{name}" if host else name, "kind": "process"}


def _evidence(item: Evidence) -> Plain:
    text = one_line(item.text)
    return {
        "physicalLocation": _physical(item.at.file, item.at.line, text),
        "message": {"text": _message(item.why or text)},
    }


def _physical(file: str, line: int | None, snippet: str | None = None) -> Plain:
    region: Plain = {} if line is None else {"startLine": line}
    if line is not None and snippet is not None:
        region["snippet"] = {"text": snippet}
    return {"artifactLocation": {"uri": _uri(file)}, **({"region": region} if region else {})}


def _uri(file: str) -> str:
    """A relative reference for what lies below the path that was analyzed; a URI for the rest."""
    name = file.encode("utf-8", "surrogateescape")
    if _URL.match(file):
        return quote(name, safe="/:")
    return ("file://" if file.startswith("/") else "") + quote(name, safe="/")


def _notifications(report: Report) -> list[Plain]:
    """What limits the answer, and what could not be read."""
    failed = [source for source in report.sources if source.error is not None]
    return [
        *({"level": "warning", "message": {"text": _message(warning)}} for warning in report.warnings),
        *(
            {
                "level": "error",
                "message": {"text": _message(source.error or "")},
                "locations": [{"physicalLocation": _physical(source.file, None)}],
            }
            for source in failed
        ),
    ]


def _message(text: str) -> str:
    """Text that SARIF takes for nothing else: braces hold arguments, and brackets with parentheses are links."""
    words = printable(join_lines(text), keep="\n").replace("{", "{{").replace("}", "}}")
    return _LINK.sub(r"\\[", words)


def _fingerprint(finding: Finding, places: list[Plain]) -> str:
    """The same for the same fault at the same line of code; where none is known, of the same ranks."""
    uris = [
        f"{place['physicalLocation']['artifactLocation']['uri']}:{place['physicalLocation']['region']['startLine']}"
        for place in places
        if "physicalLocation" in place
    ]
    at = uris or [*map(str, finding.ranks), *finding.hosts]
    return hashlib.sha256("\0".join((finding.cause, *at)).encode("utf-8", "surrogatepass")).hexdigest()[:32]
