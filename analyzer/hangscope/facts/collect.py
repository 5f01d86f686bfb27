"""Collects the facts of a job: what its lines say, and what the modules of this package find out."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator, Mapping
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


def collect_facts(job: Job) -> list[Fact]:
    """All facts of a job. A module that fails costs its facts only, and says so in the log."""
    facts = list(_said(job))
    for module in fact_modules():
        try:
            facts.extend(module.find(job))
        except Exception as error:
            name = f"{type(error).__name__}: {error}"
            log.error("a part of the analysis failed (%s: %s); its facts are missing", module.__name__, name)  # noqa: TRY400 (no trace for users)
            log.debug("the trace", exc_info=True)
    return facts


def _said(job: Job) -> Iterator[Fact]:
    """Every event as a fact of its own kind."""
    who = RankFinder(job)
    counts: dict[str, int] = {}
    for event in job.events:
        counts[event.kind] = counts.get(event.kind, 0) + 1
        if counts[event.kind] <= _MAX_OF_A_KIND:
            fact = fact_of(event)
            if not fact.ranks and event.kind in NAMING_RANKS and (rank := who.rank_of(event)) is not None:
                fact = replace(fact, ranks=(rank,))
            yield fact


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
