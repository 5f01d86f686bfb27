"""Rules on facts: which facts a `when` binds, whom the finding blames, what it cites and says."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest

from diagnose_samples import SHM_RULE, make_fact, make_rule, write_rule
from hangscope.align.versions import Versions
from hangscope.diagnose.evaluate import MOST_EVIDENCE, evaluate
from hangscope.diagnose.index import FactIndex
from hangscope.diagnose.join import join
from hangscope.diagnose.loader import load_rule
from hangscope.diagnose.match import Match, match
from hangscope.diagnose.rule import Rule
from hangscope.model import Fact, Finding, Value


def _match(when: object, *facts: Fact) -> Match | None:
    return match(make_rule(when).when, FactIndex(facts))


def _ranks(when: object, *facts: Fact) -> tuple[int, ...] | None:
    """Ranks that the finding blames, None when the rule is silent."""
    findings = evaluate([make_rule(when)], facts)
    return findings[0].ranks if findings else None


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ({"size": 3}, 3, True),
        ({"size": 3}, 4, False),
        ({"size": 1}, True, False),
        ({"size": True}, True, True),
        ({"size": 3}, None, False),
        ({"size": [1, 2]}, (1, 2), True),
        ({"size_in": [3, 4]}, 4, True),
        ({"size_in": [3, 4]}, "4", False),
        ({"size_in": ["a"]}, ("a", "b"), True),
        ({"size_contains": ["no SPACE", "full"]}, "No space left on device", True),
        ({"size_contains": "left"}, "No space", False),
        ({"size_contains": "b"}, ("ab", "c"), True),
        ({"size_contains": "1"}, None, False),
        ({"size_min": 3}, 3, True),
        ({"size_min": 3}, 2.5, False),
        ({"size_min": 3}, "9", False),
        ({"size_max": 3}, 2.5, True),
        ({"size_max": 3}, None, False),
        ({"size_min": 0}, True, False),
        ({"size_exists": True}, 0, True),
        ({"size_exists": True}, "", False),
        ({"size_exists": False}, None, True),
        ({"size_exists": False}, 1, False),
        ({"size_min": 1, "size_max": 3}, 4, False),
    ],
)
def test_tests_on_fields(test: dict[str, object], value: Value, expected: bool) -> None:
    found = _match({"all": [{"fact": "x", **test}]}, make_fact("x", size=value))
    assert (found is not None) is expected


def test_shared_keys_can_be_tested_like_fields() -> None:
    fact = make_fact("x", (1,), group="tp")
    assert _ranks({"all": [{"fact": "x", "group": "tp", "ranks_in": [1, 2], "hosts_exists": False}]}, fact) == (1,)


def test_all_combinations_become_one_finding() -> None:
    when = {"all": [{"fact": "x"}, {"fact": "y"}], "share": ["rank"]}
    facts = [make_fact("x", (rank,)) for rank in range(4)] + [make_fact("y", (rank,)) for rank in (1, 3, 5)]
    assert _ranks(when, *facts) == (1, 3)


def test_nothing_shared_is_no_finding() -> None:
    when = {"all": [{"fact": "x"}, {"fact": "y"}], "share": ["host"]}
    assert _ranks(when, make_fact("x", (0,), ("a",)), make_fact("y", (1,), ("b",))) is None
    assert _ranks(when, make_fact("x", (0,), ("a",)), make_fact("y", (1,), ("b", "a"))) == (0,)


def test_facts_are_joined_on_several_keys_and_on_fields() -> None:
    when = {"all": [{"fact": "x"}, {"fact": "y"}], "share": ["group", "seq"]}
    x = make_fact("x", (0,), group="tp", seq=7)
    assert _ranks(when, x, make_fact("y", (1,), group="tp", seq=8), make_fact("y", (1,), group="dp", seq=7)) is None
    assert _ranks(when, x, make_fact("y", (1,), group="tp", seq=7)) == (0,)
    assert _ranks(when, x, make_fact("y", (1,), group="tp")) is None


def test_a_file_that_names_no_rank_is_one_writer() -> None:
    when = {"all": [{"fact": "x"}, {"fact": "y"}], "share": ["rank"]}
    assert _ranks(when, make_fact("x", file="a.log"), make_fact("y", file="a.log")) == ()
    assert _ranks(when, make_fact("x", file="a.log"), make_fact("y", file="b.log")) is None


def test_before_asks_for_order_and_lets_unknown_times_pass() -> None:
    when = {"all": [{"fact": "x"}, {"fact": "y"}], "before": [["x", "y"]]}
    assert _ranks(when, make_fact("x", (0,), time=2), make_fact("y", time=1)) is None
    assert _ranks(when, make_fact("x", (0,), time=1), make_fact("y", time=1)) == (0,)
    assert _ranks(when, make_fact("x", (0,), time=2), make_fact("x", (1,), time=0), make_fact("y", time=1)) == (1,)
    assert _ranks(when, make_fact("x", (0,)), make_fact("x", (1,), time=5), make_fact("y", time=1)) == (0,)


def test_two_entries_never_bind_one_fact() -> None:
    when = {"all": [{"fact": "x", "as": "a"}, {"fact": "x", "as": "b"}], "share": ["group"], "culprits": "b"}
    assert _ranks(when, make_fact("x", (0,), group="tp"), make_fact("x", (1,), group="dp")) is None
    assert _ranks(when, make_fact("x", (0,), group="tp"), make_fact("x", (1,), group="tp")) == (0, 1)
    ordered = when | {"before": [["a", "b"]]}
    facts = [make_fact("x", (rank,), group="tp", time=rank) for rank in range(3)]
    assert _ranks(ordered, *facts) == (1, 2)


def test_join_agrees_with_trying_every_combination() -> None:
    # GIVEN small random jobs with two entries of one kind and an order between them
    generator = random.Random(4711)  # noqa: S311  (repeatable samples, no secret)
    for _ in range(300):
        columns = [
            sorted(
                (
                    make_fact(kind, (generator.randrange(3),), time=generator.choice([None, 1.0, 2.0, 3.0]))
                    for _ in range(generator.randrange(4))
                ),
                key=lambda fact: (fact.time is None, fact.time or 0),
            )
            for kind in ("x", "y")
        ]
        columns.append(columns[0])
        order = generator.choice([[], [(0, 1)], [(0, 1), (1, 2)], [(2, 0)]])
        # WHEN every combination is tried
        expected: list[set[int]] = [set(), set(), set()]
        for combination in itertools.product(*columns):
            times = [fact.time for fact in combination]
            in_order = all(
                (one := times[first]) is None or (two := times[second]) is None or one <= two for first, second in order
            )
            if in_order and combination[0] is not combination[2] and len({fact.ranks for fact in combination}) == 1:
                for chosen, fact in zip(expected, combination, strict=True):
                    chosen.add(id(fact))
        # THEN the join has found the same facts
        assert [set(map(id, column)) for column in join(columns, ["rank"], order)] == expected


def test_any_needs_one_of_its_entries() -> None:
    when = {"all": [{"fact": "x"}], "any": [{"fact": "y"}, {"fact": "z", "size": 1}]}
    assert _ranks(when, make_fact("x", (0,))) is None
    assert _ranks(when, make_fact("x", (0,)), make_fact("z", (9,), size=2)) is None
    assert _ranks(when, make_fact("x", (0,)), make_fact("z", (9,), size=1)) == (0,)


def test_any_with_same_keeps_the_culprits_it_stands_beside() -> None:
    when = {"all": [{"fact": "x"}], "any": [{"fact": "y", "same": "rank"}]}
    x = [make_fact("x", (rank,)) for rank in range(3)]
    found = _match(when, *x, make_fact("y", (1,)), make_fact("y", (7,)))
    assert found is not None
    assert [fact.ranks for fact in found.culprits] == [(1,)]
    assert [fact.ranks for fact in found.bound["y"]] == [(1,)]
    assert _match(when, *x, make_fact("y", (7,))) is None


def test_any_alone_blames_all_that_it_finds() -> None:
    when = {"any": [{"fact": "y", "as": "f"}, {"fact": "z", "as": "f"}]}
    assert _ranks(when, make_fact("y", (3,)), make_fact("z", (1,))) == (1, 3)


def test_none_silences_the_rule_or_excuses_culprits() -> None:
    x = [make_fact("x", (0,), ("a",)), make_fact("x", (1,), ("b",))]
    assert _ranks({"all": [{"fact": "x"}], "none": [{"fact": "y"}]}, *x, make_fact("y", (5,))) is None
    by_rank = {"all": [{"fact": "x"}], "none": [{"fact": "y", "same": "rank"}]}
    assert _ranks(by_rank, *x, make_fact("y", (5,))) == (0, 1)
    assert _ranks(by_rank, *x, make_fact("y", (1,))) == (0,)
    assert _ranks(by_rank, *x, make_fact("y", (0, 1))) is None
    by_host = {"all": [{"fact": "x"}], "none": [{"fact": "y", "same": "host"}]}
    assert _ranks(by_host, *x, make_fact("y", (9,), ("a",))) == (1,)


def test_a_culprit_fact_of_several_ranks_loses_the_excused_ones() -> None:
    when = {"all": [{"fact": "x"}], "none": [{"fact": "y", "same": "rank"}]}
    assert _ranks(when, make_fact("x", (2, 3)), make_fact("y", (2,))) == (3,)


def test_min_count_counts_facts() -> None:
    assert _ranks({"all": [{"fact": "x"}], "min_count": 2}, make_fact("x", (0,))) is None
    assert _ranks({"all": [{"fact": "x"}], "min_count": 2}, make_fact("x", (0,)), make_fact("x", (0,))) == (0,)
    several = {"any": [{"fact": "x"}, {"fact": "x", "size_exists": False}], "min_count": 2}
    assert _ranks(several, make_fact("x", (0,))) is None


def test_who_is_blamed() -> None:
    when: dict[str, object] = {"all": [{"fact": "x", "as": "a"}, {"fact": "y", "as": "b"}]}
    facts = [make_fact("x", (0,), ("n0",), affected=(1, 2)), make_fact("y", (1,), ("n1",))]
    expected = {
        None: ((0,), ("n0",), (1, 2)),
        "a": ((0,), ("n0",), (1, 2)),
        "b": ((1,), ("n1",), (2,)),
        "all": ((0, 1), ("n0", "n1"), (2,)),
        "none": ((), (), (1, 2)),
    }
    for culprits, (ranks, hosts, affected) in expected.items():
        chosen = when if culprits is None else when | {"culprits": culprits}
        (finding,) = evaluate([make_rule(chosen)], facts)
        assert (finding.ranks, finding.hosts, finding.affected_ranks) == (ranks, hosts, affected)


def _shm_finding(tmp_path: Path, nccl: str | None) -> Finding:
    facts = [
        make_fact(
            "shm_extend_failed", (5,), ("node01",), time=9, size_bytes=9637888, path="/dev/shm/n", error="ENOSPC"
        ),
        make_fact("shm_extend_failed", (6,), ("node01",), time=8, size_bytes=9637888, path="/dev/shm/n", error="EPERM"),
        make_fact("host_full", (), ("node01",), time=7, mount="/dev/shm", free_bytes=0),
        make_fact("peer_closed", (1,), ("node02",), time=10),
    ]
    rule = load_rule(write_rule(tmp_path, SHM_RULE))
    (finding,) = evaluate([rule], facts, Versions(nccl=nccl))
    return finding


def test_a_whole_rule(tmp_path: Path) -> None:
    finding = _shm_finding(tmp_path, None)
    assert finding.title == "/dev/shm is full on node01"
    assert finding.explanation == "Rank 5 could not extend /dev/shm/n to 9.2 MiB: ENOSPC."
    assert (finding.ranks, finding.hosts, finding.time, finding.rule) == ((5,), ("node01",), 9, "shm-extend-failed")
    assert [evidence.at.file for evidence in finding.evidence] == ["rank5.log", "job.log", "rank1.log"]
    assert finding.remedies[0].text == "Give the container on node01 a larger /dev/shm."


def test_remedies_fit_the_versions_seen(tmp_path: Path) -> None:
    assert len(_shm_finding(tmp_path, "2.19.3").remedies) == 2
    assert len(_shm_finding(tmp_path, "2.21.5").remedies) == 1


def test_evidence_is_short_and_shows_every_writer_once_first() -> None:
    facts = [make_fact("x", (rank,), time=line, line=line) for line in range(1, 30) for rank in (0, 1, 2)]
    facts += facts[:3]
    facts += [make_fact("y", (9,), line=line) for line in range(1, 9)]
    (finding,) = evaluate([make_rule({"all": [{"fact": "x"}, {"fact": "y"}]})], facts)
    lines = [(evidence.at.file, evidence.at.line) for evidence in finding.evidence]
    assert lines[:3] == [("rank0.log", 1), ("rank1.log", 1), ("rank2.log", 1)]
    assert len(lines) == len(set(lines)) == MOST_EVIDENCE
    assert sum(file == "rank9.log" for file, _ in lines) == 4


def test_the_order_of_facts_does_not_matter() -> None:
    facts = [make_fact("x", (rank,), ("a",), time=rank % 3, size=rank) for rank in range(20)]
    rule = make_rule({"all": [{"fact": "x"}]}, explanation="{x.size} {ranks}")
    first = evaluate([rule], facts)
    random.Random(7).shuffle(facts)  # noqa: S311  (repeatable, no secret)
    assert evaluate([rule], facts) == first


@pytest.mark.parametrize(
    "when",
    [
        {"all": [{"fact": "x"}, {"fact": "y"}], "share": ["rank"], "before": [["x", "y"]]},
        {"all": [{"fact": "x"}, {"fact": "y"}], "before": [["x", "y"]]},
        {"all": [{"fact": "x", "as": "a"}, {"fact": "x", "as": "b"}], "share": ["host"], "before": [["a", "b"]]},
        {"all": [{"fact": "x"}], "any": [{"fact": "y", "same": "rank"}], "none": [{"fact": "z", "same": "host"}]},
    ],
)
def test_a_hundred_thousand_facts_stay_fast(when: object) -> None:
    rules: list[Rule] = [make_rule(when)]
    facts = [make_fact("x", (n % 512,), (f"n{n % 64}",), time=n % 977, line=n, size=n) for n in range(100_000)]
    facts += [make_fact("y", (n % 512,), (f"n{n % 64}",), time=n % 983, line=n, size=n) for n in range(50_000)]
    started = time.process_time()
    (finding,) = evaluate(rules, facts)
    assert len(finding.ranks) == 512
    # A product would take hours; this is seconds even on a busy machine.
    assert time.process_time() - started < 20
