"""Says what to collect next, most useful first: what is missing in the evidence, and what each piece would decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hangscope.align.launch import KUBERNETES, SLURM
from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, causes
from hangscope.diagnose.settings import fit_command
from hangscope.diagnose.versions import fits
from hangscope.model import Event, Finding, NextStep
from hangscope.records import dataclass
from hangscope.report.inputs import JobView
from hangscope.report.pieces import Piece, decides, hosts_of_suspects, ranks_with_stacks, suspects_of
from hangscope.report.rank_states import listed_ranks
from hangscope.report.reach import Reach, is_name
from hangscope.report.spans import fold_hosts, rank_words

_MOST_SUSPECTS = 4

# How each launcher keeps one log a rank. torchrun and accelerate take the spelling with an underscore in every version.
_LOG_A_RANK = {
    "torchrun": "torchrun --log_dir logs --tee 3 ...",
    "accelerate": "accelerate launch --log_dir logs --tee 3 ...",
    "srun": "srun --output=logs/%j-%t.log ...",
    "mpirun": "mpirun --output-filename logs ...",
    "deepspeed": "deepspeed --enable_each_rank_log logs ...",
    "ray": "cp -r /tmp/ray/session_latest/logs logs",
}

_NCCL_WORDS = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,COLL NCCL_DEBUG_FILE=nccl.%h.%p.log"
_GLOO_WORDS = "TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_CPP_LOG_LEVEL=INFO"
_RECORDER = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=fr_rank_"
_ANY_STACK = "for p in $(pgrep -f python); do py-spy dump --pid $p; done"


_GONE_SYMPTOMS = ("peer-lost", "store-lost")
_LIVE = (Piece.STACKS, Piece.LOGS, Piece.RECORDER, Piece.RAS, Piece.NCCL, Piece.KERNEL)
_ORDER: Mapping[str, tuple[Piece, ...]] = {
    "process": (Piece.LOGS, Piece.RECORD, Piece.KERNEL, Piece.RECORDER, Piece.NCCL),
    "launch": (Piece.PROCESS, Piece.RECORD, Piece.PORT, Piece.NCCL),
    "collective": _LIVE,
    "stall": (Piece.STACKS, Piece.KERNEL, Piece.LOGS, Piece.RECORDER, Piece.NCCL),
    "gpu": (Piece.KERNEL, Piece.LOGS, Piece.NCCL, Piece.STACKS),
    "host": (Piece.KERNEL, Piece.LOGS, Piece.NCCL, Piece.STACKS),
    "network": (Piece.LOGS, Piece.ADDRESSES, Piece.NCCL, Piece.KERNEL, Piece.STACKS),
    "version": (Piece.LOGS, Piece.NCCL, Piece.VERSIONS, Piece.STACKS, Piece.RECORDER),
    "none": (Piece.LOGS, Piece.STACKS, Piece.RECORDER, Piece.RAS, Piece.NCCL, Piece.KERNEL, Piece.RECORD),
}
"""What helps most with a cause of each family, in the order of its use."""


def what_to_collect(job: JobView, verdict: Finding) -> list[tuple[Piece | None, NextStep]]:
    """The pieces of evidence that are missing, most useful first, each with what it would decide.

    Args:
        job: the aligned job, whose launcher, hosts, pids and versions the commands name.
        verdict: what is suspected.
    """
    collector = _Collector(job, verdict)
    cause = causes()[verdict.cause]
    family = "process" if verdict.cause in _GONE_SYMPTOMS else cause.family
    found: list[tuple[Piece | None, NextStep]] = [(None, step) for step in _dumps_anew(job, verdict)]
    for piece in _ORDER[family]:
        step = collector.steps[piece]()
        if step is not None:
            found.append((piece, step))
    found += [(None, step) for step in _repairs(job)]
    return found


def _dumps_anew(job: JobView, verdict: Finding) -> Iterator[NextStep]:
    """Dumps of ranks that are of an earlier run or moment say nothing: the right ones lie on their nodes, if at all."""
    older = job.recordings.older
    if older and verdict.cause == INSUFFICIENT_EVIDENCE:
        yield NextStep(
            f"Collect the last flight-recorder dumps of {rank_words(older, most=30)} from their nodes: those given "
            "are older than the rest. If there are none, these ranks wrote none.",
            None,
            "at which call of which group the ranks part, and who did not come",
        )


@dataclass(frozen=True, slots=True)
class _Collector:
    """Writes the steps for one job."""

    job: JobView
    verdict: Finding

    @property
    def steps(self) -> Mapping[Piece, Callable[[], NextStep | None]]:
        return {
            Piece.LOGS: self._logs,
            Piece.STACKS: self._stacks,
            Piece.RECORDER: self._recorder,
            Piece.RAS: self._ras,
            Piece.NCCL: self._words,
            Piece.KERNEL: self._kernel,
            Piece.RECORD: self._record,
            Piece.PROCESS: self._processes,
            Piece.ADDRESSES: self._addresses,
            Piece.PORT: self._port,
            Piece.VERSIONS: self._versions,
        }

    @property
    def reach(self) -> Reach:
        return Reach(self.job.launch)

    @property
    def suspects(self) -> tuple[int, ...]:
        return suspects_of(self.job, self.verdict)

    @property
    def suspect_hosts(self) -> tuple[str, ...]:
        return hosts_of_suspects(self.job, self.verdict)

    def _step(self, piece: Piece, text: str, command: str | None) -> NextStep:
        return NextStep(text, command, decides(piece, self.job, self.verdict))

    def _logs(self) -> NextStep | None:
        seen = {rank for rank, process in self.job.ranks.items() if process.line_count}
        absent = [rank for rank in listed_ranks(self.job) if rank not in seen]
        command = _LOG_A_RANK.get(self.job.launch.launcher or "")
        if self.job.launch.platform == KUBERNETES:
            pods = [host for host in self.job.hosts if is_name(host)]
            pod = pods[0] if len(pods) == 1 else "POD"
            command = f"kubectl logs --timestamps {pod} > {pod}.log"
        if not seen:
            text = (
                "There are no logs among these files: add the log of every rank, a file each."
                if self.job.ranks
                else "No line says which rank wrote it: give the log of every rank, a file each."
            )
            return self._step(Piece.LOGS, text, command)
        if not absent:
            return None
        hosts = sorted({p.host for rank in absent if (p := self.job.ranks.get(rank)) and p.host})
        where = f" ({fold_hosts(hosts)})" if hosts else ""
        who, they = rank_words(absent, most=40), "it" if len(absent) == 1 else "they"
        text = f"Add the logs of {who}{where}; none was given."
        return NextStep(text, command, f"whether {who} started, how far {they} came and how {they} ended")

    def _stacks(self) -> NextStep | None:
        """Who is still there can be asked directly; the ranks that did not come know most."""
        shown = ranks_with_stacks(self.job)
        asked = [rank for rank in self.suspects if rank not in shown]
        if self.suspects and not asked:
            return self._again()
        if not self.suspects and shown:
            asked = [rank for rank in listed_ranks(self.job) if rank not in shown]
            if not asked:
                return None
        known = [rank for rank in asked if (p := self.job.ranks.get(rank)) is not None and p.pid is not None]
        while_it = "While it still hangs, take the stack of"
        if known:
            first = known[0]
            process = self.job.ranks[first]
            same = [rank for rank in known[:_MOST_SUSPECTS] if self.job.ranks[rank].host == process.host]
            command = "; ".join(f"py-spy dump --pid {self.job.ranks[rank].pid}" for rank in same)
            text = f"{while_it} {rank_words(same)}, and give it to hangscope with the logs."
            if others := [rank for rank in asked if rank not in same]:
                text = f"{while_it} {rank_words(same)} first, then of {rank_words(others, most=30)}."
            return self._step(Piece.STACKS, text, self.reach.on(process.host, command))
        whole = self._any_stack()
        if asked:
            hosts = self.suspect_hosts
            text = f"{while_it} {rank_words(asked, most=30)}, and give it to hangscope with the logs."
            command = self.reach.on(hosts[0], whole) if hosts else "py-spy dump --pid PID"
            return self._step(Piece.STACKS, text, command)
        text = f"{while_it} every rank, and give it to hangscope with the logs."
        pids = [process.pid for process in self.job.ranks.values() if process.pid is not None]
        if len(self.job.ranks) == 1 and len(pids) == 1:
            process = next(iter(self.job.ranks.values()))
            return self._step(Piece.STACKS, text, self.reach.on(process.host, f"py-spy dump --pid {pids[0]}"))
        return self._step(Piece.STACKS, text, self.reach.everywhere(self.job.hosts, whole))

    def _again(self) -> NextStep | None:
        """The suspects' stacks are there: a second look, with native frames, tells a slow rank from a stuck one."""
        own = [p for p in self.job.stacks.positions if p.rank in self.suspects]
        if any(p.round for p in own) and any(p.native for p in own):
            return None
        last = own[-1]
        pid = last.dump.pid if last.dump.pid is not None else last.process.pid if last.process else None
        if pid is None:
            return None
        who = rank_words([rank for rank in (last.rank,) if rank is not None])
        text = f"Take the stack of {who} once more, some seconds later and with native frames."
        command = self.reach.on(last.host, f"py-spy dump --native --pid {pid}")
        return NextStep(text, command, f"whether {who} moves or stands still, and in which library")

    def _any_stack(self) -> str:
        return "ray stack" if self.job.launch.launcher == "ray" else _ANY_STACK

    def _recorder(self) -> NextStep | None:
        """The flight recorder exists from torch 2.2 on, and is on by itself from 2.11 on."""
        versions = self.job.versions
        if any(source.kind == "flight-recorder" and source.error is None for source in self.job.sources):
            return None
        if not fits("torch>=2.2", versions) or not self._is_torch() or self.job.without_nccl:
            return None
        if not fits("torch<2.11", versions):
            text = "Collect what the flight recorder of each rank has written beside it at the timeout."
            command = self.reach.everywhere(self.job.hosts, "ls ~/.cache/torch/comm_lib_trace_rank_*")
            return self._step(Piece.RECORDER, text, command)
        settings = fit_command(_RECORDER, versions) or _RECORDER
        text = "Next time, keep a flight recorder: at a timeout, every rank writes its last calls."
        return self._step(Piece.RECORDER, text, self._environment(settings))

    def _is_torch(self) -> bool:
        if self.job.versions.torch is not None or self.job.versions.inferred.get("torch") is not None:
            return True
        frames = (f"{p.frame.file} {p.frame.function}" for p in self.job.stacks.positions if p.frame is not None)
        return (
            any(process.last_line is not None and process.last_line.header == "c10" for process in self.job.processes)
            or _has(self.job, _is_of_torch)
            or any("torch/" in frame or "c10d" in frame for frame in frames)
        )

    def _ras(self) -> NextStep | None:
        """NCCL answers for all ranks, from 2.24 on; worth a line only where the version is known to."""
        versions = self.job.versions
        is_known = versions.nccl is not None and fits("nccl>=2.24", versions)
        if not is_known or _has(self.job, lambda event: event.source == "ras"):
            return None
        host = self.suspect_hosts[0] if self.suspect_hosts else next(iter(self.job.hosts), None)
        return self._step(
            Piece.RAS, "While it still hangs, ask NCCL about all ranks.", self.reach.on(host, "ncclras -v")
        )

    def _words(self) -> NextStep | None:
        if self.job.without_nccl:
            settings = fit_command(_GLOO_WORDS, self.job.versions) or _GLOO_WORDS
            text = "Next time, let torch say what it does and check every call; that is slow."
            return self._step(Piece.NCCL, text, self._environment(settings))
        if _has(self.job, lambda event: event.line.header == "nccl" and event.line.level == "INFO"):
            return None
        text = "Next time, let NCCL say what it does, in files of its own."
        return self._step(Piece.NCCL, text, self._environment(_NCCL_WORDS))

    def _kernel(self) -> NextStep | None:
        hosts = self.suspect_hosts
        logged = {
            event.host for process in self.job.processes for event in process.events if event.line.header == "kernel"
        }
        if (hosts and set(hosts) <= logged) or (logged and (not hosts or None in logged)):
            return None
        command = "dmesg -T | tail -n 200"
        text = f"Look at the kernel's log{f' of {fold_hosts(hosts)}' if hosts else ' of every host'}."
        ready = self.reach.on(hosts[0], command, live=False) if len(hosts) == 1 else None
        return self._step(Piece.KERNEL, text, ready or self.reach.everywhere(hosts or self.job.hosts, command))

    def _record(self) -> NextStep | None:
        launch = self.job.launch
        if launch.platform == SLURM:
            if _has(self.job, lambda event: event.kind in ("slurm_record", "slurm_state")):
                return None
            command = f"sacct -j {self.reach.job_id} --format=JobID,NodeList,State,ExitCode,MaxRSS,Elapsed"
            return self._step(Piece.RECORD, "Ask Slurm how each task ended.", command)
        if launch.platform == KUBERNETES and not _has(self.job, lambda event: event.kind == "kube_exit_code"):
            hosts = [host for host in self.suspect_hosts if is_name(host)]
            pod = hosts[0] if hosts else "POD"
            command = f"kubectl describe pod {pod}; kubectl logs --previous {pod}"
            return self._step(Piece.RECORD, "Ask Kubernetes how the container ended.", command)
        return None

    def _processes(self) -> NextStep:
        text = "Count the processes on every host, while it waits."
        return self._step(Piece.PROCESS, text, self.reach.everywhere(self.job.hosts, "pgrep -af python"))

    def _addresses(self) -> NextStep:
        text = "Compare the addresses and routes of all hosts."
        return self._step(Piece.ADDRESSES, text, self.reach.everywhere(self.job.hosts, "ip -br addr; ip route"))

    def _port(self) -> NextStep | None:
        address, port = rendezvous_of(self.job)
        if address is None or port is None:
            return None
        others = [host for host in self.job.hosts if host != address]
        text = f"Try the port of the rendezvous from {others[0] if others else 'another host'}, while it waits."
        return self._step(Piece.PORT, text, self.reach.on(others[0] if others else None, f"nc -vz {address} {port}"))

    def _versions(self) -> NextStep:
        text = "Compare versions on all hosts."
        command = "python -m torch.utils.collect_env"
        return self._step(Piece.VERSIONS, text, self.reach.everywhere(self.job.hosts, command))

    def _environment(self, settings: str) -> str:
        """Settings as the launcher passes them on to every rank."""
        match self.job.launch.launcher:
            case "mpirun":
                return f"mpirun {' '.join(f'-x {one}' for one in settings.split())} ..."
            case "deepspeed":
                # read by its launcher on every host
                return f"printf '%s\\n' {settings} >> ~/.deepspeed_env"
            case "ray":
                pairs = ", ".join(f'"{name}": "{value}"' for name, _, value in map(_split, settings.split()))
                return f'ray.init(runtime_env={{"env_vars": {{{pairs}}}}})'
            case _:
                return f"export {settings}"


