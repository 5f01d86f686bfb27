"""Facts from RAS reports: ranks behind, ranks that do not answer; which line belongs to which heading."""

from __future__ import annotations

import ras_reports
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


def test_rank_that_launched_more_is_ahead() -> None:
    (fact,) = facts(report(COMM + counts("AllReduce", 640, 2, 641)))
    assert (fact.kind, fact.ranks, fact.fields["operation"]) == ("ras_rank_ahead", (2,), 641)


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
    behind, once = facts(report(COMM + counts("AllReduce", 640, 2, 639)), logs=[])
    assert (behind.ranks, behind.fields["with_logs"], behind.fields["trusted"]) == ((2,), False, False)
    assert once.kind == "ras_counts_differ_once"


def test_rank_without_process_information_is_not_guessed_among_known_ranks() -> None:
    text = "  3 ranks have launched up to operation 5\n  Rank 2 has launched up to operation 4 -- "
    lines = report(
        COMM
        + "  Communicator ranks have different AllReduce operation counts\n"
        + text
        + "[process information not found]\n"
    )
    assert facts(lines) == []


# --- JSON, and reports that follow each other -------------------------------------------------------------


def told(*texts: str, logs: list[Rank] | None = None) -> list[Fact]:
    files: dict[str, str | list[str]] = {f"{log.rank}.log": log.lines for log in logs or ()}
    return list(ras.find(job_of({**files, **{f"ras.{number}.json": text for number, text in enumerate(texts, 1)}})))


def all_ranks(**counts: int) -> list[ras_reports.Json]:
    return [ras_reports.rank(number, **counts) for number in range(4)]


def twice(*comms: ras_reports.Json) -> tuple[str, str]:
    return ras_reports.report(*comms, at="12:00:00"), ras_reports.report(*comms, at="12:00:06")


def test_json_and_text_give_the_same_facts() -> None:
    ranks_there = [
        *all_ranks(AllReduce=640)[:2],
        ras_reports.rank(2, AllReduce=639),
        ras_reports.rank(3, AllReduce=640),
    ]
    (of_json,) = told(ras_reports.report(ras_reports.comm(ranks_there)), logs=ranks(4))
    (of_text,) = facts(report(COMM + counts("AllReduce", 640, 2, 639)))
    assert (of_json.kind, of_json.ranks, of_json.hosts) == (of_text.kind, of_text.ranks, of_text.hosts)
    assert of_json.fields == of_text.fields


def test_counts_that_stand_are_trusted_without_logs() -> None:
    one = ras_reports.comm([*all_ranks(AllReduce=5)[:3], ras_reports.rank(3, AllReduce=4)])
    (fact,) = told(*twice(one))
    assert (fact.kind, fact.ranks, fact.fields["frozen"], fact.fields["trusted"]) == (
        "ras_rank_behind",
        (3,),
        True,
        True,
    )


def test_reports_of_one_moment_are_one() -> None:
    one = ras_reports.comm([*all_ranks(AllReduce=5)[:3], ras_reports.rank(3, AllReduce=4)])
    behind, once = told(ras_reports.report(one), ras_reports.report(one))
    assert (behind.fields["frozen"], once.kind) == (False, "ras_counts_differ_once")


def test_counts_that_move_accuse_nobody() -> None:
    # GIVEN a slow rank that is one behind in both reports
    first = ras_reports.comm([*all_ranks(AllReduce=5)[:3], ras_reports.rank(3, AllReduce=4)])
    later = ras_reports.comm([*all_ranks(AllReduce=9)[:3], ras_reports.rank(3, AllReduce=8)])
    texts = (ras_reports.report(first, at="12:00:00"), ras_reports.report(later, at="12:00:06"))
    (fact,) = told(*texts)
    assert (fact.kind, fact.fields["before"], fact.fields["now"]) == ("ras_counts_move", 5, 9)


def test_equal_counts_that_stand_are_told() -> None:
    (fact,) = told(*twice(ras_reports.comm(all_ranks(AllReduce=5))))
    assert (fact.kind, fact.affected) == ("ras_counts_equal", (0, 1, 2, 3))


def test_more_of_one_call_and_fewer_of_another() -> None:
    odd = ras_reports.rank(1, AllGather=1, ReduceScatter=2)
    one = ras_reports.comm([odd if n == 1 else r for n, r in enumerate(all_ranks(AllGather=2, ReduceScatter=1))])
    (fact,) = told(*twice(one))
    assert (fact.kind, fact.ranks) == ("ras_rank_differs", (1,))
    assert (fact.fields["more"], fact.fields["fewer"]) == ("ReduceScatter", "AllGather")


def test_crossed_counts_of_two_communicators_are_a_cycle() -> None:
    one = ras_reports.comm([ras_reports.rank(n, AllReduce=2 - n // 2) for n in range(4)], name="0xa")
    other = ras_reports.comm([ras_reports.rank(n, AllReduce=1 + n // 2) for n in range(4)], name="0xb")
    assert [fact.kind for fact in told(*twice(one, other))] == ["ras_cycle"]


def test_process_that_answers_without_the_communicator_has_left() -> None:
    lost = ras_reports.missing(2, unresponsive=False)
    (fact,) = told(ras_reports.report(ras_reports.comm([r for n, r in enumerate(all_ranks()) if n != 2], [lost])))
    assert (fact.kind, fact.ranks) == ("ras_rank_left", (2,))


def test_dead_process_is_silent_in_all_its_communicators_under_one_rank() -> None:
    # GIVEN a dead rank 3 of the world that is rank 1 of a pair
    world = ras_reports.comm(all_ranks()[:3], [ras_reports.missing(3, dead=True)])
    dead = {**ras_reports.missing(3, dead=True), "rank": 1}
    pair = ras_reports.comm([{**ras_reports.rank(2), "rank": 0}], [dead], name="0xb")
    found = told(ras_reports.report(world, pair))
    assert [(fact.kind, fact.ranks, fact.fields["trusted"]) for fact in found] == [("ras_rank_silent", (3,), True)] * 2


def test_monitor_names_those_that_did_not_come_back() -> None:
    def event(kind: str, rank: int) -> str:
        return f"[2026-01-31 12:00:00] {kind}: Process {100 + rank} on node 10.0.0.{rank // 2 + 1} managing GPU 1"

    lines = [event("PEER_UNRESPONSIVE", 1), event("PEER_DEAD", 3), event("PEER_RECOVERED", 1)]
    assert [(fact.kind, fact.ranks) for fact in facts(lines)] == [("ras_rank_silent", (3,))]


def test_several_ranks_ahead_are_not_accused() -> None:
    ahead = [ras_reports.rank(number, AllReduce=6 if number < 2 else 5) for number in range(6)]
    assert told(*twice(ras_reports.comm(ahead))) == []
