"""A job in a notebook: its tables, parts of it by rank, host, group and time, and the report on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from hangscope import api
from hangscope.align.timeline import COLUMNS, build_timeline
from hangscope.errors import UnknownNameError
from hangscope.notebook.choice import Choice, Moment, Names, Ranks, named, parse_moment, parse_names, parse_ranks
from hangscope.notebook.difference import Difference
from hangscope.notebook.history_part import history_part
from hangscope.notebook.report import Report
from hangscope.notebook.tables import JobTables, columns_words
from hangscope.plot import load_plot
from hangscope.ranges import fold_numbers
from hangscope.report.job_card import job_card, job_words

if TYPE_CHECKING:
    from hangscope.align.job import Job as AlignedJob
    from hangscope.plot.picture import Picture


class Selection(JobTables):
    """A part of a job: the same tables, with only the rows of some ranks, hosts, groups or of some time.

    `select` makes it smaller still. What is stuck and why, only the whole job can tell: `Job.analyze`.
    """

    def __init__(self, whole: AlignedJob, choices: tuple[Choice, ...], analyzed: Callable[[], Report]) -> None:
        super().__init__(whole.tables, choices)
        self._whole = whole
        self._analyzed = analyzed

    def select(
        self,
        ranks: Ranks | None = None,
        hosts: Names | None = None,
        group: Names | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
    ) -> Selection:
        """The rows of some ranks, hosts, groups or of some time; what is given together must all hold.

        Tables without ranks (messages of hosts) follow the ranks' hosts; tables without groups the groups' ranks.

        Args:
            ranks: ``5``, ``[0, 1]``, ``range(8)`` or what reports write, ``"0-3,8"``.
            hosts: name or names; ``*`` and ``?`` stand for anything (``"node0*"``).
            group: names of process groups or communicators, or what the job calls them; also with ``*`` and ``?``.
            after: first moment: ISO 8601, a clock time of the job's first day (``"10:02:11"``), seconds since 1970 or
                a datetime. A zone is taken off, since logs do not say theirs. Rows without a time are left out.
            before: last moment.

        Raises:
            UnknownNameError: the job has none of these ranks, hosts or groups.
            UsageError: a time or a list of ranks that is none.
        """
        day = None if after is None and before is None else self._day()
        narrower = Choice(
            None if ranks is None else self._known_ranks(parse_ranks(ranks)),
            None if hosts is None else self._known(parse_names(hosts), self._hosts, "host"),
            None if group is None else self._known(parse_names(group), self._groups(), "group"),
            None if after is None else parse_moment(after, day),
            None if before is None else parse_moment(before, day),
        )
        return Selection(self._whole, (*self._choices, narrower), self._analyzed)

    def timeline(self, group: Names | None = None, ranks: Ranks | None = None, *, dark: bool = False) -> Picture:
        """A picture of what each rank called last: who came how far, who waits, who is missing.

        Args:
            group: only these groups, as for `select`.
            ranks: only these ranks, as for `select`.
            dark: for a dark page.

        Returns:
            A matplotlib Figure, which a notebook shows and ``.save("name.svg")`` writes. The data are `timeline_table`.

        Raises:
            UnknownNameError: the job has none of these ranks or groups.
            MissingEvidenceError: neither NCCL's call lines nor flight recorders tell what was called.
        """
        if group is not None or ranks is not None:
            return self.select(ranks=ranks, group=group).timeline(dark=dark)
        kind = load_plot("timeline")
        history = api.history_of(self._whole, kind.HISTORY)
        part = history and history_part(history, self._choices, self._ranks())
        return kind.draw(dataclasses.replace(self._analyzed(), history=part), dark=dark)

    def _ranks(self) -> frozenset[int] | None:
        """The ranks that were selected, by number or by host; None when all are."""
        sets = [choice.ranks for choice in self._choices if choice.ranks is not None]
        for choice in self._choices:
            if choice.hosts is not None:
                hosts = named(self._hosts, choice.hosts)
                sets.append(frozenset(rank for rank, host in self._host_of.items() if host in hosts))
        return frozenset.intersection(*sets) if sets else None

    def _group_names(self) -> frozenset[str] | None:
        """The names of the groups that were selected; None when all are."""
        patterns = [choice.groups for choice in self._choices if choice.groups is not None]
        sets = [frozenset(self._members_of(one)["group"]) for one in patterns]
        return frozenset.intersection(*sets) if sets else None

    def timeline_table(
        self, group: Names | None = None, ranks: Ranks | None = None, last: int | None = None
    ) -> pd.DataFrame:
        """What each rank called when, one row a rank and call; of NCCL's call lines or the flight recorders.

        Args:
            group: only these groups, as for `select`.
            ranks: only these ranks, as for `select`.
            last: of each group only the calls around the one where it is stuck, about so many.

        Raises:
            UnknownNameError: the job has none of these ranks or groups.
        """
        if group is not None or ranks is not None:
            return self.select(ranks=ranks, group=group).timeline_table(last=last)
        table = build_timeline(self._whole, ranks=self._ranks(), groups=self._group_names(), last=last)
        return self._part(table, COLUMNS)

    def __repr__(self) -> str:
        words = "; ".join(filter(None, (choice.words() for choice in self._choices)))
        return f"<part of a job: {words or 'all of it'}>"

    def _known_ranks(self, ranks: frozenset[int]) -> frozenset[int]:
        known = set(self._whole.ranks) | set(self._whole.recordings.ranks)
        if not ranks & known:
            raise UnknownNameError("the job has no such rank", f"Its ranks are {fold_numbers(known) or 'not known'}.")
        return ranks

    def _known(self, patterns: tuple[str, ...], names: frozenset[str], what: str) -> tuple[str, ...]:
        if not named(names, patterns):
            known = ", ".join(sorted(names)[:20]) or "not known"
            raise UnknownNameError(f"the job has no {what} {', '.join(patterns)}", f"Its {what}s are {known}.")
        return patterns

    def _groups(self) -> frozenset[str]:
        members = self._members
        return frozenset(name for name in (*members["group"], *members["description"]) if name)

    def _day(self) -> pd.Timestamp | None:
        moments = [process.first_time for process in self._whole.processes if process.first_time is not None]
        return pd.Timestamp(min(moments), unit="s") if moments else None


Selection.timeline_table.__doc__ = (
    f"{cleandoc(Selection.timeline_table.__doc__ or '')}\n\nColumns:\n{columns_words(COLUMNS)}"
)


class Job(Selection):
    """A job that was read: ``job = hangscope.load("logs/")``.

    Tables, as pandas DataFrames: `events`, `exceptions`, `environment`, `host_messages`, `calls`, `recorded_calls`,
    `processes`, `communicators`, `memberships` and `stacks`; ``job.columns("calls")`` says what the columns mean.
    `select` gives a part of the job by rank, host, group and time, `analyze` says why it is stuck, `timeline` and
    `plot` draw it, and `diff` compares it with another.

    Attributes:
        name: the paths it was read from.
        aligned: the job as hangscope's own layers see it (`hangscope.align.job.Job`).
    """

    def __init__(self, reading: api.Reading, name: str = "") -> None:
        super().__init__(reading.job, (), lambda: self._report)
        self._reading = reading
        self.name = name
        self.aligned = reading.job

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has, None when nothing tells."""
        return self.aligned.world_size

    @property
    def ranks(self) -> tuple[int, ...]:
        """The global ranks that left evidence, ascending."""
        return tuple(sorted({*self.aligned.ranks, *self.aligned.recordings.ranks}))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its processes, by name."""
        return self.aligned.hosts

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its communicators and process groups, and what the job calls them."""
        return tuple(sorted(self._groups()))

    @property
    def versions(self) -> Mapping[str, Any]:
        """``torch``, ``nccl``, ``cuda`` and ``driver``: None, the version, or a tuple of several when ranks differ."""
        found = self.aligned.versions
        return {"torch": found.torch, "nccl": found.nccl, "cuda": found.cuda, "driver": found.driver}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits the analysis."""
        return self.aligned.warnings

    @cached_property
    def _report(self) -> Report:
        """What pictures take their titles from."""
        return self.analyze()

    def plot(self, kind: str = "timeline", *, dark: bool = False) -> Picture:
        """A picture of the whole job: the same as ``job.analyze().plot(kind)``, where `Report.plot` names the kinds."""
        return self._report.plot(kind, dark=dark)

    def analyze(self, rules: Sequence[str | Path] = ()) -> Report:
        """Says why the job is stuck.

        Args:
            rules: folders of further rules.

        Raises:
            RuleError: when a rule of one of the folders is wrong.
        """
        return Report.of(api.report_on(self._reading, rules), partial(api.history_of, self.aligned))

    def diff(self, bad: Job, rules: Sequence[str | Path] = ()) -> Difference:
        """What this job, which ran well, and one that did not differ in.

        Args:
            bad: the other job.
            rules: folders of further rules, for the verdicts of both.

        Raises:
            RuleError: when a rule of one of the folders is wrong.
        """
        names = (self.name or "good", bad.name or "bad")
        return Difference.of(api.diff(self._reading, bad._reading, names, rules))

    def __repr__(self) -> str:
        return job_words(self.aligned)

    def _repr_html_(self) -> str:
        return job_card(self.aligned)
