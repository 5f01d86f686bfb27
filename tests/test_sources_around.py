"""What a writer wrote around a line: of a file, a stream of many ranks, a compressed file, an archive."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope import api
from hangscope.sources.around import Around, Spot, read_around
from hangscope.sources.discover import discover


def _around(folder: Path, *spots: tuple[str, int]) -> dict[tuple[str, int], Around]:
    """What stands around lines of the only file of a folder, given by text and number."""
    inputs, _ = discover([str(folder)])
    (item,) = inputs
    with item.open() as stream:
        data = stream.read()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    wanted = [Spot(line, starts[line - 1], text) for text, line in spots]
    return {(str(line), number): found for (line, number), found in read_around(inputs, {item.name: wanted}).items()}


def test_two_lines_on_each_side_and_fewer_at_the_ends(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(f"line {n}\n" for n in range(1, 6)), encoding="utf-8")
    found = _around(tmp_path, ("line 1", 1), ("line 3", 3), ("line 5", 5))
    assert found == {
        ("a.log", 1): Around((), ("line 2", "line 3")),
        ("a.log", 3): Around(("line 1", "line 2"), ("line 4", "line 5")),
        ("a.log", 5): Around(("line 3", "line 4"), ()),
    }


def test_blank_lines_are_passed_over_and_controls_are_cleaned(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\x1b[31mred\x1b[0m\n\n  \nhere it is\n\nlast\x07")
    assert _around(tmp_path, ("here it is", 4)) == {("a.log", 4): Around(("red",), ("last\\x07",))}


def test_in_a_stream_of_ranks_the_lines_of_the_same_rank_are_shown(tmp_path: Path) -> None:
    lines = [f"[rank{n % 4}]: step {n // 4}" for n in range(40)]
    (tmp_path / "job.log").write_text("\n".join(lines), encoding="utf-8")
    found = _around(tmp_path, (lines[21], 22))
    assert found == {
        ("job.log", 22): Around(("[rank1]: step 3", "[rank1]: step 4"), ("[rank1]: step 6", "[rank1]: step 7"))
    }


def test_lines_of_nccl_are_told_apart_by_host_and_pid(tmp_path: Path) -> None:
    lines = [f"node{n % 2}:{100 + n % 2}:7 [0] NCCL INFO say {n}" for n in range(10)]
    (tmp_path / "job.log").write_text("\n".join(lines), encoding="utf-8")
    found = _around(tmp_path, (lines[5], 6))
    assert found["job.log", 6] == Around((lines[1], lines[3]), (lines[7], lines[9]))


def test_a_rank_that_writes_seldom_is_found_further_away(tmp_path: Path) -> None:
    lines = [f"[rank{1 if n % 200 == 50 else 0}]: line {n} {'x' * 60}" for n in range(800)]
    (tmp_path / "job.log").write_text("\n".join(lines), encoding="utf-8")
    found = _around(tmp_path, (lines[450], 451))
    assert found["job.log", 451] == Around((lines[50], lines[250]), (lines[650],))


@pytest.mark.parametrize(
    "head",
    ["Process 8: python train.py", 'Thread 8 (idle): "MainThread"', "Thread 0x00007f3c (most recent call first):"],
)
def test_the_stack_of_the_next_process_or_thread_is_not_around_a_frame(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.txt").write_text(
        f"Thread 7 (idle)\n    main (a.py:3)\n{head}\n    other (b.py:3)\n", encoding="utf-8"
    )
    assert _around(tmp_path, ("    main (a.py:3)", 2)) == {("a.txt", 2): Around(("Thread 7 (idle)",), ())}


@pytest.mark.parametrize("packed", ["gz", "tar"])
def test_small_compressed_files_and_archives_are_read_again(tmp_path: Path, packed: str) -> None:
    text = "".join(f"line {n}\n" for n in range(1000)).encode()
    if packed == "gz":
        (tmp_path / "a.log.gz").write_bytes(gzip.compress(text))
    else:
        (tmp_path / "a.log").write_bytes(text)
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "a.log", "a.log")
        (tmp_path / "a.log").unlink()
    (around,) = _around(tmp_path, ("line 500", 501)).values()
    assert around == Around(("line 498", "line 499"), ("line 501", "line 502"))


def test_utf_16_is_read_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes("one\ntwo\nthree äöü\nfour\n".encode("utf-16"))
    inputs, _ = discover([str(tmp_path)])
    found = read_around(inputs, {"a.log": [Spot(3, 8, "three äöü")]})
    assert found == {("a.log", 3): Around(("one", "two"), ("four",))}


@pytest.mark.parametrize("spot", [Spot(2, 7, "line two"), Spot(2, 8, "elsewhere"), Spot(2, 10**9, "line two")])
def test_a_line_that_is_not_where_it_should_be_has_no_neighbours(tmp_path: Path, spot: Spot) -> None:
    (tmp_path / "a.log").write_text("line 1\nx\nline two\nline 3\n", encoding="utf-8")
    inputs, _ = discover([str(tmp_path)])
    assert read_around(inputs, {"a.log": [spot]}) == {}


def test_a_file_that_went_away_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("line 1\n", encoding="utf-8")
    inputs, _ = discover([str(tmp_path)])
    (tmp_path / "a.log").unlink()
    assert read_around(inputs, {"a.log": [Spot(1, 0, "line 1")]}) == {}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["plain", "", "[rank1]: x", "[rank2]: y", "ü" * 3000, "a\rb", "\x00\x1b[2J"]), max_size=30
    ),
    st.data(),
)
def test_any_file_gives_at_most_two_lines_a_side(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    raw = "\n".join(["head", *lines, "tail"]).encode()
    (folder / "a.log").write_bytes(raw)
    inputs, _ = discover([str(folder)])
    spot = Spot(
        data.draw(st.integers(1, 40)), data.draw(st.integers(0, len(raw))), data.draw(st.sampled_from(lines or [""]))
    )
    for around in read_around(inputs, {"a.log": [spot]}).values():
        assert all(len(side) <= 2 for side in around)
        assert all(line.strip() and "\x1b" not in line and "\x00" not in line for side in around for line in side)


def test_the_verdict_s_evidence_in_the_report_has_its_neighbours(tmp_path: Path) -> None:
    text = 'step 1\nstep 2\nTraceback (most recent call last):\n  File "train.py", line 3, in main\n    x()\n'
    (tmp_path / "rank0.log").write_text(text + "ValueError: no such shard\nbye\n", encoding="utf-8")
    report = api.analyze(tmp_path)
    assert report.verdict.cause == "python-exception"
    shown = next(one for one in report.verdict.evidence if one.text.startswith("ValueError"))
    assert shown.before == ('  File "train.py", line 3, in main', "    x()")
    assert shown.after == ("bye",)
