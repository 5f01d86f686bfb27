"""Union-find: unites things that turn out to be one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Union(Generic[T]):
    """Disjoint sets; the representative of a set is its first member, so results do not depend on hashing."""

    def __init__(self) -> None:
        self._parent: dict[T, T] = {}
        self._order: dict[T, int] = {}

    def add(self, item: T) -> None:
        if item not in self._parent:
            self._parent[item] = item
            self._order[item] = len(self._order)

    def find(self, item: T) -> T:
        """The representative of the item's set."""
        self.add(item)
        root = item
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[item] != root:
            self._parent[item], item = root, self._parent[item]
        return root

    def unite(self, one: T, other: T) -> None:
        first, second = self.find(one), self.find(other)
        if self._order[first] > self._order[second]:
            first, second = second, first
        self._parent[second] = first
