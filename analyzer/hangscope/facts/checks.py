"""Facts from torch's own consistency checks: fingerprints, monitored barriers, DDP's comparison of models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.progress import numbers
from hangscope.facts.watchdog import MAIN_ONLY, odd_ones_out
from hangscope.model import Event, Evidence, Fact, Value
from hangscope.records import dataclass

_FIELDS = ("seq", "found", "expected", "tie")
KINDS = {
    "fingerprint_op_differs": FactKind(_FIELDS, "torch's check of every call found ranks in different operations."),
    "fingerprint_size_differs": FactKind(
        _FIELDS, "torch's check of every call found one operation with different sizes or dtypes."
    ),
    "trace_ranks_absent": FactKind(
        ("late_ranks", "seq"), "torch's trace analysis lists the ranks that did not make a call."
    ),
    "fingerprint_order_differs": FactKind(
        _FIELDS, "torch's check of every call found ranks at different sequence numbers."
    ),
    "barrier_missed": FactKind(("timeout_ms",), "Ranks did not come to a monitored barrier in time."),
    "models_differ": FactKind(("found", "expected"), "Ranks built different models; DDP compares with rank 0's."),
    "grads_not_reduced": FactKind(("unused",), "A rank's backward left out parameters that its peers reduce."),
    "group_outsider": FactKind(
        ("op", "outside_rank"), "A rank called a collective of a group that it does not belong to."
    ),
    "inputs_ran_out": FactKind(("skew",), "A rank ran out of inputs before its peers; torch's join check says so."),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One rank's call as a fingerprint describes it."""

    seq: int | None
    op: str
    shape: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.op} of [{self.shape}] {self.dtype}".strip() if self.shape or self.dtype else self.op


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    yield from _fingerprints(job)
    yield from _barriers(job)
    yield from _traces(job)
    yield from _models(job)
    yield from _unused(job)
    yield from _named(job, "group_outsider", ("outside_group", "not_a_member"), "outside_rank")
    yield from _named(job, "inputs_ran_out", ("inputs_exhausted", "inputs_skewed"), "exhausted_rank")


def _fingerprints(job: Job) -> Iterator[Fact]:
    events = job.events.of("fingerprint_mismatch")
    if not events:
        return
    calls, lines = _calls_of(events)
    for kind, said in (
        ("fingerprint_order_differs", {rank: str(call.seq) for rank, call in calls.items() if call.seq is not None}),
        ("fingerprint_op_differs", {rank: call.op for rank, call in calls.items()}),
        ("fingerprint_size_differs", {rank: f"{call.shape} {call.dtype}" for rank, call in calls.items()}),
    ):
        if len(set(said.values())) < 2:
            continue
        odd, tie = odd_ones_out(said, {})
        if tie and kind == "fingerprint_op_differs" and len(said) == 2:
            # a call that only the main rank makes is the usual reason for an extra one there
            odd = tuple(r for r in said if r == 0 and said[r] in MAIN_ONLY) or odd
        yield _mismatch(kind, calls, odd, lines, events, tie=tie)
        return
    named = {rank: call for rank, call in calls.items() if call.op}
    if len(calls) == len(named) == 1:
        rank, call = next(iter(named.items()))
        kind = _kind_of_aspects(events[0])
        yield Fact(
            kind,
            {"seq": call.seq, "found": str(call), "expected": None, "tie": True},
            time=events[0].time,
            evidence=tuple(evidence_of(e) for e in events[:4]),
            affected=(rank,),
        )


def _kind_of_aspects(event: Event) -> str:
    """Without the other side (1.10 to 1.12, or a cut line) the list of differences decides."""
    aspects = str(event.fields.get("aspects", ""))
    if "shapes" in aspects or "dtypes" in aspects:
        return "fingerprint_op_differs" if "Op type" in aspects else "fingerprint_size_differs"
    return "fingerprint_order_differs" if "Sequence number" in aspects else "fingerprint_op_differs"


def _calls_of(events: list[Event]) -> tuple[dict[int, Call], dict[int, Event]]:
    """Who called what. A rank compares itself with 0, 1, ... and reports the first that differs: those before agree."""
    calls: dict[int, Call] = {}
    lines: dict[int, Event] = {}
    agreeing: dict[int, Call] = {}
    for event in events:
        own, other = event.fields.get("group_rank"), event.fields.get("other_rank")
        if isinstance(own, int):
            calls.setdefault(own, _call(event, ""))
            lines.setdefault(own, event)
        if isinstance(other, int) and event.fields.get("other_op"):
            calls.setdefault(other, _call(event, "other_"))
            for rank in range(other):
                agreeing.setdefault(rank, _call(event, ""))
    return agreeing | calls, lines


def _call(event: Event, prefix: str) -> Call:
    seq = event.fields.get(f"{prefix}seq")
    names = (str(event.fields.get(f"{prefix}{name}", "")) for name in ("op", "shape", "dtype"))
    return Call(seq if isinstance(seq, int) else None, *names)


