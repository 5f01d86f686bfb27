"""The tables of a job as notebooks see them: times are timestamps, and rows can be chosen."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from hangscope.errors import UnknownNameError
from hangscope.notebook.choice import Choice, named
from hangscope.tables.schema import SCHEMA, TABLES, Column

if TYPE_CHECKING:
    from hangscope.tables import Tables

_TYPES = {"str": "text", "category": "text, category", "object": "dict"}


class JobTables:
    """The DataFrames of a job, each made on first use; those who change one should take a copy first.

    Times are timestamps without a zone, as printed; where no line of a file names the year, it is 2000. What is not
    known is null.
    """

    def __init__(self, tables: Tables, choices: tuple[Choice, ...]) -> None:
        self._tables = tables
        self._choices = choices
        self._made: dict[str, pd.DataFrame] = {}

    @property
    def events(self) -> pd.DataFrame:
        return self._table("events")

    @property
    def exceptions(self) -> pd.DataFrame:
        return self._table("exceptions")

    @property
    def environment(self) -> pd.DataFrame:
        return self._table("environment")

    @property
    def host_messages(self) -> pd.DataFrame:
        return self._table("host_messages")

    @property
    def calls(self) -> pd.DataFrame:
        return self._table("calls")

    @property
    def recorded_calls(self) -> pd.DataFrame:
        return self._table("recorded_calls")

    @property
    def processes(self) -> pd.DataFrame:
        return self._table("processes")

    @property
    def communicators(self) -> pd.DataFrame:
        return self._table("communicators")

    @property
    def memberships(self) -> pd.DataFrame:
        return self._table("memberships")

    @property
    def stacks(self) -> pd.DataFrame:
        return self._table("stacks")

    def columns(self, table: str) -> pd.DataFrame:
        """What the columns of a table mean.

        Returns:
            A DataFrame with the columns column, type and meaning, one row a column of the table.

        Raises:
            UnknownNameError: there is no such table.
        """
        if table not in SCHEMA:
            raise UnknownNameError(f"there is no table {table!r}", f"The tables are {', '.join(SCHEMA)}.")
        rows = [(column.name, _type(column), _meaning(column)) for column in SCHEMA[table]]
        return pd.DataFrame(rows, columns=["column", "type", "meaning"])

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._made:
            self._made[name] = self._part(getattr(self._tables, name), SCHEMA[name])
        return self._made[name]

    def _part(self, table: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
        """The rows that were asked for, with timestamps."""
        table = _with_timestamps(table, columns)
        for choice in self._choices:
            table = self._chosen(table, choice)
        return table

    def _chosen(self, table: pd.DataFrame, choice: Choice) -> pd.DataFrame:
        """The rows of a table that were asked for."""
        keep = pd.Series(data=True, index=table.index)
        if choice.after is not None or choice.before is not None:
            keep &= _in_time(table, choice)
        if choice.hosts is not None:
            keep &= self._of_hosts(table, named(self._hosts, choice.hosts))
        if choice.groups is not None:
            keep &= self._of_groups(table, choice.groups)
        if choice.ranks is not None:
            keep &= self._of_ranks(table, choice.ranks)
        return table if keep.all() else table[keep].reset_index(drop=True)

    def _of_ranks(self, table: pd.DataFrame, ranks: frozenset[int]) -> pd.Series[bool]:
        if "kind" in table and "source" not in table:  # messages of the host concern all its ranks
            return table["host"].isin({self._host_of[rank] for rank in ranks if rank in self._host_of})
        if "rank" in table:
            return table["rank"].isin(ranks)
        groups = self._members.loc[self._members["rank"].isin(ranks), "group"]
        return table["group"].isin(set(groups))

    def _of_hosts(self, table: pd.DataFrame, hosts: frozenset[str]) -> pd.Series[bool]:
        if "host" in table:
            return table["host"].isin(hosts)
        return self._of_ranks(table, frozenset(rank for rank, host in self._host_of.items() if host in hosts))

    def _of_groups(self, table: pd.DataFrame, patterns: tuple[str, ...]) -> pd.Series[bool]:
        about = self._members_of(patterns)
        if "group" in table:
            return table["group"].isin(set(about["group"]))
        return self._of_ranks(table, frozenset(int(rank) for rank in about["rank"].dropna()))

    def _members_of(self, patterns: tuple[str, ...]) -> pd.DataFrame:
        """Those rows of `_members` whose groups are meant."""
        members = self._members
        names = named([*members["group"], *members["description"]], patterns)
        return members[members["group"].isin(names) | members["description"].isin(names)]

    @cached_property
    def _host_of(self) -> dict[int, str]:
        known = self._tables.processes[["rank", "host"]].dropna()
        return {int(rank): str(host) for rank, host in zip(known["rank"], known["host"], strict=True)}

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(
            str(host) for table in (self._tables.processes, self._tables.events) for host in table["host"].dropna()
        )

    @cached_property
    def _members(self) -> pd.DataFrame:
        """Columns group, description and rank: which ranks are known to be in which group."""
        nccl = self._tables.memberships[["group", "rank"]].assign(description="")
        recorded = self._tables.recorded_calls[["group", "group_description", "rank"]].drop_duplicates()
        both = [nccl, recorded.rename(columns={"group_description": "description"})]
        return pd.concat([one for one in both if len(one)] or [nccl], ignore_index=True)


def _with_timestamps(table: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
    moments = [column.name for column in columns if column.moment]
    # a float holds the microseconds of a second of today, and no more
    made = {column: pd.to_datetime(table[column], unit="s", errors="coerce").dt.round("us") for column in moments}
    return table.assign(**made)


def _in_time(table: pd.DataFrame, choice: Choice) -> pd.Series[bool]:
    """Rows without a time are at none that was asked for; a process is there as long as it writes."""
    keep = pd.Series(data=True, index=table.index)
    spans = (("first_time", "last_time"), ("time", "time"), ("started", "started"))
    starts, ends = next((span for span in spans if span[0] in table), ("", ""))
    if not starts:
        return keep
    if choice.after is not None:
        keep &= table[ends] >= choice.after
    if choice.before is not None:
        keep &= table[starts] <= choice.before
    return keep


def _type(column: Column) -> str:
    return "datetime64" if column.moment else _TYPES.get(column.dtype, column.dtype)


def _meaning(column: Column) -> str:
    return column.said if column.moment else column.about


def columns_words(columns: Iterable[Column]) -> str:
    """What columns mean, a line each, for docstrings."""
    known = tuple(columns)
    width = max(len(column.name) for column in known)
    return "\n".join(f"    {c.name:<{width}}  {_meaning(c)} ({_type(c)})" for c in known)


def _document() -> None:
    """The properties say what columns they have, in the words of the schema."""
    for name, about in TABLES.items():
        getattr(JobTables, name).__doc__ = f"{about}\n\nColumns:\n{columns_words(SCHEMA[name])}"


_document()
