"""Decides whether a remedy fits the versions seen in the evidence."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from hangscope.align.versions import Version, Versions

PRODUCTS = ("torch", "nccl", "cuda", "driver")

_PART = re.compile(r"\s*(?P<product>[a-z]+)?\s*(?P<operator>>=|<=|==|>|<)\s*(?P<version>\d+(?:\.\d+)*)\s*")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
# NCCL prints its version also as one number: 2.8.4 is 2804, from 2.9 on 2.21.5 is 22105 (NCCL_VERSION in nccl.h).
_NCCL_CODE = re.compile(r"2\d{3,4}")

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


def fits(requirement: str, seen: Versions) -> bool:
    """Whether the versions seen meet a requirement; an unknown version meets it, of several one is enough."""
    limits = parse_requirement(requirement) if requirement else ()
    return all(
        _product_fits([limit for limit in limits if limit.product == product], getattr(seen, product))
        for product in sorted({limit.product for limit in limits})
    )


def _product_fits(limits: list[Limit], seen: Version) -> bool:
    texts = (seen,) if isinstance(seen, str) else seen or ()
    versions = [version for version in map(_parse_version, texts) if version]
    return not versions or any(all(_holds(limit, version) for limit in limits) for version in versions)


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
