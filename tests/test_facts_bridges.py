"""Bridges among the interfaces that carry NCCL's data."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.facts import bridges
from hangscope.parse.reader import read_stream

HEAD = "node01:7:7 [0] "
LISTED = (
    f"{HEAD}NCCL INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]br-05ab:172.19.0.1<0> "
    "[2]veth6163fb:fe80::1%veth6163fb<0>\n"
)
EDGE = f"{HEAD}NCCL INFO Channel 03/0 : 0[90000] -> 1[1000] [send] via NET/Socket/1\n"


def job_of(text: str) -> Job:
    """A job of one file with these lines."""
    return align([read_stream("job.log", io.BytesIO(text.encode()))])


def failed(peer: str, error: str = "Connection refused") -> str:
    return f"{HEAD}misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to {peer}<45199> failed : {error}\n"


def test_bridges_of_the_list_are_named_with_what_could_be_used() -> None:
    (fact,) = bridges.find(job_of(LISTED + EDGE))
    assert fact.kind == "bridges_offered"
    assert fact.fields == {"bridges": ("br-05ab", "veth6163fb"), "usable": "bond0"}
    assert [one.at.line for one in fact.evidence] == [1, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        LISTED,
        LISTED + EDGE + f"{HEAD}NCCL INFO Connected all rings\n",
        LISTED.replace("br-05ab", "eth1").replace("veth6163fb", "eth2") + EDGE,
        LISTED + EDGE.replace("NET/Socket/1", "P2P/IPC"),
        LISTED.replace("br-05ab", "veth0").replace("veth6163fb", "eth2") + EDGE,
    ],
    ids=["no connection", "they came about", "no bridge", "within the host", "a container's own end"],
)
def test_a_list_alone_is_no_fault(text: str) -> None:
    assert not list(bridges.find(job_of(text)))


@pytest.mark.parametrize(
    ("peer", "bridge"),
    [
        ("172.17.0.1", "docker0"),
        ("192.168.122.1", "virbr0"),
        ("fe80::42:c1ff:fe32:1%docker0", "docker0"),
        ("172.19.0.1", "br-05ab"),
    ],
)
def test_who_dials_a_bridge_is_told_whose_it_is(peer: str, bridge: str) -> None:
    found = [fact for fact in bridges.find(job_of(LISTED + failed(peer))) if fact.kind == "bridge_dialled"]
    assert [fact.fields for fact in found] == [{"peer": peer, "bridge": bridge, "error": "Connection refused"}]


def test_an_address_of_the_cluster_is_no_bridge() -> None:
    found = [fact.kind for fact in bridges.find(job_of(LISTED + failed("192.168.1.162")))]
    assert found == ["bridges_offered"]
