from __future__ import annotations

import io
import json
import os
import pickle
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.api import analyze
from hangscope.parse.formats import find_format
from hangscope.parse.formats.flight_recorder import read, recognizes
from hangscope.parse.reader import read_stream
from hangscope.parse.recorder.recording import Recording, State
from hangscope.sources.sniff import sniff_bytes
from recorder_dumps import Dump, write


def recording_of(value: object, name: str = "nccl_trace_rank_3") -> Recording:
    found = read(name, io.BytesIO(pickle.dumps(value, protocol=5)), 0)
    assert found.record.error is None
    assert len(found.recordings) == 1
    return found.recordings[0]


def error_of(data: bytes) -> str:
    return read("nccl_trace_rank_0", io.BytesIO(data), len(data)).record.error or ""


def test_reads_calls_states_and_lines_of_code() -> None:
    recording = recording_of(Dump(3).call(line=10).wait("broadcast", 8, line=12).value())
    assert recording.rank == 3
    assert list(recording.seq) == [1, 2]
    assert list(recording.state) == [State.DONE, State.SCHEDULED]
    assert [recording.call(at).op for at in range(2)] == ["all_reduce", "broadcast"]
    assert recording.call(1).where == "/mnt/work/train.py:12 train_step"
    assert recording.call(1).sizes == "[8] Float"
    assert recording.groups[0].ranks == "[0, 1, 2, 3]"
    assert recording.backend == "nccl"


def test_retired_means_done_for_gloo_and_failed_for_nccl() -> None:
    gloo = recording_of(Dump(0, backend="gloo").call().wait().value())
    assert list(gloo.state) == [State.DONE, State.SCHEDULED]
    value = Dump(0).wait().value()
    value["entries"][0]["retired"] = True
    assert list(recording_of(value).state) == [State.FAILED]


def test_members_of_a_batch_have_no_state_of_their_own() -> None:
    recording = recording_of(Dump(0).call().transfer("send 0->1", state="scheduled").value())
    assert list(recording.state) == [State.DONE, State.PART, State.SCHEDULED]
    assert (recording.call(1).way, recording.call(1).me, recording.call(1).peer) == ("send", 0, 1)


def test_reads_the_bare_list_of_torch_2_2() -> None:
    entry = {"pg_id": 0, "seq_id": 41, "profiling_name": "nccl:all_reduce", "time_created_us": 1_780_000_000_000_000}
    entry |= {"input_sizes": [[4]], "output_sizes": [[4]], "state": "completed", "retired": True, "frames": []}
    recording = recording_of([entry, entry | {"seq_id": 42, "state": "started"}])
    assert recording.version == (1, 0)
    assert list(recording.seq) == [41, 42]
    assert list(recording.state) == [State.DONE, State.FAILED]
    assert recording.last_time_ns == 1_780_000_000_000_000_000
    assert recording.groups[0].name == "0"


def test_reads_format_1_4_whose_groups_have_numbers_of_the_process() -> None:
    entry = {"record_id": 0, "pg_id": 7, "seq_id": 1, "profiling_name": "nccl:broadcast", "state": "scheduled"}
    value = {"version": "1.4", "pg_config": {0: [0, 1, 2, 3], 7: [2, 3]}, "entries": [entry]}
    recording = recording_of(value)
    assert recording.version == (1, 4)
    assert recording.groups[0].name == "ranks 2, 3"  # the same on the ranks that call it 5


def test_compares_versions_as_numbers() -> None:
    value = Dump(0).call().value()
    assert recording_of(value).version > recording_of(value | {"version": "2.9"}).version


@pytest.mark.parametrize("prefix", ["nccl", "gloo", "xccl", "rccl", "ncclx", "mccl", "hccl"])
def test_knows_every_backend(prefix: str) -> None:
    recording = recording_of(Dump(0, backend=prefix).call("_reduce_scatter_base").value())
    assert (recording.backend, recording.call(0).op) == (prefix, "_reduce_scatter_base")


def test_reads_json_without_entries_and_with_text_for_counters() -> None:
    empty = read("fr_trace_rank_2.json", io.BytesIO(json.dumps(Dump(2).as_json()).encode()), 0).recordings[0]
    assert (len(empty), empty.rank) == (0, 2)
    full = read("fr_trace_rank_2.json", io.BytesIO(json.dumps(Dump(2).call().as_json()).encode()), 0).recordings[0]
    assert (list(full.state), full.groups[0].enqueued, list(full.lines)) == ([State.DONE], 1, [1])


