"""Where each rank is: a table for a few ranks, a grid of hosts for many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rich.text import Text

from hangscope.model import RankState, Report
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, fold_hosts, fold_numbers, rank_words
from hangscope.report.terminal.screen import Screen, columns
from hangscope.report.times import split_time

_TABLE_UP_TO = 16
_ROWS = 16
_STYLES = {
    "dead": "bold red",
    "missing": "bold red",
    "waiting": "yellow",
    "running": "green",
    "finished": "green",
}

# Worst first: the eye stops at the first line.
_ORDER = ("dead", "missing", "unknown", "running", "finished", "waiting")


def show_ranks(screen: Screen, report: Report) -> None:
    """The part of the page that says where the ranks are."""
    states = sorted(report.ranks, key=lambda state: state.rank)
    if not any(state.state != "unknown" or state.where or state.host for state in states):
        return
    hosts = {state.host for state in states if state.host}
    about = count_words(len(states), "rank") + (f", {count_words(len(hosts), 'host')}" if hosts else "")
    screen.heading(f"Where the ranks are ({about})")
    if len(states) <= _TABLE_UP_TO:
        _show_table(screen, states, frozenset(report.verdict.ranks))
        return
    _show_places(screen, states)
    _show_grid(screen, states)


def _show_table(screen: Screen, states: Sequence[RankState], culprits: frozenset[int]) -> None:
    dates = {split_time(state.last_seen)[0] for state in states if state.last_seen}
    facts = {
        "": [">" if state.rank in culprits else "" for state in states],
        "rank": [str(state.rank) for state in states],
        "host": [one_line(state.host or "") for state in states],
        "gpu": [one_line(state.gpu or "") for state in states],
        "pid": ["" if state.pid is None else str(state.pid) for state in states],
        "state": [state.state for state in states],
        "last seen": [
            (split_time(state.last_seen)[1] if len(dates) == 1 else state.last_seen or "") for state in states
        ],
        "where": [one_line(state.where or "") for state in states],
    }
    shown = {name: values for name, values in facts.items() if any(values)}
    table = columns(*([None] * len(shown)))
    table.add_row(*(Text(name, style="dim") for name in shown))
    for index, state in enumerate(states):
        styles = {"state": _STYLES.get(state.state, ""), "": "bold red"}
        row = (Text(values[index], style=styles.get(name, ""), overflow="fold") for name, values in shown.items())
        table.add_row(*row)
    screen.show(table, indent=1)


def _show_places(screen: Screen, states: Sequence[RankState]) -> None:
    """How many ranks are in which state at which line of code."""
    together: dict[tuple[str, str], list[int]] = defaultdict(list)
    for state in states:
        together[state.state, one_line(state.where or "")].append(state.rank)
    rows = sorted(together.items(), key=lambda item: (_severity(item[0][0]), -len(item[1]), item[0]))
    most = _ROWS if not screen.options.verbose else len(rows)
    table = columns(None, None, None, None)
    for (name, where), ranks in rows[:most]:
        table.add_row(
            Text(name, style=_STYLES.get(name, "")),
            Text(f"{len(ranks):,}", justify="right"),
            Text(rank_words(ranks, most=48)),
            Text(where, overflow="fold"),
        )
    screen.show(table, indent=1)
    if len(rows) > most:
        screen.prose(f"and {len(rows) - most} more places (--verbose shows all)", indent=1, style="dim")


def _show_grid(screen: Screen, states: Sequence[RankState]) -> None:
    """One letter a rank, one row for all the hosts that look alike."""
    letters = _letters(states)
    by_host: dict[str, list[RankState]] = defaultdict(list)
    for state in states:
        by_host[one_line(state.host or "")].append(state)
    alike: dict[str, list[str]] = defaultdict(list)
    for host, members in by_host.items():
        alike["".join(letters[member.state] for member in members)].append(host)
    # A pattern without a letter is the usual one: it goes last.
    first = {pattern: min(by_host[host][0].rank for host in hosts) for pattern, hosts in alike.items()}
    rows = sorted(alike.items(), key=lambda item: (not item[0].strip("."), first[item[0]]))
    most = _ROWS if not screen.options.verbose else len(rows)
    in_order = sorted(letters, key=_severity)
    legend = ", ".join(f"{letters[name]} {name}" for name in in_order)
    screen.blank()
    screen.prose(f"One letter a rank: {legend}", indent=1, style="dim")
    table = columns(None, None, None)
    for pattern, hosts in rows[:most]:
        ranks = [state.rank for host in hosts for state in by_host[host]]
        names, numbers = Text(_host_words(hosts), overflow="fold"), Text(_short(ranks), overflow="fold")
        table.add_row(_colored(pattern, letters), names, numbers)
    screen.show(table, indent=1)
    if len(rows) > most:
        left = sum(len(hosts) for _, hosts in rows[most:])
        screen.prose(f"and {count_words(left, 'more host')} (--verbose shows all)", indent=1, style="dim")


def _letters(states: Sequence[RankState]) -> dict[str, str]:
    """A letter for each state; the commonest state is a dot, so that the others stand out."""
    common = Counter(state.state for state in states).most_common(1)[0][0]
    letters = {common: "."}
    for name in sorted({state.state for state in states} - {common}, key=_severity):
        wished = "?" if name == "unknown" else name[0].upper()
        taken = set(letters.values())
        free = next(letter for letter in (wished, *name.upper(), *"0123456789") if letter not in taken)
        letters[name] = free
    return letters


def _colored(pattern: str, letters: Mapping[str, str]) -> Text:
    styles = {letter: _STYLES.get(state, "") for state, letter in letters.items()}
    content = Text(overflow="fold")
    for letter in pattern:
        content.append(letter, style=styles[letter])
    return content


def _host_words(hosts: Sequence[str]) -> str:
    words = fold_hosts(host for host in hosts if host) or "host not known"
    return f"{words} ({len(hosts)} hosts)" if len(hosts) > 1 else words


def _short(ranks: Sequence[int]) -> str:
    numbers = fold_numbers(ranks)
    return numbers if len(numbers) <= 40 else rank_words(ranks, most=40)


def _severity(state: str) -> tuple[int, str]:
    return (_ORDER.index(state) if state in _ORDER else len(_ORDER) // 2, state)
