"""Fills the templates of a catalogue of messages, so that they stand as lines of a log.

A catalogue is a JSON Lines file, a message a line. Its keys: ``template`` (with holes of printf, or ``{name}``),
``first`` and ``last`` (versions), ``cause`` (an id of causes.yaml, or null), and of NCCL's messages ``level``, ``file``
and ``func``, of torch's ``source``. ``names`` lists what may stand in ``{name}``; ``refine`` maps expressions on the
filled text to a more exact cause. Headers are those of formats/nccl.md section 1 and formats/torch.md section 1.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_messages import holes_of, prefix_of

Row = dict[str, Any]
"""A line of the catalogue."""

_PRINTF = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.(?:\*|\d+))?)(?:hh|h|ll|l|z|j|t|L)?(?P<kind>[diuoxXfFeEgGcspm%])")
_NAMED = re.compile(r"\{([^{}]*)\}")
_LETTERS = re.compile(r"[A-Za-z]{3,}")
_LATEST = (9999, 0, 0)

# What may stand where an error is quoted; the first one no `refine` knows.
_ERRORS = {
    "errno": (
        *("Protocol not available", "Connection refused", "No route to host", "Network is unreachable"),
        *("Connection timed out", "Connection reset by peer", "Broken pipe", "Software caused connection abort"),
        *("Too many open files", "Cannot assign requested address", "Address already in use"),
        *("Resource temporarily unavailable", "No space left on device", "Cannot allocate memory"),
        *("Permission denied", "No such file or directory", "Read-only file system", "Bad address"),
        *("Invalid argument", "Operation not supported"),
    ),
    "cuda": (
        *("invalid argument", "out of memory", "an illegal memory access was encountered", "misaligned address"),
        *("unspecified launch failure", "device-side assert triggered", "uncorrectable ECC error encountered"),
        *("uncorrectable NVLink error detected during the execution", "system not yet initialized"),
        *("no kernel image is available for execution on the device", "invalid device ordinal"),
        *("CUDA driver version is insufficient for CUDA runtime version", "OS call failed or operation not supported"),
        *("the provided PTX was compiled with an unsupported toolchain.", "hardware stack error"),
        *("peer access is not supported between these two devices", "the launch timed out and was terminated"),
        *("peer mapping resources exhausted", "GPU is lost", "forward compatibility was attempted"),
        *("API call is not supported in the installed CUDA driver", "system has unsupported display driver / cuda"),
    ),
    "nvml": ("Not Found", "Driver/library version mismatch", "GPU is lost", "Unknown Error", "Driver Not Loaded"),
    "ib event": (*("port error", "port active", "local catastrophic error", "device fatal", "GID table change"),),
}
_CUDA_CODES = {
    "invalid argument": 1,
    "out of memory": 2,
    "CUDA driver version is insufficient for CUDA runtime version": 35,
    "invalid device ordinal": 101,
    "no kernel image is available for execution on the device": 209,
    "uncorrectable ECC error encountered": 214,
    "peer access is not supported between these two devices": 217,
    "uncorrectable NVLink error detected during the execution": 220,
    "OS call failed or operation not supported": 304,
    "an illegal memory access was encountered": 700,
    "the launch timed out and was terminated": 702,
    "peer mapping resources exhausted": 711,
    "misaligned address": 716,
    "unspecified launch failure": 719,
    "hardware stack error": 714,
    "system not yet initialized": 802,
    "device-side assert triggered": 710,
}
_CODES = {os.strerror(number): number for number in range(1, 130)} | _CUDA_CODES
_HAS_CODE = re.compile(r"%s'? \($|errno $")
_NUMBERS = (
    (r"\brank[ =:(]*$|\blocalRank[ =]*$|\bpeer[ =]*$|tpRank $", (3, 5, 1)),
    (r"\bn?ranks[ =:]*$|\bof $|nRanks[ =]*$|size[ =]*$", (8, 16, 4)),
    (r"bytes[ =]*$|[sS]ize[ =]*$|malloc $|calloc $", (4194304, 1048576, 65536)),
    (r"(?:device|dev|GPU)[ =]*$", (1, 2, 3)),
    (r"completion.*with error $|status[ =(]*(?:%s\()?$|\(%s\)$", (12, 4, 10)),
    (r"errno[ =(]*$|error[ =(]*$", (111, 22, 5)),
)
_SHM = "/dev/shm/nccl-Ab12Cd"
_TEXTS = (
    (r"Call to $", ("recv from",)),
    (r"Call to %s $|\bpeer $|(?:recv|send|connect) (?:from|to) $|onnect to $|remote process $", ("10.0.0.2<40123>",)),
    (r"onnect to %s returned %d\($", ("Connection refused",)),
    (r"^%s$", ("CUDA driver version",)),
    (r"comm 0x%lx for $", ("NCCL_ALGO",)),
    (r"^%s : $", ("sendbuff", "recvbuff")),
    (r"subnet as remote address $", ("10.0.0.2<40123>",)),
    (r"^(?:%s: )$|NCCL INFO $", ("socketStartConnect",)),
    (r"\bhca $|NET/IB ?: $|\bdevice[ =]$|\[%d\]$|stall .*dev $|device:$|dev=$", ("mlx5_0", "mlx5_1")),
    (r"mergedDev[ =]$|remoteDev=$|properties $", ("mlx5_0+mlx5_1", "mlx5_2")),
    (r"memory segment $|[sS]hared memory file $|extend $|mmap of $|shm_open failed to open $|map $", (_SHM,)),
    (r"^mkstemp: Failed to create $", (_SHM,)),
    (r"unlink shared memory $|memory mapping $|view of file $", (_SHM,)),
    (r"Error while $", ("creating", "attaching to")),
    (r"\bfile $|Path[ =:]*$", ("/opt/site/file.xml",)),
    (r"^Failed to open $", ("libgdrapi.so",)),
    (r"Unable to open $", ("/opt/site/topo.xml",)),
    (r"socket $", ("/tmp/nccl-socket-3-5d2c91b06fae3714",)),
    (r"version $|\(local: $|remote $", ("2.27.7", "2.26.5")),
    (r"status=$|wc->status=\($|status $", ("IBV_WC_RETRY_EXC_ERR",)),
    (r"opcode=$|wc->opcode=\($", ("IBV_WC_SEND",)),
    (r"req_type=$", ("Send",)),
    (r"Proxy Call to rank %d failed \($|execute operation $", ("Connect",)),
    (r"Retrieve $", ("cuMemCreate",)),
    (r"dlsym failed on $|Dlsym failed on $", ("gdr_open",)),
    (r"CUDA library (?:in )?$", ("libcuda.so",)),
    (r"at $", ("init.cc",)),
    (r"function $", ("AllReduce",)),
    (r"datatype $|type $", ("ncclDevSum", "ncclFloat32")),
    (r"rank\(s\) $", ("2,3",)),
    (r"Xid %d detected $", ("on GPU ",)),
)
# Where a message begins with a hole, what stands there depends on its file.
_FIRST = {
    "misc/argcheck.cc": "AllReduce",
    "diagnostics": "[INFO] ",
    "misc/gdrwrap.cc": "libgdrapi.so",
    "transport/net_socket/common.cc": "NET/Socket",
    "misc/socket.cc": "socketStartConnect",
    "os/linux.cc": "socketConnectCheck",
}
_GIDS = (" localGid ", "fe80::b859:9f03:d4:fe96", " remoteGids", "fe80::b859:9f03:d4:fd12")
_HOLES, _HOLES_BEFORE = re.compile(r"(?:%s)*"), re.compile(r"(?:%s)*$")
_QUOTES_ERROR = re.compile(
    r"(?:fail\w*|error\w*|return\w*|event)\b[^%]{0,14}$|: $|errno %d ?\(?$|%d '?$|%d $|status [^%]*$"
)
_PLAIN = ("name1", "name2", "name3")

_C10 = frozenset(
    (
        *("ProcessGroupNCCL", "NCCLUtils", "TCPStore", "socket", "nccl2", "Reducer", "ProcessGroupWrapper"),
        *("ProcessGroupGloo", "FlightRecorder", "HashStore", "FileStore"),
    )
)
_NUMBER_NAMES = "n k i x a m c d t y p s v j l z g b gpu lr src step seq1"
_NAMED_VALUES = dict(
    pair.split("=", 1)
    for pair in (
        *(f"{name}=7" for name in _NUMBER_NAMES.split()),
        *("rank=3", "r=3", "grank=3", "ranks=3, 5", "ms=600000", "limit_ms=600000", "sec=600", "pid=4113"),
        *("seq=42", "enq=43", "done=41", "code=1", "signal=9", "sig=9", "errno=13", "strerror=Permission denied"),
        *("line=1234", "file=train.py", "path=/work/out/file_3", "time=12:00:00", "date=2026-01-31", "job=1234"),
        *("host=node02", "node=node02", "nodes=node02", "port=29500", "ip=10.0.0.2", "addr=10.0.0.2"),
        *("remote=[10.0.0.2]:29500", "err=(errno: 111 - Connection refused)", "errstr=unhandled system error"),
        *("op=ALLREDUCE", "pgprefix=[PG ID 0 PG GUID 0(default_pg) Rank 3] ", "ver=2.27.7", "dims=1048576"),
        *("bdf=0000:3b:00.0", "dddd:bb:dd=0000:3b:00", "dddd:bb:dd.f=0000:3b:00.0", "SIGNAME=SIGKILL"),
        *("...=and so on", "Exc=RuntimeError", "size=2.00 GiB", "free=1.00 GiB", "total=79.15 GiB"),
    )
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A message as it stands in a log.

    Attributes:
        row: where it comes from.
        cause: what it suggests, or None.
        text: the filled template.
        log: the lines, headers and all.
    """

    row: Row
    cause: str | None
    text: str
    log: str


