"""RAS reports in JSON: the lost comma, cut ones, several in a file, text around them, and hostile ones."""

from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ras_reports
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource


def read(text: str | bytes, name: str = "ras.json") -> ParsedSource:
    return read_stream(name, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def told(source: ParsedSource) -> list[tuple[str, object]]:
    return [(event.kind, event.fields.get("group_rank")) for event in source.events]


THREE = [ras_reports.rank(number, AllReduce=4, AllGather=1) for number in (0, 1, 3)]
LOST = ras_reports.report(ras_reports.comm(THREE, [ras_reports.missing(2, dead=True)]), comma=False)


def test_report_without_its_comma_is_read() -> None:
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(LOST)
    source = read(LOST)
    expected = [
        ("ras_version", None),
        ("ras_comm", None),
        *(("ras_rank", n) for n in (0, 1, 3)),
        ("ras_rank_missing", 2),
    ]
    assert told(source) == expected
    assert (source.record.kind, source.record.error) == ("ras", None)


def test_every_rank_is_shown_where_it_stands() -> None:
    lines = LOST.splitlines()
    for event in read(LOST).events[2:]:
        assert lines[event.line.number - 1].strip() == f'"rank": {event.fields["group_rank"]},'


@pytest.mark.parametrize("front", ["", "$ ncclras -f json, übertragen\n"])
def test_offsets_are_those_of_the_lines(front: str) -> None:
    line = "node01:77:77 [0] NCCL INFO comm 0x10 rank 0 nranks 4 cudaDev 0 busId 1a000 - Abort COMPLETE"
    data = f"{front}{LOST}{line}\n{LOST}".encode()
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n"))]
    events = read(data).events
    assert any(event.line.text.endswith("Abort COMPLETE") for event in events)
    for event in events:
        assert event.line.offset == begins[event.line.number - 1]


def test_sorted_keys_do_not_move_the_places() -> None:
    # GIVEN what jq -S makes of a report: missing ranks stand before the others
    text = json.dumps(json.loads(LOST.replace('"nvml_dev": 0\n', '"nvml_dev": 0,\n')), indent=1, sort_keys=True)
    lines = text.splitlines()
    for event in read(text).events[2:]:
        assert lines[event.line.number - 1].strip().startswith(f'"rank": {event.fields["group_rank"]},')


def test_cut_report_is_read_as_far_as_it_goes() -> None:
    source = read(LOST[: LOST.index('"rank": 3')])
    assert told(source)[2:] == [("ras_rank", 0), ("ras_rank", 1)]
    assert source.record.error == "the JSON is cut off or damaged"


def test_several_reports_and_text_around_them() -> None:
    line = "node01:77:77 [0] NCCL INFO comm 0x10 rank 0 nranks 4 cudaDev 0 busId 1a000 - Abort COMPLETE\n"
    text = f"$ ncclras -f json\n{LOST}{line}{LOST}"
    source = read(text)
    kinds = [event.kind for event in source.events]
    assert kinds.count("ras_version") == 2
    other = next(event for event in source.events if event.source == "nccl_init" or event.kind == "comm_teardown")
    assert text.splitlines()[other.line.number - 1].endswith("Abort COMPLETE")


def test_errors_have_the_names_of_the_text_report() -> None:
    text = ras_reports.report(
        ras_reports.comm([ras_reports.rank(0), ras_reports.rank(1, error=6), ras_reports.rank(2, error=7)])
    )
    errors = [(e.fields["group_rank"], e.fields["error"]) for e in read(text).events if e.kind == "ras_rank_error"]
    assert errors == [(1, "Remote process error")]


def test_ranks_beyond_the_size_are_not_believed() -> None:
    broken = ras_reports.comm([ras_reports.rank(0), ras_reports.rank(77)])
    assert [event.kind for event in read(ras_reports.report(broken)).events] == ["ras_version"]


def test_monitor_events() -> None:
    lines = [
        {"timestamp": "2026-01-31 12:00:00", "group": "LIFECYCLE", "event": kind, "peer": peer, "details": ""}
        for kind, peer in (
            ("PEER_DEAD", {"host": "10.0.0.2", "pid": 103, "cuda_devs": [1], "nvml_devs": [1]}),
            ("PEER_RETRY", {"addr": "10.0.0.2<4000>"}),
        )
    ]
    events = read("".join(json.dumps(line) + "\n" for line in lines)).events
    assert [(e.fields["event"], e.fields["process"], e.fields["node"]) for e in events] == [
        ("PEER_DEAD", 103, "10.0.0.2"),
        ("PEER_RETRY", None, "10.0.0.2<4000>"),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        LOST.replace('"AllReduce": 4', '"AllReduce": ' + "9" * 5000),
        LOST.replace('"communicators": [', '"communicators": ' + "[" * 100_000),
        LOST.replace('"pid": 100', '"pid": {"pid": []}').replace('"rank": 1', '"rank": -1e400'),
        LOST.replace('"status": {', '"status": 7, "other": {'),
        LOST.replace('"hash": "0x', '"hash": "zz'),
        '{"communicators_count": 3, "communicators": {"a": 1}, "ras": []}',
    ],
    ids=["number", "deep", "types", "status", "hash", "no-list"],
)
def test_hostile_reports_give_no_traceback(damage: str) -> None:
    assert read(damage).record.lines >= 1


@pytest.mark.parametrize(
    "piece", ['{"communicators_count": 1, "communicators": [\n', '{"event": "PEER_DEAD", "peer": {\n']
)
def test_many_broken_reports_cost_little(piece: str) -> None:
    start = time.process_time()
    source = read(piece * 20_000)
    assert source.record.error == "the JSON is cut off or damaged"
    assert time.process_time() - start < 5


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rank", "pid", "status", "hash", "size", "ranks", "missing_ranks"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(_VALUES, _VALUES, st.integers(0, 400))
def test_any_value_anywhere_is_read(communicators: object, peer: object, cut: int) -> None:
    value = {"nccl_version": peer, "communicators_count": 1, "communicators": [communicators], "ras": peer}
    text = json.dumps(value) + json.dumps({"event": "PEER_DEAD", "peer": peer, "timestamp": peer})
    for piece in (text, text[:cut], text.encode() + b"\xff\xfe\x00"):
        assert read(piece).record.file == "ras.json"
