"""Pages of torch's debug server that lack ranks: gone, silent, or a page that the build does not have."""

from __future__ import annotations

import pytest

from hangscope.facts import debug_server
from nccl_logs import job_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Timeout: ", "debug_page_silent"),
        ("ServerDisconnectedError: Server disconnected", "debug_page_silent"),
        ("ClientConnectorError: Cannot connect to host node01:33727 ssl:default", "debug_page_refuses"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "debug_page_refuses"),
        ("Handler fr_trace not found: Failed to find handler fr_trace", None),
    ],
)
def test_rank_that_does_not_answer(error: str, kind: str | None) -> None:
    lines = [
        "PARTIAL DATA: 3/4 workers responded",
        f"  Rank 2: {error}",
        "",
        "=== Rank 0: http://node01:1/handler/tcpstore? ===",
        "key: b'1'",
    ]
    found = [(fact.kind, fact.ranks, fact.affected) for fact in debug_server.find(job_of({"tcpstore.txt": lines}))]
    assert found == ([(kind, (2,), (0, 1, 3))] if kind else [])


def test_nobody_stands_out_where_nobody_answers() -> None:
    lines = ["PARTIAL DATA: 0/2 workers responded", "  Rank 0: Timeout: ", "  Rank 1: Timeout: "]
    assert list(debug_server.find(job_of({"wait_counters.txt": lines}))) == []


def test_page_of_stacks_is_read_as_before() -> None:
    lines = [
        "PARTIAL DATA: 1/2 workers responded",
        "  Rank 1: Timeout: ",
        "",
        "=== Rank 0: http://node01:33727/handler/dump_traceback? ===",
        "Thread 0x00007f73c7a91b80 (most recent call first):",
        '  File "/w/train.py", line 11 in step',
    ]
    job = job_of({"stacks_20261129_163543.txt": lines})
    assert [(dump.line.rank, bool(dump.threads)) for source in job.parsed for dump in source.dumps] == [
        (1, False),
        (0, True),
    ]
    assert [fact.ranks for fact in debug_server.find(job)] == [(1,)]


def test_other_pages_are_no_logs_to_complain_about() -> None:
    text = '=== Rank 0: http://node01:1/handler/wait_counters? ===\n{"pytorch.wait_counter.x": {"active_count": 1}}\n'
    assert job_of({"wait_counters_20261129_163543.txt": text}).warnings == ()
