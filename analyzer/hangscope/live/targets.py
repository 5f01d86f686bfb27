"""The processes that attach looks at, and what their environment says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from hangscope.expressions import expression
from hangscope.records import dataclass

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_LOCAL_RANKS = (
    "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
)  # fmt: skip
_WORLD_SIZES = (
    "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
)  # fmt: skip
_SHOWN = expression(
    r"(?:GLOBAL_|LOCAL_|GROUP_|ROLE_|NODE_)?RANK|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)"
    r"|(?:NCCL|RCCL|TORCH|TORCHELASTIC|GLOO|TORCHCOMM)_\w+|CUDA_(?:VISIBLE_DEVICES|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)"
    r"|(?:HIP|ROCR)_VISIBLE_DEVICES|PYTORCH(?:_CUDA)?_ALLOC_CONF|OMP_NUM_THREADS|USE_LIBUV"
    r"|SLURM_(?:JOB_?ID|STEP_?ID|PROCID|LOCALID|NODEID|NTASKS|NNODES|STEP_NUM_TASKS|JOB_NUM_NODES|(?:JOB_|STEP_)?NODELIST|GPUS\w*)"
    r"|OMPI_COMM_WORLD_\w+|PMIX?_(?:RANK|SIZE)|MV2_COMM_WORLD_\w+"
)
_SECRET = expression(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """A process to look at.

    Attributes:
        pid, parent: process ids.
        role: "rank" (trains), "launcher", or "child" (a loader, a checkpoint writer, or whatever a rank started).
        rank: global rank; of a child that of its rank; None when its environment does not tell.
        local_rank, world_size: as its environment tells.
        owner: process id of its rank; of a rank its own; of a launcher 0.
        command: its command line.
        python: whether a Python stack can be taken of it.
        started: seconds since the machine started.
        environment: what it was started with, empty when the kernel refuses. It never leaves this process whole:
            `shown` is all that is written down.
    """

    pid: int
    parent: int
    role: str
    rank: int | None
    local_rank: int | None
    world_size: int | None
    owner: int
    command: str
    python: bool
    started: float
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def shown(self) -> dict[str, str]:
        """The settings that say how the job is put together; all others may hold secrets."""
        return {
            name: value
            for name, value in sorted(self.environment.items())
            if _SHOWN.fullmatch(name) and not _SECRET.search(name)
        }

    @property
    def label(self) -> str:
        """``rank 3 (pid 77)``."""
        who = f"rank {self.rank}" if self.rank is not None else ""
        if self.role == "launcher":
            return f"launcher (pid {self.pid})"
        if self.role == "child":
            return f"child {self.pid} of {who or f'process {self.owner}'}"
        return f"{who} (pid {self.pid})" if who else f"process {self.pid}"


@dataclass(frozen=True, slots=True)
class LiveJob:
    """One job, as far as it runs on this host.

    Attributes:
        name: where its ranks meet (``node01:29500``), else what tells it from other jobs.
        targets: launchers, ranks and their children; ranks in order, each followed by its children.
    """

    name: str
    targets: tuple[Target, ...]

    @property
    def ranks(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if target.role == "rank")


@dataclass(frozen=True, slots=True)
class Claim:
    """What an environment says of its process."""

    rank: int
    local_rank: int | None
    world_size: int | None
    strong: bool


def read_claim(environment: Mapping[str, str]) -> Claim | None:
    """The rank that an environment gives its process."""
    rank = _first_number(environment, _RANKS)
    if rank is None:
        return None
    local_rank, world_size = _first_number(environment, _LOCAL_RANKS), _first_number(environment, _WORLD_SIZES)
    return Claim(rank, local_rank, world_size, strong="RANK" in environment and "WORLD_SIZE" in environment)


def _first_number(environment: Mapping[str, str], names: Iterable[str]) -> int | None:
    for name in names:
        value = environment.get(name, "").strip()
        if value.isdecimal() and len(value) < 8:
            return int(value)
    return None
