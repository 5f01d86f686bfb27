"""Rules and facts to test the diagnosis with: small, and about a made-up vocabulary of fact kinds."""

from __future__ import annotations

import copy
from pathlib import Path

from hangscope.diagnose.loader import read_rule
from hangscope.diagnose.reader import Table
from hangscope.diagnose.rule import Rule
from hangscope.model import Evidence, Fact, Finding, Location, Role, Value

KINDS = {
    "shm_extend_failed": frozenset({"path", "size_bytes", "error"}),
    "host_full": frozenset({"mount", "free_bytes"}),
    "process_died": frozenset({"signal", "exit_code", "reason"}),
    "peer_closed": frozenset({"peer"}),
    "call_stuck": frozenset({"op", "seq", "missing"}),
    "version_seen": frozenset({"product", "version"}),
}

SHM_RULE = """
id = "shm-extend-failed"
cause = "shm-exhausted"
role = "cause"
status = "stable"
since = "0.1.0"
title = "/dev/shm is full on {hosts}"
weight = 80
confidence = 0.9
explanation = "Rank {ranks} could not extend {f.path} to {f.size_bytes:bytes}: {f.error|no reason given}."
explains = ["peer-lost", "watchdog-timeout"]
false_positives = ["The cuMem host fallback prints the same words and goes on."]
references = ["NCCL 2.21 src/misc/shmutils.cc: Error while creating shared memory segment"]
aliases = ["shm-full"]

[when]
all = [
    { fact = "shm_extend_failed", as = "f", error_contains = ["No space", "ENOSPC"] },
    { fact = "host_full", as = "h", mount = "/dev/shm", free_bytes_max = 1048576 },
]
any = [{ fact = "peer_closed" }, { fact = "call_stuck", op_in = ["all_reduce", "broadcast"] }]
none = [{ fact = "process_died", signal_exists = true, same = "rank" }]
share = ["host"]
before = [["h", "f"]]
culprits = "f"

[[remedies]]
text = "Give the container on {hosts} a larger /dev/shm."
command = "docker run --shm-size=8g"

[[remedies]]
text = "Let NCCL take less shared memory."
command = "NCCL_BUFFSIZE=1048576"
versions = "nccl>=2.8,<2.20"

[[cases]]
name = "a full /dev/shm"
fires = true
lines = '''
node01:11:11 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes
'''

[[cases]]
name = "harmless fallback"
fires = false
lines = "cuMem host allocation failed, falling back"
"""

DEATH_RULE = """
id = "killed-by-somebody"
cause = "killed-by-signal"
role = "cause"
status = "preview"
since = "0.1.0"
title = "{ranks:named} got signal {d.signal}"
weight = 60
confidence = 0.8
explanation = '''
{ranks:named} on {hosts:named} was ended by signal {d.signal}; {affected:named} wait in {group}.
'''
explains = ["peer-lost", "watchdog-timeout", "store-lost"]
false_positives = ["The launcher ends the others after the first failure."]
references = ["torch.distributed.elastic: Sending process SIGTERM"]

[when]
all = [{ fact = "process_died", as = "d", signal_in = [9, 15] }]

[[cases]]
name = "killed"
fires = true
lines = "Killed"

[[cases]]
name = "a fixture that runs well"
fires = false
fixture = "well"
"""

PEER_RULE = """
id = "peer-closed"
cause = "peer-lost"
role = "symptom"
status = "stable"
since = "0.1.0"
title = "Rank {ranks} lost its peer"
weight = 20
confidence = 0.6
explanation = "{count} lines say that {peer_closed.peer} closed its connection."
false_positives = ["An orderly end of the job."]
references = ["NCCL socketProgress: Connection closed by remote peer"]

[when]
any = [{ fact = "peer_closed" }, { fact = "call_stuck", op = "recv" }]

[[cases]]
name = "closed"
fires = true
lines = "closed"

[[cases]]
name = "not closed"
fires = false
lines = "not"
"""

FAMILY_OF = {"shm-extend-failed": "host", "killed-by-somebody": "process", "peer-closed": "network"}
TEXTS = {"shm-extend-failed": SHM_RULE, "killed-by-somebody": DEATH_RULE, "peer-closed": PEER_RULE}


def write_rule(folder: Path, text: str, name: str = "shm-extend-failed", family: str = "host") -> Path:
    """A rule file in a folder of rules."""
    path = folder / family / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_rule(when: object, **changes: object) -> Rule:
    """A rule with the given condition; the rest is as plain as can be."""
    values: dict[str, object] = {
        "id": "a-rule",
        "cause": "peer-lost",
        "role": "cause",
        "status": "stable",
        "since": "0.1.0",
        "title": "Rank {ranks}",
        "weight": 60,
        "confidence": 0.8,
        "explanation": "Rank {ranks} on {hosts}.",
        "when": when,
        "false_positives": ["None known."],
        "references": ["NCCL 2.22"],
        "cases": [{"name": "yes", "fires": True, "lines": "x"}, {"name": "no", "fires": False, "lines": "y"}],
    }
    values = copy.deepcopy(values | changes)
    name = str(values["id"])
    return read_rule(Table(f"rules/network/{name}.toml", "", values), name, "network")


def make_fact(
    kind: str,
    ranks: tuple[int, ...] = (),
    hosts: tuple[str, ...] = (),
    *,
    time: float | None = None,
    line: int | None = 1,
    file: str = "",
    group: str = "",
    affected: tuple[int, ...] = (),
    **fields: Value,
) -> Fact:
    """A fact with one line of evidence, in the log of its first rank."""
    name = file or (f"rank{ranks[0]}.log" if ranks else "job.log")
    evidence = (Evidence(Location(name, line), f"{kind} at {time}", ""),)
    return Fact(kind, fields, ranks, hosts, group, affected, time, evidence)


def make_finding(
    rule: str,
    cause: str,
    *,
    role: Role = Role.CAUSE,
    ranks: tuple[int, ...] = (),
    hosts: tuple[str, ...] = (),
    time: float | None = None,
    confidence: float = 0.8,
) -> Finding:
    """A finding as `evaluate` would make it."""
    evidence = (Evidence(Location(f"{rule}.log", 1), f"{cause} {ranks}", ""),)
    return Finding(cause, role, f"{cause} on {ranks}", ranks, (), hosts, confidence, "", (), evidence, rule, None, time)
