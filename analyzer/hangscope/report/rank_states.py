"""Says where each rank is: its state in one word, and the line of its own code, when that is known."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.align.stacks import Position
from hangscope.diagnose.catalogue import NO_FAULT_FOUND, causes
from hangscope.model import Event, Finding, RankState, Role
from hangscope.report.inputs import DiagnosisView, JobView, ProcessView
from hangscope.report.stack_states import RANK_WORDS, SPECIFIC
from hangscope.report.times import iso_time

MAX_LISTED_RANKS = 65_536
"""A world size beyond this is believed only for ranks that were seen: one damaged line must not cost gigabytes."""

_LAST_WORDS_LINES = 200
"""An exception this near to the end of a rank's log is its end; further up it was caught and the rank went on."""

_LIFE = frozenset({"comm_init_start", "comm_init_complete", "comm_teardown", "run_ended"})

_SILENT = "silent"
_STATE_OF_CAUSE = {
    "exited-early": "finished",
    "rank-never-started": "missing",
    "process-frozen": "frozen",
    "timeout-too-short": "running",
    "rank-vanished": _SILENT,
    "node-failure": _SILENT,
}
_ENDED = frozenset(
    {
        "debug-rank-gone", "engine-worker-gone", "node-lost", "pod-failed", "process-defunct", "process-not-listed",
        "rank-gone-silently",
    }
)  # fmt: skip
"""Rules of these causes that know the process to have ended; to the others, one that is stopped looks the same."""
_ELSEWHERE = frozenset({"helper-crashed", "ras-rank-left", "recorder-rank-left", "stack-left-early"})
"""Rules that blame a rank whose process is still there, for all they know: other evidence says where."""


def find_rank_states(job: JobView, diagnosis: DiagnosisView) -> tuple[RankState, ...]:
    """One entry for every rank that the job has, whether it left something or not."""
    states = _States(job, diagnosis)
    stacks = job.stacks.last()
    return tuple(
        _rank_state(rank, job.ranks.get(rank), states.of(rank), stacks.get(rank)) for rank in listed_ranks(job)
    )


def listed_ranks(job: JobView) -> tuple[int, ...]:
    """Every rank that exists, by the world size or by being named."""
    ranks = {*job.ranks, *job.stacks.last()}
    for stuck in job.stuck:
        ranks.update(stuck.arrived, stuck.missing, stuck.differing)
    if job.world_size is not None and job.world_size <= MAX_LISTED_RANKS:
        ranks.update(range(job.world_size))
    return tuple(sorted(ranks))


def user_frame(events: Iterable[Event]) -> str | None:
    """Innermost frame of the job's own code that the last exception or stack of a process shows."""
    best: str | None = None
    best_is_final = False
    for event in events:
        place = _place(event) if "where_file" in event.fields else ""
        is_final = not event.fields.get("superseded")
        if place and (is_final or not best_is_final):
            best, best_is_final = place, is_final
    return best


class _States:
    """What the diagnosis and the stuck calls say about the ranks, looked up once."""

    def __init__(self, job: JobView, diagnosis: DiagnosisView) -> None:
        self._job = job
        self._verdict = diagnosis.verdict
        self._told: dict[int, str] = {}
        for finding in (diagnosis.verdict, *diagnosis.findings):
            state = _state_of(finding)
            if state:
                for rank in finding.ranks:
                    self._told.setdefault(rank, state)
        self._missing = {rank for stuck in job.stuck for rank in stuck.missing}
        self._waiting = {rank for stuck in job.stuck for rank in (*stuck.arrived, *stuck.differing)}
        self._suffering = set(diagnosis.verdict.affected_ranks)
        self._stacks = {rank: RANK_WORDS.get(p.state, "") for rank, p in job.stacks.last().items()}

    def of(self, rank: int) -> str:
        process = self._job.ranks.get(rank)
        told = self._told.get(rank)
        if told is not None:
            return "dead" if told == _SILENT and process is not None and _died(process) else told
        stands = self._stacks.get(rank, "")
        if stands in SPECIFIC and (process is None or not _died(process)):
            return stands
        if rank in self._missing and not (rank in self._waiting and self._verdict.cause == "group-order-deadlock"):
            return "missing"
        if rank in self._waiting or rank in self._suffering:
            return "waiting"
        if process is None:
            return stands or "unknown"
        if _died(process):
            return "dead"
        if _ended(process):
            return "finished"
        return stands or ("running" if self._verdict.cause == NO_FAULT_FOUND else "unknown")


def _state_of(finding: Finding) -> str:
    """The state that a finding's cause puts its ranks into, "" when it puts them into none."""
    if finding.role is not Role.CAUSE:
        return ""
    if finding.rule in _ELSEWHERE:
        return ""
    if finding.cause in _STATE_OF_CAUSE and finding.rule not in _ENDED:
        return _STATE_OF_CAUSE[finding.cause]
    cause = causes().get(finding.cause)
    return "dead" if cause is not None and cause.family == "process" else ""


def _ended(process: ProcessView) -> bool:
    """Whether the process destroyed its last communicator, or says itself that it is done."""
    last = process.by_kind.last(*_LIFE)
    if last is None:
        return False
    return last.kind == "run_ended" or (last.kind == "comm_teardown" and last.fields.get("action") == "Destroy")


def _died(process: ProcessView) -> bool:
    last = process.last_line
    return last is not None and any(
        not event.fields.get("superseded")
        and event.line.file == last.file
        and last.number - event.line.number < _LAST_WORDS_LINES
        for event in process.by_kind.of("exception")
    )


def _rank_state(rank: int, process: ProcessView | None, state: str, position: Position | None) -> RankState:
    where = user_frame(process.events) if process is not None else None
    if position is not None and position.own and not (process is not None and where and _died(process)):
        where = position.where
    if process is None:
        return RankState(rank, position.host if position else None, None, None, state, where, None)
    return RankState(rank, process.host, process.pid, process.gpu, state, where, iso_time(process.last_time))


def _place(event: Event) -> str:
    file, line, function = (event.fields.get(f"where_{part}") for part in ("file", "line", "function"))
    if not file:
        return ""
    return f"{file}:{line} {function or ''}".rstrip() if line is not None else str(file)
