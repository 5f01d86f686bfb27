"""Facts from RAS reports: ranks behind, ranks that do not answer; which line belongs to which heading."""

from __future__ import annotations

from hangscope.facts import ras
from hangscope.model import Fact
from nccl_logs import Rank, job_of, ranks

HEAD = """\
NCCL version 2.27.7 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  {status}

"""


def report(*blocks: str, status: str = "MISMATCH") -> list[str]:
    return (HEAD.format(status=status) + "\n".join(blocks)).splitlines()


def member(rank: int, host: int | None = None) -> str:
    return f"GPU {rank % 2} managed by process {100 + rank} on node 10.0.0.{host or rank // 2 + 1}"


def facts(lines: list[str], logs: list[Rank] | None = None) -> list[Fact]:
    files = {f"{log.rank}.log": log.lines for log in (ranks(4) if logs is None else logs)}
    return list(ras.find(job_of({**files, "ras.txt": lines})))


def counts(op: str, usual: int, rank: int, other: int) -> str:
    return (
        f"  Communicator ranks have different {op} operation counts\n  3 ranks have launched up to operation {usual}\n"
        f"  Rank {rank} has launched up to operation {other} -- {member(rank)}\n"
    )


COMM = "#0-0 (bbd7cdaf5c9b0794) MISMATCH\n"


def test_rank_that_launched_fewer_is_behind() -> None:
    (fact,) = facts(report(COMM + counts("AllReduce", 640, 2, 639)))
    assert (fact.kind, fact.ranks, fact.hosts) == ("ras_rank_behind", (2,), ("node02",))
    assert (fact.fields["call"], fact.fields["operation"], fact.fields["others"]) == ("AllReduce", 639, 640)
    assert [evidence.at.line for evidence in fact.evidence] == [6, 8, 11]


def test_rank_that_launched_more_is_not_behind() -> None:
    assert facts(report(COMM + counts("AllReduce", 640, 2, 641))) == []


def test_equal_words_in_two_communicators_belong_to_each() -> None:
    # GIVEN two communicators whose majority stands at the same count
    second = COMM.replace("#0-0 (b", "#0-1 (c")
    found = facts(report(COMM + counts("AllReduce", 640, 2, 639), second + counts("AllReduce", 640, 3, 600)))
    assert [(fact.ranks, fact.fields["others"]) for fact in found] == [((2,), 640), ((3,), 640)]


def test_few_ranks_with_one_count_are_listed_below_it_and_answer() -> None:
    # GIVEN the way RAS lists more than one odd rank
    lines = report(
        COMM
        + "  Communicator ranks have different AllGather operation counts\n  2 ranks have launched up to operation 9\n"
        f"  2 ranks have launched up to operation 7\n  Rank 1 -- {member(1)}\n  Rank 3 -- {member(3)}\n"
    )
    assert [(fact.kind, fact.ranks) for fact in facts(lines)] == [("ras_rank_behind", (1,)), ("ras_rank_behind", (3,))]


def test_rank_that_does_not_answer_is_silent() -> None:
    lines = report(
        f"#0-0 (acf6a08acdf17f8e) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 2 -- {member(2)}\n",
        status="INCOMPLETE",
    )
    (fact,) = facts(lines)
    assert (fact.kind, fact.ranks, fact.affected) == ("ras_rank_silent", (2,), (0, 1, 3))


def test_all_ranks_of_a_host_that_do_not_answer_are_a_silent_host() -> None:
    lines = report(
        "#0-0 (acf6a08acdf17f8e) INCOMPLETE\n  Missing communicator data from 2 ranks\n"
        f"  Rank 2 -- {member(2)}\n  Rank 3 -- {member(3)}\n",
        status="INCOMPLETE",
    )
    (fact,) = facts(lines)
    assert (fact.kind, fact.hosts, fact.ranks) == ("ras_host_silent", ("node02",), (2, 3))


def test_survivor_that_gave_up_after_it_lost_a_peer_is_not_the_silent_one() -> None:
    logs = ranks(4)
    logs[3].say("socketProgress: Connection closed by remote peer node02<40123>", warn="misc/socket.cc:483")
    lines = report(
        "#0-0 (acf6a08acdf17f8e) INCOMPLETE\n  Missing communicator data from 2 ranks\n"
        f"  Rank 0 -- {member(0)}\n  Rank 3 -- {member(3)}\n",
        status="INCOMPLETE",
    )
    assert [fact.ranks for fact in facts(lines, logs)] == [(0,)]


def test_only_the_last_of_several_reports_counts() -> None:
    # GIVEN a report taken every minute: the rank that was behind has caught up
    first, second = report(COMM + counts("AllReduce", 640, 2, 639)), report(status="OK")
    assert facts([*first, *second]) == []
    assert [fact.ranks for fact in facts([*second, *first])] == [(2,)]


def test_report_alone_names_ranks_by_its_own_numbers() -> None:
    (fact,) = facts(report(COMM + counts("AllReduce", 640, 2, 639)), logs=[])
    assert (fact.ranks, fact.fields["with_logs"]) == ((2,), False)


def test_rank_without_process_information_is_not_guessed_among_known_ranks() -> None:
    text = "  3 ranks have launched up to operation 5\n  Rank 2 has launched up to operation 4 -- "
    lines = report(
        COMM
        + "  Communicator ranks have different AllReduce operation counts\n"
        + text
        + "[process information not found]\n"
    )
    assert facts(lines) == []
