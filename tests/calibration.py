"""Says how often verdicts are right by the confidence they are said with, over folders of cases.

    python tests/calibration.py [CASES...] [--jobs 2] [--sure 0.8] [--min-right SHARE]

CASES are folders with cases anywhere below (`case.yaml` beside `logs/`); by default those in fixtures/. A verdict is
right when it is the case's cause or one that the case accepts. Printed are a line for each tenth of confidence, a line
for each family of causes, and each verdict that was said with at least `--sure` and is wrong. Exit status 1 when less
than SHARE of the sure verdicts is right, or when a case gave no report; 2 when there is no case.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hangscope.diagnose.catalogue import causes
from score_fixtures import FIXTURES, analyze

_STEP = 10
"""Buckets in the range from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Said:
    """One verdict: what it should be, what was said, and how surely.

    Attributes:
        name: of the case.
        family: of the cause that the case is about.
        cause: what the case is about.
        said: the verdict's cause, or what went wrong when there is no report.
        confidence: 0 to 1; None when there is no report.
        right: the verdict is the cause, or one that the case accepts.
    """

    name: str
    family: str
    cause: str
    said: str
    confidence: float | None
    right: bool


def find_cases(places: Iterable[Path]) -> list[Path]:
    """Folders of cases anywhere below these, in order of their names."""
    return sorted({path.parent for place in places for path in place.rglob("case.yaml")})


def ask(folder: Path) -> Said:
    """The verdict on one case."""
    entries = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
    cause = str(entries["cause"])
    known = causes().get(cause)
    family = known.family if known else "unknown"
    try:
        verdict = analyze(folder / "logs")["verdict"]
    except Exception as error:  # noqa: BLE001  (one crash must not hide the other cases' figures)
        return Said(folder.name, family, cause, f"{type(error).__name__}: {error}", None, right=False)
    right = verdict["cause"] in (cause, *(entries["accept"] or ()))
    return Said(folder.name, family, cause, verdict["cause"], float(verdict["confidence"]), right)


def bucket(confidence: float) -> int:
    """Which tenth a confidence lies in; 1.0 belongs to the last."""
    # a confidence has two digits, and 0.29 * 100 is 28.999...
    return min(_STEP - 1, round(confidence * 100) // (100 // _STEP))


def describe(verdicts: Sequence[Said], sure: float) -> list[str]:
    """The tables: by confidence, by family, and what was surely wrong."""
    lines = [f"{'confidence':12} {'verdicts':>8} {'right':>6} {'share':>7} {'said':>6}"]
    by_bucket: dict[int, list[Said]] = defaultdict(list)
    for one in verdicts:
        if one.confidence is not None:
            by_bucket[bucket(one.confidence)].append(one)
    for number, found in sorted(by_bucket.items()):
        said = sum(one.confidence or 0.0 for one in found) / len(found)
        label = f"{number / _STEP:.1f} to {(number + 1) / _STEP:.1f}"
        right = sum(one.right for one in found)
        lines.append(f"{label:12} {len(found):8} {right:6} {right / len(found):7.1%} {said:6.2f}")
    lines += ["", f"{'family':12} {'verdicts':>8} {'right':>6} {'sure':>6} {'of these right':>15}"]
    by_family: dict[str, list[Said]] = defaultdict(list)
    for one in verdicts:
        by_family[one.family].append(one)
    for family, found in [*sorted(by_family.items()), ("all", list(verdicts))]:
        certain = sure_ones(found, sure)
        right = sum(one.right for one in certain)
        share = f"{right} ({right / len(certain):.1%})" if certain else "-"
        lines.append(f"{family:12} {len(found):8} {sum(one.right for one in found):6} {len(certain):6} {share:>15}")
    for one in verdicts:
        if one.confidence is None:
            lines.append(f"no report on {one.name}: {one.said}")
        elif one.confidence >= sure and not one.right:
            lines.append(f"surely wrong: {one.name}: {one.said} with {one.confidence:.2f}, not {one.cause}")
    return lines


def sure_ones(verdicts: Iterable[Said], sure: float) -> list[Said]:
    """Those said with at least this confidence."""
    return [one for one in verdicts if one.confidence is not None and one.confidence >= sure]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=Path, default=[FIXTURES], metavar="CASES")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--sure", type=float, default=0.8, metavar="CONFIDENCE")
    parser.add_argument("--min-right", type=float, default=0.0, metavar="SHARE")
    options = parser.parse_args(arguments)
    folders = find_cases(options.cases)
    if not folders:
        print("no case found", file=sys.stderr)
        return 2
    if options.jobs > 1:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            verdicts = pool.map(ask, folders, chunksize=4)
    else:
        verdicts = [ask(folder) for folder in folders]
    print("\n".join(describe(verdicts, options.sure)))
    certain = sure_ones(verdicts, options.sure)
    share = sum(one.right for one in certain) / len(certain) if certain else 1.0
    print(f"\nof {len(certain)} verdicts said with {options.sure:g} or more, {share:.1%} are right")
    missed = share < options.min_right or any(one.confidence is None for one in verdicts)
    if missed:
        print("falls short of the thresholds", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
