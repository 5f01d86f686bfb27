"""The text format: snapshots to read, and the promises that no snapshot shows."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

import report_samples
from hangscope.model import Evidence, Location, RankState, Report, StoryStep
from hangscope.report.formats import load_format
from hangscope.report.options import RenderOptions
from report_samples import SAMPLES

_SNAPSHOTS = Path(__file__).parent / "snapshots" / "text"
_COMMAND_INDENT = "      "


def _render(report: Report, options: RenderOptions) -> str:
    stream = io.StringIO()
    load_format("text").render(report, stream, options)
    return stream.getvalue()


def _check_snapshot(name: str, text: str) -> None:
    path = _SNAPSHOTS / f"{name}.txt"
    if os.environ.get("HANGSCOPE_UPDATE_SNAPSHOTS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "HANGSCOPE_UPDATE_SNAPSHOTS=1 pytest rewrites the snapshots"


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_page_looks_as_reviewed(name: str, width: int) -> None:
    _check_snapshot(f"{name}-{width}", _render(SAMPLES[name](), RenderOptions(width=width)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("color", RenderOptions(width=80, color=True)),
        ("verbose", RenderOptions(width=80, verbose=True)),
        ("ascii", RenderOptions(width=80, encoding="ascii")),
        ("quiet", RenderOptions(width=80, quiet=True)),
    ],
)
def test_options_look_as_reviewed(name: str, options: RenderOptions) -> None:
    _check_snapshot(f"out-of-memory-{name}", _render(report_samples.out_of_memory(), options))


def test_verbose_shows_the_tree_of_all_stacks() -> None:
    _check_snapshot(
        "stuck-loader-verbose", _render(report_samples.stuck_loader(), RenderOptions(width=100, verbose=True))
    )


def test_a_thousand_stacks_stay_readable() -> None:
    page = _render(report_samples.stuck_loader(), RenderOptions(width=80))
    stacks = page[page.index("Stacks (") :]
    assert "rank 511" in stacks.split("ranks 0-510,512-1023")[0]
    assert stacks.count("\n") < 60


def test_verbose_compares_what_is_equal_too() -> None:
    page = _render(report_samples.many_differences(), RenderOptions(width=120, verbose=True))
    _check_snapshot("many-differences-verbose", page)


def test_a_thousand_ranks_are_compared_in_ranges() -> None:
    page = _render(report_samples.many_differences(), RenderOptions(width=80))
    table = page[page.index("What differs between ranks") : page.index("Printed by one rank only")]
    assert "0-511      node[001-064]" in table
    assert "512-1023   node[065-128]" in table
    assert "PyTorch" not in table
    assert table.index("NCCL's network") < table.index("NVIDIA driver")
    assert table.count("\n") < 30


def test_first_screen_answers_everything() -> None:
    first_screen = "\n".join(_render(report_samples.out_of_memory(), RenderOptions(width=80)).split("\n")[:24])
    for answer in (
        "ran out of GPU memory",
        "gpu-out-of-memory",
        "high 0.93",
        "rank 5 (node02, GPU 1, pid 41205)",
        "0-4,6,7",
        "train.py:212 forward",
        "logs/rank5.log:1841",
        "What to do now",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ):
        assert answer in first_screen


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_color_changes_no_character(name: str) -> None:
    plain = _render(SAMPLES[name](), RenderOptions(width=100))
    colored = _render(SAMPLES[name](), RenderOptions(width=100, color=True))
    assert "\x1b[" in colored
    bare = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in bare.split("\n")] == [line.rstrip() for line in plain.split("\n")]


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160, 200])
@pytest.mark.parametrize("make", [*SAMPLES.values(), report_samples.hostile])
def test_nothing_but_commands_is_wider_than_the_page(make: object, width: int) -> None:
    assert callable(make)
    for line in _render(make(), RenderOptions(width=width, verbose=True)).split("\n"):
        assert len(line) <= width or line.startswith(_COMMAND_INDENT)


def test_long_command_stays_on_one_line() -> None:
    report = report_samples.missing_ranks()
    command = report.next_steps[1].command
    assert command
    assert f"\n{_COMMAND_INDENT}{command}\n" in _render(report, RenderOptions(width=40))


@pytest.mark.parametrize("options", [RenderOptions(width=80), RenderOptions(width=80, quiet=True)])
def test_hostile_text_reaches_no_terminal(options: RenderOptions) -> None:
    page = _render(report_samples.hostile(), options)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert "\\x1b[31mred" in page
    assert "[bold]markup[/bold]" in page
    assert ":smile:" in page or options.quiet


def test_hostile_text_in_color_brings_only_the_pages_own_styles() -> None:
    page = _render(report_samples.hostile(), RenderOptions(width=80, color=True))
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", page)


def test_long_line_shows_both_ends() -> None:
    page = _render(report_samples.hostile(), RenderOptions(width=80))
    assert "the end matters" in page
    assert len(page) < 12_000


@pytest.mark.parametrize("make", [*SAMPLES.values(), report_samples.hostile])
def test_ascii_stream_gets_ascii(make: object) -> None:
    assert callable(make)
    assert _render(make(), RenderOptions(width=80, encoding="ascii")).isascii()


def test_quiet_is_one_line() -> None:
    assert _render(report_samples.hostile(), RenderOptions(quiet=True)).count("\n") == 1


def test_many_ranks_are_folded() -> None:
    page = _render(report_samples.missing_ranks(), RenderOptions(width=160))
    assert f"{'[M]' * 8}  node064" in page
    assert "node[001-009,011-063,065-128]" in page
    assert len(page.split("\n")) < 70


def test_line_ends_of_a_rule_file_give_way_to_the_pages_own() -> None:
    report = report_samples.no_fault()
    verdict = replace(report.verdict, explanation="One line\nand its rest.\n\nAnother paragraph:\n- a point\n")
    page = _render(replace(report, verdict=verdict), RenderOptions(width=80))
    assert "One line and its rest.\n" in page
    assert re.search(r"Another paragraph:\n +- a point\n", page)


def test_a_line_that_begins_with_a_number_is_no_list() -> None:
    report = report_samples.no_fault()
    verdict = replace(report.verdict, explanation="Node rank\n1 is missing.\n1. a list\n2. of two\n")
    page = _render(replace(report, verdict=verdict), RenderOptions(width=80))
    assert "Node rank 1 is missing.\n" in page
    assert re.search(r"\n +1\. a list\n +2\. of two\n", page)


def test_proof_shows_few_lines_of_one_kind() -> None:
    # GIVEN more lines than are shown, most of which prove the same
    report = report_samples.out_of_memory()
    same = [Evidence(Location("a.log", number), "line " + "x" * number, "still at work") for number in range(1, 8)]
    other = Evidence(Location("b.log", 9), "the last", "its peers")
    page = _render(replace(report, verdict=replace(report.verdict, evidence=(*same, other))), RenderOptions(width=80))
    # THEN the other one is among those shown
    assert "a.log:3" in page
    assert "a.log:4" not in page
    assert "b.log:9" in page
    assert "and 4 more lines" in page


def test_lines_that_say_the_same_of_other_ranks_are_folded() -> None:
    # GIVEN a call of each of sixteen ranks, one of which called something else
    report = report_samples.out_of_memory()
    text = "node{host:02}:41{rank}:42{rank} [{rank}] NCCL INFO AllReduce: sendbuff 0x7f{rank:06x}e000 count {count}"
    calls = [
        Evidence(
            Location(f"rank{rank}.log", 30 + rank),
            text.format(host=rank // 8, rank=rank, count=8192 if rank else 8193),
            f"call 2 of rank {rank}",
        )
        for rank in range(16)
    ]
    page = _render(replace(report, verdict=replace(report.verdict, evidence=tuple(calls))), RenderOptions(width=100))
    # THEN the odd one stands alone, one of the others stands for them, and what nobody reads is cut short
    assert "rank0.log:30" in page
    assert "rank1.log:31" in page
    assert "rank2.log:32" not in page
    assert "and 14 alike: ranks 2-15" in page
    assert "sendbuff 0x\u2026e000 count 8193" in page


def test_the_line_that_counts_is_marked_among_those_around_it() -> None:
    page = _render(report_samples.out_of_memory(), RenderOptions(width=80)).split("\n")
    at = next(index for index, line in enumerate(page) if "> [rank5]: torch.OutOfMemoryError" in line)
    assert "torch._foreach_sqrt" in page[at - 1]
    assert "NCCL INFO comm" in page[at + 3]
    assert sum(">" in line for line in page[at - 2 : at + 4]) == 1


def test_lines_that_were_shown_around_the_best_one_are_not_shown_again() -> None:
    report = report_samples.out_of_memory()
    best = report.verdict.evidence[0]
    beside = Evidence(Location(best.at.file, 1840), best.before[1], "the line before")
    page = _render(replace(report, verdict=replace(report.verdict, evidence=(best, beside))), RenderOptions(width=80))
    assert "the line before" not in page
    assert "More proof" not in page


def test_lines_around_the_best_one_lose_the_head_that_all_have_when_they_are_long() -> None:
    report = report_samples.out_of_memory()
    head = "I1129 16:01:17.875000 14858 torch/distributed/launcher/api.py:254]"
    best = replace(
        report.verdict.evidence[0],
        text=f"{head}   min_nodes{' ' * 12}: 3",
        before=(f"{head}   entrypoint{' ' * 12}: train.py --with a --long list --of options", "short"),
    )
    page = _render(replace(report, verdict=replace(report.verdict, evidence=(best,))), RenderOptions(width=80))
    assert re.search(r"\n +\u2026 +entrypoint  : train.py --with a --long list --of options\n", page)
    assert re.search(r"\n +short\n", page)
    assert "min_nodes  : 3" in page


def test_lines_around_the_best_one_keep_what_they_say() -> None:
    report = report_samples.out_of_memory()
    call = (
        "node02:10757:10757 [0] NCCL INFO AllReduce: opCount {n} sendbuff 0x7f92 recvbuff 0x7f93 count 8192 datatype 7"
    )
    best = replace(report.verdict.evidence[0], text=call.format(n=4), before=(call.format(n=3),), after=())
    page = _render(replace(report, verdict=replace(report.verdict, evidence=(best,))), RenderOptions(width=80))
    assert re.search(r"\n +\u2026 AllReduce: opCount 3 sendbuff", page)


def test_a_comparison_without_differences_has_one_table() -> None:
    page = _render(report_samples.all_alike(), RenderOptions(width=100, verbose=True))
    table = page[page.index("What differs between ranks") :]
    assert table.count("ranks  hosts") == 1


def test_frames_keep_their_file_and_leave_out_decorators() -> None:
    report = report_samples.stuck_loader()
    frames = (
        "_rendezvous (torch/distributed/elastic/agent/server/a_rather_long_name_of_a_module.py:528)",
        "prof.<locals>.wrap.<locals>.wrapper (torch/distributed/elastic/metrics/api.py:134)",
        "mine.<locals>.wrapper (/home/me/job.py:3)",
    )
    states = (replace(report.stacks[0], frames=frames), *report.stacks[1:])
    page = _render(replace(report, stacks=states), RenderOptions(width=80))
    assert "\n       _rendezvous (\u2026/agent/server/a_rather_long_name_of_a_module.py:528)\n" in page
    assert "metrics/api.py" not in page
    assert "mine.<locals>.wrapper (/home/me/job.py:3)" in page
    assert "metrics/api.py:134" in _render(replace(report, stacks=states), RenderOptions(width=100, verbose=True))


def test_many_processes_of_unknown_rank_are_counted() -> None:
    report = report_samples.stuck_loader()
    state = replace(report.stacks[0], ranks=(), processes=tuple(f"pid {n} on node01" for n in range(100, 115)))
    page = _render(replace(report, stacks=(state, *report.stacks[1:])), RenderOptions(width=200))
    assert (
        " 15 processes (pid 100 on node01, pid 101 on node01, pid 102 on node01, pid 103 on node01 and 11 more)" in page
    )


def test_what_the_story_told_is_not_told_again() -> None:
    report = report_samples.out_of_memory()
    other = report.findings[1]
    told = StoryStep(None, other.ranks, other.title, (), cause=other.cause)
    assert f"- {other.cause}" in _render(report, RenderOptions(width=200))
    page = _render(replace(report, story=(*report.story, told)), RenderOptions(width=200))
    assert f"- {other.cause}" not in page
    verbose = _render(replace(report, story=(*report.story, told)), RenderOptions(width=200, verbose=True))
    assert f"- {other.cause}" in verbose


def test_a_grid_in_which_all_ranks_look_alike_is_left_out() -> None:
    report = report_samples.stuck_loader()
    ranks = tuple(replace(state, state="waiting", where=None) for state in report.ranks)
    page = _render(replace(report, ranks=ranks, verdict=replace(report.verdict, ranks=())), RenderOptions(width=80))
    places = page[page.index("Where the ranks are") : page.index("Stacks (")]
    assert "waiting  1,024  ranks 0-1023" in places
    assert "node" not in places


def test_a_row_of_many_hosts_stays_one_row_on_a_narrow_page() -> None:
    page = _render(report_samples.missing_ranks(), RenderOptions(width=80))
    assert re.search(r"\n( +\.){8} +126 hosts +ranks 0-71,80-503,\.\.\.\n", page)


def test_every_one_of_ten_thousand_ranks_has_its_line_when_all_are_asked_for() -> None:
    report = report_samples.no_fault()
    ranks = tuple(RankState(n, f"node{n // 8:04}\x1b[2J", n, str(n % 8), "waiting", None, None) for n in range(10_000))
    page = _render(replace(report, ranks=ranks), RenderOptions(width=80, verbose=True))
    assert re.search(r"\n +9999 +node1249\\x1b\[2J +7 +9999 +waiting\n", page)
    assert "\x1b" not in page


def test_ranks_of_unequal_hosts_have_their_place() -> None:
    report = report_samples.no_fault()
    ranks = tuple(
        RankState(rank, host, None, str(gpu), "dead" if rank == 9 else "waiting", None, None)
        for rank, (host, gpu) in enumerate([*(("a", n) for n in range(8)), ("b", 6), ("b", 1)])
    )
    page = _render(replace(report, ranks=ranks), RenderOptions(width=80))
    assert "\n     X              .      b  " in page
    assert "\n  .  .  .  .  .  .  .  .   a  " in page


def test_ranks_of_the_group_that_left_no_line_are_counted() -> None:
    report = report_samples.out_of_memory()
    state = replace(report.collectives[0], group_size=1_000)
    assert re.search(
        r"unknown +9\d\d +no line tells", _render(replace(report, collectives=(state,)), RenderOptions(width=80))
    )


def test_who_is_at_rest_needs_no_frames() -> None:
    text = _render(report_samples.stuck_loader(), RenderOptions(width=100))
    assert "watching its workers" in text
    assert "_invoke_run" not in text


def test_no_fault_names_nobody_who_suffers() -> None:
    report = report_samples.stuck_loader()
    verdict = replace(report.verdict, cause="no-fault-found", affected_ranks=(0, 1))
    assert "suffer" not in _render(replace(report, verdict=verdict), RenderOptions(width=100))
