"""Says where the stacks of all processes stand: one entry for all that stand alike, and the tree of their frames."""

from __future__ import annotations

from hangscope.align.stack_tree import Node, Place, StackClass, build_tree, find_classes, frames_of
from hangscope.align.stacks import Position, Stacks
from hangscope.expressions import expression
from hangscope.model import Frame, Location, StackNode, StackState

_FRAMES = 40
_DEPTH = 60
_CHILDREN = 64
_SHOWN_ROLES = frozenset({"rank", "loader", "checkpoint", "child", "launcher"})

STATE_WORDS = {
    "in-collective": "in {op|a collective}",
    "in-object-collective": "in {op|a collective of objects}",
    "in-barrier": "in {op|a barrier}",
    "in-p2p": "in {op|a send or recv}",
    "group-setup": "setting up a process group",
    "store-wait": "waiting for the store",
    "rendezvous": "waiting for all to join",
    "launcher": "watching its workers",
    "backward": "in the backward pass",
    "gpu-sync": "waiting for the GPU",
    "optimizer": "in the optimizer",
    "loading-data": "loading data",
    "waiting-for-loader": "waiting for its data loader",
    "loader-idle": "without work",
    "saving-checkpoint": "saving a checkpoint",
    "loading-checkpoint": "loading a checkpoint",
    "lock-wait": "waiting for a lock",
    "thread-join": "waiting for a thread",
    "exit-wait": "at exit, waiting for a thread",
    "queue-wait": "waiting for a queue",
    "child-wait": "waiting for a child process",
    "build-lock": "waiting for a build lock",
    "compiling": "compiling",
    "teardown": "tearing down its process group",
    "server-idle": "without requests",
    "importing": "importing modules",
    "running": "running",
    "native": "in native code",
    "noise": "helper threads only",
    "unknown": "not known",
}
"""What a state of `grammars/frames.toml` is called in a report."""

RANK_WORDS = {
    **dict.fromkeys(("in-collective", "in-object-collective", "in-barrier", "in-p2p"), "waiting"),
    **dict.fromkeys(("group-setup", "store-wait", "rendezvous"), "waiting"),
    **dict.fromkeys(("loading-data", "waiting-for-loader", "loading-checkpoint"), "loading"),
    **dict.fromkeys(("lock-wait", "thread-join", "queue-wait", "child-wait", "build-lock"), "blocked"),
    **dict.fromkeys(("exit-wait", "teardown"), "exiting"),
    **dict.fromkeys(("running", "backward", "optimizer", "gpu-sync"), "running"),
    "saving-checkpoint": "saving",
    "compiling": "compiling",
    "importing": "starting",
    "server-idle": "idle",
}
"""The one word for it in the report's `ranks`."""

SPECIFIC = frozenset(RANK_WORDS.values()) - {"waiting", "running", "idle"}
"""Words that tell more than that a rank is missing from a call."""

_INSTALLED = expression(r".*?/(?:site-packages|dist-packages|lib(?:64)?/python3(?:\.\d+)?t?)/(?=[^/])(?!.*?-packages/)")


def find_stack_states(stacks: Stacks) -> tuple[StackState, ...]:
    """The places where processes stand, outliers first; helper processes are left out."""
    return tuple(_state(one) for one in find_classes(stacks) if one.representative.role in _SHOWN_ROLES)


def find_stack_tree(stacks: Stacks) -> tuple[StackNode, ...]:
    """The frames of all ranks in their last dump as a tree; of loaders and launchers nothing."""
    last = [rounds[-1] for rounds in stacks.by_process() if rounds[-1].role == "rank"]
    return _children(build_tree(last), 0)


def state_words(state: str, operation: str) -> str:
    """``in all_reduce``, ``waiting for a lock``."""
    words = STATE_WORDS.get(state, state)
    before, brace, rest = words.partition("{op|")
    return f"{before}{operation or rest.rstrip('}')}" if brace else words


def _state(one: StackClass) -> StackState:
    first = one.representative
    return StackState(
        ranks=one.ranks,
        processes=tuple(_name(member) for member in one.members if member.rank is None),
        count=len(one.members),
        role=first.role,
        state=first.state,
        operation=first.operation,
        where=first.where,
        frames=tuple(_frame(frame) for frame in frames_of(first)[:_FRAMES]),
        outlier=one.outlier,
        change=one.change,
        at=Location(first.dump.line.file, first.dump.line.number, first.dump.line.offset),
        activity=first.activity if len({member.activity for member in one.members}) == 1 else "",
    )


def _name(position: Position) -> str:
    """What a process is called whose rank nobody knows."""
    dump = position.dump
    host = f" on {position.host}" if position.host else ""
    if dump.pid is not None:
        return f"pid {dump.pid}{host}"
    local_rank = position.process.local_rank if position.process is not None else None
    return f"local rank {local_rank}{host}" if local_rank is not None else f"{dump.line.file}:{dump.line.number}"


def _frame(frame: Frame) -> str:
    file = _INSTALLED.sub("", frame.file) if frame.file else "?"
    place = f"{file}:{frame.line}" if frame.line else file
    return f"{frame.function} ({place})"


def _children(node: Node, depth: int) -> tuple[StackNode, ...]:
    if depth >= _DEPTH:
        return ()
    children = sorted(node.children.items(), key=lambda item: (-len(item[1].members), item[0][0], item[0][1]))
    return tuple(_node(place, child, depth) for place, child in children[:_CHILDREN])


def _node(place: Place, node: Node, depth: int) -> StackNode:
    function, file, line = place
    ranks = tuple(sorted({member.rank for member in node.members if member.rank is not None}))
    text = f"{function} ({file or '?'}:{line})" if line else f"{function} ({file or '?'})"
    return StackNode(text, ranks, len(node.members), _children(node, depth + 1))
