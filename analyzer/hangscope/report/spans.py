"""Writes many ranks, hosts and numbers in few characters: ``0-3,6``, ``node[001-063]``, ``1,024``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hangscope.expressions import expression
from hangscope.ranges import fold_numbers, rank_numbers, rank_words

__all__ = [
    "HIGH",
    "MEDIUM",
    "confidence_word",
    "count_words",
    "fold_hosts",
    "fold_numbers",
    "hosts_words",
    "rank_numbers",
    "rank_words",
    "size_words",
]

HIGH, MEDIUM = 0.8, 0.5
"""Confidences from which a finding counts as one of high, and of medium confidence."""

_NUMBERED = expression(r"(.*?)(\d+)(\D*)", re.DOTALL)

# Addresses are numbers too, yet nobody reads 10.0.0.[4-7] as four machines at night.
_ADDRESS = expression(r"[\d.:]+")


def fold_hosts(names: Iterable[str]) -> str:
    """``node01, node02, node03, login`` as ``login, node[01-03]``, the way Slurm writes host lists."""
    hosts = set(names)
    numbered = {host: found for host in hosts if (found := _NUMBERED.fullmatch(host)) and not _ADDRESS.fullmatch(host)}
    padded = {(found[1], found[3], len(found[2])) for found in numbered.values() if found[2].startswith("0")}
    series: dict[tuple[str, str, int], list[int]] = {}
    for found in numbered.values():
        # node09 and node10 are one series of two digits, node9 and node10 are one of as many as it takes
        key = (found[1], found[3], len(found[2]))
        series.setdefault(key if key in padded else (found[1], found[3], 0), []).append(int(found[2]))
    single = hosts - numbered.keys()
    words = list(single)
    for (before, after, digits), numbers in series.items():
        if len(numbers) == 1:
            words.append(f"{before}{numbers[0]:0{digits}d}{after}")
            continue
        words.append(f"{before}[{fold_numbers(numbers, digits=digits, strides=False)}]{after}")
    return ", ".join(sorted(words))


def hosts_words(names: Iterable[str]) -> str:
    """``node01``, ``node[01-63] (63 hosts)``, "" for none."""
    hosts = set(names)
    words = fold_hosts(hosts)
    return f"{words} ({count_words(len(hosts), 'host')})" if len(hosts) > 1 else words


def count_words(count: int, noun: str) -> str:
    """``1 file``, ``1,024 files``, ``2 processes``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def size_words(size_bytes: int) -> str:
    """``512 bytes``, ``3.4 MB``."""
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def confidence_word(confidence: float) -> str:
    """The contract's words: high from 0.8, medium from 0.5, else low."""
    if confidence >= HIGH:
        return "high"
    return "medium" if confidence >= MEDIUM else "low"
