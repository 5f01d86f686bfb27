"""Texts of rules: ranks, hosts and fields filled in, and something readable where nothing is known."""

from __future__ import annotations

import pytest

from diagnose_samples import make_fact
from hangscope.align.versions import Versions
from hangscope.diagnose.outline import outline
from hangscope.diagnose.template import Subject, headline, render, sentences
from hangscope.diagnose.versions import fits, parse_requirement
from hangscope.model import Fact

NOTHING = Subject((), (), (), (), 0, {})


def _subject(*facts: Fact) -> Subject:
    return Subject((0, 1, 2, 3, 6), ("node01", "node02"), ("dp",), (7,), len(facts), {"f": facts})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{ranks} on {hosts} in {group}", "0-3,6 on node01, node02 in dp"),
        ("{ranks:named}, {hosts:named}, {affected:named}", "ranks 0-3,6, hosts node01, node02, rank 7"),
        ("{count} times {{literally}}", "1 times {literally}"),
        ("{f.size_bytes:bytes} {f.size_bytes}", "9.2 MiB 9637888"),
        ("{f.timeout_ms:ms}, {f.timeout_s:s}", "10 min, 1 h 30 min"),
        ("{f.comm:hex}", "0xab"),
        ("{f.missing} and {f.shape}", "2-4 and 2, 3, 4"),
        ("{f.full} {f.ratio} {f.ranks} {f.hosts} {f.group}", "yes 0.5 1 node01 tp"),
        ("{f.absent} {f.nothing} {g.size} {f.absent|a file}", "? ? ? a file"),
        ("left out, {f.absent|}{f.absent|}", "left out, "),
        ("{f.word:bytes}", "much"),
        ("{f.one:rank-count} {f.many:process-count} {f.one:line-count}", "1 rank 1234567 processes 1 line"),
    ],
)
def test_templates(template: str, text: str) -> None:
    fact = make_fact(
        "x",
        (1,),
        ("node01",),
        group="tp",
        size_bytes=9637888,
        timeout_ms=600_000,
        timeout_s=5400,
        comm=171,
        missing=(2, 3, 4),
        shape=(2, 3, 4),
        full=True,
        ratio=0.5,
        nothing=None,
        word="much",
        one=1,
        many=1234567,
    )
    assert render(template, _subject(fact)) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{ranks:named}: {f.size_bytes|some:bytes} {{x}}", "A rank: some {x}"),
        ("See line {f.where} of {hosts|an unknown host}.", "See line the line named of the host."),
        (
            "All of group {m.in_group} are in {m.called}, {n.count} ranks",
            "All of group N are in a call, N ranks",
        ),
        (
            "({f.bus|unknown bus id}): {f.first_step|look first}. {ranks:named} left",
            "(its bus id): look first. A rank left",
        ),
        ("Pod {p.pod} of {w.processes:process-count} on port {p.port|?}", "Pod NAME of N processes on port N"),
    ],
)
def test_outline_says_in_words_what_is_not_known(template: str, words: str) -> None:
    assert outline(template) == words


def test_nothing_known() -> None:
    assert render("{ranks} {hosts} {group} {affected}", NOTHING) == "? an unknown host an unknown group ?"
    assert render("{ranks:named} on {hosts:named}", NOTHING) == "an unknown rank on an unknown host"
    assert render("{ranks|somebody:named}", NOTHING) == "somebody"


def test_several_values_are_listed_once_each_and_not_without_end() -> None:
    facts = [make_fact("x", size=number // 2) for number in range(40)]
    assert render("{f.size}", _subject(*facts[:4])) == "0 and 1"
    assert render("{f.size}", _subject(*facts)) == "0, 1, 2, 3, ..."


def test_many_hosts_are_cut() -> None:
    hosts = tuple(f"n{number}" for number in range(10))
    assert render("{hosts}", Subject((), hosts, (), (), 0, {})).endswith("n7 and 2 more")


@pytest.mark.parametrize(
    ("requirement", "seen", "expected"),
    [
        ("", "2.1", True),
        ("nccl>=2.24", None, True),
        ("nccl>=2.24", "2.24.3+cuda12.6", True),
        ("nccl>=2.24", "2.3.7", False),
        ("nccl>=2.20", "22105", True),
        ("nccl>=2.9", "2804", False),
        ("nccl<2.27", "2.27.3", False),
        ("nccl<=2.27", "2.27.3", True),
        ("nccl==2.27", "2.27.3", True),
        ("nccl>2.27", "2.27.3", False),
        ("nccl>=2.20,<2.22", ("2.18.1", "2.21.5"), True),
        ("nccl>=2.20,<2.22", ("2.18.1", "2.23.5"), False),
        ("torch>=2.2,nccl>=2.30", "2.21.5", False),
        ("torch>=2.2", "2.21.5", True),
        ("nccl>=2.20", "unknown", True),
    ],
)
def test_remedies_fit_versions(requirement: str, seen: str | tuple[str, ...] | None, expected: bool) -> None:
    assert fits(requirement, Versions(nccl=seen)) is expected


@pytest.mark.parametrize("text", ["", "nccl", "nccl~=2", "nickel>=2", "nccl>=two", "torch>=2.2,"])
def test_requirements_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"comparison|must name"):
        parse_requirement(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("rank 1 ended. ranks 2,3 wait. It said: rank 4.", "Rank 1 ended. Ranks 2,3 wait. It said: rank 4."),
        ("\nthe shell reports it", "The shell reports it"),
        ("one line.\nranks 2,3 wait\n", "one line. Ranks 2,3 wait"),
        ("node01 is gone", "node01 is gone"),
        ("NCCL_ALGO differs", "NCCL_ALGO differs"),
    ],
)
def test_sentences_begin_with_a_capital(text: str, read: str) -> None:
    assert sentences(text) == read


def test_names_with_commas_are_told_apart() -> None:
    assert render("{f.groups}", _subject(make_fact("x", groups=("split 1, color 0", "dp")))) == "split 1, color 0; dp"


def test_what_is_left_out_leaves_no_gap() -> None:
    assert (
        sentences(render("it waits. {f.absent|} No dump shows it. {f.absent|}", NOTHING))
        == "it waits. No dump shows it."
    )
    assert sentences(render("it failed {f.absent|}.", NOTHING)) == "it failed."


def test_a_sentence_begins_behind_a_function_without_a_name() -> None:
    assert sentences("at train.py:71 <listcomp>. rank 0 is late") == "at train.py:71 <listcomp>. Rank 0 is late"


def test_a_headline_leaves_out_a_place_that_nobody_knows() -> None:
    assert headline("Too many open files on an unknown host (rank 1)") == "Too many open files (rank 1)"
    assert headline("A GPU of an unknown host was lost") == "A GPU was lost"
    assert headline("an unknown host does not answer") == "An unknown host does not answer"
