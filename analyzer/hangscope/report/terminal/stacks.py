"""Where the stacks stand: one paragraph for all processes that stand alike, those that differ first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from hangscope.model import Report, StackNode, StackState
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, fold_numbers, rank_words
from hangscope.report.stack_states import state_words
from hangscope.report.terminal.screen import Screen

_CLASSES = 8
_FRAMES = 6
_NAMES = 4
_ROLES = {"loader": "data loader", "checkpoint": "checkpoint process", "child": "child process", "launcher": "launcher"}
_AT_REST = frozenset({"launcher", "loader-idle", "server-idle"})
"""States that say all there is to say: they are the same frames in every job."""
_CHANGES = {
    "stuck": "the same in every dump",
    "slow": "still in the same call, at another line of it",
    "moving": "moved between the dumps",
}


def show_stacks(screen: Screen, report: Report) -> None:
    """The part of the page that shows what the stacks have in common."""
    states = report.stacks
    if not states:
        return
    screen.heading(f"Stacks ({count_words(sum(state.count for state in states), 'process')})")
    most = len(states) if screen.options.verbose else _CLASSES
    for index, state in enumerate(states[:most]):
        if index:
            screen.blank()
        _show_state(screen, state, alone=len(states) == 1)
    if len(states) > most:
        rest = states[most:]
        left = f"and {count_words(sum(state.count for state in rest), 'more process')}"
        screen.prose(f"{left} at {count_words(len(rest), 'other place')} (--verbose shows all)", indent=1, style="dim")
    if screen.options.verbose and report.stack_tree:
        screen.blank()
        screen.prose("All frames, outermost first, and the ranks in them:", indent=1, style="dim")
        _show_tree(screen, report.stack_tree, 0, "")


def _show_state(screen: Screen, state: StackState, *, alone: bool) -> None:
    head = Text(overflow="fold")
    head.append(_who(state), style="bold red" if state.outlier else "bold")
    head.append(f" {screen.glyphs.rule} {one_line(state_words(state.state, state.operation))}")
    if state.activity == "idle" and state.state == "running":
        head.append(", blocked in a system call")
    if state.outlier and not alone:
        head.append("  <- not like the others", style="red")
    screen.show(head, indent=1)
    if state.change:
        screen.prose(_CHANGES[state.change], indent=5, style="dim")
    if state.state in _AT_REST and not state.outlier and not alone and not screen.options.verbose:
        return
    frames = state.frames if screen.options.verbose else state.frames[:_FRAMES]
    own = _own_frame(state)
    for frame in frames:
        style = "bold" if frame == own else "dim"
        screen.show(Text(screen.shorten(frame, screen.width - 8), style=style, overflow="fold"), indent=7)
    left = len(state.frames) - len(frames)
    if left:
        screen.prose(f"{screen.glyphs.ellipsis} {left} more", indent=7, style="dim")
    if state.where and own not in frames:
        screen.show(Text(f"at {one_line(state.where)}", style="bold", overflow="fold"), indent=7)


def _own_frame(state: StackState) -> str:
    """The frame of the job's own code as it stands among the frames."""
    place, _, function = (state.where or "").partition(" ")
    return f"{function} ({place})"


def _who(state: StackState) -> str:
    """``ranks 0-4,6``, ``2 data loaders of rank 1``, ``pid 17408, pid 17410``."""
    names = [one_line(name) for name in state.processes]
    told = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
    if state.role == "rank":
        ranks = rank_words(state.ranks, most=48) if state.ranks else ""
        return ", ".join(part for part in (ranks, told) if part)
    noun = _ROLES.get(state.role, state.role)
    kind = noun if state.count == 1 else count_words(state.count, noun)
    of = f" of {rank_words(state.ranks, most=40)}" if state.ranks else ""
    return f"{kind}{of}" + (f" ({told})" if told and not of else "")


def _show_tree(screen: Screen, nodes: Sequence[StackNode], depth: int, above: str) -> None:
    """The tree; a frame that all of its caller's ranks are in needs no step to the right and no ranks."""
    for node in nodes:
        ranks = fold_numbers(node.ranks)
        who = ranks if len(ranks) <= 40 else count_words(len(node.ranks), "rank")
        who = who or count_words(node.count, "process")
        note = "" if who == above else f"  [{who}]"
        room = max(screen.width - 2 * depth - len(note) - 4, 20)
        line = Text(" " * (2 * depth) + screen.shorten(node.frame, room), overflow="fold")
        line.append(note, style="bold")
        screen.show(line, indent=3)
        _show_tree(screen, node.children, depth + (len(nodes) > 1 or len(node.children) > 1), who)
