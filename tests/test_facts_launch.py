"""What ranks, agents and sockets say of the launch, compared: wrong worlds, addresses, ports, and who is absent."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.facts import absent, agents, launch, store
from hangscope.facts.addresses import host_part, is_loopback, is_malformed, is_numeric_name
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

MISSING = "torch.distributed.DistStoreError: Timed out after 600 seconds waiting for clients. {}/{} clients joined.\n"


def job_of(**files: str) -> Job:
    """A job of these files ("job" becomes job.log)."""
    return align([read_stream(f"{name}.log", io.BytesIO(text.encode())) for name, text in files.items()])


def told(rank: int, host: str = "node01", world: int = 2, address: str = "node01", port: int = 29500) -> str:
    return f"{host} RANK={rank} WORLD_SIZE={world} MASTER_ADDR={address} MASTER_PORT={port}\n"


def of_kind(facts: list[Fact], kind: str) -> list[tuple[int, ...]]:
    return [fact.ranks for fact in facts if fact.kind == kind]


def test_a_rank_that_two_processes_have_is_taken_twice() -> None:
    job = job_of(proc0=told(0, world=3), proc1=told(1, world=3), proc2=told(1, "node02", world=3))
    assert of_kind(list(launch.find(job)), "rank_taken_twice") == [(1,)]


def test_one_process_that_prints_twice_is_one_process() -> None:
    job = job_of(rank0=told(0) + told(0), rank1=told(1, "node02"))
    assert not of_kind(list(launch.find(job)), "rank_taken_twice")


def test_the_world_size_that_fits_the_processes_is_right() -> None:
    job = job_of(node01=told(0, world=3), node02=told(1, "node02", world=2))
    assert of_kind(list(launch.find(job)), "world_sizes_differ") == [(0,)]


@pytest.mark.parametrize(("second", "ranks"), [("node02", [(1,)]), ("node01", [])])
def test_loopback_is_wrong_only_on_another_host_than_rank_0(second: str, ranks: list[tuple[int, ...]]) -> None:
    job = job_of(a=told(0), b=told(1, second, address="localhost"))
    assert of_kind(list(launch.find(job)), "master_addr_loopback") == ranks


def test_variables_on_lines_of_their_own_are_one_environment() -> None:
    first = "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=node01\nMASTER_PORT=29500\n"
    job = job_of(node01=first, node02=first.replace("RANK=0", "RANK=1").replace("29500", "29400"))
    assert of_kind(list(launch.find(job)), "master_port_differs") == [(1,)]


def test_the_absent_rank_is_named_only_when_it_left_no_line() -> None:
    short = MISSING.format(1, 2)
    assert of_kind(list(absent.find(job_of(rank0=told(0) + short))), "ranks_absent") == [(1,)]
    facts = list(absent.find(job_of(rank0=told(0) + short, rank1=told(1, "node02"))))
    assert [fact.kind for fact in facts] == ["clients_absent"]


@pytest.mark.parametrize(("joined", "expected"), [("-1", "2"), ("2", "-5"), ("2", "2147483648"), ("2", "2")])
def test_counts_that_cannot_be_tell_of_no_absent_rank(joined: str, expected: str) -> None:
    assert not list(absent.find(job_of(job=told(0) + MISSING.format(joined, expected))))


def test_a_rank_beyond_the_world_is_another_fault_than_a_stale_counter() -> None:
    text = (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: {}, for key: "
        "store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)\n"
    )
    assert [fact.kind for fact in absent.find(job_of(job=text.format(2)))] == ["rank_outside_world"]
    assert [fact.kind for fact in absent.find(job_of(job=text.format(0)))] == ["too_many_joined"]


def agent(node_rank: int, endpoint: str = "node01:29500", nodes: int = 2, at: str = "16:01:17.875000") -> str:
    settings = {"min_nodes": nodes, "nproc_per_node": 2, "rdzv_endpoint": endpoint}
    settings["rdzv_configs"] = f"{{'rank': {node_rank}, 'timeout': 900}}"
    header = f"I1129 {at} 148 torch/distributed/launcher/api.py:254]"
    return "".join(f"{header}   {name:<24} : {value}\n" for name, value in settings.items())


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (agent(0, at="16:01:18.100000"), "node_rank_twice"),
        (agent(1, nodes=3), "agents_disagree"),
        (agent(1, "node01:29400"), "endpoint_differs"),
    ],
)
def test_agents_that_were_told_different_things(second: str, kind: str) -> None:
    facts = list(agents.find(job_of(node01=agent(0), node02=second)))
    assert kind in {fact.kind for fact in facts}


def test_the_missing_agent_is_named_by_its_node_rank() -> None:
    facts = list(agents.find(job_of(node01=agent(0, nodes=3), node03=agent(2, nodes=3))))
    assert [fact.fields["absent"] for fact in facts if fact.kind == "node_absent"] == ["1"]


UNRESOLVED = (
    "[W1129 16:06:0{}.599564847 socket.cpp:764] [c10d] The IPv6 network addresses of (node01, 29500) "
    "cannot be retrieved (gai error: -2 - Name or service not known).\n"
)
CONNECTED = (
    "[I1129 16:06:09.130683912 socket.cpp:955] [c10d] The client socket has connected to 10.0.0.1:29500 "
    "on SocketImpl(fd=12, addr=[::1]:48641, remote=[::1]:29500).\n"
)


@pytest.mark.parametrize(("text", "count"), [(UNRESOLVED.format(1), 1), (UNRESOLVED.format(1) + CONNECTED, 0)])
def test_an_unresolved_name_counts_only_without_progress(text: str, count: int) -> None:
    facts = [fact for fact in store.find(job_of(node02=text)) if fact.kind == "name_never_resolved"]
    assert len(facts) == count


def refused(local: str, peer: str) -> str:
    return (
        "[gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=0, retry=4, retryLimit=3, rank=3, "
        f"size=4, local=[{local}]:25239, remote=[{peer}]:34194$3, error=SO_ERROR: Connection refused, "
        f"remote=[{peer}]:34194$3\n"
    )


@pytest.mark.parametrize(
    ("peer", "kind"),
    [
        ("10.0.0.1", "peer_unreachable"),
        ("172.17.0.2", "peer_on_foreign_subnet"),
        ("127.0.0.1", "peer_on_loopback"),
    ],
)
def test_a_peer_that_cannot_be_reached(peer: str, kind: str) -> None:
    job = job_of(node01=told(0), node02=told(1, "node02") + refused("10.0.0.2", peer))
    assert [fact.kind for fact in store.find(job)] == [kind]


def test_a_rank_that_ended_well_is_the_one_its_peers_lost() -> None:
    closed = "[rank0]: RuntimeError: [gloo/pair.cc:553] Connection closed by peer [10.0.0.1]:30954.\n"
    done = "[rank1]: rank 1 training finished after 26 iterations\n"
    facts = [fact for fact in store.find(job_of(job=done + closed)) if fact.kind == "rank_left_early"]
    assert [(fact.ranks, fact.affected) for fact in facts] == [((1,), (0,))]


@pytest.mark.parametrize(
    ("address", "loopback", "malformed"),
    [
        ("localhost", True, False),
        ("127.0.1.1", True, False),
        ("[::1]", True, False),
        ("node01", False, False),
        ("10.0.0.1", False, False),
        ("", False, True),
        ("/root/cuda.bashrc", False, True),
        ("255.255.0.0", False, True),
    ],
)
def test_addresses(address: str, loopback: bool, malformed: bool) -> None:
    assert (is_loopback(address), is_malformed(address)) == (loopback, malformed)


def test_parts_of_addresses() -> None:
    assert host_part("[::ffff:10.0.0.1]:29500") == "::ffff:10.0.0.1"
    assert host_part("node01:29500") == "node01"
    assert is_numeric_name("7012345")
    assert not is_numeric_name("node7")


@pytest.mark.parametrize("claim", [2_000_000_000, 10**12, 10**30, "9" * 5000])
def test_impossible_world_size_is_none(claim: int | str) -> None:
    setting = f"  min_nodes        : {claim}\n  rdzv_endpoint    : node01:29400\n"
    job = job_of(
        rank0=told(0) + f"WORLD_SIZE={claim}\nRANK=0\n" + MISSING.format(1, claim),
        rank1=f"host RANK=0 WORLD_SIZE={claim} MASTER_ADDR=node01 MASTER_PORT=29500\n",
        rank2=f"Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/{claim}\n",
        agent=setting,
    )
    for module in (absent, agents, launch, store):
        for fact in module.find(job):
            assert len(fact.ranks) < 4
