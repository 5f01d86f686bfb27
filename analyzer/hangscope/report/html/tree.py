"""Folds the tree of all stacks for the page: frames that all go through together are one step, branches are bounded."""

from __future__ import annotations

from collections.abc import Sequence

from hangscope.model import Report, StackNode
from hangscope.records import dataclass
from hangscope.report.spans import count_words, fold_numbers

MOST_BRANCHES = 1_500
"""So many steps are written; a page with more of them is nothing that anybody reads."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Frames that the same processes are in, outermost first, and what they call next.

    Attributes:
        frames: ``function (file:line)``.
        who: ``0-4,6 (6 ranks)``.
        ranks: the same for programs, "" when nobody knows them.
        outlier: only ranks stand here that stand elsewhere than most, and not all of its caller's do.
        children: where it goes on, most processes first.
        left_out: further branches that are not written.
    """

    frames: tuple[str, ...]
    who: str
    ranks: str
    outlier: bool
    children: tuple[Branch, ...]
    left_out: int


def fold_tree(report: Report) -> list[Branch]:
    """The report's tree, outermost frames first."""
    outliers = {rank for state in report.stacks if state.outlier and state.role == "rank" for rank in state.ranks}
    return _Folder(outliers).branches(report.stack_tree, within_outlier=False)


class _Folder:
    def __init__(self, outliers: set[int]) -> None:
        self._outliers = outliers
        self._left = MOST_BRANCHES

    def branches(self, nodes: Sequence[StackNode], *, within_outlier: bool) -> list[Branch]:
        found = []
        for node in nodes:
            if self._left <= 0:
                break
            self._left -= 1
            found.append(self._branch(node, within_outlier=within_outlier))
        return found

    def _branch(self, node: StackNode, *, within_outlier: bool) -> Branch:
        frames = [node.frame]
        while len(node.children) == 1 and node.children[0].count == node.count:
            node = node.children[0]
            frames.append(node.frame)
        odd = bool(node.ranks) and self._outliers.issuperset(node.ranks)
        children = self.branches(node.children, within_outlier=within_outlier or odd)
        return Branch(
            frames=tuple(frames),
            who=_who(node),
            ranks=fold_numbers(node.ranks),
            outlier=odd and not within_outlier,
            children=tuple(children),
            left_out=len(node.children) - len(children),
        )


def _who(node: StackNode) -> str:
    if not node.ranks:
        return count_words(node.count, "process")
    numbers = fold_numbers(node.ranks)
    if len(node.ranks) == 1:
        return f"rank {numbers}"
    many = count_words(len(node.ranks), "rank")
    return f"{many}: {numbers}" if len(numbers) <= 40 else many
