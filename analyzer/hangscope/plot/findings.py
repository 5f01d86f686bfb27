"""Says a report's finding in one sentence, for the titles of pictures."""

from __future__ import annotations

from hangscope.model import CollectiveState, Report
from hangscope.model.names import group_title
from hangscope.ranges import rank_words

GROUP_ORDER = "group-order-deadlock"
"""The cause of which calls wait for each other in a circle."""
_MOST = 44
"""Characters of numbers of ranks in a title."""


def headline(report: Report) -> tuple[str, str]:
    """Title and subtitle: who waits in which call for whom, and why; the verdict alone where nobody waits."""
    verdict, stuck = report.verdict, main_call(report)
    if stuck is None:
        return verdict.title, ""
    words = call_words(stuck, set(verdict.ranks))
    if stuck.differing or verdict.cause == GROUP_ORDER:
        return verdict.title, words
    if verdict.cause.startswith("collective-") and stuck.where:
        # the verdict says the same
        return words, f"called at {stuck.where}"
    return words, verdict.title


def call_words(stuck: CollectiveState, blamed: set[int]) -> str:
    """``Ranks 0-6 wait in all_reduce 42 of world for rank 7``."""
    call = f"{name_of(stuck)} of {group_of(stuck)}"
    if stuck.differing:
        odd = sorted(stuck.differing)
        others = [rank for rank in stuck.arrived if rank not in stuck.differing]
        where = f"where {_words(others)} called" if others else "in place of"
        return _capital(f"{_words(odd)} called {stuck.differing[odd[0]]} {where} {call}")
    # of the missing ranks most may wait elsewhere for those that are to blame
    gone = [rank for rank in stuck.missing if rank in blamed] or list(stuck.missing)
    # who left out a call stands in it with the next one
    waiting = [rank for rank in stuck.arrived if rank not in gone]
    if not waiting:
        return _capital(f"{_words(gone)} did not make {call}")
    verb = "waits" if len(waiting) == 1 else "wait"
    if not gone:
        return _capital(f"{_words(waiting)} {verb} in {call}, which all of them have made")
    return _capital(f"{_words(waiting)} {verb} in {call} for {_words(gone)}")


def main_call(report: Report) -> CollectiveState | None:
    """The stuck call that concerns those whom the verdict names, else the first."""
    blamed = set(report.verdict.ranks)
    for stuck in report.collectives:
        if not blamed.isdisjoint((*stuck.missing, *stuck.differing)):
            return stuck
    return report.collectives[0] if report.collectives else None


def name_of(stuck: CollectiveState) -> str:
    """``all_reduce 42``; sends and receives have numbers of one process only, which say nothing to others."""
    return f"a {stuck.op}" if stuck.op in ("send", "recv") else f"{stuck.op or 'call'} {stuck.seq}"


def group_of(stuck: CollectiveState) -> str:
    """``group 5 (DATA_PARALLEL_GROUP)``, ``world``."""
    return group_words(stuck.group, stuck.description)


def group_words(name: str, description: str) -> str:
    """A group in words; torch's own names are mere numbers."""
    return group_title(f"group {name}" if name.isdecimal() else name, description)


def _words(ranks: list[int] | tuple[int, ...]) -> str:
    return rank_words(ranks, most=_MOST)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
