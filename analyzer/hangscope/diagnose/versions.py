"""Decides whether a remedy, or a known defect, fits the versions that the evidence states or lets infer."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable

from hangscope.align.versions import Version, Versions
from hangscope.expressions import expression
from hangscope.records import dataclass

PRODUCTS = ("torch", "nccl", "cuda", "driver", "ofi")
_BEYOND = 1_000
"""A minor version that no release has reached."""

_PART = expression(r"\s*(?P<product>[a-z]+)?\s*(?P<operator>>=|<=|==|>|<)\s*(?P<version>\d+(?:\.\d+)*)\s*")
_NUMBER = expression(r"\d+(?:\.\d+)*")
# NCCL prints its version also as one number: 2.8.4 is 2804, from 2.9 on 2.21.5 is 22105 (NCCL_VERSION in nccl.h).
_NCCL_CODE = expression(r"2\d{3,4}")

_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One comparison of a requirement, ``nccl>=2.24``."""

    product: str
    operator: str
    version: tuple[int, ...]


def parse_requirement(text: str) -> tuple[Limit, ...]:
    """Reads ``torch>=2.2,<2.5``; a part without a product means the product before it.

    Raises:
        ValueError: a part is no comparison, or its product is unknown.
    """
    limits: list[Limit] = []
    product = ""
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if not found:
            raise ValueError(f"{part.strip()!r} is no comparison such as nccl>=2.24")
        product = found["product"] or product
        if product not in PRODUCTS:
            raise ValueError(f"{part.strip()!r} must name one of {', '.join(PRODUCTS)}")
        limits.append(Limit(product, found["operator"], _numbers(found["version"])))
    return tuple(limits)


class Fit(enum.Enum):
    """Whether versions meet a requirement."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"


def fits(requirement: str, seen: Versions) -> bool:
    """Whether the versions seen may meet a requirement; an unknown version does, of several one is enough."""
    return fit(requirement, seen) is not Fit.NO


def fit(requirement: str, seen: Versions) -> Fit:
    """Whether the versions stated, else those inferred, meet a requirement such as ``nccl>=2.26,<2.26.5``.

    Of several versions stated one is enough. Of an inferred range all has to meet it, else it is a maybe, as long as
    a part does; so is an unknown version.
    """
    limits = parse_requirement(requirement) if requirement else ()
    found = [
        _product_fit([limit for limit in limits if limit.product == product], product, seen)
        for product in sorted({limit.product for limit in limits})
    ]
    if Fit.NO in found:
        return Fit.NO
    return Fit.MAYBE if Fit.MAYBE in found else Fit.YES


def _product_fit(limits: list[Limit], product: str, seen: Versions) -> Fit:
    stated: Version = getattr(seen, product)
    texts = (stated,) if isinstance(stated, str) else stated or ()
    if versions := [version for version in map(_parse_version, texts) if version]:
        return Fit.YES if any(all(_holds(limit, version) for limit in limits) for version in versions) else Fit.NO
    inferred = seen.inferred.get(product)
    if inferred is None:
        return Fit.MAYBE
    known = [_numbers(release) for release in inferred.releases]
    # what is still to come, or older than the tables, stands for all on its side
    known += [(known[-1][0], _BEYOND)] if inferred.newer else []
    known += [(0, 0)] if inferred.older else []
    return _common(_release_fit(limits, release) for release in known)


def _release_fit(limits: list[Limit], release: tuple[int, ...]) -> Fit:
    """One inferred release; 2.6 may be 2.6.0 or 2.6.1."""
    # for one release all limits have to hold, so a single maybe leaves it open
    open_ = [limit for limit in limits if len(limit.version) > len(release) and _begins(limit.version, release)]
    if not all(_holds(limit, release) for limit in limits if limit not in open_):
        return Fit.NO
    return Fit.MAYBE if open_ else Fit.YES


def _begins(version: tuple[int, ...], with_: tuple[int, ...]) -> bool:
    return version[: len(with_)] == with_


def _common(found: Iterable[Fit]) -> Fit:
    """What all agree on, else a maybe."""
    kinds = set(found)
    return kinds.pop() if len(kinds) == 1 else Fit.MAYBE


def _holds(limit: Limit, version: tuple[int, ...]) -> bool:
    # Cut to the length asked for: 2.27.3 is "==2.27" and "<=2.27", and not ">2.27".
    length = len(limit.version)
    cut = (version + (0,) * length)[:length]
    return _COMPARE[limit.operator](cut, limit.version)


def _parse_version(text: str) -> tuple[int, ...]:
    """Numbers of a version as printed (``2.21.5+cuda12.4``, ``2.6.0a0+git``, ``22105``); empty when there is none."""
    found = _NUMBER.search(text)
    if not found:
        return ()
    if _NCCL_CODE.fullmatch(found[0]):
        code = int(found[0])
        step = 10_000 if code >= 10_000 else 1_000
        return code // step, code % step // 100, code % 100
    return _numbers(found[0])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))
