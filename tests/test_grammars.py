"""Every grammar file by its own samples, and its compiled expressions against lark's reading of the same file."""

from __future__ import annotations

import functools
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from hangscope.errors import GrammarError
from hangscope.grammar import Alternative, Grammar, Match, Sample, load_grammars, load_set
from hangscope.grammar.definition import load_grammar
from hangscope.parse.run import read_inputs
from hangscope.sources.discover import discover
from lark_check import lark_grammars
from score_fixtures import FIXTURES

GRAMMARS = load_grammars()
SAMPLES = [(grammar, sample) for grammar in GRAMMARS for sample in grammar.samples]
MATCHES = [(grammar, sample) for grammar, sample in SAMPLES if sample.kind is not None]
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def _place(value: object) -> str:
    if isinstance(value, Grammar):
        return value.file
    return f"line-{value.line}" if isinstance(value, Sample) else str(value)


@functools.cache
def _alone(file: str, line: int, kind: str) -> Grammar:
    grammar = next(g for g in GRAMMARS if g.file == file)
    found = next(a for a in grammar.alternatives if (a.line, a.kind) == (line, kind))
    return Grammar(grammar.source, "", grammar.anchors, (found,))


def matching(grammar: Grammar, text: str) -> Alternative:
    """The alternative that `Grammar.parse` takes: the first that finds anything in the text."""
    return next(a for a in grammar.alternatives if _alone(grammar.file, a.line, a.kind).parse(text) is not None)


# --- samples ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grammar", "sample"), MATCHES, ids=_place)
def test_sample_gives_exactly_its_kind_and_fields(grammar: Grammar, sample: Sample) -> None:
    match = grammar.parse(sample.text)
    assert match is not None, sample.text
    assert match.kind == sample.kind
    assert match.fields == sample.fields


@pytest.mark.parametrize(("grammar", "sample"), [pair for pair in SAMPLES if pair[1].kind is None], ids=_place)
def test_look_alike_is_not_matched(grammar: Grammar, sample: Sample) -> None:
    assert grammar.parse(sample.text) is None


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_grammar_has_look_alikes(grammar: Grammar) -> None:
    assert any(sample.kind is None for sample in grammar.samples), "no '// no-match:' line"


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_every_sample_states_its_fields(grammar: Grammar) -> None:
    assert [s.line for s in grammar.samples if s.kind is not None and s.fields is None] == []


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_every_alternative_is_the_first_to_match_some_sample(grammar: Grammar) -> None:
    used = {matching(grammar, s.text).line for s in grammar.samples if s.kind is not None and grammar.parse(s.text)}
    assert [f"{grammar.file}:{a.line} {a.kind}" for a in grammar.alternatives if a.line not in used] == []


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_every_sample_holds_an_anchor(grammar: Grammar) -> None:
    samples = [sample for sample in grammar.samples if sample.kind is not None]
    assert [sample.line for sample in samples if not grammar.looks_like(sample.text)] == []


# --- names ------------------------------------------------------------------------------------------------


def test_event_kinds_are_unique_over_all_grammars() -> None:
    owners = Counter(kind for grammar in GRAMMARS for kind in {a.kind for a in grammar.alternatives})
    assert [kind for kind, files in owners.items() if files > 1] == []


def test_sources_are_unique() -> None:
    sources = Counter(grammar.source for grammar in GRAMMARS)
    assert [source for source, files in sources.items() if files > 1] == []


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_names_are_snake_case(grammar: Grammar) -> None:
    names = {name for a in grammar.alternatives for name in (a.kind, *a.fields)}
    assert [name for name in sorted(names) if not SNAKE_CASE.fullmatch(name)] == []


def test_a_kind_of_several_alternatives_has_one_type_a_field() -> None:
    types: dict[tuple[str, str], set[str]] = {}
    for grammar in GRAMMARS:
        for alternative in grammar.alternatives:
            for name, kind in alternative.fields.items():
                types.setdefault((alternative.kind, name), set()).add(kind)
    assert {place: sorted(kinds) for place, kinds in types.items() if len(kinds) > 1} == {}


# --- what is tried on a line ------------------------------------------------------------------------------


