"""Tables of sockets: whose connection waits for an answer, in the forms of ss, netstat and attach."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.facts import sockets
from nccl_logs import Rank, job_of, parse

SS = "State    Recv-Q Send-Q  Local Address:Port    Peer Address:Port  Process"
NETSTAT = "Proto Recv-Q Send-Q Local Address           Foreign Address         State       PID/Program name"


@pytest.mark.parametrize(
    ("head", "row", "peer"),
    [
        (SS, 'SYN-SENT 0 1 10.0.0.1:41234 10.0.0.2:29500 users:(("python",pid=101,fd=33))', ("10.0.0.2", 29500)),
        (SS, 'SYN-SENT 0 1 [::1]:41234 [fd00::2]:29500 users:(("python",pid=101,fd=33))', ("fd00::2", 29500)),
        (
            f"Netid {SS}",
            'tcp   SYN-SENT 0 1 10.0.0.1%eth0:41234 10.0.0.2:29500 users:(("pt main",pid=101,fd=33))',
            ("10.0.0.2", 29500),
        ),
        (
            NETSTAT,
            "tcp        0      1 10.0.0.1:41234          10.0.0.2:29500          SYN_SENT    101/python",
            ("10.0.0.2", 29500),
        ),
        (NETSTAT, "tcp        0      1 10.0.0.1:41234          10.0.0.2:29500          ESTABLISHED 101/python", None),
        (SS, 'SYN-SENT 0 1 10.0.0.1:41234 10.0.0.2:443 users:(("curl",pid=9,fd=3))', None),
    ],
)
def test_connection_of_a_rank_that_nobody_answers(head: str, row: str, peer: tuple[str, int] | None) -> None:
    logs = Rank(1, 2, host="node01").init().lines
    found = [
        (fact.ranks, fact.fields["peer"], fact.fields["port_number"])
        for fact in sockets.find(job_of({"rank1.log": logs, "ss.txt": [head, row, row]}))
    ]
    assert found == ([((1,), *peer)] if peer else [])


@given(st.lists(st.text(alphabet="SYN-_SENTtcp 0123456789.:[]()\t", max_size=70), max_size=8))
def test_any_rows_are_read(lines: list[str]) -> None:
    for head in (SS, NETSTAT):
        assert parse([head, *lines]).record.error is None


def test_long_rows_cost_little() -> None:
    start = time.process_time()
    parse([NETSTAT, *["tcp 0 1 " + "a%:" * 1000 + " " + "a%:" * 300] * 100])
    assert time.process_time() - start < 2
