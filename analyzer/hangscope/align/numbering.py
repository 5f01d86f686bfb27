"""Numbers the collective calls of every process and group, in columns: they come by the million.

The n-th call of one process on one communicator object is call n of that group: NCCL's opCount does not
align ranks (constant on one node, different between ranks from 2.27.3 on; shared by all calls of one plan
before). Point-to-point calls are counted apart, for each pair and direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hangscope.align.calls import CallTable
from hangscope.align.groups import Communicator, Group
from hangscope.align.process import Process
from hangscope.parse.columns import WriterKey
from hangscope.parse.source import ParsedSource

Ints = npt.NDArray[np.int64]

_DTYPE_BYTES = np.array([1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1], dtype=np.int64)
_P2P = ("Send", "Recv")


def number_calls(
    sources: Iterable[ParsedSource],
    by_writer: dict[WriterKey, Process],
    processes: tuple[Process, ...],
    communicators: list[Communicator],
    groups: list[Group],
    *,
    mixed_versions: bool,
) -> CallTable:
    """Builds the table of calls; communicators that no init line told of are added to `groups`."""
    frame = _frame(sources, by_writer, processes)
    if frame.empty:
        return CallTable(processes)
    member, members = _members(frame, processes, communicators, groups)
    frame["member"] = member
    p2p = frame["op"].isin(_P2P).to_numpy()
    frame["p2p"] = p2p
    frame["signature"] = _signatures(frame, mixed_versions=mixed_versions)
    lanes = pd.factorize(frame["op"].astype(str) + "/" + frame["root"].astype(str))[0] + 1 if p2p.any() else 0
    frame["seq"] = frame.groupby([frame["member"], np.where(p2p, lanes, 0)], sort=False).cumcount()
    return CallTable(processes, members, frame)


def _frame(
    sources: Iterable[ParsedSource], by_writer: dict[WriterKey, Process], processes: tuple[Process, ...]
) -> pd.DataFrame:
    index = {id(process): i for i, process in enumerate(processes)}
    parts = []
    for source in sources:
        calls = source.calls
        if not len(calls):
            continue
        # a writer of an earlier attempt has no process, and no row either
        owned = (by_writer.get(key) for key in calls.writers)
        owners = np.array([-1 if process is None else index[id(process)] for process in owned], dtype=np.int64)
        part = pd.DataFrame(
            {
                "line": np.frombuffer(calls.line, dtype=np.int32),
                "op": pd.Categorical.from_codes(np.frombuffer(calls.op, dtype=np.int8).tolist(), pd.Index(calls.ops)),
                "op_count": np.frombuffer(calls.op_count, dtype=np.int64),
                "count": np.frombuffer(calls.count, dtype=np.int64),
                "dtype": np.frombuffer(calls.dtype, dtype=np.int16),
                "redop": np.frombuffer(calls.redop, dtype=np.int64),
                "root": np.frombuffer(calls.root, dtype=np.int32),
                "comm": np.frombuffer(calls.comm, dtype=np.uint64),
                "nranks": np.frombuffer(calls.nranks, dtype=np.int32),
                "time": np.frombuffer(calls.time, dtype=np.float64),
                "process": owners[np.frombuffer(calls.writer, dtype=np.int32)],
            }
        )
        part["file"] = pd.Categorical.from_codes([0] * len(part), pd.Index([source.record.file]))
        parts.append(part)
    if not parts:
        return pd.DataFrame()
    for column in ("file", "op"):
        names = sorted({str(name) for part in parts for name in part[column].cat.categories})
        for part in parts:
            part[column] = part[column].cat.set_categories(names)
    return pd.concat(parts, ignore_index=True)


def _members(
    frame: pd.DataFrame, processes: tuple[Process, ...], communicators: list[Communicator], groups: list[Group]
) -> tuple[Ints, list[Communicator]]:
    """The communicator object of each call: by process and pointer, and by line where a pointer was used again."""
    known: dict[tuple[int, int], list[Communicator]] = defaultdict(list)
    index = {id(process): i for i, process in enumerate(processes)}
    for comm in communicators:
        known[index[id(comm.process)], comm.comm].append(comm)
    owner, pointers, sizes = (frame[name].to_numpy() for name in ("process", "comm", "nranks"))
    pair = pd.factorize(pd.factorize(pointers)[0].astype(np.int64) * len(processes) + owner)[0]
    order = np.argsort(pair, kind="stable")
    bounds = np.searchsorted(pair[order], np.arange(int(pair.max()) + 2))
    member = np.zeros(len(frame), dtype=np.int64)
    members: list[Communicator] = []
    for i in range(len(bounds) - 1):
        rows = order[bounds[i] : bounds[i + 1]]
        process, pointer = int(owner[rows[0]]), int(pointers[rows[0]])
        found = known.get((process, pointer))
        if not found:
            found = [_unknown(processes[process], pointer, int(sizes[rows[0]]), groups)]
        if len(found) == 1:
            member[rows] = len(members)
        else:
            starts = [line.number for comm in found if (line := comm.start or comm.complete) is not None]
            use = np.searchsorted(np.array(starts[1:]), frame["line"].to_numpy()[rows], side="right")
            member[rows] = len(members) + np.minimum(use, len(found) - 1)
        members.extend(found)
    return member, members


def _unknown(process: Process, pointer: int, size: int, groups: list[Group]) -> Communicator:
    """A communicator known by its calls only: joined with the others of its size that were made as early."""
    comm = Communicator(process, pointer, None, size)
    same = [g for g in groups if g.size == size]
    group = next((g for g in same if all(m.process is not process for m in g.members)), None)
    if group is None:
        group = Group(f"communicator {len(same) + 1} of size {size}", ("size", size, len(same) + 1), size)
        groups.append(group)
    comm.group = group
    group.members.append(comm)
    return comm


def _signatures(frame: pd.DataFrame, *, mixed_versions: bool) -> Ints:
    """A number for each distinct (operation, count, data type, reduction, root)."""
    count, dtype = frame["count"].to_numpy(), frame["dtype"].to_numpy().astype(np.int64)
    if mixed_versions:
        # 2.19 and 2.21 print AllGather and Broadcast in bytes with datatype 0, later versions in elements
        in_bytes = frame["op"].isin(("AllGather", "Broadcast")).to_numpy()
        size = _DTYPE_BYTES[np.clip(dtype, 0, len(_DTYPE_BYTES) - 1)]
        count = np.where(in_bytes, count * size, count)
        dtype = np.where(in_bytes, 0, dtype)
    codes: Ints = frame["op"].cat.codes.to_numpy().astype(np.int64)
    for column in (count, dtype, frame["redop"].to_numpy(), frame["root"].to_numpy()):
        part = pd.factorize(column)[0].astype(np.int64)
        codes = pd.factorize(codes * (int(part.max(initial=0)) + 1) + part)[0].astype(np.int64)
    return codes
