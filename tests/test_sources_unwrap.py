"""Unwrapping: prefixes and headers become attributes, what is left is the message, glued lines are parted."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hangscope.model import Line
from hangscope.sources.decode import MAX_TEXT, RawLine
from hangscope.sources.headers import may_have_header
from hangscope.sources.prefixes import may_have_prefix
from hangscope.sources.stamps import REFERENCE_YEAR, moment, month_number, year_in
from hangscope.sources.unwrap import Unwrapper
from hangscope.sources.wrapped import width_of

NCCL = "node01:4101:4142 [0] NCCL INFO "


def unwrap(*texts: str, name: str = "job.log", learn: bool = True) -> list[Line]:
    """All logical lines of a file with these physical ones."""
    raws: Iterable[RawLine] = [RawLine(number, 0, text, 0) for number, text in enumerate(texts, 1)]
    unwrapper = Unwrapper(name)
    if learn:
        raws = unwrapper.learn(raws)
    return [line for raw in raws for line in unwrapper.lines(raw)]


def test_lines_that_look_bare_get_what_the_long_way_gives(checkout: Path) -> None:
    bare = 0
    for path in sorted((checkout / "fixtures").glob("*/logs/**/*")):
        if not path.is_file() or path.read_bytes()[:1] == b"\x80":
            continue
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()[:200]
        raws = [RawLine(number, 0, text, 0) for number, text in enumerate(texts, 1)]
        short, long = Unwrapper(path.name), Unwrapper(path.name)
        for raw in zip(short.learn(raws), long.learn(raws), strict=True):
            assert short.lines(raw[0]) == long._slow(raw[1])
            bare += may_have_prefix(raw[0].text, short._styles) + may_have_header(raw[0].text, 0) == 0
    assert bare > 1000


def one(text: str, *, name: str = "job.log") -> Line:
    (line,) = unwrap(text, name=name, learn=False)
    assert line.raw == text
    return line


def seconds(*parts: int) -> float:
    return dt.datetime(*parts, tzinfo=dt.UTC).timestamp()  # type: ignore[arg-type, misc]


def shown(line: Line, *names: str) -> tuple[object, ...]:
    return tuple(getattr(line, name) for name in names)


class TestNccl:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (NCCL + "comm 0x1 rank 0", ("node01", 4101, 4142, "INFO", "", "comm 0x1 rank 0")),
            (NCCL, ("node01", 4101, 4142, "INFO", "", "")),
            (
                "node01:7:8 [-1] init.cc:1631 NCCL WARN Cuda failure",
                ("node01", 7, 8, "WARN", "init.cc:1631", "Cuda failure"),
            ),
            (
                "[2026-01-31 12:00:00] node01:7:8 [3] misc/ibvwrap.cc:185 (wrap_ibv_alloc_pd) NCCL WARN lib wrapper",
                ("node01", 7, 8, "WARN", "misc/ibvwrap.cc:185", "lib wrapper"),
            ),
            ("node01:7:8 [3] a/b.cc:9 (f) NCCL ATTN ignored", ("node01", 7, 8, "ATTN", "a/b.cc:9", "ignored")),
            (
                "h:7:8 [0] ncclResult_t nccl_net_ofi_init():123 NCCL WARN NET/OFI x",
                ("h", 7, 8, "WARN", "ncclResult_t nccl_net_ofi_init():123", "NET/OFI x"),
            ),
            ("h:7:8 [0] 12.345678 ncclFoo:17 NCCL TRACE t", ("h", 7, 8, "TRACE", "12.345678 ncclFoo:17", "t")),
            ("h:7:8 NCCL CALL ncclGroupStart()", ("h", 7, 8, "CALL", "", "ncclGroupStart()")),
            ("h:7:8 [0] init.cu:1 NCCL ABORT x", ("h", 7, 8, "ABORT", "init.cu:1", "x")),
            ("node01.cluster:4110 NCCL DIAG [OK]   x", ("node01.cluster", 4110, None, "DIAG", "", "[OK]   x")),
            ("::16674:16 [0] NCCL INFO x", (None, 16674, 16, "INFO", "", "x")),
            (":16674:16 [0] NCCL INFO x", (None, 16674, 16, "INFO", "", "x")),
            ("h:7:8 [0] transport/p2p.cu:526 WARN failed", ("h", 7, 8, "WARN", "transport/p2p.cu:526", "failed")),
            ("h:7:8 [0] INFO Using", ("h", 7, 8, "INFO", "", "Using")),
            (
                "2023-Aug-01 16:12:43.0204 332066:332417 [18] bootstrap.cc:106 CCOM WARN Call",
                (None, 332066, 332417, "WARN", "bootstrap.cc:106", "Call"),
            ),
            ("12/31 10.05 h:7:8 [0] NCCL INFO a stamp of one's own", ("h", 7, 8, "INFO", "", "a stamp of one's own")),
        ],
    )
    def test_headers(self, text: str, expected: tuple[object, ...]) -> None:
        line = one(text)
        assert shown(line, "host", "pid", "tid", "level", "origin", "text") == expected
        assert (line.header, line.damaged) == ("nccl", False)

    @pytest.mark.parametrize("text", ["set NCCL INFO logging", "NCCL INFO", "export NCCL WARN x", "a:b NCCL INFO"])
    def test_talk_about_nccl_is_no_header(self, text: str) -> None:
        assert shown(one(text), "header", "text") == ("", text)

    def test_a_version_in_the_message_is_no_second_header(self) -> None:
        assert one(NCCL + "NCCL version 2.27.7+cuda12.9").text == "NCCL version 2.27.7+cuda12.9"

    def test_the_short_way_tells_the_same_as_the_long_way(self) -> None:
        lines = unwrap(*[f"[1,3]<stdout>:{NCCL}call {number}" for number in range(5)])
        assert {shown(line, "stream", "rank", "host", "pid", "tid", "level", "header") for line in lines} == {
            ("1,3", 3, "node01", 4101, 4142, "INFO", "nccl")
        }
        assert [line.text for line in lines] == [f"call {number}" for number in range(5)]


class TestTorn:
    def test_a_header_followed_by_another_line(self) -> None:
        first, second = unwrap("host:1:1 [2] NCCL INFO host:2:2 [7] NCCL INFO Broadcast: opCount 0", learn=False)
        assert shown(first, "pid", "text", "damaged") == (1, "", True)
        assert shown(second, "pid", "text", "damaged") == (2, "Broadcast: opCount 0", True)

    def test_two_lines_without_a_newline_between_leave_the_first_clean(self) -> None:
        first, second = unwrap(f"{NCCL}onenode02:7:8 [1] NCCL INFO two", f"{NCCL}x", "node02:7:8 [1] NCCL INFO y")[:2]
        assert shown(first, "host", "text", "damaged") == ("node01", "one", False)
        assert shown(second, "host", "text", "damaged") == ("node02", "two", True)

    def test_a_cut_header_is_a_line_of_its_own(self) -> None:
        cut, whole = unwrap("node02:31889:31906 [0] NCCLnode01:31880:31880 [0] NCCL INFO Bootstrap", learn=False)
        assert shown(cut, "text", "damaged") == ("node02:31889:31906 [0] NCCL", True)
        assert shown(whole, "host", "pid", "text", "damaged") == ("node01", 31880, "Bootstrap", True)

    def test_a_line_that_begins_inside_a_header(self) -> None:
        line = one("1 [3] NCCL INFO Connected to proxy")
        assert shown(line, "header", "host", "pid", "text", "damaged") == (
            "nccl",
            None,
            None,
            "Connected to proxy",
            True,
        )

    @pytest.mark.parametrize(
        ("text", "damaged"),
        [
            ("[1] misc/shmutils.cc:103 NCCL WARN Cuda failure", True),
            ("transport/net_ib.cc:1295 NCCL WARN Cuda failure", False),
            ("/app/rccl/hipify/src/transport/p2p.cc:256 (open) NCCL WARN Cuda failure", False),
        ],
    )
    def test_a_header_without_its_writer_still_says_where(self, text: str, *, damaged: bool) -> None:
        line = one(text)
        origin = text.removeprefix("[1] ").split(" ")[0]
        assert shown(line, "header", "origin", "text", "damaged") == ("nccl", origin, "Cuda failure", damaged)

    def test_text_glued_to_a_host_goes_by_hosts_known_for_that_process(self) -> None:
        *_, rest, line = unwrap(NCCL + "a", NCCL + "b", f"rc{NCCL}c")
        assert shown(rest, "text", "damaged") == ("rc", True)
        assert shown(line, "host", "pid", "text", "damaged") == ("node01", 4101, "c", True)

    def test_a_known_process_gives_a_torn_line_its_host(self) -> None:
        *_, line = unwrap(NCCL + "a", ":4101:4142 [0] NCCL INFO b")
        assert shown(line, "host", "damaged") == ("node01", True)
        *_, line = unwrap("worker-23:83:25 [0] NCCL INFO a", "23:83:25 [0] NCCL INFO b")
        assert line.host == "worker-23"

    def test_two_hosts_that_end_alike_stay_two(self) -> None:
        lines = unwrap("gpu1:7:7 [0] NCCL INFO a", "xgpu1:8:8 [0] NCCL INFO b", "xgpu1:8:8 [0] NCCL INFO c")
        assert [line.host for line in lines] == ["gpu1", "xgpu1", "xgpu1"]

    def test_a_progress_bar_before_a_header(self) -> None:
        bar, line = unwrap(" 20%|█▉  | 375/1881 [3:40:16<14:52, 35.55s/it][rank3]:[E ProcessGroupNCCL.cpp:689] text")
        assert bar.text == " 20%|█▉  | 375/1881 [3:40:16<14:52, 35.55s/it]"
        assert shown(line, "rank", "stream", "text", "damaged") == (3, "rank3", "text", True)

    def test_two_c10_headers_in_one_line(self) -> None:
        header = "[rank{0}]:[E1019 01:04:0{0}.356947152 ProcessGroupNCCL.cpp:1413] "
        first, second = unwrap(f"{header.format(1)}one{header.format(2)}two")
        assert shown(first, "rank", "text", "damaged") == (1, "one", False)
        assert shown(second, "rank", "text", "damaged") == (2, "two", True)

    def test_a_glued_line_keeps_its_own_launchers_tag(self) -> None:
        first, second = unwrap(f"[1,3]<stdout>:{NCCL}one[1,4]<stdout>:node02:7:8 [1] NCCL INFO two")
        assert shown(first, "rank", "stream", "text") == (3, "1,3", "one")
        assert shown(second, "rank", "stream", "text") == (4, "1,4", "two")

    def test_the_shell_speaks_behind_a_torn_line(self) -> None:
        (line,) = unwrap("node01:4101:4142 [0] NCCL INFObash: line 1: 29468 Killed  ./train")
        assert line.text == "bash: line 1: 29468 Killed  ./train"


class TestTorch:
    @pytest.mark.parametrize(
        ("text", "header", "level", "origin", "message", "when"),
        [
            ("[E ProcessGroupNCCL.cpp:475] [Rank 3] x", "c10", "E", "ProcessGroupNCCL.cpp:475", "[Rank 3] x", None),
            (
                "[E1019 01:04:03.956947152 ProcessGroupNCCL.cpp:1413] x",
                *("c10", "E", "ProcessGroupNCCL.cpp:1413", "x", seconds(REFERENCE_YEAR, 10, 19, 1, 4, 3)),
            ),
            (
                "[W305 01:04:03.356947152 socket.cpp:207] [c10d] x",
                *("c10", "W", "socket.cpp:207", "[c10d] x", seconds(REFERENCE_YEAR, 3, 5, 1, 4, 3)),
            ),
            (
                "E0927 12:07:22.643702 1012209 ProcessGroupNCCL.cpp:1356] x",
                *("glog", "E", "ProcessGroupNCCL.cpp:1356", "x", seconds(REFERENCE_YEAR, 9, 27, 12, 7, 22) + 0.643702),
            ),
            (
                "W0815 13:13:27.250000 1401 torch/distributed/elastic/multiprocessing/api.py:858] x",
                *("python", "W", "torch/distributed/elastic/multiprocessing/api.py:858", "x"),
                seconds(REFERENCE_YEAR, 8, 15, 13, 13, 27) + 0.25,
            ),
            (
                "[2024-04-10 16:02:56,193] torch.distributed.elastic.multiprocessing.api: [WARNING] x",
                *("python", "WARNING", "torch.distributed.elastic.multiprocessing.api", "x"),
                seconds(2024, 4, 10, 16, 2, 56) + 0.193,
            ),
            (
                "WARNING:torch.distributed.elastic.multiprocessing.api:x",
                *("python", "WARNING", "torch.distributed.elastic.multiprocessing.api", "x", None),
            ),
            (
                "[2022-12-15 21:00:19,543] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4",
                *(
                    "deepspeed",
                    "INFO",
                    "launch.py:316",
                    "Killing subprocess 4",
                    seconds(2022, 12, 15, 21, 0, 19) + 0.543,
                ),
            ),
            (
                "ERROR 10-16 13:24:39 engine.py:157]   File x",
                *("vllm", "ERROR", "engine.py:157", "  File x", seconds(REFERENCE_YEAR, 10, 16, 13, 24, 39)),
            ),
            (
                "(EngineCore pid=630) WARNING [ray_utils.py:556] x",
                *("vllm", "WARNING", "ray_utils.py:556", "x", None),
            ),
        ],
    )
    def test_headers(  # noqa: PLR0917 (a table's columns)
        self, text: str, header: str, level: str, origin: str, message: str, when: float | None
    ) -> None:
        line = one(text)
        assert shown(line, "header", "level", "origin", "text") == (header, level, origin, message)
        assert line.time == (when if when is None else pytest.approx(when))

    def test_python_names_a_thread_up_to_2_4_and_a_process_from_2_5(self) -> None:
        assert shown(one("W0815 13:13:27.000000 140123456789 torch/a.py:8] x"), "pid", "tid") == (None, 140123456789)
        assert shown(one("W0815 13:13:27.000000 4242 torch/a.py:8] x"), "pid", "tid") == (4242, None)

    def test_the_year_comes_from_other_stamps_of_the_file(self) -> None:
        first, *_ = unwrap("[E1019 01:04:03.356947152 a.cpp:1] x", "2025-10-19 01:04:03 | INFO | y")
        assert first.time == seconds(2025, 10, 19, 1, 4, 3)

    def test_a_rank_prefix_loses_one_blank_and_the_indentation_stays(self) -> None:
        lines = unwrap("[rank3]: Traceback (most recent call last):", '[rank3]:   File "x.py", line 1', "[rank3]:")
        assert [line.text for line in lines] == ["Traceback (most recent call last):", '  File "x.py", line 1', ""]
        assert {shown(line, "rank", "rank_source", "stream") for line in lines} == {(3, "rank-prefix", "rank3")}

    def test_a_role_prefix_has_no_blank_and_a_local_rank(self) -> None:
        line = one("[default3]:    indented")
        assert shown(line, "text", "local_rank", "rank", "stream") == ("    indented", 3, None, "default3")
        line = one("[default3]:[rank11]:   File")
        assert shown(line, "text", "local_rank", "rank", "stream") == ("  File", 3, 11, "default3")
        assert one(f"[trainer12]:{NCCL}x").local_rank == 12

    @pytest.mark.parametrize("number", ["-1", "1000000", "2147483648", "18446744073709551615"])
    def test_a_number_that_no_rank_has_gives_no_rank(self, number: str) -> None:
        line = one(f"[rank{number}]: Traceback (most recent call last):")
        assert shown(line, "rank", "local_rank", "text") == (None, None, "Traceback (most recent call last):")

    @pytest.mark.parametrize("role", ["default2147483648", "worker1234567"])
    def test_the_last_digits_of_a_long_number_are_no_local_rank(self, role: str) -> None:
        assert shown(one(f"[{role}]:x"), "rank", "local_rank") == (None, None)

    def test_a_host_in_brackets_is_no_local_rank(self) -> None:
        assert one("[node01]:x").local_rank is None


class TestLaunchers:
    def test_mpirun_and_horovodrun(self) -> None:
        assert shown(one("[1,26]<stdout>:x"), "text", "rank", "rank_source", "stream") == ("x", 26, "mpirun", "1,26")
        assert shown(one("[1,3]<stderr>:  x"), "text", "stream") == ("  x", "1,3")
        assert shown(one("[3]<stdout>:x"), "text", "rank", "stream") == ("x", 3, "3")

    def test_srun_labels_are_known_by_the_whole_file(self) -> None:
        lines = unwrap(" 0: step 1", "12: step 1", " 3: ", " 0: step 2", "12: step 2", " 3:   File")
        assert [line.text for line in lines] == ["step 1", "step 1", "", "step 2", "step 2", "  File"]
        assert [line.rank for line in lines] == [0, 12, 3, 0, 12, 3]
        assert {line.rank_source for line in lines} == {"srun"}

    def test_a_number_before_a_colon_in_other_text_stays(self) -> None:
        lines = unwrap("Options are:", "2: no", "what else", "there is", "more to say")
        assert lines[1].text == "2: no"
        assert lines[1].rank is None

    def test_numbered_lines_are_no_ranks(self) -> None:
        assert [line.rank for line in unwrap(*[f"{number}: text" for number in range(1, 30)])] == [None] * 29

    def test_an_srun_label_before_a_header_needs_no_file(self) -> None:
        assert shown(one(f" 3: {NCCL}x"), "rank", "rank_source", "stream", "damaged") == (3, "srun", "3", False)

    def test_a_few_labelled_headers_are_proof_among_other_lines(self) -> None:
        other = [f"script output {number}" for number in range(50)]
        lines = unwrap(*other, f"0: {NCCL}x", f"1: {NCCL}y", "1: NCCL version 2.19.3")
        assert shown(lines[-1], "text", "rank") == ("NCCL version 2.19.3", 1)

    def test_task_numbers_of_a_launcher_per_node_are_no_ranks(self) -> None:
        lines = unwrap("0: [default0]:x", "1: [default0]:x", "0: plain", "1: plain", "1: [default1]:[rank9]: y")
        assert [line.rank for line in lines] == [None, None, None, None, 9]
        assert [line.stream for line in lines] == ["0/default0", "1/default0", "0", "1", "1/default1"]

    def test_mpiexec_labels(self) -> None:
        lines = unwrap("[15]worker-23:83:2 [0] NCCL INFO x", "[2]worker-1:83:2 [0] NCCL INFO y")
        assert [line.rank for line in lines] == [15, 2]
        assert lines[0].host == "worker-23"

    def test_failure_tables_do_not_look_like_labels(self) -> None:
        assert unwrap("[0]:", "  time      : 2026-07-03_17:54:25", "[1]:", "  host      : node01")[0].text == "[0]:"

    def test_pdsh(self) -> None:
        lines = unwrap("node01: a", "node02: b", "node01:   c", "node02: RuntimeError: d")
        assert [shown(line, "host", "text") for line in lines] == [
            *(("node01", "a"), ("node02", "b"), ("node01", "  c"), ("node02", "RuntimeError: d"))
        ]
        assert shown(one("10.0.1.12: /root/x"), "host", "text") == ("10.0.1.12", "/root/x")

    def test_a_host_named_after_its_gpus_is_a_host_and_a_gpu_is_none(self) -> None:
        assert {line.host for line in unwrap(*["gpu0001: step 1", "gpu0002: step 1"] * 4)} == {"gpu0001", "gpu0002"}
        assert {line.host for line in unwrap(*["gpu0: step 1", "gpu1: step 1"] * 4)} == {None}

    def test_the_program_that_a_syslog_names_is_no_foreign_text(self) -> None:
        (line,) = unwrap("Nov 29 10:11:12 node01 train[4101]: " + NCCL + "Connected all rings")
        assert shown(line, "host", "pid", "damaged", "text") == ("node01", 4101, False, "Connected all rings")

    def test_mpirun_with_its_own_time(self) -> None:
        for front in ("Sun Nov 29 10:11:12 2026[1,3]<stdout>:", "Sun Nov 29 10:11:12 2026<stdout>:"):
            (line,) = unwrap(front + NCCL + "Connected all rings")
            assert shown(line, "time", "damaged") == (seconds(2026, 11, 29, 10, 11, 12), False)

    def test_pdsh_around_srun(self) -> None:
        lines = unwrap(*["node01: 0: x", "node02: 1: x"] * 3)
        assert [shown(line, "host", "rank", "stream", "text") for line in lines[:2]] == [
            *(("node01", 0, "node01/0", "x"), ("node02", 1, "node02/1", "x"))
        ]

    def test_words_before_colons_are_no_hosts(self) -> None:
        for text in ("RuntimeError: x", "step-1: x", "epoch2: x", "train.py: x", "srun: error: x", "Note: y"):
            assert [shown(line, "host", "text") for line in unwrap(*[text] * 9)] == [(None, text)] * 9

    def test_ray_and_vllm(self) -> None:
        line = one("(RayTrainWorker pid=12, ip=10.0.0.1)   File")
        assert shown(line, "stream", "pid", "host", "text") == (
            "RayTrainWorker pid=12, ip=10.0.0.1",
            12,
            "10.0.0.1",
            "  File",
        )
        assert shown(one("(Worker_TP0 pid=7) x"), "pid", "text") == (7, "x")
        assert shown(one("(pid=909608) "), "pid", "text") == (909608, "")
        assert shown(one("(VllmWorker rank=3 pid=7) x"), "pid", "rank", "text") == (7, 3, "x")
        assert one("(most recent call last)").text == "(most recent call last)"

    def test_sglang(self) -> None:
        assert shown(one("[2025-04-02 15:26:05 DP0 TP7] x"), "stream", "time", "text") == (
            *("DP0 TP7", seconds(2025, 4, 2, 15, 26, 5), "x"),
        )


class TestLogDrivers:
    def test_docker_json(self) -> None:
        record = {"log": "[rank1]:   File\u001b[0m\n", "stream": "stderr", "time": "2026-01-31T12:00:00.5Z"}
        line = one(json.dumps(record))
        assert shown(line, "text", "rank", "time") == ("  File", 1, seconds(2026, 1, 31, 12) + 0.5)

    def test_structured_logs(self) -> None:
        record = {"message": "one\ntwo", "timestamp": "2026-01-31T12:00:00Z", "kubernetes": {"pod_name": "worker-0"}}
        lines = unwrap(json.dumps(record))
        assert [shown(line, "text", "host", "number") for line in lines] == [
            ("one", "worker-0", 1),
            ("two", "worker-0", 1),
        ]

    @pytest.mark.parametrize("text", ["{not json}", '{"a": 1}', '{"log": 5}', "{}", '{"log":', "{" * 5000 + "}"])
    def test_other_braces_stay_text(self, text: str) -> None:
        assert one(text).text == text

    @pytest.mark.parametrize(
        ("prefix", "host", "when"),
        [
            ("2026-01-31T12:00:00.5Z stdout F ", None, seconds(2026, 1, 31, 12) + 0.5),
            ("2026-01-31T12:00:00+00:00 stderr F ", None, seconds(2026, 1, 31, 12)),
            ("2026-01-31T12:00:00.123456789Z ", None, seconds(2026, 1, 31, 12) + 0.123456789),
            ("2026-01-31 12:00:00,500 ", None, seconds(2026, 1, 31, 12) + 0.5),
            (" 2026-01-31 12:00 ", None, seconds(2026, 1, 31, 12)),
            ("2026-01-31T12:00:00.500-05:00\t", None, seconds(2026, 1, 31, 12) + 0.5),
            ("  | 2026-01-31T12:00:00.500-07:00 | ", None, seconds(2026, 1, 31, 12) + 0.5),
            ("[2026-01-31 12:00:00] ", None, seconds(2026, 1, 31, 12)),
            ("[pod/worker-0/main] ", "worker-0", None),
            ("18:00:34.257 ", None, None),
        ],
    )
    def test_what_collectors_put_in_front(self, prefix: str, host: str | None, when: float | None) -> None:
        line = one(prefix + "[rank0]:   File")
        assert shown(line, "text", "rank", "host") == ("  File", 0, host)
        assert line.time == (when if when is None else pytest.approx(when))

    def test_the_collectors_time_wins_over_the_headers(self) -> None:
        line = one("2025-02-18 12:54:00 [rank13]:[E218 04:54:22.864467604 ProcessGroupNCCL.cpp:616] x")
        assert line.time == seconds(2025, 2, 18, 12, 54)

    def test_containers_of_compose(self) -> None:
        lines = unwrap(*["trainer-0  | a", "trainer-1  |   b"] * 3)
        assert [shown(line, "host", "text") for line in lines[:2]] == [("trainer-0", "a"), ("trainer-1", "  b")]
        assert unwrap("Epoch 1 | loss 2")[0].text == "Epoch 1 | loss 2"

    def test_a_table_that_says_all_twice(self) -> None:
        message = "ip-10-0-0-3:79:25 [0] NCCL INFO NET/OFI x"
        (line,) = unwrap(f"  | 2025-05-16T16:39:55.210-07:00{message} | {message}")
        assert shown(line, "host", "text", "damaged") == ("ip-10-0-0-3", "NET/OFI x", False)

    @pytest.mark.parametrize(
        ("text", "rest", "host", "when"),
        [
            ("[171167.620236] NVRM: Xid", "NVRM: Xid", None, None),
            ("[  +0.000316] pcieport x", "pcieport x", None, None),
            ("[Fri Mar  3 04:23:22 2023] NVRM: x", "NVRM: x", None, seconds(2023, 3, 3, 4, 23, 22)),
            (
                "kern  :warn  : 2025-01-21T04:41:44,25+00:00 NVRM: x",
                "NVRM: x",
                None,
                seconds(2025, 1, 21, 4, 41, 44) + 0.25,
            ),
            (
                "Feb 24 09:28:18 node01 kernel: NVRM: x",
                "kernel: NVRM: x",
                "node01",
                seconds(REFERENCE_YEAR, 2, 24, 9, 28, 18),
            ),
            ("2025-02-24T09:28:18+0000 node01 kernel: x", "kernel: x", "node01", seconds(2025, 2, 24, 9, 28, 18)),
            (
                "10.0.0.1: kern: warning: [2026-04-22T21:26:20.5Z]: NVRM: x",
                *("NVRM: x", "10.0.0.1", seconds(2026, 4, 22, 21, 26, 20) + 0.5),
            ),
        ],
    )
    def test_the_kernels_words(self, text: str, rest: str, host: str | None, when: float | None) -> None:
        line = one(text)
        assert shown(line, "text", "host", "header") == (rest, host, "kernel")
        assert line.time == (when if when is None else pytest.approx(when))

    def test_syslog_of_programs(self) -> None:
        line = one("Feb 24 09:28:18 node01 slurmstepd[77]: error: x")
        assert shown(line, "text", "host", "header", "pid") == ("slurmstepd[77]: error: x", "node01", "syslog", None)


class TestFileNames:
    def test_the_name_gives_a_rank_until_a_line_says_more(self) -> None:
        first, second = unwrap("x", "[rank7]: y", name="rank3.log")
        assert shown(first, "rank", "rank_source") == (3, "file-name")
        assert shown(second, "rank", "rank_source") == (7, "rank-prefix")

    def test_torchruns_folders_give_the_local_rank(self) -> None:
        assert unwrap("x", name="run_x/attempt_0/2/stderr.log")[0].local_rank == 2


class TestOrdinaryText:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "   indented",
            '  File "/workspace/train.py", line 41, in main',
            "Traceback (most recent call last):",
            "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in /opt/lib/libc10.so)",
            "#7  0x00007f4d8f6572be in c10d::ProcessGroupNCCL::endCoalescing () from libtorch_cuda.so",
            'Thread 686181 (active): "MainThread"',
            "    all_reduce (torch/distributed/distributed_c10d.py:1316)",
            "  time      : 2026-07-03_17:54:25",
            "slurmstepd: error: *** STEP 12.0 ON node01 CANCELLED AT 2026-01-31T12:00:00 DUE TO TIME LIMIT ***",
            "srun: error: node04: task 3: Exited with exit code 123",
            "[13.5, 2.0] are the values",
            "NCCL version 2.19.3+cuda12.1",
            "RuntimeError: [1] is out of range: 3",
        ],
    )
    def test_it_stays_as_it_is(self, text: str) -> None:
        line = one(text)
        assert line.text == text
        assert shown(line, "stream", "rank", "host", "pid", "time", "header", "damaged") == (
            "",
            None,
            None,
            None,
            None,
            "",
            False,
        )


class TestStamps:
    def test_impossible_times_are_none(self) -> None:
        assert moment(2026, 2, 30, "10:00:00") is None
        assert moment(2026, 13, 1, "10:00:00") is None
        assert moment(2026, 1, 1, "25:00:00") is None
        assert one("2026-02-30 10:00:00 x").text == "2026-02-30 10:00:00 x"

    def test_months_and_years(self) -> None:
        assert [month_number(name) for name in ("Jan", "December", "07", "Foo")] == [1, 12, 7, 0]
        assert year_in("at 2025-11-29T10:00") == 2025
        assert year_in("Fri Mar  3 04:23:22 2023") == 2023
        assert year_in("version 2024") is None


TOKENS = st.sampled_from(
    [
        *(
            "node01:1:2 [0] NCCL INFO ",
            "node02:3:4 [1] a.cc:5 NCCL WARN ",
            "NCCL INFO ",
            "[rank3]:",
            "[default1]:",
            " ",
            "3: ",
        ),
        *(
            "[E1019 01:04:03.356947152 a.cpp:1] ",
            "[E a.cpp:1] ",
            "E0927 12:07:22.643702 10 a.cpp:1] ",
            "text",
            ":",
            "[",
            "]",
        ),
        *(
            "2026-01-31T12:00:00Z ",
            "2026-01-31T12:00:00Z: ",
            "[1,3]<stdout>:",
            "(pid=3) ",
            "node01: ",
            "pod | ",
            '{"log":"x"}',
            "é",
            "|",
            "99999999999",
        ),
        *("Feb 30 09:28:18 node01 kernel: ", "[2026-01-31 12:00:00 TP0] ", "INFO 13-45 99:00:00 [a.py:1] ", "\ufffd"),
    ]
)


@given(st.lists(st.lists(TOKENS, max_size=8).map("".join) | st.text(max_size=40), max_size=12), st.booleans())
def test_no_line_is_lost_and_nothing_is_made_up(texts: list[str], learn: bool) -> None:
    texts = [text.replace("\n", " ") for text in texts]
    assume(not width_of(texts))  # pieces that a terminal broke are put together
    made = unwrap(*texts, learn=learn)
    assert sorted({line.number for line in made}) == list(range(1, len(texts) + 1))
    assert [line.number for line in made] == sorted(line.number for line in made)
    for line in made:
        assert line.raw == texts[line.number - 1]
        assert line.text in line.raw or line.raw.startswith("{")
        assert line.rank is None or line.rank_source


@given(st.lists(st.lists(TOKENS, max_size=6).map("".join), min_size=1, max_size=6))
def test_reading_a_file_twice_gives_the_same(texts: list[str]) -> None:
    assert unwrap(*texts) == unwrap(*texts)


@pytest.mark.parametrize(
    "unit",
    ["a", "[", "(a ", "1:1:1 [0] ", "a:1:1 [0] NCCL INFO ", "NCCL INFO ", "[rank1]:", "pod | ", "{", "E1019 ", "- "],
)
def test_the_longest_hostile_line_takes_no_time_to_speak_of(unit: str) -> None:
    text = (unit * MAX_TEXT)[: MAX_TEXT - 40] + " NCCL INFO x [E a.cpp:1] .py:1] "
    start = time.process_time()
    unwrap(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "prefix",
    [
        "[{n}]<stdout>:",
        "[{n},1]<stdout>:",
        "(Worker pid={n}) ",
        "(Worker rank={n}, pid=3) ",
        "E0101 00:00:00.000000 {n} a.py:1] ",
    ],
)
def test_number_that_python_refuses_makes_no_prefix(prefix: str) -> None:
    text = prefix.format(n="9" * 5000) + "hello"
    assert unwrap(text)[0].text == text


def test_names_without_end_of_one_process_take_no_time_to_speak_of() -> None:
    start = time.process_time()
    made = unwrap(*(f"node{number}:7:7 [0] NCCL INFO x" for number in range(20_000)))
    assert time.process_time() - start < 10
    assert made[-1].host == "node19999"
