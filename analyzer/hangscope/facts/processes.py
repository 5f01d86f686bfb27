"""What tables of processes and /proc show of the job's processes: stopped, blocked in the kernel, ended, not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.align.job import Job
from hangscope.align.process_ranks import PYTHON, TASK_KINDS, Owner, ProcessRanks, Row
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Evidence, Fact, Value

_FIELDS = ("process", "state", "wchan", "storage", "command", "child", "sure", "traced", "looks")
KINDS = {
    "process_state": FactKind(
        ("process", "parent", "thread", "process_state", "wchan", "cpu_time", "cpu_percent", "elapsed", "command"),
        "A row of a table of processes (ps, top), or the state lines of /proc/PID/status.",
    ),
    "kernel_stack": FactKind(("process", "wchan", "functions"), "Where the kernel holds a process: /proc/PID/stack."),
    "process_stopped": FactKind(
        _FIELDS,
        "A process of the job is stopped (state T); `traced` = held by a debugger (t), `child` = a child of the rank, "
        "`sure` = it is the rank's own process, and that is no guess.",
    ),
    "process_uninterruptible": FactKind(
        _FIELDS,
        "A process of the job sleeps uninterruptibly (state D); `storage` = in a file system or disk, false = "
        "elsewhere in the kernel, absent = not shown.",
    ),
    "process_defunct": FactKind(_FIELDS, "A process of the job has ended and its parent has not noticed (state Z)."),
    "process_gone": FactKind(
        ("process",), "A rank's process is not in a table that shows the other ranks of its host."
    ),
}
STORAGE = expression(
    r"nfs|rpc_|fuse|ceph|lustre|^ll_|^cl_|^osc_|^ldlm|^ptlrpc|gpfs|mmfs|cxi|cifs|smb|9p|p9_|io_schedule|wait_on_page|"
    r"folio_wait|wait_on_bit|jbd2|xfs|ext4|btrfs|zfs|zio|txg_|blk_|bio_|bit_wait_io|sync_inode|balance_dirty|wb_wait|"
    r"rq_qos|wbt_|^dm_|^md_|raid|nvme|lookup_slow|iomap|filemap|do_fsync|vfs_|submit_bio|dio_|read_pages|inode|"
    r"path_openat|open_namei|d_alloc_parallel|do_truncate|statfs|page_cache|sync_file|wait_for_stable|beegfs|weka|wekafs"
)
GPU_DRIVER = expression(r"^_?nv_|nvidia|^uvm_|^os_acquire|^rm_|_nv\d+rm|amdgpu|^kfd_|drm_|dma_fence")
_IDLE = expression(r"^\[|kworker|^\(?sd-pam")


def find(job: Job) -> Iterator[Fact]:
    """Facts about the job's processes, the last look at each deciding."""
    if not job.events.has("process_state"):
        return
    ranks = ProcessRanks(job.events.of("process_state", *TASK_KINDS), job.processes, job.world_size)
    stacks = _stacks(job)
    looks: dict[tuple[str | None, int], list[Row]] = {}
    for row in ranks.rows:
        looks.setdefault((row.event.host, row.pid), []).append(row)
    for (host, pid), rows in sorted(looks.items(), key=lambda item: (item[0][0] or "", item[0][1])):
        rows.sort(key=lambda row: (row.event.time or 0.0, row.event.line.file, row.event.line.number))
        if (fact := _fact(ranks.owner(pid, host), rows, stacks, job)) is not None:
            yield fact
    yield from _gone(ranks, job)


def _stacks(job: Job) -> dict[int, Event]:
    return {pid: event for event in job.events.of("kernel_stack") if (pid := event.number("process")) is not None}


def _fact(owner: Owner | None, rows: Sequence[Row], stacks: dict[int, Event], job: Job) -> Fact | None:
    # a row a thread: the state of one thread is not that of another
    last = [row for row in rows if row.event.line.file == rows[-1].event.line.file and row.state]
    letters = [row.state[0] for row in last]
    kind, letter = next(
        (
            (kind, letter)
            for kind, known in (("process_stopped", "Tt"), ("process_defunct", "ZX"), ("process_uninterruptible", "D"))
            for letter in letters
            if letter in known
        ),
        ("", ""),
    )
    if not kind:
        return None
    row = next(row for row in last if row.state[0] == letter)
    if owner is None and (_IDLE.search(row.command) or not PYTHON.search(row.command)):
        # other processes of the host: kernel threads, shells, somebody's editor
        return None
    looks = {other.event.line.file: other.state[:1] == letter for other in rows if other.state}
    if kind == "process_uninterruptible" and not all(looks.values()):
        # every process that reads or writes is so for moments
        return None
    wchan = next(
        (str(r.event.fields["wchan"]) for r in last if r.state[0] == letter and r.event.fields.get("wchan")), ""
    )
    stack = stacks.get(row.pid)
    functions = stack.fields.get("functions") if stack is not None else None
    held = [wchan, *(str(name) for name in functions)] if isinstance(functions, tuple) else [wchan]
    fields: dict[str, Value] = {
        "process": row.pid,
        "state": row.state,
        "wchan": wchan or next((name for name in held if name), None),
        "storage": _is_storage(held),
        "command": row.command[:120],
        "child": owner is not None and owner.child,
        "sure": owner is not None and not owner.child and not owner.guessed,
        "traced": letter == "t",
        "looks": len(looks),
    }
    host = (owner.host if owner is not None else None) or row.event.host
    ranks = () if owner is None else (owner.rank,)
    evidence = [evidence_of(row.event, f"state {row.state}")]
    evidence += [
        evidence_of(r.event, "the same in an earlier look") for r in rows if r is not row and r.state == row.state
    ][:2]
    if stack is not None:
        evidence.append(evidence_of(stack, "where the kernel holds it"))
    affected = tuple(sorted(set(job.ranks) - set(ranks)))
    hosts = (host,) if host else ()
    return Fact(kind, fields, ranks, hosts, affected=affected, time=row.event.time, evidence=tuple(evidence))


def _is_storage(functions: Sequence[str]) -> bool | None:
    """Whether it waits for a file system; None when nothing says what it waits for."""
    known = [name for name in functions if name]
    if not known:
        return None
    if any(GPU_DRIVER.search(name) for name in known):
        return False
    return any(STORAGE.search(name) for name in known)


def _gone(ranks: ProcessRanks, job: Job) -> Iterator[Fact]:
    """Ranks that no table shows, where one shows all the others of that host."""
    tables: dict[tuple[str, str | None], list[Row]] = {}
    for row in ranks.rows:
        tables.setdefault(row.place, []).append(row)
    for (_, host), rows in sorted(tables.items(), key=lambda item: item[0][0]):
        if host is None and not ranks.one_host:
            continue
        known = ranks.known_on(host)
        shown = {row.pid for row in rows}
        missing = {pid: rank for pid, rank in known.items() if pid not in shown}
        if len(missing) != 1 or len(known) < 3:
            continue
        ((pid, rank),) = missing.items()
        others = [evidence_of(row.event, "another rank's process is there") for row in rows if row.pid in known][:4]
        process = job.ranks.get(rank)
        last: tuple[Evidence, ...] = ()
        if process is not None and process.last_line is not None:
            last = (Evidence(process.last_line.location, process.last_line.raw, f"the last line of rank {rank}"),)
        yield Fact(
            "process_gone",
            {"process": pid},
            (rank,),
            job.hosts_of((rank,)),
            affected=tuple(sorted(set(job.ranks) - {rank})),
            evidence=(*others, *last),
        )
