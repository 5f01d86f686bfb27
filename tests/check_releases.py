"""Hides the versions that cases state, infers them from the rest, and prints what share is right.

    python tests/check_releases.py [--all] [FOLDER ...]

FOLDER holds cases, folders with `case.yaml` and `logs/`, at any depth; by default those of fixtures/. A release that is
inferred is right when the stated one lies in it. ``--all`` prints every one. Exit status 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hangscope import api
from hangscope.align.job import Job
from hangscope.align.releases import PRODUCTS, common_releases, infer_releases
from hangscope.align.versions import Inferred
from score_fixtures import FIXTURES

_NUMBERS = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Check:
    """One case and product: what is stated, and what the rest of the lines tells."""

    case: str
    product: str
    stated: str | None
    inferred: Inferred | None

    @property
    def right(self) -> bool | None:
        """None when there is nothing to compare."""
        if self.stated is None or self.inferred is None:
            return None
        length = 2 if self.product == "torch" else 3
        stated = _numbers(self.stated)[:length]
        low, high = (_numbers(self.inferred.releases[at]) for at in (0, -1))
        return (self.inferred.older or low <= stated) and (self.inferred.newer or stated <= high)


def check_case(folder: Path) -> Iterator[Check]:
    """What can be compared in one case; versions that differ between ranks are none of it."""
    job = api.load(folder / "logs", jobs=1)
    for product in PRODUCTS:
        stated = getattr(job.versions, product)
        if not isinstance(stated, tuple):
            known = _usable(stated)
            yield Check(folder.name, product, known, infer_without_statement(job, product))


def infer_without_statement(job: Job, product: str) -> Inferred | None:
    """What the lines that state no version tell of one product."""
    return common_releases(product, infer_releases(product, job.processes, job.stacks, job.recorded))


def _usable(stated: str | None) -> str | None:
    found = _NUMBERS.search(stated or "")
    return found[0] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> int:
    parser = argparse.ArgumentParser(description="How often releases are inferred rightly.")
    parser.add_argument("folders", nargs="*", type=Path, default=[FIXTURES])
    parser.add_argument("--all", action="store_true", help="print every release that is inferred")
    arguments = parser.parse_args()
    cases = sorted({case.parent for folder in arguments.folders for case in folder.rglob("case.yaml")})
    checks = [check for case in cases for check in check_case(case)]
    for product in PRODUCTS:
        own = [check for check in checks if check.product == product]
        stated = [check for check in own if check.stated is not None]
        told = [check for check in stated if check.inferred is not None]
        right = [check for check in told if check.right]
        new = [check for check in own if check.stated is None and check.inferred is not None]
        print(
            f"{product}: {len(own)} cases, {len(stated)} state it; of these {len(told)} are inferred, "
            f"{len(right)} rightly; {len(new)} of {len(own) - len(stated)} others are inferred"
        )
        for check in told:
            if not check.right:
                print(f"  wrong: {check.case}: is {check.stated}, inferred {check.inferred}")
                for evidence in check.inferred.evidence if check.inferred else ():
                    print(f"    {evidence.why}: {evidence.at.file}:{evidence.at.line}: {evidence.text[:150]}")
        for check in [*told, *new] if arguments.all else []:
            print(f"  {check.case}: {check.stated} {check.inferred}")
    return 1 if any(check.right is False for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
