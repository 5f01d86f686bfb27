"""Merges the stacks of all ranks: which processes stand at the same place, a tree of all frames, and what moves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import pairwise

from hangscope.align.dump_threads import without_parent
from hangscope.align.stacks import Position, Stacks
from hangscope.grammar.frames import last_component
from hangscope.model import Frame
from hangscope.records import dataclass

STUCK, SLOW, MOVING = "stuck", "slow", "moving"

Place = tuple[str, str, int | None]
"""A frame as far as stacks of different tools and hosts have it alike: function, end of its path, line."""

ROLES = ("rank", "loader", "checkpoint", "child", "launcher", "helper")
"""Roles of processes, those that matter first."""


@dataclass(frozen=True, slots=True)
class StackClass:
    """Processes that stand at the same place.

    Attributes:
        members: their last positions, by rank; the first one represents them.
        outlier: few stand here, and most of their kind elsewhere.
        change: between two dumps of a process: "stuck" (same frames, same lines), "slow" (same call, other lines in
            it), "moving"; "" when there is one dump only, or the members differ.
    """

    members: tuple[Position, ...]
    outlier: bool
    change: str

    @property
    def representative(self) -> Position:
        return self.members[0]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({member.rank for member in self.members if member.rank is not None}))


@dataclass(slots=True)
class Node:
    """A frame, the processes that are in it, and what they call from there.

    Attributes:
        place: the frame; None for the root.
        members: positions below, by rank.
        children: by frame, in the order of the first rank.
    """

    place: Place | None = None
    members: list[Position] = field(default_factory=list)
    children: dict[Place, Node] = field(default_factory=dict)


def place_in(frame: Frame) -> Place:
    """The frame without what depends on the tool (qualified names) and on the installation (folders above)."""
    path = (frame.file or "").replace("\\", "/")
    return (last_component(frame.function), "/".join(path.split("/")[-2:]), frame.line)


def frames_of(position: Position) -> tuple[Frame, ...]:
    """The frames that are compared: Python's, innermost first; of a stack that has none, all."""
    frames = without_parent(position.thread.frames) if position.thread is not None else ()
    return tuple(frame for frame in frames if not frame.native) or frames


def find_classes(stacks: Stacks) -> tuple[StackClass, ...]:
    """The places where processes stand: those where few stand first, then by role and the number of processes."""
    groups: dict[tuple[object, ...], list[Position]] = defaultdict(list)
    changes: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for rounds in stacks.by_process():
        last = rounds[-1]
        key = _kind(last)
        groups[key].append(last)
        changes[key].add(change_of(rounds))
    totals: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for (role, *_), members in groups.items():
        totals[str(role)] += len(members)
        largest[str(role)] = max(largest[str(role)], len(members))
    classes = []
    for key, members in groups.items():
        role = str(key[0])
        few = 2 * largest[role] > totals[role] > len(members) and len(members) < largest[role]
        said = changes[key]
        change = next(iter(said)) if len(said) == 1 else ""
        classes.append(StackClass(tuple(members), few, change))
    return tuple(sorted(classes, key=_order))


def _kind(position: Position) -> tuple[object, ...]:
    """What makes two stacks one class: the functions, and the line of the job's own code, not every line below it."""
    functions = tuple(place_in(frame)[:2] for frame in frames_of(position))
    user = place_in(position.user) if position.user is not None else None
    return (position.role, position.state, position.operation, user, functions)


def _order(one: StackClass) -> tuple[bool, int, int, bool, int]:
    first = one.representative
    size = len(one.members) if one.outlier else -len(one.members)
    return (not one.outlier, ROLES.index(first.role), size, first.rank is None, first.rank or 0)


def build_tree(positions: Iterable[Position]) -> Node:
    """The frames of many processes as one tree, outermost frame first."""
    root = Node()
    for position in positions:
        node = root
        node.members.append(position)
        for frame in reversed(frames_of(position)):
            place = place_in(frame)
            node = node.children.setdefault(place, Node(place))
            node.members.append(position)
    return root


def change_of(rounds: Sequence[Position]) -> str:
    """How a process moved between its dumps; "" when no two of them can be compared."""
    steps = []
    views: dict[tuple[str, bool], list[Position]] = defaultdict(list)
    for position in rounds:
        views[position.dump.tool, position.native].append(position)
    for same in views.values():
        steps += [_change(before, after) for before, after in pairwise(same)]
    return next((change for change in (MOVING, SLOW, STUCK) if change in steps), "")


def _change(before: Position, after: Position) -> str:
    steps = before.dump.values.get("step"), after.dump.values.get("step")
    if None not in steps and steps[0] != steps[1]:
        return MOVING
    first, second = _places(before), _places(after)
    if first == second:
        return STUCK if first else ""
    common = next(
        (depth for depth, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )
    # a process whose outer functions have gone on works; one that is still below the same call may be long in it
    below = max(1, min(_depth_of_own(before), _depth_of_own(after)))
    return SLOW if common >= below and before.state == after.state else MOVING


def _places(position: Position) -> list[Place]:
    return [place_in(frame) for frame in reversed(frames_of(position))]


def _depth_of_own(position: Position) -> int:
    """How many frames stand outside of the innermost frame of the job's own code."""
    frames = frames_of(position)
    return len(frames) - 1 - frames.index(position.user) if position.user in frames else len(frames)
