"""Judges hangscope's reports on the cases in fixtures/ and prints what share of them is right.

    python tests/score_fixtures.py [--only TEXT] [--min-cause 1.0] [--min-ranks 1.0] [--min-evidence 1.0]
                                   [--max-forbidden 0]

A case is a folder with `case.yaml` and `logs/`. Cases marked `known_weak` are counted like all others, so the
thresholds say how many of them there may be. Exit status 1 when a threshold is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

Json = dict[str, Any]
"""A report as the JSON format prints it."""


@dataclass(frozen=True, slots=True)
class Case:
    """What `case.yaml` says a report on `logs` must and must not say.

    Attributes:
        folder: the folder of the case; `logs` lies in it.
        cause: the verdict to give.
        accept: further verdicts that the evidence allows.
        forbid: verdicts that would send the user the wrong way.
        culprit_ranks: exactly these ranks are at fault; empty when the evidence names none.
        proofs: (file, line) of the lines that prove it, as the report names them.
        warns: patterns, each of which some warning of the report must match.
        shows: what the case guards.
        known_weak: why hangscope is known to fail this case, or "".
    """

    folder: Path
    cause: str
    accept: tuple[str, ...]
    forbid: tuple[str, ...]
    culprit_ranks: tuple[int, ...]
    proofs: frozenset[tuple[str, int | None]]
    warns: tuple[str, ...]
    shows: str
    known_weak: str

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def healthy(self) -> bool:
        return self.cause == "no-fault-found"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is right about one verdict; None where the case does not say what would be."""

    cause: bool
    ranks: bool | None
    evidence: bool | None
    forbidden: bool
    problems: tuple[str, ...]


def read_case(folder: Path) -> Case:
    entries = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
    if entries["id"] != folder.name:
        raise ValueError(f"{folder.name}/case.yaml: id is {entries['id']!r}")
    return Case(
        folder=folder,
        cause=entries["cause"],
        accept=tuple(entries["accept"] or ()),
        forbid=tuple(entries["forbid"] or ()),
        culprit_ranks=tuple(sorted(entries["culprit_ranks"] or ())),
        # the report names files relative to the PATH given, which is logs/
        proofs=frozenset((proof["file"].removeprefix("logs/"), proof["line"]) for proof in entries["shown_by"] or ()),
        warns=tuple(entries.get("warns") or ()),
        shows=entries["shows"],
        known_weak=entries.get("known_weak") or "",
    )


def read_cases() -> list[Case]:
    return [read_case(path.parent) for path in sorted(FIXTURES.glob("*/case.yaml"))]


def analyze(logs: Path) -> Json:
    """The report that `hangscope analyze LOGS --format json` prints, made in this process."""
    from hangscope.cli.main import main as hangscope  # noqa: PLC0415  (the list of cases needs no pandas)

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = hangscope(["analyze", str(logs), "--format", "json", "--jobs", "1"])
    if status != 0:
        raise RuntimeError(f"hangscope analyze {logs.name} gave exit status {status}")
    report: Json = json.loads(printed.getvalue())
    return report


def judge(case: Case, report: Json) -> Judgement:
    """Compares the verdict with what the case says."""
    verdict = report["verdict"]
    problems = []
    cause = verdict["cause"] in (case.cause, *case.accept)
    if not cause:
        problems.append(f"verdict is {verdict['cause']} ({verdict['rule']}), not {case.cause}")
    forbidden = verdict["cause"] in case.forbid
    if forbidden:
        problems.append(f"the case forbids the verdict {verdict['cause']}")
    ranks = None
    if case.culprit_ranks:
        ranks = tuple(verdict["ranks"]) == case.culprit_ranks
        if not ranks:
            problems.append(f"names ranks {verdict['ranks']}, not {list(case.culprit_ranks)}")
    evidence = None
    if case.proofs:
        cited = {(line["file"], line["line"]) for line in verdict["evidence"]}
        evidence = bool(cited & case.proofs)
        if not evidence:
            problems.append(f"cites {_lines(cited)}, none of {_lines(case.proofs)}")
    problems += [
        f"no warning matches {pattern!r}: {report['warnings']}"
        for pattern in case.warns
        if not any(re.search(pattern, warning) for warning in report["warnings"])
    ]
    return Judgement(cause, ranks, evidence, forbidden, tuple(problems))


def _lines(places: Iterable[tuple[str, int | None]]) -> str:
    return ", ".join(f"{file}:{line}" for file, line in sorted(places, key=str)) or "no line"


def share(values: Iterable[bool | None]) -> float:
    """Share of the true ones among those that are not None."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name holds this")
    for figure in ("cause", "ranks", "evidence"):
        parser.add_argument(f"--min-{figure}", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--max-forbidden", type=int, default=None, metavar="N")
    options = parser.parse_args()
    judgements = []
    for case in read_cases():
        if options.only not in case.name:
            continue
        try:
            judgement = judge(case, analyze(case.logs))
        except Exception as error:  # noqa: BLE001  (one crash must not hide the other cases' figures)
            judgement = Judgement(False, False, False, False, (f"{type(error).__name__}: {error}",))
        judgements.append(judgement)
        for problem in judgement.problems:
            print(f"{case.name}: {problem}{'  (known weak)' if case.known_weak else ''}")
    if not judgements:
        print("no such case", file=sys.stderr)
        return 2
    cause = share(judgement.cause for judgement in judgements)
    ranks = share(judgement.ranks for judgement in judgements)
    evidence = share(judgement.evidence for judgement in judgements)
    forbidden = sum(judgement.forbidden for judgement in judgements)
    print(
        f"{len(judgements)} cases: cause {cause:.1%}, ranks {ranks:.1%}, evidence {evidence:.1%}, forbidden {forbidden}"
    )
    missed = (
        cause < options.min_cause
        or ranks < options.min_ranks
        or evidence < options.min_evidence
        or (options.max_forbidden is not None and forbidden > options.max_forbidden)
    )
    if missed:
        print("falls short of the thresholds", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
