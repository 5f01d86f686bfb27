"""What ranks and hosts have in each respect: values, who has them, which line shows it."""

from __future__ import annotations

import pytest

from hangscope.align.job import Job
from hangscope.diagnose.settings import known_nccl_names
from hangscope.facts import environment, unequal, versions
from hangscope.facts.agreed_settings import EFFECTS, effect_of
from hangscope.facts.comparisons import compare, comparison_modules
from hangscope.facts.comparisons.network import network_of
from hangscope.facts.lone_complaints import find as lone_complaints
from hangscope.model import Comparison, Fact
from hangscope.parse.complaints import template_of
from nccl_logs import Rank, job_of, job_of_ranks, ranks

EDGE = "Channel 00/0 : {}[0] -> {}[0]{} via {}"
COUNTS = "{0} coll channels, {0} collnet channels, 0 nvls channels, {0} p2p channels, 1 p2p channels per peer"
IB = "NET/IB : Using {} [RO]; OOB eth0:10.0.0.{}<0>"


def of(job: Job, aspect: str) -> Comparison:
    (found,) = (c for c in compare(job) if c.aspect == aspect)
    return found


def values(comparison: Comparison) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    return [(value.text, value.ranks, value.hosts) for value in comparison.values]


def only(facts: list[Fact], kind: str) -> Fact:
    (fact,) = (fact for fact in facts if fact.kind == kind)
    return fact


def test_topics_come_in_the_order_of_the_report() -> None:
    topics = [module.TOPIC for module in comparison_modules()]
    assert topics == ["versions", "settings", "network", "channels", "GPUs", "init", "messages"]


def test_versions_of_hosts_come_with_their_ranks_and_lines() -> None:
    files = {f"rank{log.rank}.log": log.lines for log in ranks(4)}
    job = job_of({**files, "node01/pip.txt": "torch==2.6.0\n", "node02/pip.txt": "numpy==2.1\ntorch==2.5.1\n"})
    found = of(job, "PyTorch")
    assert values(found) == [("2.6.0", (0, 1), ("node01",)), ("2.5.1", (2, 3), ("node02",))]
    shown = found.values[1].evidence
    assert (found.must_agree, found.differs) == (True, True)
    assert shown is not None
    assert (shown.at.file, shown.at.line) == ("node02/pip.txt", 2)


def test_one_process_alone_is_compared_with_nobody() -> None:
    assert compare(job_of({"node01/pip.txt": "torch==2.6.0\n"})) == ()


def test_files_without_host_are_named() -> None:
    found = of(job_of({"a.txt": "torch==2.6.0\n", "b.txt": "torch==2.6.0\n"}), "PyTorch")
    assert [(v.text, v.names, v.count) for v in found.values] == [("2.6.0", ("a.txt", "b.txt"), 2)]


def test_driver_interface_is_written_as_a_version() -> None:
    job = job_of_ranks([Rank(0, 2).say("cudaDriverVersion 12080"), Rank(1, 2).say("cudaDriverVersion 13000")])
    assert [value.text for value in of(job, "CUDA of the driver").values] == ["12.8", "13.0"]
    assert only(list(versions.find(job)), "driver_version_differs").fields["version"] == "13.0"


def test_settings_that_every_rank_has_its_own_value_of_are_left_out() -> None:
    logs = [log.say(f"NCCL_DEBUG_FILE set by environment to /tmp/{log.rank}") for log in ranks(4)]
    assert [c for c in compare(job_of_ranks(logs)) if c.topic == "settings"] == []


def test_setting_that_one_rank_lacks_is_not_set_there() -> None:
    logs = [Rank(rank, 3) for rank in range(3)]
    for log in logs:
        log.say("Bootstrap: Using eth0:10.0.0.1<0>")
        if log.rank != 1:
            log.say("NCCL_ALGO set by environment to Ring")
        log.say("Trees [0] 1/-1/-1->0->-1").init()
    found = of(job_of_ranks(logs), "NCCL_ALGO")
    assert [(v.text, v.ranks, v.evidence is None) for v in found.values] == [
        ("Ring", (0, 2), False),
        ("not set", (1,), True),
    ]


