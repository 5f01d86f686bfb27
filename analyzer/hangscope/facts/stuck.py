"""Turns facts about stuck calls into the stuck calls of the report, beside those that NCCL's call lines show."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.job import Job
from hangscope.model import Fact

TORCH_OPS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
    "BARRIER": "barrier",
    "BROADCAST": "broadcast",
    "GATHER": "gather",
    "REDUCE": "reduce",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "SCATTER": "scatter",
    "SEND": "send",
    "RECV": "recv",
}
"""OpType of WorkNCCL lines (torch/csrc/distributed/c10d, all versions) in the spelling of torch.distributed."""

_PARTINGS = {
    "watchdog_rank_behind": Parting.MISSING,
    "watchdog_rank_silent": Parting.MISSING,
    "watchdog_rank_ahead": Parting.EXTRA,
    "watchdog_op_mismatch": Parting.OPERATION,
    "watchdog_size_mismatch": Parting.SIZE,
    "watchdog_all_joined": Parting.MISSING,
}


def stuck_calls(job: Job, facts: Iterable[Fact]) -> tuple[StuckCall, ...]:
    """The job's stuck calls, and those that the watchdogs of PyTorch tell of; one for each (group, number)."""
    found = {_place(call): call for call in job.stuck}
    for fact in facts:
        if fact.kind in _PARTINGS:
            call = _call(fact, _PARTINGS[fact.kind])
            if call is not None:
                found.setdefault(_place(call), call)
    return tuple(found.values())


def _place(call: StuckCall) -> tuple[str, str, int]:
    """What makes two descriptions one call: a watchdog shows group "5" as "5(dp)" and group "0" as "default_pg"."""
    counting = "nccl" if call.source == "nccl" else "torch"
    name = call.group.partition("(")[0] if counting == "torch" else call.group
    return counting, "0" if name == "default_pg" else name, call.seq


def _call(fact: Fact, parting: Parting) -> StuckCall | None:
    seq, op = fact.fields.get("seq"), fact.fields.get("op")
    if not isinstance(seq, int):
        return None
    there, gone = _ranks(fact, "arrived"), set(_ranks(fact, "missing"))
    odd = set(fact.ranks) if parting is not Parting.EXTRA else set()
    if parting is Parting.MISSING:
        gone |= odd
        odd = set()
    found = str(fact.fields.get("found") or "another call")
    return StuckCall(
        group=fact.group or "process group",
        group_size=None,
        members=tuple(sorted({*there, *gone, *odd})),
        seq=seq,
        op=TORCH_OPS.get(str(op), str(op or "")),
        arrived=tuple(sorted(set(there) - gone - odd)),
        missing=tuple(sorted(gone)),
        differing=dict.fromkeys(sorted(odd), found),
        parting=parting,
        odd=fact.ranks,
        source="watchdog",
        evidence=fact.evidence,
    )


def _ranks(fact: Fact, name: str) -> tuple[int, ...]:
    value = fact.fields.get(name)
    return tuple(r for r in value if isinstance(r, int)) if isinstance(value, tuple) else ()
