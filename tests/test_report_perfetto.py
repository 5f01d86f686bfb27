"""The trace-event form: what the viewers need to open it, and what it says of the job."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import report_samples
from hangscope.api import analyze
from hangscope.model import CallHistory, CallState, GroupHistory, History, Report
from hangscope.report.formats import load_format
from hangscope.report.formats.perfetto import HISTORY
from hangscope.report.options import RenderOptions
from nccl_logs import ranks
from recorder_dumps import Dump, write
from report_samples import SAMPLES

Event = dict[str, Any]


def rendered(report: Report, encoding: str = "utf-8") -> str:
    stream = io.StringIO()
    load_format("perfetto").render(report, stream, RenderOptions(encoding=encoding))
    return stream.getvalue()


def trace(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(report))
    return found


def events(report: Report, *phases: str) -> list[Event]:
    return [event for event in trace(report)["traceEvents"] if not phases or event["ph"] in phases]


def named(report: Report, what: str) -> dict[tuple[int, int], str]:
    """(process, thread) -> name."""
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events(report, "M") if e["name"] == what}


def on_track(report: Report, process: str, thread: str) -> list[Event]:
    """The slices of one thread, in their order."""
    pid = next(pid for (pid, _), name in named(report, "process_name").items() if name.startswith(process))
    tid = next(tid for (p, tid), name in named(report, "thread_name").items() if p == pid and name == thread)
    return [event for event in events(report, "X") if event["tid"] == tid]


def missing_by_time(folder: Path) -> Report:
    dumps = [Dump(rank).step() for rank in range(4)]
    for dump in dumps[:3]:
        dump.wait(line=40).wait(line=41)
    return analyze(write(folder, dumps), history=HISTORY)


def missing_in_order(folder: Path) -> Report:
    logs = ranks(3)
    for log in logs:
        log.call().call("AllGather")
    for log in logs[:2]:
        log.call(count=7).call(count=8)
    for log in logs:
        (folder / f"rank{log.rank}.log").write_text("\n".join([*log.lines, ""]))
    return analyze(folder, history=HISTORY)


def unmatched_send(folder: Path) -> Report:
    pair: Mapping[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", range(2)), "1": ("PIPELINE", range(2))}
    dumps = [Dump(0, pair), Dump(1, pair)]
    for _ in range(3):
        dumps[0].transfer("send 0->1", "1").call()
        dumps[1].transfer("recv 1<-0", "1").call()
    dumps[1].transfer("recv 1<-0", "1", state="scheduled")
    dumps[0].wait()
    return analyze(write(folder, dumps), history=HISTORY)


_JOBS = [missing_by_time, missing_in_order, unmatched_send]
Make = Callable[[Path], Report]


@pytest.mark.parametrize("make", _JOBS)
def test_every_event_has_what_viewers_need(make: Make, tmp_path: Path) -> None:
    report = make(tmp_path)
    places = named(report, "thread_name")
    for event in events(report):
        assert event["ph"] in ("M", "X", "s", "f", "i")
        assert isinstance(event["pid"], int) and event["pid"] > 0
        assert isinstance(event["tid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0 and (event["pid"], event["tid"]) in places
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["name"]
    threads = [tid for _, tid in places]
    assert len(set(threads)) == len(threads)


@pytest.mark.parametrize("make", _JOBS)
def test_times_ascend(make: Make, tmp_path: Path) -> None:
    times = [event["ts"] for event in events(make(tmp_path), "X", "s", "f", "i")]
    assert times == sorted(times)


@pytest.mark.parametrize("make", _JOBS)
def test_slices_of_a_thread_are_apart_or_one_inside_the_other(make: Make, tmp_path: Path) -> None:
    by_thread: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in events(make(tmp_path), "X"):
        by_thread[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_thread.values():
        for (begin, end), (later, last) in itertools.combinations(spans, 2):
            assert later >= end - 1e-6 or last <= end + 1e-6, (begin, end, later, last)


@pytest.mark.parametrize("make", _JOBS)
def test_each_arrow_begins_and_ends_inside_a_slice(make: Make, tmp_path: Path) -> None:
    report = make(tmp_path)
    starts = {event["id"]: event for event in events(report, "s")}
    ends = {event["id"]: event for event in events(report, "f")}
    assert starts and starts.keys() == ends.keys()
    slices = events(report, "X")
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"] and ends[number]["bp"] == "e"
        for end in (start, ends[number]):
            assert any(
                s["tid"] == end["tid"] and s["pid"] == end["pid"] and s["ts"] <= end["ts"] <= s["ts"] + s["dur"]
                for s in slices
            )


def test_ranks_are_processes_and_groups_are_threads(tmp_path: Path) -> None:
    report = missing_in_order(tmp_path)
    assert [name for _, name in sorted(named(report, "process_name").items())] == [
        "rank 0 on node01",
        "rank 1 on node01",
        "rank 2 on node02",
    ]
    assert sorted(set(named(report, "thread_name").values())) == ["where it is", "world"]
    order = [e["args"]["sort_index"] for e in events(report, "M") if e["name"] == "process_sort_index"]
    assert order == [0, 1, 2]


def test_who_waits_does_so_to_the_end_and_who_is_missing_is_drawn(tmp_path: Path) -> None:
    report = missing_by_time(tmp_path)
    waits = on_track(report, "rank 0", "0 (default_pg)")
    end = max(event["ts"] + event["dur"] for event in waits)
    assert [event["name"] for event in waits][-2:] == ["all_reduce 4", "all_reduce 5"]
    assert all(event["ts"] + event["dur"] == pytest.approx(end) for event in waits[-2:])
    assert waits[-3]["ts"] + waits[-3]["dur"] < end
    gone = on_track(report, "rank 3", "0 (default_pg)")[-1]
    assert (gone["name"], gone["args"]["where"]) == ("not here: all_reduce 4", "/mnt/work/train.py:40 train_step")
    assert [(e["ph"], e["pid"]) for e in events(report, "f")] == [("f", 4)] * 3


def test_times_are_those_of_the_calls_where_they_are_known(tmp_path: Path) -> None:
    report = missing_by_time(tmp_path)
    first, second = on_track(report, "rank 1", "0 (default_pg)")[:2]
    assert second["ts"] - first["ts"] == pytest.approx(1000, abs=1)
    assert trace(report)["otherData"]["time 0 is"] == "2026-05-28T20:26:40"
    # a call lasts until the last rank has made it: rank 3 does 2 ns after rank 1
    assert first["dur"] == pytest.approx(1, abs=1)


def test_calls_without_times_stand_in_order_and_that_is_said(tmp_path: Path) -> None:
    report = missing_in_order(tmp_path)
    assert "Nothing tells the times" in trace(report)["otherData"]["slices"]
    calls = on_track(report, "rank 0", "world")
    assert [event["ts"] for event in calls] == [calls[0]["ts"] + 1000 * n for n in range(4)]


def test_a_transfer_waits_for_its_peer(tmp_path: Path) -> None:
    report = unmatched_send(tmp_path)
    last = on_track(report, "rank 1", "1: sends and receives")[-1]
    assert (last["name"], last["args"]["state"]) == ("recv from rank 0", "waiting")
    arrow = next(event for event in events(report, "s") if event["tid"] == last["tid"])
    end = next(event for event in events(report, "f") if event["id"] == arrow["id"])
    assert end["pid"] == 1


@pytest.mark.parametrize("make", SAMPLES.values())
def test_without_calls_it_still_says_where_the_ranks_are(make: Callable[[], Report]) -> None:
    report = make()
    found = trace(report)
    assert "nothing tells of single calls" in found["otherData"]["calls"]
    states = [event for event in found["traceEvents"] if event.get("cat") == "state"]
    assert len(states) == len(report.ranks)
    marked = {event["args"]["step"] for event in found["traceEvents"] if event.get("cat") == "story"}
    assert marked == set(range(1, len(report.story) + 1))


def test_nothing_of_a_hostile_report_gets_out_of_its_text() -> None:
    text = rendered(report_samples.hostile())
    assert not set(text) & {chr(code) for code in (*range(9), *range(11, 32), 127, 0x202E)}
    json.loads(text)
    assert rendered(report_samples.hostile(), "ascii").isascii()


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    assert rendered(missing_by_time(tmp_path)) == rendered(missing_by_time(tmp_path))


def test_arrows_are_bounded() -> None:
    size = 6000
    states = (CallState.MISSING, *[CallState.WAITING] * (size - 1))
    call = CallHistory(7, "all_reduce", "", "", states)
    group = GroupHistory("world", "", size, tuple(range(size)), 7, (call,), stuck=7)
    report = dataclasses.replace(report_samples.out_of_memory(), history=History("calls", (group,)))
    assert len(events(report, "s")) == 4000
