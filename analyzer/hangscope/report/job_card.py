"""What was read of a job, in short: how notebooks show a job before it is analyzed."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.report.answers import day_words
from hangscope.report.card import BLUE, framed, rows_of
from hangscope.report.source_words import read_words
from hangscope.report.spans import count_words, fold_hosts, fold_numbers
from hangscope.report.times import iso_time, split_time

_WARNINGS = 5
_ERRORS = 5


def job_card(job: Job) -> str:
    """The job as a piece of HTML."""
    return framed([rows_of(_rows(job))], BLUE)


def job_words(job: Job) -> str:
    """The same as plain text."""
    return "\n".join(f"{label:<9} {text}" for label, said in _rows(job) for text in said)


def _rows(job: Job) -> list[tuple[str, list[str]]]:
    warnings = list(job.warnings[:_WARNINGS])
    if len(job.warnings) > _WARNINGS:
        warnings.append(f"and {count_words(len(job.warnings) - _WARNINGS, 'more warning')}")
    return [
        ("Job", [_ranks(job)]),
        ("Hosts", [fold_hosts(job.hosts)] if job.hosts else []),
        ("Versions", _versions(job)),
        ("Time", _time(job)),
        ("Read", [_read(job)]),
        ("Tables", [_tables(job)]),
        ("Warnings", warnings),
        ("Unread", _unread(job)),
    ]


def _ranks(job: Job) -> str:
    seen = sorted({*job.ranks, *job.recordings.ranks})
    if not seen:
        return "no rank could be told" + (f"; it has {job.world_size}" if job.world_size else "")
    total = f" of {job.world_size}" if job.world_size else ""
    return f"{len(seen):,}{total} ranks left evidence: {fold_numbers(seen)}"


def _versions(job: Job) -> list[str]:
    found = job.versions
    named = {"torch": found.torch, "NCCL": found.nccl, "CUDA": found.cuda, "driver": found.driver}
    words = [f"{name} {v if isinstance(v, str) else ' and '.join(v)}" for name, v in named.items() if v]
    words += [
        f"{'NCCL' if name == 'nccl' else name} {guess} (inferred)"
        for name, guess in sorted(found.inferred.items())
        if not getattr(found, name)
    ]
    return [", ".join(words)] if words else []


def _time(job: Job) -> list[str]:
    first = [process.first_time for process in job.processes if process.first_time is not None]
    last = [process.last_time for process in job.processes if process.last_time is not None]
    if not first or not last:
        return []
    (day, clock), (last_day, last_clock) = (split_time(iso_time(moment)) for moment in (min(first), max(last)))
    end = last_clock if last_day == day else _moment(last_day, last_clock)
    return [f"{_moment(day, clock)} to {end}"]


def _moment(day: str, clock: str) -> str:
    words = day_words(day)
    # of a day without a year more is said than its number
    return f"{words} {clock}" if words == day else f"{words}, {clock}"


def _read(job: Job) -> str:
    return read_words(job.sources)


def _tables(job: Job) -> str:
    """How many rows the tables have that say most, without making them."""
    counts = {
        "event": len(job.events),
        "call": len(job.calls),
        "recorded call": sum(len(recording) for source in job.parsed for recording in source.recordings),
        "stack dump": len(job.stacks.positions),
        "group": len(job.groups),
    }
    return ", ".join(count_words(count, noun) for noun, count in counts.items() if count) or "nothing was recognized"


def _unread(job: Job) -> list[str]:
    failed = [f"{source.file}: {source.error}" for source in job.sources if source.error]
    return failed[:_ERRORS] + ([f"and {len(failed) - _ERRORS} more"] if len(failed) > _ERRORS else [])
