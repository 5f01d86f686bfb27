"""Interfaces and addresses that cannot reach each other, by the lines in which NCCL says what it uses."""

from __future__ import annotations

import pytest

from hangscope.facts import interfaces
from hangscope.model import Fact
from nccl_logs import Rank, job_of_ranks


def facts_of(*chosen: str) -> list[Fact]:
    """Facts about hosts of one rank each, in order, which use these interfaces (``eth0:10.0.0.1``)."""
    logs = [
        Rank(rank, len(chosen), host=f"node{rank + 1:02d}").say(f"Bootstrap: Using {one}<0>").init(("Init START",))
        for rank, one in enumerate(chosen)
    ]
    return list(interfaces.find(job_of_ranks(logs)))


def kinds(*chosen: str) -> list[str]:
    return [fact.kind for fact in facts_of(*chosen)]


@pytest.mark.parametrize("odd", ["docker0:172.17.0.1", "virbr0:192.168.122.1", "lo:127.0.0.1", "br-1a2b:172.18.0.1"])
def test_bridge_on_one_host_is_its_fault(odd: str) -> None:
    (fact,) = facts_of("eth0:10.0.0.1", "eth0:10.0.0.2", odd)
    assert (fact.kind, fact.hosts, fact.ranks, fact.affected) == ("interface_is_virtual", ("node03",), (2,), (0, 1))
    assert (fact.fields["expected"], fact.fields["seen_on"]) == ("eth0", ("node03",))


def test_bridge_on_all_hosts_is_nobodys_fault_and_shown_on_each() -> None:
    (fact,) = facts_of("docker0:172.17.0.1", "docker0:172.17.0.1", "docker0:172.17.0.1")
    assert (fact.kind, fact.hosts, fact.ranks) == ("interface_is_virtual", (), ())
    assert fact.fields["seen_on"] == ("node01", "node02", "node03")
    assert len({evidence.at.file for evidence in fact.evidence}) == 3


def test_one_address_on_several_hosts() -> None:
    (fact,) = facts_of("net1:10.88.0.1", "net1:10.88.0.2", "net1:10.88.0.1")
    assert (fact.kind, fact.fields["address"], fact.fields["seen_on"]) == (
        "address_shared",
        "10.88.0.1",
        ("node01", "node03"),
    )


def test_redacted_addresses_are_not_one_address() -> None:
    assert kinds("eth0:xx.xx.xx.xx", "eth0:xx.xx.xx.xx") == []


def test_link_local_address_is_reached_by_no_other_host() -> None:
    assert kinds("eth0:10.0.0.1", "eth0:169.254.3.1") == ["interface_is_link_local"]
    assert kinds("enx1:169.254.3.1", "enx1:169.254.3.2") == ["interface_is_link_local"] * 2


def test_ipv6_link_local_is_usual_as_long_as_nobody_has_more() -> None:
    assert kinds("eth0:fe80::1%eth0", "eth0:fe80::2%eth0") == []
    assert "interface_is_link_local" in kinds("eth0:2001:db8::1", "eth0:fe80::2%eth0")


def test_families_do_not_connect() -> None:
    (fact,) = facts_of("eth0:10.0.0.1", "eth0:10.0.0.2", "eth0:2001:db8::3")
    assert (fact.kind, fact.ranks, fact.fields["address"]) == ("address_family_differs", (2,), "2001:db8::3")


def test_other_interface_in_another_network_is_told_and_with_two_hosts_nobody_is_blamed() -> None:
    (fact,) = facts_of("eth0:10.20.0.1", "eth0:10.20.0.2", "eth1:192.168.5.3")
    assert (fact.kind, fact.ranks, fact.fields["expected"]) == ("interface_subnet_differs", (2,), "eth0")
    (fact,) = facts_of("eth0:10.20.0.1", "eth1:192.168.5.3")
    assert fact.ranks == ()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (("eth0:10.20.0.1", "eth0:192.168.5.3"), ["address_block_differs"]),
        (("eth0:10.20.0.1", "eth0:8.8.4.4"), ["address_block_differs"]),
        (("eth0:10.20.0.1", "eth0:10.44.0.3"), []),
        (("eth0:10.20.0.1", "ens5:10.20.0.3"), []),
        (("eth0:172.16.1.1", "eth0:172.31.0.3"), []),
    ],
)
def test_one_name_in_different_blocks_is_worth_a_word(chosen: tuple[str, ...], expected: list[str]) -> None:
    assert kinds(*chosen) == expected


def test_job_of_one_host_may_use_what_it_likes() -> None:
    logs = [Rank(rank, 2, host="node01").say("Bootstrap: Using lo:127.0.0.1<0>") for rank in range(2)]
    assert list(interfaces.find(job_of_ranks(logs))) == []