def test_settings_out_of_environments_are_compared_and_missing_ones_told() -> None:
    job = job_of(
        {
            "node01/env.txt": "NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5\n",
            "node02/env.txt": "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5\nNCCL_P2P_DISABLE=1\n",
        }
    )
    assert values(of(job, "NCCL_ALGO")) == [("Ring", (), ("node01",)), ("not set", (), ("node02",))]
    assert of(job, "NCCL_ALGO").must_agree
    # node01's list may be cut before it
    assert not [c for c in compare(job) if c.aspect == "NCCL_P2P_DISABLE"]
    assert not of(job, "NCCL_IB_HCA").differs


def test_settings_of_torch_are_read_from_its_list() -> None:
    line = "[rank{}]: ProcessGroupNCCL environments: NCCL version: 2.27.7, TORCH_NCCL_ENABLE_TIMING: {}, X: 1"
    job = job_of({f"rank{r}.log": [line.format(r, r % 2)] for r in range(3)})
    assert values(of(job, "TORCH_NCCL_ENABLE_TIMING")) == [("0", (0, 2), ()), ("1", (1,), ())]


def test_host_without_devices_is_counted_with_none() -> None:
    devices = "[0]mlx5_0:1/IB [1]={[0] mlx5_1:1/IB [1] mlx5_2:1/RoCE}"
    logs = [Rank(0, 6).say(IB.format(devices, 1)), Rank(2, 6).say(IB.format("[0]mlx5_0:1/IB", 2))]
    logs += [Rank(4, 6).say("NET/IB : No device found.")]
    job = job_of_ranks([log.init(("Init START",)) for log in logs])
    found = of(job, "HCAs")
    assert [(value.text, value.hosts) for value in found.values] == [
        ("2 IB, 1 RoCE", ("node01",)),
        ("1 IB", ("node02",)),
        ("none", ("node03",)),
    ]
    assert [fact.fields["devices"] for fact in unequal.find(job)] == ["1 IB", "none"]


def test_only_the_first_communicator_tells_channel_counts() -> None:
    logs = [log.say(COUNTS.format(16)) for log in ranks(3)]
    logs[2].split(0x9000, 0, 1, 0, count=1).say(COUNTS.format(4))
    assert not of(job_of_ranks(logs), "collective channels").differs
    odd = [*(log.say(COUNTS.format(16)) for log in ranks(4)[:3]), Rank(3, 4).init().say(COUNTS.format(8))]
    fact = only(list(unequal.find(job_of_ranks(odd))), "channel_count_differs")
    assert (fact.ranks, fact.fields["channels"], fact.fields["expected"]) == ((3,), "8", "16")


def test_transports_are_compared_inside_hosts_and_between_them() -> None:
    logs = ranks(4)
    for source, target, way, transport in (
        (0, 1, "", "P2P/CUMEM/read"),
        (2, 3, "", "SHM/direct/direct"),
        (1, 2, " [send]", "NET/IB/0/GDRDMA"),
        (3, 0, " [send]", "NET/IB/1"),
    ):
        logs[source].say(EDGE.format(source, target, way, transport))
    job = job_of_ranks(logs)
    assert values(of(job, "transport inside a host")) == [
        ("P2P/CUMEM", (0,), ("node01",)),
        ("SHM", (2,), ("node02",)),
    ]
    assert [v.text for v in of(job, "transport between hosts").values] == ["NET/IB with GPU Direct", "NET/IB"]