def test_no_alternative_is_tried_on_every_line() -> None:
    found = {f"{g.file}: {a.kind}" for g in GRAMMARS for a in g.alternatives if not a.literals}
    assert sorted(found) == []


def test_a_short_literal_behind_a_number_is_looked_for_with_its_digit() -> None:
    literals = {
        text for grammar in GRAMMARS for a in grammar.alternatives if a.kind == "work_counted" for text in a.literals
    }
    assert {"0/", "9/"} <= literals
    assert "/" not in literals


def test_index_of_words_and_literals_loses_no_match() -> None:
    # every expression on every sample, with nothing in front that could keep it from being tried
    plain = [(g, [(a.kind, re.compile(a.pattern)) for a in g.alternatives]) for g in GRAMMARS]
    for _, sample in SAMPLES:
        indexed = {(g.file, match.kind) for g, match in load_set().parse(sample.text)}
        tried = {
            (grammar.file, kind)
            for grammar, patterns in plain
            if (kind := next((k for k, pattern in patterns if pattern.search(sample.text)), None)) is not None
        }
        assert indexed == tried, sample.text


# --- equality with lark -----------------------------------------------------------------------------------


def check_against_lark(grammar: Grammar, alternative: Alternative, text: str, match: Match) -> bool:
    """Asserts that lark reads the matched text as the expression does; True when it is the only reading."""
    readings = lark_grammars()[grammar.file].readings(alternative, text[match.start : match.end])
    assert match.fields in readings, f"{grammar.file}:{alternative.line} {match} lark: {readings[:3]}"
    return len(readings) == 1


@pytest.mark.parametrize("grammar", GRAMMARS, ids=_place)
def test_lark_reads_every_sample_alike(grammar: Grammar) -> None:
    for sample in grammar.samples:
        match = grammar.parse(sample.text)
        if match is not None:
            check_against_lark(grammar, matching(grammar, sample.text), sample.text, match)


def test_lark_reads_the_lines_of_the_fixtures_alike() -> None:
    by_source = {grammar.source: grammar for grammar in GRAMMARS}
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    inputs, _ = discover([str(path) for path in sorted(FIXTURES.glob("*/logs"))])
    for parsed in read_inputs(inputs, jobs=1):
        for event in parsed.events:
            if event.source in by_source and event.kind != "exception":
                shape = re.sub(r"[0-9a-fA-F]*\d[0-9a-fA-F]*", "0", event.line.text)
                texts.setdefault((event.kind, shape), (event.source, event.line.text))
    assert len(texts) > 300
    alike = 0
    for (kind, _), (source, text) in texts.items():
        grammar = by_source[source]
        match = grammar.parse(text)
        assert match is not None and match.kind == kind
        alike += check_against_lark(grammar, matching(grammar, text), text, match)
    assert alike > 0.9 * len(texts), "most lines have one reading only"


def _alternative(kind: str) -> tuple[Grammar, Alternative]:
    return next((g, a) for g in GRAMMARS for a in g.alternatives if a.kind == kind)


@pytest.mark.parametrize("kind", ["nccl_call", "channel_edge", "ring_order"])
@given(data=st.data())
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_lark_reads_generated_lines_of_the_bulk_formats_alike(kind: str, data: st.DataObject) -> None:
    grammar, alternative = _alternative(kind)
    printable = st.characters(max_codepoint=126, exclude_categories=["Cc"])
    parser = lark_grammars()[grammar.file].parser(alternative)
    text = data.draw(from_lark(parser, start="start", alphabet=printable))
    match = _alone(grammar.file, alternative.line, kind).parse(text)
    assert match is not None
    assert match.end == len(text)
    check_against_lark(grammar, alternative, text, match)


# --- the loader says what is wrong ------------------------------------------------------------------------

