"""Names the kinds of evidence, how commands look that collect them, and what one knows when they are there."""

from __future__ import annotations

import enum

from hangscope.diagnose.catalogue import causes
from hangscope.expressions import expression
from hangscope.model import Finding
from hangscope.report.inputs import JobView
from hangscope.report.spans import fold_hosts, rank_words


class Piece(enum.Enum):
    """A kind of evidence, and how a command looks that collects it."""

    STACKS = expression(r"\bpy-spy dump\b|\bpystack\b|\bgdb -p\b|\bhangscope attach\b|\bray stack\b")
    RECORDER = expression(r"\bTORCH_(?:FR|NCCL_TRACE)_BUFFER_SIZE=|NCCL_DESYNC_DEBUG=")
    NCCL = expression(r"\bNCCL_DEBUG\W{1,4}INFO\b|\bTORCH_CPP_LOG_LEVEL=INFO\b")
    RAS = expression(r"\bncclras\b")
    KERNEL = expression(r"\bdmesg\b|\bjournalctl\b[^|;]* -k\b|\bjournalctl -k\b")
    RECORD = expression(r"\bsacct\b|\bsinfo\b|\bkubectl (?:describe|logs|get events)\b")
    PROCESS = expression(r"\bps -e?o\b|\bpgrep\b|/proc/(?:PID|\d+)/s")
    ADDRESSES = expression(r"\bip -br addr\b|\bgetent hosts\b")
    PORT = expression(r"\bnc -\w*z\w* ")
    SETTINGS = expression(r"\benv \| grep\b|/environ\b")
    LOGS = expression(r"--log_dir\b|--output=logs|--output-filename\b|--enable_each_rank_log\b")
    TAILS = expression(r"\bPYTHONUNBUFFERED=1\b")
    VERSIONS = expression(r"torch\.__version__|\bcollect_env\b")


_ASKS_FOR_LOGS = expression(r"\b(?:[Cc]ollect|[Rr]ead|[Ll]ook at)\b.*\blogs?\b")


def piece_of(command: str | None, text: str = "") -> Piece | None:
    """The kind of evidence that a command collects, or that its text asks for when there is none; None for others."""
    if command is None:
        return Piece.LOGS if _ASKS_FOR_LOGS.search(text) else None
    return next((piece for piece in Piece if piece.value.search(command)), None)


def suspects_of(job: JobView, verdict: Finding) -> tuple[int, ...]:
    """The ranks that are asked first: those at fault, else those that did not come or called something else."""
    missing = {rank for stuck in job.stuck for rank in (*stuck.missing, *stuck.differing)}
    return verdict.ranks or tuple(sorted(missing))


def hosts_of_suspects(job: JobView, verdict: Finding) -> tuple[str, ...]:
    """The hosts at fault, and those of the suspects."""
    hosts = [p.host for rank in suspects_of(job, verdict) if (p := job.ranks.get(rank)) is not None and p.host]
    return tuple(dict.fromkeys([*verdict.hosts, *hosts]))


def decides(piece: Piece, job: JobView, verdict: Finding) -> str:
    """What one knows when this kind of evidence is there, about the suspects of this job."""
    suspects, hosts = suspects_of(job, verdict), hosts_of_suspects(job, verdict)
    if piece is Piece.NCCL and job.without_nccl:
        return "whether all ranks make the same calls, and which one does not come"
    if piece is Piece.STACKS and suspects and set(suspects) <= ranks_with_stacks(job):
        return f"whether {rank_words(suspects, most=30)} {'moves' if len(suspects) == 1 else 'move'} or not"
    if piece is Piece.PROCESS and causes()[verdict.cause].family == "launch":
        return "on which host fewer processes run than were meant to"
    about_some, about_all = _DECIDES[piece]
    return (about_some if suspects else about_all).format(
        who=rank_words(suspects, most=30),
        are="is" if len(suspects) == 1 else "are",
        where=f" on {fold_hosts(hosts)}" if hosts else "",
    )


def ranks_with_stacks(job: JobView) -> set[int]:
    """The ranks whose stacks are in the evidence."""
    return {position.rank for position in job.stacks.positions if position.rank is not None}


def _alike(text: str) -> tuple[str, str]:
    return text, text


_DECIDES = {
    Piece.STACKS: (
        "whether {who} {are} in the collective or elsewhere, and at which line",
        "which ranks are in the collective, and which are elsewhere and at which line",
    ),
    Piece.RECORDER: _alike("at which call of which group the ranks part, and who did not come"),
    Piece.NCCL: _alike("which ranks joined which communicator, over which network, and which call each made last"),
    Piece.RAS: _alike("which ranks are behind in which communicator"),
    Piece.KERNEL: _alike("whether the kernel ended a process, or a GPU, a link or a disk failed{where}"),
    Piece.RECORD: (
        "what ended {who}: a limit, preemption, an operator, or the program itself",
        "what ended the job: a limit, preemption, an operator, or the program itself",
    ),
    Piece.PROCESS: (
        "whether {who} {are} alive, and running, waiting in the kernel or stopped",
        "whether the process is alive, and running, waiting in the kernel or stopped",
    ),
    Piece.ADDRESSES: _alike("whether all hosts have an address in one network"),
    Piece.PORT: _alike("whether the port can be reached from there"),
    Piece.SETTINGS: _alike("which setting differs between the ranks"),
    Piece.LOGS: _alike("which ranks started, how far each came and how it ended"),
    Piece.TAILS: _alike("what was said last"),
    Piece.VERSIONS: _alike("whether all hosts have the same versions"),
}