def test_ends_of_a_connection_that_do_not_fit_are_a_row() -> None:
    logs = [Rank(0, 2).init(("Init START",)), Rank(1, 2).init(("Init START",))]
    logs[0].say(EDGE.format(0, 1, "", "SHM/direct"))
    logs[1].say(EDGE.format(0, 1, " [receive]", "NET/Socket/0"))
    found = of(job_of_ranks(logs), "transport from 0 to 1")
    assert [(v.text, v.ranks) for v in found.values] == [("SHM", (0,)), ("NET", (1,))]
    assert found.must_agree


def test_long_names_that_a_table_cuts_are_the_whole_ones() -> None:
    row = "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |\n"
    listed = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1c1e2f3a)\n"
    job = job_of({"node01/smi.txt": row, "node02/list.txt": listed})
    assert [(v.text, v.count) for v in of(job, "GPU type").values] == [("NVIDIA A100-SXM4-80GB", 2)]
    other = job_of({"node01/smi.txt": row, "node02/list.txt": listed.replace("A100-SXM4-80GB", "H100 NVL")})
    assert only(list(unequal.find(other)), "gpu_type_differs").fields["expected"] == "NVIDIA A100-SXM"


def test_milestones_of_an_unfinished_init_are_compared() -> None:
    logs = [log for log in ranks(4) if log.rank != 3]
    found = of(job_of_ranks([*logs, Rank(3, 4).init(("Init START",))]), "init of world")
    assert [(v.text, v.ranks) for v in found.values] == [("Init COMPLETE", (0, 1, 2)), ("Init START", (3,))]
    assert not [c for c in compare(job_of_ranks(ranks(4))) if c.topic == "init"]
    short = of(job_of_ranks([Rank(rank, 4).init(("Init START",)) for rank in (0, 1, 3)]), "init of world")
    assert [(v.text, v.ranks) for v in short.values] == [("Init START", (0, 1, 3)), ("no line of NCCL", (2,))]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.20.3.4", "10.20.x.x"),
        ("fe80::1%eth0", "fe80::/64"),
        ("2001:db8:1:2::5", "2001:db8:1:2::/64"),
        ("xx.xx.1.2", ""),
        ("", ""),
    ],
)
def test_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network


# --- lines that one rank alone printed --------------------------------------------------------------------


def with_words(words: dict[int, str], world: int = 4) -> Job:
    """A job whose ranks print what `words` says, each in its own file."""
    files = {f"rank{rank}.log": ["step 1 loss 2.5"] for rank in range(world)}
    for rank, text in words.items():
        files[f"rank{rank}.log"].append(text)
    return job_of(files)


def alone(job: Job) -> list[tuple[tuple[int, ...], str]]:
    return [(c.values[0].ranks, c.aspect) for c in compare(job) if c.topic == "messages"]


def test_what_one_rank_alone_complains_of_is_told() -> None:
    job = with_words({2: "mount point /data3 is read-only, write failed with code 30"})
    assert alone(job) == [((2,), "mount point # is read-only, write failed with code #")]
    (fact,) = lone_complaints(job)
    assert (fact.kind, fact.ranks, fact.affected, fact.evidence[0].at.file) == (
        "lone_complaint",
        (2,),
        (0, 1, 3),
        "rank2.log",
    )


@pytest.mark.parametrize(
    "words",
    [
        {rank: f"shard {rank} failed its checksum" for rank in range(4)},
        {2: "shard 2 is well", 3: "progress 4 of 8"},
        {0: "warning: only the main process writes checkpoints"},
        {},
    ],
)
def test_what_several_or_nobody_or_the_main_rank_says_stands_out_for_nobody(words: dict[int, str]) -> None:
    assert alone(with_words(words)) == []


def test_two_ranks_are_not_many() -> None:
    assert alone(with_words({1: "write failed"}, world=2)) == []


def test_known_messages_are_one_however_they_are_filled_in() -> None:
    failed = "socketProgressOpt: Call to recv from 10.0.0.{}<4> failed : {}"
    logs = ranks(4)
    logs[1].say(failed.format(2, "Broken pipe"), warn="misc/socket.cc:46")
    logs[2].say(failed.format(1, "Connection reset by peer"), warn="misc/socket.cc:46")
    assert alone(job_of_ranks(logs)) == []
    logs[2].lines.pop()
    assert [who for who, _ in alone(job_of_ranks(logs))] == [(1,)]


