"""Collects the facts of a job: what its lines say, and what the modules of this package find out."""

from __future__ import annotations

import functools
import importlib
import logging
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType

import hangscope.facts as package
from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.who import NAMING_RANKS, RankFinder
from hangscope.model import Event, Evidence, Fact

log = logging.getLogger(__name__)

KINDS = {
    "exception": FactKind(
        (
            "type",
            "message",
            "where_file",
            "where_line",
            "where_function",
            "in_function",
            "chain",
            "relation",
            "superseded",
            "frames",
            "asked_backend",
        ),
        "A Python exception that a process printed, with its traceback (parse/tracebacks); "
        '`asked_backend` = what its call of init_process_group names, "" for none.',
    )
}

_NOT_FACTS = frozenset({"collect", "job_differences"})
_MAX_OF_A_KIND = 50_000


def fact_modules() -> tuple[ModuleType, ...]:
    """The modules that find facts, by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name not in _NOT_FACTS)
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in names)
    return tuple(module for module in modules if hasattr(module, "KINDS"))


def fact_kinds() -> Mapping[str, FactKind]:
    """Every kind of fact that the modules can produce (event kinds of the grammars come on top)."""
    return {kind: what for module in fact_modules() for kind, what in module.KINDS.items()}


class Facts:
    """The facts of a job. What a line says becomes a fact when its kind is asked for: most are asked for by nobody.

    Iterating gives what lines say, in the order of the job's events, then what was found out.

    Attributes:
        found: what the modules of this package found out.
        kinds: the kinds of all facts.
    """

    def __init__(self, job: Job, found: Iterable[Fact] = ()) -> None:
        self.found = tuple(found)
        self._found: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.found:
            self._found[fact.kind].append(fact)
        self.kinds = job.events.kinds | self._found.keys()
        self._job = job
        self._said: dict[str, list[Fact]] = {}

    def of(self, kind: str) -> list[Fact]:
        """The facts of a kind, each the same whenever it is asked for."""
        return [*self._said_of(kind), *self._found.get(kind, ())]

    def __iter__(self) -> Iterator[Fact]:
        said = {kind: iter(self._said_of(kind)) for kind in self._job.events.kinds}
        for event in self._job.events:
            if (fact := next(said[event.kind], None)) is not None:
                yield fact
        yield from self.found

    def _said_of(self, kind: str) -> list[Fact]:
        """Every event of a kind as a fact of that kind."""
        if kind not in self._said:
            events = self._job.events.of(kind)[:_MAX_OF_A_KIND]
            facts = [fact_of(event) for event in events]
            if kind in NAMING_RANKS:
                facts = [_ranked(fact, event, self._who) for fact, event in zip(facts, events, strict=True)]
            self._said[kind] = facts
        return self._said[kind]

    @functools.cached_property
    def _who(self) -> RankFinder:
        return RankFinder(self._job)


def collect_facts(job: Job) -> Facts:
    """All facts of a job. A module that fails costs its facts only, and says so in the log."""
    found: list[Fact] = []
    for module in fact_modules():
        try:
            found.extend(module.find(job))
        except Exception as error:
            name = f"{type(error).__name__}: {error}"
            log.error("a part of the analysis failed (%s: %s); its facts are missing", module.__name__, name)  # noqa: TRY400 (no trace for users)
            log.debug("the trace", exc_info=True)
    return Facts(job, found)


def _ranked(fact: Fact, event: Event, who: RankFinder) -> Fact:
    """The fact, with the rank that its line names where nobody knows who wrote it."""
    if fact.ranks or (rank := who.rank_of(event)) is None:
        return fact
    return replace(fact, ranks=(rank,))


def fact_of(event: Event, why: str = "") -> Fact:
    """An event as a fact: its fields, who said it, and its line as evidence."""
    return Fact(
        kind=event.kind,
        fields=event.fields,
        ranks=() if event.rank is None else (event.rank,),
        hosts=() if event.host is None else (event.host,),
        time=event.time,
        evidence=(evidence_of(event, why),),
    )


def evidence_of(event: Event, why: str = "") -> Evidence:
    """An event's line as evidence."""
    times = f"printed {event.count} times" if event.count > 1 else ""
    return Evidence(event.line.location, event.line.raw, " ".join(filter(None, (why, f"({times})" if times else ""))))