def rendezvous_of(job: JobView) -> tuple[str | None, int | None]:
    """Address and port of the rendezvous, as one of the processes was given them; (None, None) when none says."""
    for process in job.processes:
        for event in process.events:
            address, port = event.fields.get("master_addr"), event.fields.get("master_port")
            if event.kind == "launch_setting" and event.fields.get("setting_name") == "rdzv_endpoint":
                # torchrun's own list of its settings: 10.9.0.1:2222, or a host alone
                address, _, digits = str(event.fields.get("value", "")).rpartition(":")
                port = int(digits) if digits.isdecimal() else None
            if isinstance(address, str) and isinstance(port, int) and is_name(address) and 0 < port < 65536:
                return address, port
    return None, None


def _repairs(job: JobView) -> Iterator[NextStep]:
    """What was given and could not be used whole."""
    for source in job.sources:
        if source.error is not None:
            yield NextStep(f"Make {source.file} readable: {source.error}.", None, "what it says")
            break
    if job.lost_tails:
        first = min(job.lost_tails)
        if any(_is_nccl(event) for process in job.processes for event in process.events):
            text = "NCCL's lines stop in the middle of a buffer: have it write files of its own, which lose nothing."
            yield NextStep(text, "export NCCL_DEBUG_FILE=nccl.%h.%p.log", "which call NCCL made last")
        text = f"The last lines of {first} are lost, they were still in a buffer: run Python unbuffered."
        yield NextStep(text, "export PYTHONUNBUFFERED=1", "what was said last")


def _is_nccl(event: Event) -> bool:
    return event.line.header == "nccl" and event.line.level == "INFO"


def _is_of_torch(event: Event) -> bool:
    return event.line.header == "c10" or event.source.startswith("torch") or event.source == "elastic"


def _has(job: JobView, test: Callable[[Event], bool]) -> bool:
    return any(test(event) for process in job.processes for event in process.events)


def _split(assignment: str) -> tuple[str, str, str]:
    return assignment.partition("=")
