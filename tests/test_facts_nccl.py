"""What NCCL's lines of several ranks say when compared: settings, versions, interfaces, connections, places."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.facts import cuda_place, environment, hosts, init_checks, interfaces, network, verbs, versions
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

START = "ncclCommInitRank comm 0x{0}0 rank {0} nranks {1} cudaDev 0 nvmlDev 0 busId {2} commId 0xab - Init {3}"


def job_of(text: str) -> Job:
    """A job of one file with these lines."""
    return align([read_stream("job.log", io.BytesIO(text.encode()))])


def said(rank: int, *messages: str, host: str = "") -> str:
    """Messages of one rank at level INFO; two ranks a host."""
    name = host or f"node0{1 + rank // 2}"
    return "".join(f"{name}:{100 + rank}:{100 + rank} [{rank % 2}] NCCL INFO {message}\n" for message in messages)


def warned(rank: int, message: str, origin: str = "misc/socket.cc:46") -> str:
    return f"node0{1 + rank // 2}:{100 + rank}:{100 + rank} [{rank % 2}] {origin} NCCL WARN {message}\n"


def start(rank: int, size: int = 4, bus: str = "1a000", what: str = "START") -> str:
    return START.format(rank, size, bus, what)


def only(facts: list[Fact], kind: str) -> Fact:
    found = [fact for fact in facts if fact.kind == kind]
    assert len(found) == 1, found
    return found[0]


def test_the_rank_with_a_setting_that_the_others_lack_is_the_odd_one() -> None:
    layout = "comm 0x10 rank {} nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0"
    text = "".join(
        said(
            rank,
            start(rank),
            *(["NCCL_SHM_DISABLE set by environment to 1."] if rank == 1 else []),
            layout.format(rank),
        )
        for rank in range(4)
    )
    fact = only(list(environment.find(job_of(text))), "setting_differs")
    assert (fact.fields["name"], fact.fields["expected"], fact.ranks) == ("NCCL_SHM_DISABLE", "not set", (1,))


def test_a_rank_that_did_not_come_to_the_setting_does_not_lack_it() -> None:
    text = said(0, start(0), "NCCL_ALGO set by environment to Ring") + said(1, start(1)) + said(2, start(2))
    assert not list(environment.find(job_of(text)))


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_HOSTID", "NCCL_DEBUG"])
def test_settings_of_a_host_may_differ(name: str) -> None:
    lines = [
        said(rank, f"{name} set by environment to v{rank}", start(rank), "Trees [0] 1/-1/-1->0->-1")
        for rank in range(3)
    ]
    assert not list(environment.find(job_of("".join(lines))))


def test_an_edge_with_two_transports_is_told_once() -> None:
    text = said(0, start(0, 2), "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")
    text += said(1, start(1, 2), "Channel 00/0 : 0[0] -> 1[1] [receive] via NET/Socket/0")
    fact = only(list(environment.find(job_of(text))), "edge_transport_differs")
    assert (fact.fields["transport"], fact.fields["other_transport"]) == ("SHM", "NET")


def test_the_shape_of_lines_tells_a_version_that_nobody_prints() -> None:
    old = "NCCL version 2.19.3+cuda12.4\n" + said(0, "Bootstrap : Using eth0:10.0.0.1<0>", "Using network Socket")
    new = said(2, "NCCL version 2.23.4+cuda12.4", start(2)) + said(3, "NCCL version 2.23.4+cuda12.4", start(3))
    old += said(1, "Bootstrap : Using eth0:10.0.0.1<0>", "Using network Socket")
    fact = only(list(versions.find(job_of(old + new))), "nccl_version_differs")
    assert (fact.fields["version"], fact.fields["expected"], fact.ranks) == ("2.23.4", "2.19.3", (2, 3))


def test_another_version_on_one_of_two_ranks_of_a_host_is_the_rank_s() -> None:
    lines = [said(rank, f"NCCL version 2.{21 if rank == 3 else 23}.4+cuda12.4", start(rank)) for rank in range(4)]
    fact = only(list(versions.find(job_of("".join(lines)))), "nccl_version_differs")
    assert (fact.fields["who"], fact.evidence[0].why) == ("rank 3", "NCCL 2.21.4")


def test_another_version_on_all_ranks_of_a_host_is_the_host_s() -> None:
    lines = [said(rank, f"NCCL version 2.{21 if rank > 3 else 23}.4+cuda12.4", start(rank, 6)) for rank in range(6)]
    fact = only(list(versions.find(job_of("".join(lines)))), "nccl_version_differs")
    assert (fact.fields["who"], fact.ranks) == ("node03", (4, 5))


def test_one_version_in_all_shapes_is_one_version() -> None:
    lines = ["Bootstrap: Using eth0:10.0.0.1<0>", "NCCL version 2.27.7+cuda12.9", "Using network Socket"]
    text = "".join(said(rank, *lines, start(rank)) for rank in range(4))
    assert not list(versions.find(job_of(text)))


def test_a_bridge_against_a_real_interface_blames_the_bridge() -> None:
    text = said(0, "Bootstrap: Using eth0:10.0.0.1<0>", start(0)) + said(
        2, "Bootstrap: Using docker0:172.17.0.1<0>", start(2)
    )
    fact = only(list(interfaces.find(job_of(text))), "interface_is_virtual")
    assert (fact.fields["interface"], fact.hosts, fact.ranks) == ("docker0", ("node02",), (2,))


def test_a_retry_that_ends_in_a_communicator_is_no_fault() -> None:
    retry = "socketPollConnect: connect to 10.0.0.1<5> returned Connection refused, retrying (1/34) after sleep"
    done = start(0, what="COMPLETE")
    assert not list(network.find(job_of(said(0, start(0), retry, done))))
    assert only(list(network.find(job_of(said(0, start(0), retry)))), "peer_not_reached").fields["gave_up"] is False


def test_connections_cut_at_both_ends_are_the_network() -> None:
    cut = "socketProgressOpt: Call to recv from {}<4> failed : Software caused connection abort"
    both = warned(0, cut.format("10.0.0.2")) + warned(2, cut.format("10.0.0.1"))
    assert only(list(network.find(job_of(both))), "established_connections_cut").fields["sides"] == 2
    died = warned(0, "socketProgressOpt: Call to send to 10.0.0.2<4> failed : Connection reset by peer")
    assert {fact.kind for fact in network.find(job_of(died))} == {"peer_connection_lost"}


def test_the_lost_peer_is_named_by_its_address() -> None:
    text = said(0, "Bootstrap: Using eth0:10.0.0.1<0>", start(0)) + said(
        2, "Bootstrap: Using eth0:10.0.0.2<0>", start(2)
    )
    text += warned(0, "socketProgressOpt: Call to send to 10.0.0.2<4> failed : Connection reset by peer")
    fact = only(list(network.find(job_of(text))), "peer_connection_lost")
    assert (fact.hosts, fact.ranks, fact.affected) == (("node02",), (2,), (0,))


def test_a_warning_without_ranks_is_joined_with_the_bus_ids() -> None:
    text = "".join(
        said(rank, start(rank, 3, bus), host="node01") for rank, bus in enumerate(["1a000", "3b000", "3b000"])
    )
    text += warned(
        0, "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this."
    )
    assert only(list(init_checks.find(job_of(text))), "gpu_shared").ranks == (1, 2)


def test_the_rank_of_another_size_is_found_among_those_that_began() -> None:
    text = "".join(said(rank, start(rank, 3 if rank == 2 else 4)) for rank in range(4))
    text += warned(0, "Bootstrap Root : mismatch in info from procs, nranks 4 vs 3, nroots 1 vs 1, iroot 0 vs 0")
    assert only(list(init_checks.find(job_of(text))), "root_saw_other_size").ranks == (2,)


@pytest.mark.parametrize(
    ("origin", "place"), [("transport/nvls.cc:244", "nvls"), ("transport/p2p.cc:267", "p2p"), ("group.cc:742", "other")]
)
def test_the_place_of_a_cuda_error_is_its_file(origin: str, place: str) -> None:
    job = job_of(warned(0, "Cuda failure 1 'invalid argument'", origin))
    assert only(list(cuda_place.find(job)), "nccl_cuda_failure").fields["place"] == place


def test_an_error_in_an_allocator_is_placed_by_its_caller() -> None:
    text = warned(0, "Cuda failure 2 'out of memory'", "include/alloc.h:228") + said(0, "transport/nvls.cc:300 -> 1")
    assert only(list(cuda_place.find(job_of(text))), "nccl_cuda_failure").fields["place"] == "nvls"


@pytest.mark.parametrize(("status", "accused"), [(4, ("node01",)), (12, ())])
def test_a_status_accuses_the_own_host_or_the_path(status: int, accused: tuple[str, ...]) -> None:
    line = f"NET/IB : Got completion from peer 10.0.0.2<4> with error {status}, opcode 0, len 0, vendor err 129"
    assert only(list(verbs.find(job_of(warned(0, line)))), "ib_first_error").hosts == accused


def test_flushes_alone_say_that_the_first_error_is_missing() -> None:
    line = "NET/IB : Got completion from peer 10.0.0.2<4> with error 5, opcode 0, len 0, vendor err 249"
    assert [fact.kind for fact in verbs.find(job_of(warned(0, line)))] == ["ib_flush_only"]


def test_one_host_name_with_two_addresses_is_two_machines() -> None:
    text = said(0, "Bootstrap : Using eth0:10.0.0.1<0>", host="localhost")
    text += said(1, "Bootstrap : Using eth0:10.0.0.2<0>", host="localhost")
    assert only(list(hosts.find(job_of(text))), "host_name_shared").fields["addresses"] == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize(
    ("name", "value", "differs"), [("NCCL_IB_DISABLE", "0.", False), ("NCCL_IB_DISABLE", "1.", True)]
)
def test_a_switch_set_to_what_it_is_anyway_differs_from_nothing(name: str, value: str, *, differs: bool) -> None:
    lines = [
        said(rank, "Bootstrap: Using eth0:10.0.0.1<0>", *([f"{name} set by environment to {value}"] if rank else []),
             start(rank), "Trees [0] 1/-1/-1->0->-1")
        for rank in range(3)
    ]  # fmt: skip
    assert bool(list(environment.find(job_of("".join(lines))))) is differs


def test_torch_says_its_debug_level_only_where_it_is_set() -> None:
    line = "[I1129 16:10:17.599111406 {}] [c10d] {}\n"
    spoke = line.format("TCPStore.cpp:316", "TCP client connected to host node01:29500")
    files = {
        "node01.log": spoke,
        "node02.log": line.format("debug.cpp:48", "The debug level is set to DETAIL.") + spoke,
    }
    job = align([read_stream(name, io.BytesIO(text.encode())) for name, text in files.items()])
    fact = only(list(environment.find(job)), "setting_differs")
    assert {fact.fields["value"], fact.fields["expected"]} == {"DETAIL", "not set"}
    quiet = files | {"node02.log": files["node02.log"].replace("DETAIL", "INFO")}
    job = align([read_stream(name, io.BytesIO(text.encode())) for name, text in quiet.items()])
    assert list(environment.find(job)) == []


@pytest.mark.parametrize(
    ("origin", "place"),
    [
        ("transport/p2p.cc:258", "p2p"),
        ("/longer/build/rccl/hipify/src/transport/p2p.cc:258", "p2p"),
        ("/usr/src/debug/rccl/build/hipify/src/transport/net.cc:12", "net"),
        ("/home/u/src/nccl/src/enqueue.cc:12", "other"),
    ],
)
def test_the_place_of_a_cuda_error_does_not_depend_on_where_nccl_was_built(origin: str, place: str) -> None:
    job = job_of(warned(0, "Cuda failure 'invalid argument'", origin))
    fact = only(list(cuda_place.find(job)), "nccl_cuda_failure")
    assert fact.fields["place"] == place
