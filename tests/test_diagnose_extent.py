"""How far a fault reaches: all ranks, all ranks of one host, or some."""

from __future__ import annotations

import pytest

from diagnose_samples import make_fact, make_rule
from hangscope.diagnose.evaluate import evaluate
from hangscope.diagnose.extent import World, extent_words
from hangscope.model import Finding

EIGHT = World(8, {rank: f"node0{rank // 4 + 1}" for rank in range(8)})


@pytest.mark.parametrize(
    ("ranks", "world", "begins"),
    [
        (range(8), EIGHT, "All 8 ranks are at fault alike"),
        (range(8), World(8), "All 8 ranks are at fault alike"),
        (range(4, 8), EIGHT, "These are all ranks of node02, and none of another host"),
        (range(4, 7), EIGHT, ""),
        (range(3, 5), EIGHT, ""),
        ((5,), EIGHT, ""),
        ((), EIGHT, ""),
        # two ranks are no crowd, and nobody knows how many there are
        (range(2), World(2, {0: "a", 1: "a"}), ""),
        (range(8), World(None, EIGHT.hosts), ""),
        # the host of a rank elsewhere is not known: it may be this one
        (range(4, 8), World(8, dict.fromkeys(range(4, 8), "node02")), ""),
        (range(4, 8), World(8, {rank: host for rank, host in EIGHT.hosts.items() if rank}), ""),
        # all of the only host are all there are
        (range(2), World(4, dict.fromkeys(range(4), "a")), ""),
    ],
)
def test_extent_of_some_ranks(ranks: range, world: World, begins: str) -> None:
    words = extent_words(tuple(ranks), world)
    assert words.startswith(begins)
    assert bool(words) is bool(begins)


def _evaluate(ranks: range, role: str = "cause", culprits: str = "x", hosts: tuple[str, ...] = ()) -> Finding:
    rule = make_rule(
        {"all": [{"fact": "died", "as": "x"}], "culprits": culprits},
        role=role,
        cause="peer-lost",
        title="{ranks:named} died",
        explanation="A rank died. {ranks:named} left nothing.",
    )
    (finding,) = evaluate([rule], [make_fact("died", (rank,), hosts) for rank in ranks], world=EIGHT)
    return finding


def test_a_fault_of_all_ranks_is_said_of_the_job() -> None:
    finding = _evaluate(range(8))
    assert finding.title == "All 8 ranks died"
    assert finding.explanation.startswith("A rank died. All 8 ranks left nothing. All 8 ranks are at fault alike: look")
    assert finding.ranks == tuple(range(8))


def test_a_fault_of_one_host_is_said_of_the_host() -> None:
    finding = _evaluate(range(4, 8))
    assert finding.title == "Ranks 4-7 died"
    assert finding.explanation.endswith("Ranks 4-7 left nothing. " + extent_words(range(4, 8), EIGHT))


def test_a_fault_of_one_rank_stays_its_own() -> None:
    assert _evaluate(range(3, 4)).explanation == "A rank died. Rank 3 left nothing."


def test_hosts_come_from_the_ranks_where_no_line_names_them() -> None:
    assert _evaluate(range(3, 5)).hosts == ("node01", "node02")
    assert _evaluate(range(3, 5), hosts=("node07",)).hosts == ("node07",)


def test_who_reports_a_symptom_that_blames_nobody_suffers_from_it() -> None:
    symptom = _evaluate(range(2), "symptom", "none")
    assert (symptom.ranks, symptom.affected_ranks, symptom.hosts) == ((), (0, 1), ())
    assert _evaluate(range(2), "cause", "none").affected_ranks == ()
