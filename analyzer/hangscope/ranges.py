"""Writes many numbers in few characters: ``0-3,6``, and ``1-31:2`` for every second one, as Slurm does."""

from __future__ import annotations

from collections.abc import Iterable

_STRIDED = 4
"""So many equal steps in a row are worth a step of their own; fewer read better one by one."""
_LONG = 80
"""More characters than this of numbers one by one is nothing that anybody reads."""


def fold_numbers(numbers: Iterable[int], *, digits: int = 0, strides: bool = True) -> str:
    """``0,1,2,3,6`` as ``0-3,6``; two neighbours stay apart (``0,1``); ``3,11,19,27`` as ``3-27:8``.

    Ranks of one pipeline or data-parallel group stand in equal steps, by the hundred.

    Args:
        numbers: in any order.
        digits: pad each number to so many digits.
        strides: write equal steps above 1 as one run.
    """
    return ",".join(_span(*run, digits) for run in _runs(sorted(set(numbers)), strides=strides))


def count_off(numbers: Iterable[int]) -> str:
    """Like `fold_numbers`; equal steps in words: ``3-27 (every 8th)``, ``3-507, 523-1019 (every 8th)``.

    Several series only where the numbers one by one would be long; then also steps that differ: ``0-62:2,64-124:4``.
    """
    numbers = sorted(set(numbers))
    runs = _runs(numbers, strides=True)
    steps = {step for first, last, step in runs if first < last}
    plain = fold_numbers(numbers, strides=False)
    if max(steps, default=1) == 1 or (len(runs) > 1 and len(plain) <= _LONG):
        return plain
    if len(steps) > 1:
        return min(plain, fold_numbers(numbers), key=len)
    (step,) = steps
    spans = ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last, _ in runs)
    return f"{spans} (every {step}{_ending(step)})"


def rank_words(ranks: Iterable[int], *, most: int = 0) -> str:
    """``rank 5``, ``ranks 0-3,6``; with `most`, no more than so many characters of numbers."""
    known = set(ranks)
    if not known:
        return "no rank"
    return f"rank{'s' if len(known) > 1 else ''} {rank_numbers(known, most=most)}"


def rank_numbers(ranks: Iterable[int], *, most: int = 0) -> str:
    """``5``, ``0-3,6``, "" for none: what `rank_words` says without its noun."""
    known = set(ranks)
    numbers = count_off(known)
    if most and len(numbers) > most and "(" not in numbers:
        shown = numbers[:most].rpartition(",")[0] or numbers[:most]
        return f"{shown},... ({len(known):,} in all)"
    return numbers


def _runs(numbers: list[int], *, strides: bool) -> list[tuple[int, int, int]]:
    """First, last and step of each run, the longest possible first."""
    runs = []
    at = 0
    while at < len(numbers):
        step = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 1
        end = at + 1
        # a run that is not wanted is not followed to its end: it would be, anew from each of its numbers
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step and (step == 1 or strides):
            end += 1
        if step > 1 and (not strides or end - at < _STRIDED):
            end, step = at + 1, 1
        runs.append((numbers[at], numbers[end - 1], step))
        at = end
    return runs


def _span(first: int, last: int, step: int, digits: int) -> str:
    if first == last:
        return f"{first:0{digits}d}"
    between = "," if last == first + 1 else "-"
    return f"{first:0{digits}d}{between}{last:0{digits}d}" + (f":{step}" if step > 1 else "")


def _ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