HEADER = "// source: toy\n// about: A toy.\n// anchors: toy\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("// source: toy\n// about: A toy.\n", "lacks '// anchors:'"),
        (HEADER + 'first: "toy"\n', "no rule named start"),
        (HEADER + 'start: "toy"\n', "no '-> event_kind'"),
        (HEADER + 'start: "toy " name -> toy\n', "name is not defined"),
        (HEADER + 'start: "toy " part -> toy\npart: "x" part\n', "part is recursive"),
        (HEADER + 'start: "toy " n -> toy\nn: N\nN: "a" "b"\n', "terminal N has to be one string"),
        (HEADER + 'start: "toy -> toy\n', "not a grammar"),
        (HEADER + 'start: "toy " n -> toy\nn: N\nN: /(/\n', "wrong expression"),
        (HEADER + '%ignore " "\nstart: "toy" -> toy\n', "%ignore is not allowed"),
        (HEADER + '// match toy: toy 1 => {"n": }\nstart: "toy" -> toy\n', "not JSON"),
    ],
)
def test_wrong_grammar_is_one_clear_error(text: str, says: str, tmp_path: Path, checkout: Path) -> None:
    path = tmp_path / "toy.lark"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GrammarError, match=re.escape(says)) as raised:
        _ = load_grammar(path, checkout / "grammars" / "base.lark").samples
    assert "toy.lark" in str(raised.value)


def toy(tmp_path: Path, checkout: Path, rules: str) -> Grammar:
    path = tmp_path / "toy.lark"
    path.write_text(f"{HEADER}%import .base (INT, HEX, FLOAT, TEXT, REST, EOL, BOL)\n{rules}", encoding="utf-8")
    return load_grammar(path, checkout / "grammars" / "base.lark")


def test_terminal_decides_the_type(tmp_path: Path, checkout: Path) -> None:
    rules = 'start: "toy " a " " b " " c " " d -> toy\na: INT\nb: HEX\nc: FLOAT\nd: REST\n'
    match = toy(tmp_path, checkout, rules).parse("a toy -3 0x1f 2.5e3  the rest ")
    assert match is not None
    assert match.fields == {"a": -3, "b": 31, "c": 2500.0, "d": "the rest"}


def test_blank_in_a_literal_stands_for_a_run_of_blanks_and_tabs(tmp_path: Path, checkout: Path) -> None:
    grammar = toy(tmp_path, checkout, 'start: "a toy " n -> toy\nn: INT\n')
    assert grammar.parse("a \t toy   7") == Match("toy", {"n": 7}, 0, 11)


def test_field_of_an_optional_part_that_is_not_there_is_absent(tmp_path: Path, checkout: Path) -> None:
    grammar = toy(tmp_path, checkout, 'start: "toy " n [" of " m] EOL -> toy\nn: INT\nm: INT\n')
    one, both = grammar.parse("toy 1"), grammar.parse("toy 1 of 2")
    assert one is not None and one.fields == {"n": 1}
    assert both is not None and both.fields == {"n": 1, "m": 2}


def test_field_in_several_places_takes_the_place_that_is_there(tmp_path: Path, checkout: Path) -> None:
    grammar = toy(tmp_path, checkout, 'start: "toy " ("a=" n | "b=" n) -> toy\nn: INT\n')
    found = grammar.parse("toy b=2")
    assert found is not None and found.fields == {"n": 2}


def test_first_alternative_in_file_order_wins(tmp_path: Path, checkout: Path) -> None:
    grammar = toy(tmp_path, checkout, 'start: "toy car" -> toy_car\n     | "toy" -> toy\n')
    found = grammar.parse("my toy, my toy car")
    assert found is not None and found.kind == "toy_car"


@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_message_is_found_in_a_line_of_any_length(tmp_path: Path, checkout: Path, blank: str) -> None:
    grammar = toy(tmp_path, checkout, 'start: "a toy " n " of " m -> toy\nn: INT\nm: INT\n')
    match = grammar.parse("x" * 30_000 + f"a{blank}toy 7 of{blank}8 " + "y" * 30_000)
    assert match is not None
    assert match.fields == {"n": 7, "m": 8}


@pytest.mark.parametrize("unit", ["a toy 1 and ", "a toy ", "a toy and ", "and of "])
def test_longest_hostile_line_takes_no_time_to_speak_of(tmp_path: Path, checkout: Path, unit: str) -> None:
    grammar = toy(tmp_path, checkout, 'start: "a toy " n " and " m " of " n "!" -> toy\nn: TEXT\nm: TEXT\n')
    start = time.process_time()
    assert grammar.parse((unit * 65_536)[:65_536]) is None
    assert time.process_time() - start < 5