def test_ranks_of_one_host_of_many_stand_out_together() -> None:
    complaint = "local disk cache failed, reading from the network"
    files = {f"r{log.rank}.log": list(log.lines) for log in ranks(6)}
    for rank in (2, 3):
        files[f"r{rank}.log"].append(f"node02:{100 + rank}:1 [0] misc/any.cc:1 NCCL WARN {complaint}")
    assert alone(job_of(files)) == [((2, 3), complaint)]


def test_words_with_digits_do_not_tell_messages_apart() -> None:
    first, second = "dev mlx5_6 gid=fe80::1a2, errno 12 failed", "dev mlx5_7 gid=fe80::1a3, errno 5 failed"
    assert template_of(first) == template_of(second) == "dev # gid=#, errno # failed"


def test_torch_that_no_line_states_is_inferred_and_marked() -> None:
    caught = (
        "[rank{0}]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:{1}] [Rank {0}] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600045"
        " milliseconds before timing out."
    )
    files = {f"rank{rank}.log": [caught.format(rank, 685 if rank == 2 else 629)] for rank in range(3)}
    found = of(job_of(files), "PyTorch")
    assert [value.ranks for value in found.values] == [(0, 1), (2,)]
    assert all(value.text.endswith(" (inferred)") for value in found.values)
    stated = of(job_of(files | {"rank0.txt": ["torch==2.6.0"], "rank1.txt": ["torch==2.6.0"]}), "PyTorch")
    assert [value.text for value in stated.values] == ["2.6.0"]


def test_torch_tells_which_nccl_it_has() -> None:
    line = "[rank{}]: ProcessGroupNCCL environments: NCCL version: {}, TORCH_NCCL_ENABLE_TIMING: 0"
    job = job_of({f"rank{r}.log": [line.format(r, "2.21.5" if r else "2.26.2")] for r in range(3)})
    assert values(of(job, "NCCL")) == [("2.21.5", (1, 2), ()), ("2.26.2", (0,), ())]


def test_python_is_told_by_the_paths_of_tracebacks() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.{}/site-packages/torch/x.py", line 3, in f\n'
        "    g()\nValueError: no\n"
    )
    job = job_of({f"rank{rank}.log": trace.format(12 if rank == 1 else 10) for rank in range(3)})
    assert values(of(job, "Python")) == [("3.10", (0, 2), ()), ("3.12", (1,), ())]


def test_table_and_fact_name_the_plugin_alike() -> None:
    # GIVEN a rank whose line with the plugin's name is cut off, and one that looked for a plugin in vain
    logs = [Rank(rank, 4) for rank in range(4)]
    logs[0].say("P2P plugin IBext_v8")
    for log in logs[1:3]:
        log.say("NET/Plugin: Loaded net plugin IBext_v8 (v8)")
    logs[3].say("NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
    job = job_of_ranks([log.init() for log in logs])
    assert values(of(job, "network plugin")) == [
        ("IBext_v8", (0, 1, 2), ("node01", "node02")),
        ("none", (3,), ("node02",)),
    ]
    fact = only(list(environment.find(job)), "net_plugin_differs")
    assert (fact.fields["plugin"], fact.fields["expected"], fact.ranks) == ("none", "IBext_v8", (3,))


def test_settings_that_have_to_be_equal_are_known_to_remedies_as_well() -> None:
    names = {f"NCCL_{name}" for names in EFFECTS.values() for name in names}
    assert {name for name in names if not name.endswith("*")} <= known_nccl_names()
    for beginning in (name[:-1] for name in names if name.endswith("*")):
        assert any(name.startswith(beginning) and effect_of(name) for name in known_nccl_names()), beginning
