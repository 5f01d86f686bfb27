"""Where the stacks stand: one paragraph for all processes that stand alike, those that differ first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from hangscope.expressions import expression
from hangscope.model import Report, StackNode, StackState
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, fold_numbers
from hangscope.report.stack_words import AT_REST, change_words, doing_words, members_words, own_frame
from hangscope.report.terminal.screen import Screen

_CLASSES = 8
_FRAMES = 6
_WRAPPER = expression(r"(?:^|<locals>\.)wrapper \((?:\S*/)?torch/")
"""A decorator of PyTorch's own, which says nothing that the frames beside it do not."""


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
    head.append(members_words(state), style="bold red" if state.outlier else "bold")
    head.append(f" {screen.glyphs.rule} {doing_words(state)}")
    if state.outlier and not alone:
        head.append("  <- not like the others", style="red")
    screen.show(head, indent=1)
    if state.change:
        screen.prose(change_words(state), indent=5, style="dim")
    if state.state in AT_REST and not state.outlier and not alone and not screen.options.verbose:
        return
    telling = [frame for frame in state.frames if screen.options.verbose or not _WRAPPER.search(frame)]
    frames = telling if screen.options.verbose else telling[:_FRAMES]
    own = own_frame(state)
    for frame in frames:
        style = "bold" if frame == own else "dim"
        screen.show(Text(_fit(screen, frame, screen.width - 8), style=style, overflow="fold"), indent=7)
    left = len(telling) - len(frames)
    if left:
        screen.prose(f"{screen.glyphs.ellipsis} {left} more", indent=7, style="dim")
    if state.where and own not in frames:
        screen.show(Text(f"at {one_line(state.where)}", style="bold", overflow="fold"), indent=7)


def _fit(screen: Screen, frame: str, room: int) -> str:
    """The frame in so many columns: of a long path the first folders go, and the file and its line stay."""
    frame = one_line(frame)
    function, bracket, path = frame.rpartition(" (")
    while bracket and len(frame) > room and "/" in path:
        path = path.partition("/")[2]
        frame = f"{function} ({screen.glyphs.ellipsis}/{path}"
    return screen.shorten(frame, room)


def _show_tree(screen: Screen, nodes: Sequence[StackNode], depth: int, above: str) -> None:
    """The tree; a frame that all of its caller's ranks are in needs no step to the right and no ranks."""
    for node in nodes:
        ranks = fold_numbers(node.ranks)
        who = ranks if len(ranks) <= 40 else count_words(len(node.ranks), "rank")
        who = who or count_words(node.count, "process")
        note = "" if who == above else f"  [{who}]"
        room = max(screen.width - 2 * depth - len(note) - 4, 20)
        line = Text(" " * (2 * depth) + _fit(screen, node.frame, room), overflow="fold")
        line.append(note, style="bold")
        screen.show(line, indent=3)
        _show_tree(screen, node.children, depth + (len(nodes) > 1 or len(node.children) > 1), who)
