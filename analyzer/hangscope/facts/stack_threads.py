"""What further threads of a process add: two that wait for each other, one that still works, two in collectives."""

from __future__ import annotations

import re

from hangscope.align.stacks import Position
from hangscope.expressions import expression
from hangscope.facts.stack_stands import Stand
from hangscope.grammar.frames import load_frames
from hangscope.model import Frame, ThreadStack
from hangscope.records import dataclass

_SLEEPS = expression(
    r"heart_?beat|monitor|watch|poll|keep_?alive|sampl|stats?\b|ping|timer|tick|refresh|sleep|idle|serve|listen|daemon",
    re.IGNORECASE,
)
_IN_COLLECTIVE = frozenset({"in-collective", "in-object-collective", "in-barrier"})


@dataclass(frozen=True, slots=True)
class Other:
    """A thread beside the one that decides.

    Attributes:
        thread: the thread.
        frame: the innermost frame of the job's own code on it, or the innermost one of Python.
        state: what it does.
    """

    thread: ThreadStack
    frame: Frame
    state: str

    @property
    def name(self) -> str:
        return self.thread.name or self.thread.thread


def blocked_pair(stand: Stand) -> Other | None:
    """A second thread that is blocked in the job's own code while the main thread is, as in a deadlock of two locks.

    py-spy shows no frame for a lock that is taken in C: both threads stand idle at lines of their own. Only of a thread
    that shares a class or a file with the main thread, and whose name does not say that it sleeps by profession, this
    tells something.
    """
    position = stand.position
    if position.state not in ("running", "lock-wait") or position.user is None or stand.active:
        return None
    for other in _others(position):
        if other.thread.activity == "active" or other.state not in ("running", "lock-wait"):
            continue
        if other.state == position.state == "lock-wait":
            return other
        if _SLEEPS.search(other.frame.function) or _SLEEPS.search(other.thread.name):
            continue
        if other.frame.file == position.user.file:
            return other
    return None


def busy_helper(stand: Stand) -> Other | None:
    """A thread of the job's own code that runs, for which the main thread may well wait."""
    return next((o for o in _others(stand.position) if o.thread.activity == "active" and o.state == "running"), None)


def collective_threads(position: Position) -> tuple[ThreadStack, ...]:
    """The threads that stand in collectives by frames of Python; those of gloo and NCCL run what others called."""
    pairs = zip(position.dump.threads, position.states, strict=False)
    return tuple(
        thread for thread, state in pairs if state in _IN_COLLECTIVE and any(not f.native for f in thread.frames)
    )


def _others(position: Position) -> list[Other]:
    own = load_frames().own
    found = []
    for thread, state in zip(position.dump.threads, position.states, strict=False):
        if thread is position.thread:
            continue
        python = [frame for frame in thread.frames if not frame.native]
        user, mine = own.innermost(thread.frames)
        if user is not None and mine and (user is python[0] or state == "lock-wait"):
            found.append(Other(thread, user, state))
    return found
