"""Reads known defects of released versions: what such a file says is completed to a rule.

A file ``rules/version/defects/<id>.toml`` says which versions have a defect, how it looks, which version is without it,
and who says so; the rest of a rule is the same for all of them. A defect that names the cause (``effect = "cause"``)
has a signature of its own. One that contributes says why something else hangs instead of ending with an error, and
counts only where the version is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hangscope.align.versions import Versions
from hangscope.diagnose.reader import Table
from hangscope.diagnose.versions import Fit, Limit, fit, parse_requirement
from hangscope.model import Role
from hangscope.records import dataclass

FOLDER = "defects"
FAMILY = "version"
CAUSE = "nccl-bug"
UNSURE_WEIGHT = 10
UNSURE_CONFIDENCE = 0.2
"""Of a defect's finding when nothing tells whether the version has it."""

PRODUCT_NAMES = {
    "torch": "PyTorch", "nccl": "NCCL", "cuda": "CUDA", "driver": "the NVIDIA driver", "ofi": "aws-ofi-nccl",
}  # fmt: skip
_KEYS = (
    *("id", "affected", "fixed_in", "since", "effect", "title", "what", "workaround", "command", "explains"),
    *("false_positives", "references", "aliases", "weight", "confidence", "when", "cases"),
)
_WEIGHTS = {Role.CAUSE: 79, Role.CONTRIBUTING: 15}
_CONFIDENCES = {Role.CAUSE: 0.75, Role.CONTRIBUTING: 0.5}
_EXPLAINS = [
    *("peer-lost", "store-lost", "watchdog-timeout", "rendezvous-timeout", "rank-vanished", "network-unstable"),
    *("collective-skipped", "exited-early", "insufficient-evidence", "cuda-error", "teardown-hang", "node-failure"),
    *("killed-by-signal", "python-exception", "native-crash", "rank-never-started", "network-unreachable"),
    *("ib-transport-error",),
]
"""What a defect that is the cause accounts for, unless it says something else."""

_FALSE_POSITIVES = ["A build that has the fix, or the defect, without the number of the release."]


@dataclass(frozen=True, slots=True)
class Affected:
    """The versions that have a defect.

    Attributes:
        product: key of `PRODUCT_NAMES`.
        ranges: requirements; a version that meets one of them has the defect.
        fixed_in: the first version without it, "" when none is known.
    """

    product: str
    ranges: tuple[str, ...]
    fixed_in: str = ""

    def covers(self, seen: Versions) -> Fit:
        """Whether the versions seen have the defect; a maybe when nothing tells."""
        found = {fit(requirement, seen) for requirement in self.ranges}
        if Fit.YES in found:
            return Fit.YES
        return Fit.MAYBE if Fit.MAYBE in found else Fit.NO

    def words(self) -> str:
        """``NCCL 2.13 up to, but not including, 2.17.1``."""
        return f"{PRODUCT_NAMES[self.product]} {' and '.join(_range_words(text) for text in self.ranges)}"


def is_defect(path: Path) -> bool:
    """Whether a file is one of a defect, by its folder."""
    return path.parent.name == FOLDER


def read_affected(table: Table) -> Affected:
    """The versions of a defect's file.

    Raises:
        RuleError: a range is none, or ranges are about several products.
    """
    ranges = (
        (table.text("affected"),)
        if isinstance(table.values.get("affected"), str)
        else table.texts("affected", required=True)
    )
    products = set()
    for text in ranges:
        try:
            products |= {limit.product for limit in parse_requirement(text)}
        except ValueError as error:
            raise table.error("affected", str(error)) from error
    if len(products) > 1:
        raise table.error("affected", f"names several products: {', '.join(sorted(products))}")
    fixed_in = table.text("fixed_in", default="")
    (product,) = products
    if fixed_in:
        _check_fix(table, product, ranges, fixed_in)
    return Affected(product, tuple(ranges), fixed_in)


def complete(table: Table) -> Table:
    """The table of a rule that says what the one of a defect does.

    Raises:
        RuleError: a key is unknown, missing or wrong.
    """
    table.allow(_KEYS)
    affected = read_affected(table)
    role = Role(table.text("effect", among=(Role.CAUSE, Role.CONTRIBUTING)))
    given = {
        key: table.values[key]
        for key in ("id", "since", "title", "references", "aliases", "when", "cases")
        if key in table.values
    }
    fix = f"{affected.fixed_in} is without it." if affected.fixed_in else "No release is known to be without it."
    values: dict[str, object] = {
        "cause": CAUSE,
        "role": str(role),
        "status": "stable",
        "weight": _WEIGHTS[role],
        "confidence": _CONFIDENCES[role],
        "explains": _EXPLAINS if role is Role.CAUSE else [],
        "false_positives": _FALSE_POSITIVES,
        **given,
        **{
            key: table.values[key]
            for key in ("weight", "confidence", "explains", "false_positives")
            if key in table.values
        },
        "explanation": f"{table.text('what').strip()} It is a known defect of {affected.words()}; {fix}",
        "remedies": list(_remedies(table, affected)),
    }
    return Table(table.file, table.at, values)


def unsure_words(affected: Affected, seen: Versions) -> str:
    """What to add to a finding when nothing, or only an inferred range, tells the version."""
    name = PRODUCT_NAMES[affected.product]
    inferred = seen.inferred.get(affected.product)
    known = f"only that it is {inferred}, by {inferred.by}" if inferred else "none"
    return f"Whether this job has it is not known: the version of {name} is not stated, {known}."


def _remedies(table: Table, affected: Affected) -> list[Mapping[str, object]]:
    name = PRODUCT_NAMES[affected.product]
    found: list[Mapping[str, object]] = []
    if affected.fixed_in:
        found.append({"text": f"Use {name} {affected.fixed_in} or later."})
    if "workaround" in table.values or not found:
        found.append({"text": table.text("workaround")})
    if "command" in table.values:
        found[-1] = {**found[-1], "command": table.text("command")}
    return found


def _check_fix(table: Table, product: str, ranges: tuple[str, ...], fixed_in: str) -> None:
    """A version that is said to be without the defect lies in no range."""
    try:
        parse_requirement(f"{product}=={fixed_in}")
    except ValueError:
        raise table.error("fixed_in", f"{fixed_in!r} is no version") from None
    fixed: dict[str, Any] = {product: fixed_in}
    if Affected(product, ranges).covers(Versions(**fixed)) is not Fit.NO:
        raise table.error("fixed_in", f"{fixed_in} lies in the range that is affected")


def _range_words(requirement: str) -> str:
    limits = parse_requirement(requirement)
    return ", ".join(_limit_words(limit) for limit in limits)


def _limit_words(limit: Limit) -> str:
    version = ".".join(map(str, limit.version))
    words = {">=": "from {} on", ">": "after {}", "<=": "up to {}", "<": "before {}", "==": "{}"}
    return words[limit.operator].format(version)