def test_numbers_the_lines_of_printed_json() -> None:
    text = json.dumps(Dump(0).call().call().as_json(), indent=1)
    lines = text.splitlines()
    recording = read("fr.json", io.BytesIO(text.encode()), 0).recordings[0]
    assert ["profiling_name" in lines[number - 1] for number in recording.lines] == [True, True]


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda dumps: {dump.rank: dump.value() for dump in dumps},
        lambda dumps: {f"rank_{dump.rank}": pickle.dumps(dump.value()) for dump in dumps},
        lambda dumps: {str(dump.rank): {"fr_trace": json.dumps(dump.as_json())} for dump in dumps},
        lambda dumps: [{"rank": dump.rank, "host": "node01", "dump": dump.value()} for dump in dumps],
        lambda dumps: [dump.value() for dump in dumps],
    ],
)
def test_finds_dumps_in_other_tools_wrapping(wrapped: Callable[[list[Dump]], object]) -> None:
    dumps = [Dump(rank).call() for rank in range(3)]
    found = read("all.pkl", io.BytesIO(pickle.dumps(wrapped(dumps))), 0)
    assert [recording.rank for recording in found.recordings] == [0, 1, 2]
    assert {len(recording) for recording in found.recordings} == {1}


def test_reads_a_page_of_the_debug_server() -> None:
    page = "".join(
        f"=== Rank {r}: http://node01:2{r}/handler/fr_trace_json?includeCollectives=true ===\n"
        f"{json.dumps(Dump(r).call().as_json())}\n\n"
        for r in range(2)
    ).encode()
    assert recognizes(page)
    assert [recording.rank for recording in read("page.txt", io.BytesIO(page), 0).recordings] == [0, 1]


@pytest.mark.parametrize(
    "names", [("fr_{}", 4), ("_dump_{}.json", 4), ("a{}", 4), ("node0{}/comm_lib_trace_rank_{}", 4)]
)
def test_tells_ranks_by_a_set_of_names(names: tuple[str, int], tmp_path: Path) -> None:
    pattern, count = names
    for rank in range(count):
        dump = Dump(rank).step()
        dump = dump if rank == 2 else dump.wait()
        file = tmp_path / pattern.format(rank % 2 if pattern.count("{}") == 2 else rank, rank)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(pickle.dumps(dump.value()))
    assert analyze(tmp_path).verdict.ranks == (2,)


# --- hostile and broken files -----------------------------------------------------------------------------


def test_never_runs_what_a_pickle_asks_for(tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {mark}",)

    for protocol in range(2, 6):
        assert "refused" in error_of(pickle.dumps({"entries": [Bomb()]}, protocol=protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cposix\nsystem\n.",
        b"\x80\x02(iposix\nsystem\n.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02\x84\xff\xff\xff\x7f.",
        b"\x80\x02X\x03\x00\x00\x00abcQ.",
        b"\x80\x02P1\n.",
        b"\x80\x02}}b.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x05\x97.",
    ],
)
def test_refuses_every_opcode_that_is_no_plain_value(data: bytes) -> None:
    assert error_of(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]r\xff\xff\xff\xff.",  # a memo of four billion places
        b"\x80\x02]r\xff\xff\xff\x0f.",
        b"\x80\x02\x8b\xff\xff\xff\x7f1.",  # a number of two gigabytes
        b"\x80\x02T\xff\xff\xff\x7fa.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00a.",  # bytes of a terabyte
        b"\x80\x05\x96\xff\xff\xff\xff\x01\x00\x00\x00a.",  # a byte array of eight gigabytes
    ],
)
def test_bombs_of_memory_are_refused(data: bytes) -> None:
    started = time.process_time()
    assert error_of(data)
    assert time.process_time() - started < 2


def test_lists_that_repeat_themselves_are_refused_or_bounded() -> None:
    # each list holds the one before ten times: 10**40 numbers when written out
    data = b"\x80\x02]q\x00" + b"".join(
        b"](" + b"h" + bytes([n]) * 1 + (b"h" + bytes([n])) * 9 + b"eq" + bytes([n + 1]) for n in range(40)
    )
    entry = b"}(X\x0e\x00\x00\x00profiling_nameX\x06\x00\x00\x00nccl:aX\x0b\x00\x00\x00input_sizesh\x28u"
    started = time.process_time()
    read("nccl_trace_rank_0", io.BytesIO(data + b"](" + entry + b"e."), 0)
    assert time.process_time() - started < 10


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    assert error_of(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".")
    assert error_of(b'{"entries":' + b"[" * 200_000)
    assert "deeply" in error_of(b'{"entries":' + b"[" * 200_000 + b"]" * 200_000 + b"}")


@pytest.mark.parametrize("key", ["process_group", "input_dtypes", "input_sizes", "profiling_name"])
def test_tuples_in_tuples_are_never_hashed(key: str) -> None:
    # Python computes such a hash by recursion without a check: the process would die
    named = b"X" + struct.pack("<I", len(key)) + key.encode()
    head = b"\x80\x02}(X\x07\x00\x00\x00entries](}(X\x06\x00\x00\x00frames]" + named
    deep = b")" + b"\x85" * 300_000
    for value in (deep, b"](" + deep + b"e"):
        assert len(read("fr_0", io.BytesIO(head + value + b"ueu."), 0).recordings[0]) == 1