def read_catalogue(path: Path) -> list[Row]:
    """The messages of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def samples(row: Row, *, odd: bool = False) -> Iterator[Sample]:
    """The message in each cause it can have, in each name it can carry, and under the first and the last header.

    Args:
        row: a line of the catalogue.
        odd: fill holes with what nobody expects there: other numbers, texts with blanks and signs in them.
    """
    seen: dict[tuple[str, str | None], str] = {}
    for name, error in itertools.product(row.get("names", ("",)), _errors(row)):
        text = _fill(row, name, error, odd=odd)
        cause, which = _cause(row, text)
        seen.setdefault((name if which is None else which, cause), text)
    for number, ((_, cause), text) in enumerate(seen.items()):
        heads = _heads(row)
        for head in dict.fromkeys(heads if not number else heads[-1:]):
            yield Sample(row, cause, text, head + prefix_of(row) + text)


def is_bare(row: Row) -> bool:
    """Nothing but holes: any line would do."""
    return not _LETTERS.search(_NAMED.sub("", _PRINTF.sub("", row["template"])))


def _cause(row: Row, text: str) -> tuple[str | None, str | None]:
    """What this text suggests, and which refinement said so."""
    for pattern, cause in row.get("refine", {}).items():
        if re.search(pattern, text):
            return cause, pattern
    return row["cause"], None


def _errors(row: Row) -> tuple[str, ...]:
    """The errors that the message may quote; the one that nothing refines comes first."""
    refine = " ".join(row.get("refine", {}))
    for kind, marks in (("nvml", "Driver/library"), ("cuda", "illegal memory"), ("ib event", "port error")):
        if marks in refine:
            return _ERRORS[kind]
    template = row["template"].casefold()
    if "cuda" in template or "peer with device" in template:
        return _ERRORS["cuda"] if refine else _ERRORS["cuda"][:1]
    if "async" in template and "event" in template:
        return _ERRORS["ib event"] if refine else _ERRORS["ib event"][:1]
    return _ERRORS["errno"] if refine else _ERRORS["errno"][:1]


def _fill(row: Row, name: str, error: str, *, odd: bool) -> str:
    template: str = row["template"].replace("{name}", name) if name else row["template"]
    used: dict[str, int] = {}

    def printf(hole: re.Match[str]) -> str:
        before, after = template[max(0, hole.start() - 40) : hole.start()], template[hole.end() : hole.end() + 20]
        kind = hole["kind"]
        if kind == "%":
            return "%"
        if kind in "sm":
            return _text(row, before, after, error, used, odd=odd)
        if error in _CODES and (re.match(r" '?%s", after) or _HAS_CODE.search(before)):
            return str(_CODES[error])
        return _number(kind, hole["flags"], before, used, odd=odd)

    special = holes_of(template)

    def named(hole: re.Match[str]) -> str:
        name = hole[1]
        if name in special:
            return special[name]
        if "|" in name:
            return name.split("|")[0]
        return _NAMED_VALUES.get(name, name if " " in name or "'" in name else "some text" if not odd else "a b: (c)")

    if _PRINTF.search(template.replace("%%", "")):
        return _PRINTF.sub(printf, template)
    return _NAMED.sub(named, template)


def _take(values: tuple[Any, ...], used: dict[str, int], what: str) -> Any:  # noqa: ANN401 (texts or numbers)
    """The next value of a list, so that `%d vs %d` differ."""
    index = used[what] = used.get(what, -1) + 1
    return values[index % len(values)]


def _number(kind: str, flags: str, before: str, used: dict[str, int], *, odd: bool) -> str:
    if kind == "c":
        return "b"
    if kind == "p":
        return f"0x7f60a5a3501{_take((0, 8), used, 'p')}"
    values = next((values for pattern, values in _NUMBERS if re.search(pattern, before)), (7, 9, 2, 4))
    value = _take((0, 1, 2147483647, 64) if odd else values, used, str(values))
    return str(f"%{flags}{'d' if kind in 'iu' else kind}" % value)


def _text(row: Row, before: str, after: str, error: str, used: dict[str, int], *, odd: bool) -> str:
    following = len(_HOLES.match(after)[0]) // 2  # type: ignore[index]
    if following < len(_GIDS) and len(_HOLES_BEFORE.search(before)[0]) // 2 + following >= len(_GIDS) - 1:  # type: ignore[index]
        return _GIDS[-1 - following]
    if not before and row.get("file") in _FIRST:
        return _FIRST[row["file"]]
    values = next((values for pattern, values in _TEXTS if re.search(pattern, before)), None)
    if values is None and _QUOTES_ERROR.search(before):
        return error
    if values is None and before.endswith("%s"):
        return ""
    if odd and values is None:
        return "a b: (c) 'd'"
    return str(_take(values or _PLAIN, used, str(values)))


def _heads(row: Row) -> tuple[str, ...]:
    """What stands before the message in the oldest and in the newest version that prints it."""
    if "level" in row:
        return (_nccl_head(row, _version(row["first"])), _nccl_head(row, _version(row["last"])))
    return (_torch_head(row, _version(row["first"])), _torch_head(row, _version(row["last"])))


def _version(text: str | None) -> tuple[int, ...]:
    numbers = tuple(int(number) for number in re.findall(r"\d+", text or ""))[:3]
    return numbers or _LATEST


def _nccl_head(row: Row, version: tuple[int, ...]) -> str:
    level, file = row["level"], row["file"]
    if level in ("VERSION", "RAS"):
        return ""
    if level == "CALL":
        return "node02:4113:4200 NCCL CALL "
    if level == "DIAG":
        return "node02:4113 NCCL DIAG "
    if level == "INFO":
        return "node02:4113:4200 [1] NCCL INFO "
    stamp = "[2026-01-31 12:00:00] " if version >= (2, 26) else ""
    func = f" ({row['func']})" if version >= (2, 30, 7) else ""
    return f"{stamp}node02:4113:4200 [1] {file}:123{func} NCCL {level} "


def _torch_head(row: Row, version: tuple[int, ...]) -> str:
    source = row["source"]
    if source in _C10:
        rank = "[rank3]:" if version >= (2, 2) else ""
        stamp = "E0131 12:00:00.356947152" if version >= (2, 4) else "E"
        return f"{rank}[{stamp} {source}.cpp:607] "
    if source == "kernel":
        return "Jan 31 12:00:00 node02 kernel: "
    return ""
