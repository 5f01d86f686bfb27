"""What each process was told of the world, by the environment or the arguments that it prints."""

from __future__ import annotations

from collections import defaultdict

from hangscope.align.job import Job
from hangscope.model import Event, Value
from hangscope.records import dataclass

_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Told:
    """What one process was told of the world, by its environment or arguments."""

    rank: int | None
    world_size: int | None
    master_addr: str | None
    master_port: int | None
    host: str | None
    writer: tuple[str, ...]
    event: Event


def what_ranks_were_told(job: Job) -> list[Told]:
    """One entry a process: from one-line prints, else from prints of single variables."""
    told: list[Told] = []
    for event in job.events.of("environment_print"):
        fields = event.fields
        host = fields.get("host")
        told.append(
            Told(
                event.number("rank"),
                event.number("world_size"),
                text(fields.get("master_addr")),
                event.number("master_port"),
                str(host) if host else event.host,
                _writer(event, host),
                event,
            )
        )
    variables: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in job.events.of("environment_variable"):
        variables[id(job.process_of(event))].setdefault(str(event.fields.get("variable_name")), event)
    for named in variables.values():
        values = {name: str(event.fields.get("value", "")) for name, event in named.items()}
        best = named.get("RANK") or named.get("WORLD_SIZE") or next(iter(named.values()))
        told.append(
            Told(
                digits(values.get("RANK")),
                digits(values.get("WORLD_SIZE")),
                values.get("MASTER_ADDR"),
                digits(values.get("MASTER_PORT")),
                best.host,
                _writer(best, None),
                best,
            )
        )
    return told


def digits(value: str | None) -> int | None:
    """The number that a text is, else None (of more digits it is no rank, size or port)."""
    return int(value) if value and value.isdecimal() and len(value) <= _MAX_DIGITS else None


def text(value: Value) -> str | None:
    """A field that is a text, else None."""
    return value if isinstance(value, str) else None


def _writer(event: Event, host: Value) -> tuple[str, ...]:
    line = event.line
    return (line.file, line.stream, str(host or event.host or ""), str(line.pid or ""))