def _mismatch(
    kind: str, calls: dict[int, Call], odd: tuple[int, ...], lines: dict[int, Event], events: list[Event], *, tie: bool
) -> Fact:
    rest = [call for rank, call in calls.items() if rank not in odd]
    seq = next((call.seq for call in calls.values() if call.seq is not None), None)
    fields: dict[str, Value] = {
        "seq": seq,
        "found": ", ".join(sorted({str(calls[rank]) for rank in odd})),
        "expected": ", ".join(sorted({str(call) for call in rest})),
        "tie": tie,
    }
    own = [lines[rank] for rank in odd if rank in lines]
    first = [*own, *(event for event in events if event not in own)]
    evidence: tuple[Evidence, ...] = tuple(evidence_of(event, "the comparison") for event in first[:8])
    hosts = tuple(sorted({event.host for event in own if event.host}))
    return Fact(
        kind,
        fields,
        ranks=odd,
        hosts=hosts,
        affected=tuple(sorted(set(calls) - set(odd))),
        time=events[0].time,
        evidence=evidence,
    )


def _barriers(job: Job) -> Iterator[Fact]:
    late: set[int] = set()
    events = job.events.of("monitored_barrier_missed")
    for event in events:
        late.update(numbers(event.fields.get("late_ranks")))
    if events:
        witnesses = job.events.of("monitored_barrier_witness")
        waited = {rank for e in witnesses if isinstance(rank := e.fields.get("group_rank"), int)}
        evidence = tuple(evidence_of(e) for e in [*events[:4], *witnesses[:2]])
        yield Fact(
            "barrier_missed",
            {"timeout_ms": events[0].fields.get("timeout_ms")},
            ranks=tuple(sorted(late)),
            affected=tuple(sorted(waited - late)),
            time=events[0].time,
            evidence=evidence,
        )


def _traces(job: Job) -> Iterator[Fact]:
    """``missing ranks: {3, 5}``, as torch's trace analysis lists them below the call's number."""
    calls = job.events.of("trace_ranks_missing")
    for event in job.events.of("trace_missing_ranks"):
        near = [e for e in calls if e.line.file == event.line.file and 0 < event.line.number - e.line.number <= 12]
        yield Fact(
            "trace_ranks_absent",
            {"late_ranks": event.fields.get("late_ranks"), "seq": near[-1].fields.get("seq") if near else None},
            ranks=tuple(sorted(set(numbers(event.fields.get("late_ranks"))))),
            time=event.time,
            evidence=tuple(evidence_of(e) for e in [event, *near[-1:]]),
        )


def _models(job: Job) -> Iterator[Fact]:
    """``Rank 0 has 4 params, while rank 1 has inconsistent 6 params``: each rank reports the first one that differs."""
    counts: dict[int, str] = {}
    events = job.events.of("ddp_param_count")
    for event in events:
        for who, params in (("group_rank", "params"), ("other_rank", "other_params")):
            number = event.fields.get(who)
            if isinstance(number, int):
                counts[number] = f"{event.fields.get(params)} parameters"
    if len(set(counts.values())) > 1:
        odd, _ = odd_ones_out(counts, {})
        fields: dict[str, Value] = {
            "found": ", ".join(sorted({counts[r] for r in odd})),
            "expected": ", ".join(sorted({c for r, c in counts.items() if r not in odd})),
        }
        yield Fact(
            "models_differ",
            fields,
            ranks=odd,
            affected=tuple(sorted(set(counts) - set(odd))),
            time=events[0].time,
            evidence=tuple(evidence_of(e) for e in events[:6]),
        )
    for event in job.events.of("ddp_param_shape"):
        rank = event.fields.get("group_rank", event.rank)
        shape = f"parameter {event.fields.get('index')} with sizes [{event.fields.get('shape')}]"
        ranks = (rank,) if isinstance(rank, int) else ()
        yield Fact(
            "models_differ",
            {"found": shape, "expected": "other sizes"},
            ranks=ranks,
            time=event.time,
            evidence=(evidence_of(event),),
        )


def _unused(job: Job) -> Iterator[Fact]:
    named: dict[int, list[Event]] = defaultdict(list)
    for event in job.events.of("ddp_unfinished_reduction", "ddp_unused_params"):
        rank = event.fields.get("group_rank") if event.line.rank is None else event.line.rank
        rank = rank if isinstance(rank, int) else event.rank
        named[-1 if rank is None else rank].append(event)
    nameless = [event for event in named.get(-1, []) if event.kind == "ddp_unfinished_reduction"]
    if nameless and any(rank >= 0 for rank in named):
        # processes that share a file: the message has no rank, its next lines have ("... receive grad for rank 4")
        del named[-1]
    for rank, found in sorted(named.items()):
        own = [event for event in found if event.kind == "ddp_unfinished_reduction"]
        events = found if own else [*nameless[:1], *found]
        if not own and not nameless:
            continue
        unused = next((str(e.fields["indices"]) for e in events if e.fields.get("indices")), None)
        ranks = () if rank < 0 else (rank,)
        yield Fact(
            "grads_not_reduced",
            {"unused": unused},
            ranks=ranks,
            time=events[0].time,
            evidence=tuple(evidence_of(e) for e in events[:3]),
        )


def _named(job: Job, kind: str, kinds: tuple[str, ...], field: str) -> Iterator[Fact]:
    """Events that name the culprit in one of their fields."""
    for event in job.events.of(*kinds):
        rank = event.fields.get(field, event.rank)
        ranks = (rank,) if isinstance(rank, int) else ()
        fields = {name: event.fields.get(name) for name in KINDS[kind].fields}
        hosts = (event.host,) if event.host else ()
        yield Fact(kind, fields, ranks=ranks, hosts=hosts, time=event.time, evidence=(evidence_of(event),))