@pytest.mark.parametrize("sizes", [[[3]], [[3], [4]], [[3, 4]], []], ids=repr)
def test_sizes_of_any_form_tell_calls_apart(sizes: object) -> None:
    value = Dump(0).call().call().call().value()
    for entry, size in zip(value["entries"], (sizes, [[7]], sizes), strict=True):
        entry["input_sizes"] = entry["output_sizes"] = size
    for written in (value, written_anew(value)):
        recording = recording_of(written)
        assert list(recording.shape) == [0, 1, 0]
        assert recording.call(1).sizes == "[7] Float"
    for entry in value["entries"]:
        entry["input_sizes"] = [3]
    assert list(recording_of(value).state) == [State.DONE] * 3


def written_anew(value: object) -> object:
    """Equal lists, tuples and entries of which no two are the same object; frames stay shared, as torch leaves them."""
    if isinstance(value, dict):
        return value if "filename" in value else {key: written_anew(inner) for key, inner in value.items()}
    return type(value)(map(written_anew, value)) if isinstance(value, list | tuple) else value


def test_what_the_writer_shares_makes_no_difference() -> None:
    dump = Dump(0)
    for step in range(40):
        dump = dump.call(size=64 + step % 3, line=10 + step % 2).transfer("send 0->1").call("broadcast", dtype="Half")
    value = dump.wait().value()
    one, two = recording_of(value), recording_of(written_anew(value))
    assert one == two
    assert [one.call(at).sizes for at in (0, 4, 8)] == ["[64] Float", "[65] Float", "[66] Float"]
    assert len(one.shapes) == 3 * 2 + 3


def test_a_list_that_holds_itself_is_survived() -> None:
    entries: list[Any] = [{"profiling_name": "nccl:x"}]
    entries[0]["input_sizes"] = entries
    entries.append(entries)
    assert len(recording_of({"entries": entries})) == 1


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_a_dump_cut_anywhere_is_an_error_that_says_so(form: str) -> None:
    dump = Dump(0).call().wait()
    data = pickle.dumps(dump.value(), protocol=2) if form == "pickle" else json.dumps(dump.as_json()).encode()
    for end in range(1, len(data) - 1):
        assert error_of(data[:end]), end
    assert "killed while writing" in error_of(data[: len(data) // 2])


def test_an_entry_in_sources_not_a_failure(tmp_path: Path) -> None:
    write(tmp_path, [Dump(rank).step() for rank in range(3)])
    data = pickle.dumps(Dump(3).step().value(), protocol=2)
    (tmp_path / "nccl_trace_rank_3").write_bytes(data[: len(data) // 2])
    report = analyze(tmp_path)
    errors = {source.file: source.error for source in report.sources if source.error}
    assert errors == {"nccl_trace_rank_3": "the dump was cut: the process was killed while writing it"}


WRONG: list[Any] = [None, True, -1, 1 << 80, 1.5, float("nan"), "x", b"x", [], [[]], {}, (), [{}], ["a", 1], {"a": []}]


@pytest.mark.parametrize("key", list(Dump(0).call().value()["entries"][0]))
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_wrong_types_in_every_field_of_an_entry(key: str, wrong: object) -> None:
    value = Dump(0).call().call().wait().value()
    value["entries"][1][key] = wrong
    assert len(recording_of(value)) == 3
    del value["entries"][1][key]
    assert len(recording_of(value)) == 3


@pytest.mark.parametrize("key", list(Dump(0).value()))
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_wrong_types_in_every_field_of_a_dump(key: str, wrong: object) -> None:
    read("x", io.BytesIO(pickle.dumps(Dump(0).call().value() | {key: wrong})), 0)


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_pickle_of_something_else_is_no_dump(value: object) -> None:
    assert "no flight recorder's dump" in error_of(pickle.dumps(value))


def test_other_documents_are_not_taken() -> None:
    for head in (b'{"nccl_version": "2.28.9", "ranks": []}', b"[]", b'{"entries": []}', b"plain text", b""):
        assert find_format(sniff_bytes(head), head) is None or not recognizes(head)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
keys = st.sampled_from(list(Dump(0).call().value()["entries"][0]))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_after_a_pickles_start_are_survived(data: bytes) -> None:
    read_stream("nccl_trace_rank_0", io.BytesIO(b"\x80\x02" + data))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(keys, plain, max_size=12), max_size=5), plain, plain)
def test_any_entries_are_survived(entries: list[dict[str, object]], config: object, status: object) -> None:
    value = {"entries": entries, "pg_config": config, "pg_status": status, "version": "2.10"}
    found = read("nccl_trace_rank_0", io.BytesIO(pickle.dumps(value)), 0)
    assert found.record.error is None


def test_a_memo_index_needs_four_bytes() -> None:
    """The bombs above are built by hand: this is how a real dump writes a large index."""
    assert struct.pack("<I", 0xFFFFFFFF) == b"\xff\xff\xff\xff"
