"""What stands in the holes of torch's catalogue of messages, what precedes a text in its line, and what answers it.

The catalogue gives a message one cause. Some mean nothing when they are printed alone, some are parts of a line, and
for some hangscope gives an answer that says more or less than the catalogue; `ANSWERS` lists those, with its reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOLES: tuple[tuple[str, Mapping[str, str]], ...] = (
    (r"^NVRM: Xid", {"x": "0000:3b:00"}),
    (r"segfault at|^traps: ", {"addr": "00007f1234560010", "comm": "python3", "lib": "libtorch_cuda.so"}),
    (r"mlx5_cmd_out_err", {"x": "50", "cmd": "CREATE_MKEY", "text": "bad resource state"}),
    (r"PCIe Bus Error", {"s": "Uncorrected (Fatal)", "t": "Transaction Layer", "agent": "Receiver ID"}),
    (r"^XFS ", {"text": "Filesystem has been shut down due to log error (0x2)."}),
    (r"SYN flooding", {"p": "29500"}),
    (r"is killed by signal: \{", {"text": "Killed"}),
    (r"^unable to allocate shared memory", {"strerror": "No space left on device (28)"}),
    (r"enforce fail", {"cond": "op.preamble.length <= op.nbytes", "a": "40", "b": "20"}),
    (r"cudaGetDeviceCount", {"code": "802", "text": "system not yet initialized"}),
    (r"^Caught \{Exc\}", {"Exc": "ValueError"}),
    (r"exited on signal|KILLED BY SIGNAL", {"n": "9", "text": "Killed"}),
    (r"lost communication with a remote daemon", {"d": "[prterun-node02-1@0,0]"}),
    (r"timed out connecting", {"peer": "SocketAddress 10.0.0.2"}),
    (r"death signal", {"n|SIGNAME": "15"}),
    (r"received by PID", {"n": "9", "SIGNAME": "SIGKILL"}),
    (r"\{fields\}", {"fields": "SeqNum=57, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000"}),
    (r"appears not to match", {"sizes": "[1024, 512]"}),
    (r"SocketImpl\(", {"fd": "64", "addr": "[node02]:40000", "remote": "[node01]:29500"}),
    (r"\{socket\}", {"socket": "SocketImpl(fd=64, addr=[node02]:40000, remote=[node01]:29500)"}),
    (r"\{key\}", {"key": "store_based_barrier_key:1"}),
    (r"ncclUniqueId", {"what": "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"}),
    (r"\{dur\}", {"dur": "60s"}),
    (r"OutOfMemoryError: \{msg\}", {"msg": "CUDA out of memory. Tried to allocate 2.00 GiB."}),
    (r"^torch\._dynamo", {"limit": "recompile_limit", "n": "8"}),
    (r"kernel version \{v\}", {"v": "5.4.0"}),
    (r"shared memory file \{name\}", {"name": "/torch_77_1_2"}),
    (r"blocked for more than|soft lockup", {"comm": "python3"}),
    (r"^EXT4-fs|^XFS ", {"dev": "nvme0n1", "func": "ext4_find_entry", "text": "shut down due to log error"}),
    (r"^LustreError", {"...": "11-0: osc", "op": "ost_read", "nid": "10.0.0.9@o2ib"}),
    (r"Link down$|NETDEV WATCHDOG|link status", {"netdev": "ens1", "dev": "ens1", "drv": "mlx5_core"}),
    (r"SXid", {"code5": "20034", "text": "LTSSM Fault Up"}),
    (r"oom_kill event", {"s": "s"}),
    (r"low on resource", {"res": "memory"}),
    (r"Worker exit type", {"type": "SYSTEM_ERROR"}),
    (r"^Worker proc|^Subprocess|symm_mem|^RPC call", {"name": "VllmWorker-1", "method": "execute_model"}),
    (r"^DataLoader worker \(pid\(s\)", {"pids": "9442, 9443"}),
    (r"^missing ranks", {"set": "{3, 5}"}),
    (r"missing_ranks=", {"list": "[3]"}),
    (r"heartbeat timeout|unhealthy", {"task": "/job:jax_worker/replica:0/task:3", "tasks": "/job:jax_worker/task:3"}),
    (r"has different values for", {"name": "numel", "a": "4", "b": "5"}),
    (r"DDP expects same model", {"a": "3", "b": "0", "n": "10", "m": "12"}),
    (r"clients joined|worker_count|num_workers_joined", {"k": "3", "n": "8"}),
)
"""Values of named holes, by an expression on the template; the first that knows a name decides."""

_NCCL = "NCCL error in: ProcessGroupNCCL.cpp:1234, "
_PRINT = "CollectiveFingerPrint(SequenceNumber={}, OpType={}, TensorShape=[{}], TensorDtypes=Float, TensorDeviceTypes=)"
_FIRST = _PRINT.format(3, "ALLREDUCE", 4)
_MISMATCH = (
    f"Detected mismatch between collectives on ranks. Rank 0 is running collective: {_FIRST}, but Rank 1 is running "
    f"collective: {{}}."
)
PREFIXES: tuple[tuple[str, str, str], ...] = (
    ("nccl2", "", "[TC][rank=3][name=default] "),
    ("NCCLUtils", r", NCCL version \{ver\}$", _NCCL),
    ("DataLoader", r"^Caught ", "ValueError: "),
    ("ProcessGroupWrapper", r"Op type: ", _MISMATCH.format(_PRINT.format(3, "BROADCAST", 4))),
    ("ProcessGroupWrapper", r"Tensor shapes: ", _MISMATCH.format(_PRINT.format(3, "ALLREDUCE", 5))),
    (
        "ProcessGroupWrapper",
        r"Tensor dtypes: ",
        _MISMATCH.format(_PRINT.format(3, "ALLREDUCE", 4).replace("Float", "Half")),
    ),
    ("ProcessGroupWrapper", r"Sequence number: ", _MISMATCH.format(_PRINT.format(4, "ALLREDUCE", 4))),
    ("ProcessGroupWrapper", r"Tensor devices: ", _MISMATCH.format(_FIRST)),
    ("ProcessGroupWrapper", r"^CollectiveFingerPrint", "Detected mismatch between collectives on ranks. Rank 0 is "),
    ("TCPStore", r"^(?:Broken pipe|Connection reset by peer)$", "RuntimeError: "),
    ("socket", r"^(?:Connection refused|connect\(\) timed out\.|Address already in use)$", "RuntimeError: "),
)
"""What stands before a text in its line: source, an expression on the template, the words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Causes that answer messages as well as the catalogue's own does.

    Attributes:
        messages: an expression on the template.
        causes: of findings; none when no finding must blame anybody.
        why: the reason.
    """

    messages: str
    causes: tuple[str, ...]
    why: str


ANSWERS: tuple[Answer, ...] = (
    Answer(
        r"destroy_process_group\(\) was not called|NOT been destroyed before", (), "stands at the end of good runs, too"
    ),
    Answer(r"hostname of the client socket|using the device under current", (), "harmless, in most healthy logs"),
    Answer(r"remote address of the client socket", (), "a client that went away again; others say who"),
    Answer(r"AGENT_STORE is enabled so ignoring", (), "usual under torchrun"),
    Answer(r"verify there is indeed a watchdog hang", (), "the monitor waits before it kills; it waits for dumps, too"),
    Answer(r"^It can be also caused by unexpected exit|^ Original exception:", (), "the second line of a message"),
    Answer(r"^Traceback|^\[rank\{r\}\]: \{line\}|^CollectiveFingerPrint|^Collective sequence number", (), "a part"),
    Answer(r"ProcessRaisedException: \n|^Scheduler hit an exception", (), "the exception itself stands below"),
    Answer(r"^KeyboardInterrupt|^  traceback : Signal", (), "somebody ended a job that hung before; a row says who"),
    Answer(r"Detected \{n\} new nodes", (), "the job grows, or a node comes back"),
    Answer(r"Rendezvous attempt failed, will retry", (), "another attempt follows"),
    Answer(r"returned non-zero exit status", (), "the launcher's word about a child that says why itself"),
    Answer(r"Timed out waiting for job step to complete", (), "what is left of a node; what it waited for says more"),
    Answer(r"Link \{DOWN\|INIT", ("ib-port-down",), "only some of its states are a fault"),
    Answer(r"Cable \{plugged", (), "a cable that is put in"),
    Answer(r"AER: \{Corrected", (), "corrected by itself"),
    Answer(r"ncclUniqueId", ("rendezvous-timeout", "store-lost"), "why the id did not come is not shown"),
    Answer(r"^Tensors must be contiguous|configured for \{dev\}", ("communicator-misuse",), "no sizes are compared"),
    Answer(r"^NCCL timeout", ("watchdog-timeout",), "a limit ran out; whether of the network is not shown"),
    Answer(r"operation to complete$|caused pair closure", ("watchdog-timeout",), "the peer is late, maybe not lost"),
    Answer(r"(?:Read|Write) (?:error|timeout) \[", ("peer-lost",), "the peer or the network; its own log tells"),
    Answer(
        r"clients joined|store based barrier on rank|members to join|missing_ranks=|not enough participants",
        ("rendezvous-timeout", "rank-never-started", "stale-rendezvous"),
        "who is missing, and whether it was ever started, is not shown",
    ),
    Answer(r"peer access is not supported|peer mapping resources", ("gpu-p2p-broken",), "the GPUs, not the handles"),
    Answer(r"^CUDA error: unknown error", ("gpu-hardware-error",), "mostly the driver or the GPU"),
    Answer(r"MPS client has been terminated", ("gpu-virtualization-limit",), "the server ended it, not a fault of it"),
    Answer(r"ProcessExitedException.*exit code", ("python-exception",), "an exit code other than 0"),
    Answer(r"^ERROR: Unexpected segmentation fault", ("native-crash",), "a segmentation fault"),
    Answer(
        r"did not exit after \{sig\}|uninterruptible sleep|NOT ENDING WITH SIGNALS",
        ("process-frozen",),
        "state D; what holds it is not shown",
    ),
    Answer(r"exit barrier", ("exited-early",), "another agent left first"),
    Answer(r"state object is corrupt", ("stale-rendezvous",), "foreign data, not a port"),
    Answer(r"CheckpointException", ("python-exception",), "its own exceptions tell the reason"),
    Answer(r"gaierror", ("dns-failure",), "whose name it is, is not shown"),
    Answer(r"DeadlockDetectedException", ("python-exception",), "its own exception tells the reason"),
    Answer(r"connection error code 2", ("killed-by-signal",), "the message lists kills first"),
    Answer(r"worker health check has been hanging", ("compute-stall",), "what the worker does is not shown"),
    Answer(r"Possible NCCL hang detected|is stalled for longer", ("watchdog-timeout",), "who is missing is not shown"),
    Answer(r"Open MPI accepted a TCP connection", ("interface-mismatch",), "interfaces of two networks"),
    Answer(r"EmptyDir volume", ("disk-full", "shm-exhausted"), "by the name of the volume"),
    Answer(r"FailedMount", ("rank-never-started",), "the pod does not start"),
    Answer(r"Failed to send RPC to coordination service", ("exited-early",), "the coordinator left"),
    Answer(r"^Waiting in store based barrier", (), "printed every ten seconds; once says nothing yet"),
    Answer(r"(?:Engine core|WorkerProc) initialization failed", (), "its root cause stands above, as it says"),
    Answer(r"^Worker proc", ("python-exception", "rank-vanished"), "whether it crashed is not shown"),
    Answer(r"cuDNN error", ("cuda-error", "gpu-out-of-memory"), "by its status"),
)


def holes_of(template: str) -> dict[str, str]:
    """Values of the named holes of a template that mean more than any others."""
    found: dict[str, str] = {}
    for pattern, values in HOLES:
        if re.search(pattern, template):
            found = {**values, **found}
    return found


def prefix_of(row: Mapping[str, Any]) -> str:
    """What stands before the text in its line, "" for most."""
    for source, pattern, words in PREFIXES:
        if row.get("source") == source and re.search(pattern, row["template"]):
            return words
    return ""


def answer_to(row: Mapping[str, Any]) -> Answer | None:
    """The answer that a message has beside the catalogue's, None for most."""
    if "source" not in row:
        return None
    return next((answer for answer in ANSWERS if re.search(answer.messages, row["template"])), None)
