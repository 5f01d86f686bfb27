"""Says in words whose stacks stand together, what they do there, and how that changed between two dumps."""

from __future__ import annotations

from hangscope.model import StackState
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, rank_words
from hangscope.report.stack_states import state_words

AT_REST = frozenset({"launcher", "loader-idle", "server-idle"})
"""States that say all there is to say: they are the same frames in every job."""

_NAMES = 4
_ROLES = {"loader": "data loader", "checkpoint": "checkpoint process", "child": "child process", "launcher": "launcher"}
_CHANGES = {
    "stuck": "the same in every dump",
    "slow": "still in the same call, at another line of it",
    "moving": "moved between the dumps",
}


def members_words(state: StackState) -> str:
    """``ranks 0-4,6``, ``2 data loaders of rank 1``, ``pid 17408, pid 17410``."""
    names = [one_line(name) for name in state.processes]
    told = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
    if state.role == "rank":
        ranks = rank_words(state.ranks, most=48) if state.ranks else ""
        if not ranks and len(names) > _NAMES:
            return f"{count_words(len(names), 'process')} ({told})"
        return ", ".join(part for part in (ranks, told) if part)
    noun = _ROLES.get(state.role, state.role)
    kind = noun if state.count == 1 else count_words(state.count, noun)
    of = f" of {rank_words(state.ranks, most=40)}" if state.ranks else ""
    return f"{kind}{of}" + (f" ({told})" if told and not of else "")


def doing_words(state: StackState) -> str:
    """``in all_reduce``, ``running, blocked in a system call``."""
    words = one_line(state_words(state.state, state.operation))
    return f"{words}, blocked in a system call" if state.activity == "idle" and state.state == "running" else words


def change_words(state: StackState) -> str:
    """What two dumps say of it, "" where there was one."""
    return _CHANGES[state.change] if state.change else ""


def own_frame(state: StackState) -> str:
    """The frame of the job's own code as it stands among the frames."""
    place, _, function = (state.where or "").partition(" ")
    return f"{function} ({place})"
