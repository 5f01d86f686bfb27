"""The tables' columns: name, dtype and meaning, in one place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hangscope.records import dataclass
from hangscope.tables.pieces import Piece, to_frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: of the column.
        dtype: its pandas dtype.
        said: what it means, with its unit, unless it is a moment.
        moment: a point in time: seconds since 1970 here, and a timestamp in notebooks.
    """

    name: str
    dtype: str
    said: str
    moment: bool = False

    @property
    def about(self) -> str:
        """What it means, with its unit."""
        return f"{self.said}: seconds since 1970, NaN when unknown" if self.moment else self.said


_WHERE = (
    Column("file", "str", "input, as the report names it"),
    Column("line", "Int64", "1-based line number"),
    Column("time", "float64", "when it was printed, as if the printed time were UTC", moment=True),
    Column("host", "str", "host of the process that wrote the line"),
    Column("pid", "Int64", "its process id"),
    Column("rank", "Int64", "its global rank"),
)

SCHEMA: dict[str, tuple[Column, ...]] = {
    "events": (
        *_WHERE,
        Column("source", "str", "grammar that recognized the line"),
        Column("kind", "str", "what it says"),
        Column("level", "str", "severity as printed"),
        Column("count", "Int64", "how many times this process printed it"),
        Column("text", "str", "the line as shown"),
        Column("fields", "object", "its parts, by name"),
    ),
    "exceptions": (
        *_WHERE,
        Column("type", "str", "qualified name of the exception"),
        Column("message", "str", "its message"),
        Column("where_file", "str", "file of the innermost frame of user code"),
        Column("where_line", "Int64", "line in that file"),
        Column("where_function", "str", "function there"),
        Column("in_function", "str", "function of the innermost frame of all"),
        Column("superseded", "boolean", "another exception took its place"),
    ),
    "environment": (
        *_WHERE,
        Column("name", "str", "variable or setting"),
        Column("value", "str", "its value as printed"),
    ),
    "host_messages": (
        *_WHERE,
        Column("kind", "str", "what the kernel or scheduler says"),
        Column("text", "str", "the line as shown"),
    ),
    "calls": (
        Column("file", "category", "input, as the report names it"),
        Column("line", "int32", "1-based line number"),
        Column("time", "float64", "when it was printed, as if the printed time were UTC", moment=True),
        Column("host", "category", "host of the process that made the call"),
        Column("rank", "Int64", "its global rank"),
        Column("group", "category", "name of the group of communicator objects"),
        Column("process", "int64", "index of the process, as in the table of processes"),
        Column("member", "int64", "index of the communicator object"),
        Column(
            "seq",
            "int64",
            "number of the call on its communicator object, from 0; sends and receives apart for each peer",
        ),
        Column("op", "category", "operation, as NCCL spells it"),
        Column("op_count", "int64", "NCCL's opCount: not comparable between ranks"),
        Column("count", "int64", "elements, as given to the call"),
        Column("dtype", "int16", "NCCL's data type number"),
        Column("redop", "int64", "NCCL's reduction number"),
        Column("root", "int32", "root, or peer of a send or recv"),
        Column("comm", "uint64", "pointer of the communicator in its process"),
        Column("nranks", "int32", "size of the communicator"),
        Column("p2p", "bool", "a send or recv"),
        Column("signature", "int64", "equal for calls that agree"),
    ),
    "recorded_calls": (
        Column("file", "str", "dump of a flight recorder, as the report names it"),
        Column("line", "Int64", "1-based line number in a dump of several lines"),
        Column("time", "float64", "when the call was made", moment=True),
        Column("rank", "Int64", "global rank of the process"),
        Column("group", "str", "torch's name of the process group"),
        Column("group_description", "str", "what the job calls it"),
        Column("seq", "int64", "number of the call in its group (collective_seq_id)"),
        Column("op", "str", "operation, as torch records it"),
        Column("state", "str", "scheduled, started, failed, done, or part (of a coalesced block)"),
        Column("sizes", "str", "sizes and types of its tensors"),
        Column("where", "str", "innermost line of the job's own code"),
    ),
    "processes": (
        Column("process", "Int64", "its number, to which `process` of the calls refers"),
        Column("rank", "Int64", "global rank"),
        Column("rank_source", "str", "what tells the rank"),
        Column("local_rank", "Int64", "index on its host"),
        Column("host", "str", "its host"),
        Column("pid", "Int64", "its process id"),
        Column("gpu", "str", "CUDA device, with its bus id where that is known"),
        Column("first_time", "float64", "when it printed its first line with a time", moment=True),
        Column("last_time", "float64", "when it printed its last line with a time", moment=True),
        Column("lines", "Int64", "lines it wrote"),
    ),
    "communicators": (
        Column("group", "str", "name of the group"),
        Column("size", "Int64", "its number of ranks"),
        Column("comm_id", "str", "NCCL's commId, hexadecimal"),
        Column("members", "Int64", "members that left lines"),
        Column("complete", "Int64", "members that completed their init"),
        Column("ended", "Int64", "members that destroyed or aborted it"),
    ),
    "memberships": (
        Column("group", "str", "name of the group"),
        Column("group_rank", "Int64", "rank inside it"),
        Column("rank", "Int64", "global rank"),
        Column("host", "str", "host of the process"),
        Column("pid", "Int64", "its process id"),
        Column("comm", "str", "pointer of the communicator, hexadecimal"),
        Column("state", "str", "started, ready, ended or aborted"),
    ),
    "stacks": (
        *_WHERE,
        Column("tool", "str", "what took the dump: py-spy, faulthandler, pystack, gdb or py-bt"),
        Column("round", "Int64", "0 for the first dump of the process, 1 for the next"),
        Column(
            "role", "str", "rank, loader, checkpoint, child, launcher or helper; children carry their parent's rank"
        ),
        Column("thread", "str", "name or id of the thread"),
        Column("activity", "str", "idle or active, as the tool says"),
        Column("state", "str", "what the thread does"),
        Column("decides", "boolean", "the thread that tells what the process does"),
        Column("depth", "Int64", "0 is the innermost frame"),
        Column("function", "str", "function of the frame"),
        Column("code_file", "str", "its source file, or the library of a native frame"),
        Column("code_line", "Int64", "its line there"),
        Column("native", "boolean", "a frame of C or C++ code"),
    ),
}
"""Table name -> columns."""

