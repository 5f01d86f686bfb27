"""Finds the training processes of this host: the jobs, their ranks, the ranks' children and the launchers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from hangscope.expressions import expression
from hangscope.live import procfs
from hangscope.live.procfs import Stat
from hangscope.live.targets import Claim, LiveJob, Target, read_claim
from hangscope.records import dataclass

_JOB = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
)  # fmt: skip
_LAUNCHER = expression(
    r"(?:^|[/\s])(?:torchrun|deepspeed|horovodrun|composer|accelerate)(?:\s|$)"
    r"|torch[./]distributed[./](?:run|launch)|deepspeed[./]launcher|accelerate[./]commands"
)
_TITLE = expression(r"VLLM::Worker|sglang::scheduler|ray::(?!IDLE|RayletMonitor|Dashboard)\w")
"""What workers of servers and of Ray call themselves."""

HELPER = expression(r"multiprocessing\.(?:resource_tracker|forkserver)|torch[./]_inductor[./]compile_worker")
"""Children of every rank that wait for orders all their life."""

_TRAINS = expression(rb"/(?:libtorch|libnccl|librccl|libxla|libmpi|_?pywrap_tensorflow|libpaddle|xla_extension)[\w.-]*")
"""Libraries of programs that train: what tells a rank from any other program that a scheduler started as a task."""


@dataclass(frozen=True, slots=True)
class Host:
    """What runs on this host.

    Attributes:
        jobs: the training jobs, by their lowest process id.
        refused: Python processes whose environment the kernel does not show us.
        busiest: other Python processes, those with the most CPU time first.
    """

    jobs: tuple[LiveJob, ...]
    refused: tuple[Stat, ...]
    busiest: tuple[Stat, ...]


def look_around(pids: Collection[int] = ()) -> Host:
    """Finds the jobs of this host; with `pids` only those that one of these belongs to.

    A process of `pids` that belongs to no job is one of its own, with its children.
    """
    return _Finder().find(frozenset(pids))


class _Finder:
    """One look at the process table."""

    def __init__(self) -> None:
        self._all = procfs.list_processes()
        self._children: dict[int, list[int]] = defaultdict(list)
        for one in self._all.values():
            self._children[one.parent].append(one.pid)
        self._own = self._line_of(os.getpid())
        self._environments: dict[int, dict[str, str]] = {}
        self._refused: set[int] = set()
        self._python: dict[int, bool] = {}
        self._claims: dict[int, Claim] = {}

    def find(self, pids: frozenset[int]) -> Host:
        for one in self._all.values():
            if one.pid not in self._own and one.state not in ("Z", "X"):
                self._look_at(one)
        ranks, launchers = self._ranks_and_launchers()
        jobs = self._jobs(ranks, launchers)
        taken = {target.pid for job in jobs for target in job.targets}
        if pids:
            strangers = [pid for pid in sorted(pids) if pid not in taken and pid in self._all]
            jobs = [job for job in jobs if any(target.pid in pids for target in job.targets)]
            if strangers:
                targets = [t for pid in strangers for t in self._with_children(pid, {}, set())]
                jobs.append(LiveJob("pid " + ", ".join(str(pid) for pid in strangers), tuple(targets)))
        others = [
            one for pid, one in self._all.items() if pid not in taken and pid not in self._own and self._is_python(pid)
        ]
        refused = [one for one in others if one.pid in self._refused]
        others.sort(key=lambda one: (-one.cpu_s, one.pid))
        return Host(tuple(jobs), tuple(sorted(refused, key=lambda one: one.pid)), tuple(others))

    # --- single processes -------------------------------------------------------------------------------

    def _look_at(self, one: Stat) -> None:
        try:
            environment = self._environments[one.pid] = procfs.environment_of(one.pid)
        except PermissionError:
            self._refused.add(one.pid)
            return
        except OSError:
            return
        claim = read_claim(environment)
        # a task of a scheduler may be anything: a shell, an editor, a notebook
        if claim and self._is_python(one.pid) and (claim.strong or procfs.maps(one.pid, _TRAINS)):
            self._claims[one.pid] = claim

    def _is_python(self, pid: int) -> bool:
        known = self._python.get(pid)
        if known is None:
            known = self._python[pid] = procfs.is_python(pid)
        return known

    def _line_of(self, pid: int) -> set[int]:
        """The process and its ancestors: hangscope itself, its shell, the remote login it came through."""
        line: set[int] = set()
        while pid in self._all and pid not in line:
            line.add(pid)
            pid = self._all[pid].parent
        return line

    def _python_parent(self, pid: int) -> int | None:
        """The nearest ancestor that runs Python: between launcher and rank may stand shells, numactl, profilers."""
        seen = {pid}
        pid = self._all[pid].parent
        while pid in self._all and pid not in seen:
            if pid in self._own:
                return None
            if self._is_python(pid):
                return pid
            seen.add(pid)
            pid = self._all[pid].parent
        return None

    # --- roles ------------------------------------------------------------------------------------------

    def _ranks_and_launchers(self) -> tuple[dict[int, Claim | None], set[int]]:
        parents = {pid: self._python_parent(pid) for pid in self._claims}
        launchers = {
            parent
            for pid, parent in parents.items()
            if parent is not None and self._starts(parent, self._claims[pid], self._claims.get(parent))
        }
        ranks: dict[int, Claim | None] = {}
        for pid, claim in self._claims.items():
            parent = parents[pid]
            inherited = parent is not None and parent not in launchers and self._claims.get(parent) == claim
            if pid not in launchers and not inherited:
                ranks[pid] = claim
        self._drop_orphans(ranks, parents, launchers)
        self._add_nameless(ranks, launchers)
        return ranks, launchers

    def _add_nameless(self, ranks: dict[int, Claim | None], launchers: set[int]) -> None:
        """Ranks of unknown environment: the kernel refuses it, or a title was written over it (setproctitle)."""
        known = set(launchers)
        for pid, one in self._all.items():
            if pid in ranks or pid in self._own or pid in launchers or one.state in ("Z", "X"):
                continue
            command = procfs.command_of(pid)
            launched = one.parent not in known | self._own and self._is_launcher(one.parent)
            if (launched or _TITLE.match(command)) and self._is_python(pid) and not HELPER.search(command):
                ranks[pid] = None
                if launched:
                    launchers.add(one.parent)

    def _starts(self, parent: int, child: Claim, own: Claim | None) -> bool:
        """Whether the parent launched the child as a rank, rather than being a rank that started a helper."""
        if own is not None:
            return own != child
        return self._is_launcher(parent)

    def _is_launcher(self, pid: int) -> bool:
        return self._is_python(pid) and _LAUNCHER.search(procfs.command_of(pid)) is not None

    def _drop_orphans(
        self, ranks: dict[int, Claim | None], parents: Mapping[int, int | None], launchers: set[int]
    ) -> None:
        """Children that outlive a rank claim its number too: the one that a launcher started is it, or the oldest."""
        same: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for pid, claim in ranks.items():
            same[self._job_key(pid), claim].append(pid)
        for pids in same.values():
            pids.sort(key=lambda pid: (parents[pid] not in launchers, self._all[pid].started, pid))
            for orphan in pids[1:]:
                del ranks[orphan]

    # --- jobs -------------------------------------------------------------------------------------------

    def _job_key(self, pid: int) -> tuple[str, ...]:
        environment = self._environments.get(pid, {})
        return tuple(environment.get(name, "") for name in _JOB)

    def _jobs(self, ranks: Mapping[int, Claim | None], launchers: Iterable[int]) -> list[LiveJob]:
        members: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for pid in ranks:
            key = self._job_key(pid)
            # what may not be looked into belongs together when one launcher started it
            members[key if any(key) else ("", str(self._launcher_of(pid, launchers) or ""))].append(pid)
        jobs = []
        for key, pids in members.items():
            started = {self._launcher_of(pid, launchers) for pid in pids}
            targets = [self._target(pid, "launcher", None, 0) for pid in sorted(p for p in started if p is not None)]
            for pid in sorted(pids, key=lambda pid: (_rank_of(ranks[pid]), pid)):
                targets += self._with_children(pid, ranks, set(launchers))
            jobs.append(LiveJob(_job_name(key, pids), tuple(targets)))
        return sorted(jobs, key=lambda job: min(target.pid for target in job.targets))

    def _launcher_of(self, pid: int, launchers: Iterable[int]) -> int | None:
        known = set(launchers)
        seen: set[int] = set()
        while pid in self._all and pid not in seen:
            seen.add(pid)
            pid = self._all[pid].parent
            if pid in known:
                return pid
        return None

    def _with_children(self, pid: int, ranks: Mapping[int, Claim | None], launchers: Collection[int]) -> list[Target]:
        """The process and everything below it that is no other rank, depth first as py-spy walks."""
        claim = ranks.get(pid)
        found = [self._target(pid, "rank", claim, pid)]
        pending = sorted(self._children[pid], reverse=True)
        seen = {pid}
        while pending:
            child = pending.pop()
            if child in seen or child in ranks or child in launchers or child in self._own:
                continue
            seen.add(child)
            if self._all[child].state not in ("Z", "X"):
                found.append(self._target(child, "child", claim, pid))
            pending += sorted(self._children[child], reverse=True)
        return found

    def _target(self, pid: int, role: str, claim: Claim | None, owner: int) -> Target:
        one = self._all[pid]
        return Target(
            pid=pid,
            parent=one.parent,
            role=role,
            rank=claim.rank if claim else None,
            local_rank=claim.local_rank if claim else None,
            world_size=claim.world_size if claim else None,
            owner=owner,
            command=procfs.command_of(pid),
            python=self._is_python(pid),
            started=one.started,
            environment=self._environments.get(pid, {}),
        )


def _rank_of(claim: Claim | None) -> int:
    return 1 << 30 if claim is None else claim.rank


def _job_name(key: tuple[str, ...], pids: list[int]) -> str:
    if len(key) == len(_JOB):
        address, port, run, slurm = key[:4]
        if port:
            return f"{address or 'localhost'}:{port}"
        if slurm or run:
            return f"Slurm job {slurm}" if slurm else run
    return f"pid {min(pids)}"
