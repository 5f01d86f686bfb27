"""A part of what the ranks called last: of some ranks, groups, or of some time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pandas as pd

from hangscope.model import CallHistory, GroupHistory, History
from hangscope.notebook.choice import Choice, named


def history_part(history: History, choices: Sequence[Choice], ranks: Collection[int] | None) -> History:
    """What is left of a history.

    Args:
        history: the calls of all ranks.
        choices: all of which must hold; of their ranks and hosts `ranks` says it already.
        ranks: the ranks that are wanted, all when None.
    """
    groups = [group for group in history.groups if all(_is_wanted(group, choice) for choice in choices)]
    narrowed = [_of_ranks(group, ranks) for group in groups]
    return replace(
        history,
        groups=tuple(_of_time(group, choices) for group in narrowed if group.ranks),
        transfers=tuple(
            one
            for one in history.transfers
            if (ranks is None or one.rank in ranks) and all(_in_time(one.started, choice) for choice in choices)
        ),
    )


def _is_wanted(group: GroupHistory, choice: Choice) -> bool:
    return choice.groups is None or bool(named((group.group, group.description), choice.groups))


def _of_ranks(group: GroupHistory, ranks: Collection[int] | None) -> GroupHistory:
    if ranks is None:
        return group
    places = [place for place, rank in enumerate(group.ranks) if rank in ranks]
    return replace(
        group,
        ranks=tuple(group.ranks[place] for place in places),
        calls=tuple(_cells(call, places, frozenset(ranks)) for call in group.calls),
    )


def _cells(call: CallHistory, places: Sequence[int], ranks: frozenset[int]) -> CallHistory:
    return replace(
        call,
        states=tuple(call.states[place] for place in places),
        started=tuple(call.started[place] for place in places) if call.started else (),
        differing={rank: words for rank, words in call.differing.items() if rank in ranks},
    )


def _of_time(group: GroupHistory, choices: Sequence[Choice]) -> GroupHistory:
    """Calls that some rank made in that time; where no time is known, all."""
    kept = tuple(
        call
        for call in group.calls
        if not call.started or any(all(_in_time(moment, choice) for choice in choices) for moment in call.started)
    )
    return replace(group, calls=kept)


def _in_time(moment: float | None, choice: Choice) -> bool:
    if choice.after is None and choice.before is None:
        return True
    if moment is None:
        return False
    time = pd.Timestamp(moment, unit="s").round("us")
    return (choice.after is None or time >= choice.after) and (choice.before is None or time <= choice.before)