TABLES = {
    "events": "Every recognized line.",
    "exceptions": "Every Python exception that was printed.",
    "environment": "Every setting that a process printed, one row a variable.",
    "host_messages": "What kernels and schedulers say.",
    "calls": "Every collective or point-to-point call that NCCL printed (`NCCL_DEBUG_SUBSYS=COLL`).",
    "recorded_calls": "Every call that a flight recorder holds.",
    "processes": "One row a process.",
    "communicators": "One row a group of communicator objects.",
    "memberships": "One row a communicator object of a process.",
    "stacks": "One row a frame of every thread of every stack dump.",
}
"""Table name -> what it holds."""


def frame(table: str, rows: list[dict[str, object]]) -> pd.DataFrame:
    """Rows as a DataFrame with exactly the columns and dtypes of a table.

    Raises:
        KeyError: no such table.
    """
    import pandas as pd

    columns = SCHEMA[table]
    data = {c.name: pd.Series([row.get(c.name) for row in rows], dtype=_dtype(c.dtype)) for c in columns}
    return pd.DataFrame(data)


def whole(table: str, pieces: Iterable[Piece]) -> pd.DataFrame:
    """All pieces of a large table as one DataFrame with exactly its columns and dtypes."""
    import pandas as pd

    kinds = {column.name: column.dtype for column in SCHEMA[table]}
    frames = [to_frame(piece, kinds) for piece in pieces]
    return pd.concat(frames, ignore_index=True) if frames else frame(table, [])


def _dtype(name: str) -> str:
    # plain object for text: pandas' string dtype differs between its versions, and None has to stay None
    return "object" if name == "str" else name
