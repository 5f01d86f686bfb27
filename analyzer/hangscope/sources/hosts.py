"""Knows which process of a file is on which host, and repairs names that are glued to other text or torn."""

from __future__ import annotations

from collections import Counter

_MAX_PIDS = 1 << 16
# a name seen so often for one process, and none more often, needs no comparison with others
_SURE = 3
_MAX_NAMES = 64
"""A process with more names has none that could be settled; comparing them all would take ever longer."""


class Hosts:
    """Learns from the headers of one file, in which text without a newline may stick to a name."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._of: dict[int, Counter[str]] = {}

    def settle(self, host: str | None, pid: int, *, at_start: bool) -> str | None:
        """The name that is meant by `host` in a header of process `pid`.

        Args:
            host: as it stands there; None when the line begins behind it.
            pid: a process; containers may share its number, so it may have several hosts.
            at_start: nothing stands in front of the name.
        """
        known = self._of.get(pid)
        if known is None:
            if len(self._of) >= _MAX_PIDS:
                return host
            known = self._of[pid] = Counter()
        if len(known) >= _MAX_NAMES:
            return host
        if host is None or (host.isdecimal() and host not in known):
            # torn off, or all of it but digits; where names are removed from a whole file, nothing is known
            return _dominant(known) or host
        if at_start or self._all[host]:
            # only what begins a line is evidence for a new name
            known[host] += 1
            self._all[host] += 1
        if known[host] >= _SURE and known[host] == max(known.values()):
            return host
        return self._better(host, known)

    def saw_again(self, host: str, pid: int) -> bool:
        """Does what `settle` does for a name at the start of a line; False, and nothing, where it might say another."""
        known = self._of.get(pid)
        times = 0 if known is None else known.get(host, 0) + 1
        if known is None or times < _SURE or len(known) >= _MAX_NAMES or times < max(known.values()):
            return False
        known[host] = times
        self._all[host] += 1
        return True

    def saw(self, host: str, pid: int, lines: int) -> None:
        """Counts lines that begin with a header of this process and need no settling."""
        known = self._of.get(pid)
        if known is None:
            if len(self._of) >= _MAX_PIDS:
                return
            known = self._of[pid] = Counter()
        if host in known or len(known) < _MAX_NAMES:
            known[host] += lines
            self._all[host] += lines

    def _better(self, host: str, known: Counter[str]) -> str:
        """A name of which this one is a part, or that is part of it, when that one is much better attested."""
        alike = {name for name in known if host.endswith(name) or name.endswith(host)}
        alike |= {host[start:] for start in range(1, len(host)) if host[start:] in self._all}
        alike.discard(host)
        if not alike:
            return host
        best = max(alike, key=lambda name: (known[name], self._all[name], len(name)))
        own = known[host] + self._all[host]
        return best if known[best] > known[host] or self._all[best] > max(2, 3 * own) else host


def _dominant(known: Counter[str]) -> str | None:
    ranking = known.most_common(2)
    if not ranking or (len(ranking) > 1 and ranking[0][1] <= 3 * ranking[1][1]):
        return None
    return ranking[0][0]
