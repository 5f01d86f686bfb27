"""Makes small flight-recorder dumps of a job, in any format that torch has had."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_NS = 1_780_000_000_000_000_000
WORLD = ("0", "default_pg")
TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed"


@dataclass
class Dump:
    """The dump of one rank in the making; every method that records a call gives the dump back.

    Attributes:
        rank: its global rank.
        groups: name -> (description, ranks) of its groups.
    """

    rank: int
    groups: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=lambda: {"0": ("default_pg", range(4))})
    backend: str = "nccl"
    entries: list[dict[str, Any]] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)
    p2p: dict[str, int] = field(default_factory=dict)

    def call(  # noqa: PLR0917 (short to write in tests)
        self,
        op: str = "all_reduce",
        size: int = 64,
        group: str = "0",
        state: str = "completed",
        line: int = 10,
        dtype: str = "Float",
    ) -> Dump:
        """Records a collective."""
        self.seqs[group] = self.seqs.get(group, 0) + 1
        self._add(op, size, group, state, line, dtype, is_p2p=False)
        return self

    def transfer(
        self, op: str, group: str = "0", state: str = "completed", line: int = 20, *, batch: bool = True
    ) -> Dump:
        """Records a send or recv ("send 0->1"), by default as a batch of one."""
        self.p2p[group] = self.p2p.get(group, 0) + 1
        self._add(op, 32, group, "scheduled" if batch else state, line, "Float", is_p2p=True)
        if batch:
            self._add("coalesced", 0, group, state, line, "Float", is_p2p=True)
        return self

    def wait(
        self, op: str = "all_reduce", size: int = 64, group: str = "0", line: int = 10, dtype: str = "Float"
    ) -> Dump:
        """Records a collective that has not completed."""
        return self.call(op, size, group, "scheduled", line, dtype)

    def step(self) -> Dump:
        """Records the three calls of a training step."""
        return self.call("all_reduce", 64, line=10).call("_all_gather_base", 16, line=11).call("broadcast", 8, line=12)

    def _add(  # noqa: PLR0917 (the parts of one entry)
        self, op: str, size: int, group: str, state: str, line: int, dtype: str, *, is_p2p: bool
    ) -> None:
        number = len(self.entries)
        done = state == "completed"
        sizes = [[size]] if size else []
        self.entries.append(
            {
                "frames": [
                    {"name": op, "filename": f"{TORCH}/distributed_c10d.py", "line": 3245},
                    {"name": "wrapper", "filename": f"{TORCH}/c10d_logger.py", "line": 83},
                    {"name": "train_step", "filename": "/mnt/work/train.py", "line": line},
                    {"name": "<module>", "filename": "/mnt/work/train.py", "line": 90},
                ],
                "record_id": number,
                "pg_id": list(self.groups).index(group),
                "process_group": (group, self.groups[group][0]),
                "thread_name": "python",
                "thread_id": "140000000000000",
                "collective_seq_id": self.seqs.get(group, 0),
                "p2p_seq_id": self.p2p.get(group, 0),
                "op_id": number + 1,
                "profiling_name": f"{self.backend}:{op}",
                "time_created_ns": START_NS + number * 1_000_000 + self.rank,
                "input_sizes": sizes,
                "input_dtypes": [dtype] * len(sizes),
                "output_sizes": sizes,
                "output_dtypes": [dtype] * len(sizes),
                "state": "scheduled" if self.backend == "gloo" else state,
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None if self.backend == "gloo" or not done else START_NS + number,
                "retired": done,
                "timeout_ms": 600_000,
                "is_p2p": is_p2p,
            }
        )

    def value(self) -> dict[str, Any]:
        """The dump as torch 2.9 to 2.14 write it (format 2.10)."""
        config = {n: {"name": n, "desc": d, "ranks": str(list(ranks))} for n, (d, ranks) in self.groups.items()}
        if self.backend == "gloo":
            config = {"": {"name": "", "desc": "", "ranks": "[]"}}
        last = {str(i): {"last_enqueued_collective": self.seqs.get(n, -1)} for i, n in enumerate(self.groups)}
        return {
            "version": "2.10",
            "pg_config": config,
            "pg_status": last,
            "comm_lib_version": "2.27.7",
            "entries": self.entries,
        }

    def as_json(self) -> dict[str, Any]:
        """The dump as torch's JSON has it: no stacks, zeros for times, lists for tuples, text for counters."""
        value = self.value()
        value["pg_status"] = {i: {k: str(n) for k, n in s.items()} for i, s in value["pg_status"].items()}
        value["nccl_comm_state"] = {}
        value["entries"] = [
            {
                key: (0 if item is None else list(item) if isinstance(item, tuple) else item)
                for key, item in entry.items()
                if key != "frames"
            }
            for entry in value["entries"]
        ]
        if not value["entries"]:
            del value["entries"]
        return value


def write(folder: Path, dumps: Sequence[Dump], prefix: str = "nccl_trace_rank_") -> Path:
    """One pickle a rank, as torch leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in dumps:
        (folder / f"{prefix}{dump.rank}").write_bytes(pickle.dumps(dump.value(), protocol=2))
    return folder


def write_json(folder: Path, dumps: Sequence[Dump], prefix: str = "fr_trace_rank_") -> Path:
    """One JSON document a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in dumps:
        (folder / f"{prefix}{dump.rank}.json").write_text(json.dumps(dump.as_json()))
    return folder
