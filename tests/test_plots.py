"""Pictures: what each says, and that it can be read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import hangscope
import plot_checks
import report_samples
from hangscope.api import analyze
from hangscope.api import plot as plot_of
from hangscope.errors import MissingEvidenceError, UnknownNameError, UsageError
from hangscope.model import (
    CallHistory,
    CallState,
    CollectiveState,
    ComparedValue,
    Comparison,
    GroupCounts,
    GroupHistory,
    History,
    RankState,
    Report,
)
from hangscope.plot import draw, load_plot, plot_names
from hangscope.plot.picture import Picture
from nccl_logs import ranks
from recorder_dumps import Dump, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HISTORY = 60


def small_job(folder: Path) -> Report:
    """Eight ranks, of which rank 3 makes the fifth call no more."""
    dumps = [Dump(rank, {"0": ("default_pg", range(8))}).step().call() for rank in range(8)]
    for dump in dumps:
        if dump.rank != 3:
            dump.wait(line=40).wait(line=41)
    return analyze(write(folder, dumps), history=_HISTORY)


def unfinished_init(folder: Path) -> Report:
    logs = ranks(4)
    del logs[2].lines[-1:]
    for log in logs:
        (folder / f"rank{log.rank}.log").write_text("\n".join([*log.lines, ""]))
    return analyze(folder, history=_HISTORY)


def large_job(names: Callable[[int], str] = lambda rank: f"node{rank // 8 + 1:03d}") -> Report:
    """1,024 ranks in a world and 128 groups of eight, of which rank 515 is missing."""
    size, gone = 1024, 515
    base = report_samples.out_of_memory()
    states = [
        RankState(r, names(r), 1000 + r, str(r % 8), "missing" if r == gone else "waiting", None, None)
        for r in range(size)
    ]

    def group(name: str, members: range, stuck: int | None) -> GroupHistory:
        calls = []
        for seq in range(stuck - 9, stuck + 1) if stuck is not None else range(5):
            is_stuck = seq == stuck
            late = [CallState.MISSING if r == gone else CallState.WAITING for r in members]
            one = tuple(late) if is_stuck else (CallState.DONE,) * len(members)
            times = tuple(None if is_stuck and r == gone else seq + (0.5 if r == 77 else r * 1e-5) for r in members)
            calls.append(CallHistory(seq, "all_reduce", "[4] Float", "", one, times))
        about = "default_pg" if len(members) == size else "TENSOR"
        return GroupHistory(name, about, len(members), tuple(members), 0, tuple(calls), stuck)

    world = group("0", range(size), 42)
    pairs = [group(str(n + 1), range(n * 8, n * 8 + 8), None) for n in range(128)]
    counts = tuple(
        GroupCounts(
            g.group, g.description, g.size, g.ranks, tuple(41 if r == gone and g is world else 42 for r in g.ranks)
        )
        for g in (world, *pairs)
    )
    others = tuple(r for r in range(size) if r != gone)
    stuck = CollectiveState("0", size, 42, "all_reduce", others, (gone,), {}, "default_pg")
    milestones = [
        ComparedValue("Init START", others, (), (), size - 1, None),
        ComparedValue("no line of NCCL", (gone,), (), (), 1, None),
    ]
    return dataclasses.replace(
        base,
        verdict=dataclasses.replace(
            base.verdict, title="Rank 515 did not make all_reduce 42", cause="collective-skipped", ranks=(gone,)
        ),
        ranks=tuple(states),
        collectives=(stuck,),
        comparisons=(Comparison("init", "init of world", must_agree=True, values=tuple(milestones)),),
        history=History("recorder", (world, *pairs), counts=counts),
    )


def hostile_job() -> Report:
    """Names as long as they can be, formulas, markup, characters that no font has."""
    bad = r"$\frac{1}{0}$_<b>&^{" + "\u202e\x1b[31m数据并行" + "x" * 400
    report = large_job(lambda rank: f"{bad}-{rank // 8}")
    (stuck,) = report.collectives
    history = report.history
    assert history is not None
    groups = tuple(
        dataclasses.replace(
            group,
            group=f"{group.group}{bad}",
            description=bad,
            calls=tuple(dataclasses.replace(call, op=bad, size=bad, where=bad) for call in group.calls),
        )
        for group in history.groups[:3]
    )
    counts = tuple(
        dataclasses.replace(one, group=f"{one.group}{bad}", description=f"{bad}{n}")
        for n, one in enumerate(history.counts)
    )
    return dataclasses.replace(
        report,
        verdict=dataclasses.replace(report.verdict, title=bad),
        collectives=(dataclasses.replace(stuck, op=bad, group=groups[0].group, description=bad, where=bad),),
        ranks=tuple(dataclasses.replace(state, where=bad, gpu=bad) for state in report.ranks),
        comparisons=tuple(dataclasses.replace(one, aspect=f"init of {bad}") for one in report.comparisons),
        history=dataclasses.replace(history, groups=groups, counts=counts),
    )


def one_rank() -> Report:
    """A job of a single rank, of which a call is known."""
    report = large_job()
    history = report.history
    assert history is not None
    call = CallHistory(0, "all_reduce", "", "", (CallState.DONE,))
    return dataclasses.replace(
        report,
        ranks=report.ranks[:1],
        collectives=(),
        comparisons=(),
        history=History(
            "calls",
            (GroupHistory("world", "", 1, (0,), 0, (call,)),),
            counts=(GroupCounts("world", "", 1, (0,), (0,)),),
        ),
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return small_job(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def large() -> Report:
    return large_job()


def only_axes(figure: Figure) -> Axes:
    axes = figure.axes[0]
    assert isinstance(axes, Axes)
    return axes


def drawn(figure: Figure, gid: str) -> list[Any]:
    """The artists of a kind."""
    return figure.findobj(lambda artist: artist.get_gid() == gid)


# --- what all pictures have in common ---------------------------------------------------------------------


def test_the_kinds_are_the_modules_of_the_folder() -> None:
    assert plot_names() == ("init", "progress", "ranks", "skew", "timeline", "waits")
    with pytest.raises(UnknownNameError, match="'pie'"):
        load_plot("pie")


@pytest.mark.parametrize("kind", plot_names())
@pytest.mark.parametrize("make", [large_job, hostile_job])
def test_every_word_can_be_read(make: Callable[[], Report], kind: str) -> None:
    figure = draw(kind, make())
    assert plot_checks.title(figure)
    assert plot_checks.outside(figure) == []
    assert plot_checks.overlaps(figure) == []


@pytest.mark.parametrize("kind", ["progress", "ranks", "timeline"])
def test_one_rank_is_enough(kind: str) -> None:
    figure = draw(kind, one_rank())
    assert plot_checks.outside(figure) == []
    assert plot_checks.overlaps(figure) == []


@pytest.mark.parametrize("kind", plot_names())
def test_dark_pages_have_light_ink(kind: str, large: Report) -> None:
    light, dark = draw(kind, large), draw(kind, large, dark=True)
    assert plot_checks.texts(light) == plot_checks.texts(dark)
    assert sum(to_rgb(light.get_facecolor())) > 2.9 and sum(to_rgb(dark.get_facecolor())) < 0.5
    for figure in (light, dark):
        page = sum(to_rgb(figure.get_facecolor()))
        titles = figure.findobj(lambda artist: artist.get_gid() in ("title", "subtitle", "note"))
        assert all(isinstance(t, Text) and abs(sum(to_rgb(t.get_color())) - page) > 1 for t in titles)


def test_texts_that_overlap_or_leave_the_page_are_found(small: Report) -> None:
    picture = draw("ranks", small)
    picture.write(0.35, 0.35, "on the title")
    picture.write(10.9, 3, "beyond the page")
    assert any("on the title" in pair for pair in plot_checks.overlaps(picture))
    assert plot_checks.outside(picture) == ["beyond the page"]


@pytest.mark.parametrize("kind", plot_names())
def test_every_word_of_a_small_job_can_be_read(kind: str, small: Report, tmp_path: Path) -> None:
    figure = draw(kind, unfinished_init(tmp_path) if kind == "init" else small)
    assert plot_checks.outside(figure) == []
    assert plot_checks.overlaps(figure) == []


@pytest.mark.parametrize("kind", plot_names())
def test_pages_are_no_larger_than_a_screen_is_wide(kind: str, large: Report) -> None:
    width, height = draw(kind, large).get_size_inches()
    assert width <= 12 and height <= 14


@pytest.mark.parametrize("kind", plot_names())
@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_report_gives_the_same_bytes(
    kind: str, ending: str, small: Report, large: Report, tmp_path: Path
) -> None:
    report = dataclasses.replace(small, comparisons=large.comparisons)
    first, second = (draw(kind, report).save(tmp_path / f"{n}.{ending}").read_bytes() for n in range(2))
    assert first == second
    assert b"<dc:date>" not in first and b"CreationDate" not in first


def test_a_file_whose_ending_tells_nothing_is_refused(small: Report, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"picture\.doc"):
        draw("ranks", small).save(tmp_path / "picture.doc")


def test_a_notebook_shows_a_picture_without_pyplot(small: Report) -> None:
    picture = draw("ranks", small)
    assert isinstance(picture, Picture)
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_pyplot_stays_out() -> None:
    code = (
        "import sys; import hangscope.plot; from hangscope.plot import load_plot, plot_names; "
        "[load_plot(name) for name in plot_names()]; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize("kind", plot_names())
def test_what_is_not_in_the_evidence_is_said_with_what_would_show_it(kind: str) -> None:
    report = dataclasses.replace(report_samples.out_of_memory(), history=None, collectives=(), comparisons=(), ranks=())
    with pytest.raises(MissingEvidenceError) as caught:
        draw(kind, report)
    assert str(caught.value) and caught.value.advice.endswith(".")


@pytest.mark.parametrize("kind", plot_names())
def test_no_warning_about_characters_that_no_font_has(kind: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(kind, hostile_job()).save(tmp_path / "picture.png")


# --- timeline ---------------------------------------------------------------------------------------------


def test_the_timeline_says_who_waits_and_for_whom(small: Report) -> None:
    figure = draw("timeline", small)
    assert plot_checks.title(figure) == "Ranks 0-2,4-7 wait in all_reduce 5 of group 0 (default_pg) for rank 3"
    axes = only_axes(figure)
    assert plot_checks.row_labels(axes) == [f"rank {rank}" for rank in range(8)]
    (mesh,) = drawn(figure, "calls of 0")
    cells = np.asarray(mesh.get_array())
    assert cells.shape == (8, 6)
    assert list(CallState)[int(cells[3, 4])] is CallState.MISSING
    (cross,) = drawn(figure, "missing")
    assert cross.get_offsets().tolist() == [[4.5, 3.5]]
    (frame,) = drawn(figure, "frontier")
    assert (frame.get_x(), frame.get_width(), frame.get_height()) == (4, 1, 8)


def test_many_ranks_that_look_alike_share_a_row(large: Report) -> None:
    figure = draw("timeline", large)
    assert plot_checks.row_labels(only_axes(figure)) == ["rank 515", "1,023 ranks: 0-514,516-1023"]
    assert any("128 more groups" in note for note in plot_checks.texts(figure, "note"))


def test_the_rows_of_many_patterns_are_bounded(large: Report) -> None:
    history = large.history
    assert history is not None
    world = history.groups[0]
    words = list(CallState)[:5]
    calls = tuple(
        dataclasses.replace(call, states=tuple(words[(r * 7 + r // 5 + at * r) % 5] for r in world.ranks))
        for at, call in enumerate(world.calls)
    )
    mixed = dataclasses.replace(history, groups=(dataclasses.replace(world, calls=calls),))
    figure = draw("timeline", dataclasses.replace(large, history=mixed))
    assert 1 < len(plot_checks.row_labels(only_axes(figure))) <= 20


def test_a_send_without_a_receive_is_shown_among_the_last_ones(tmp_path: Path) -> None:
    groups = {"0": ("default_pg", range(2)), "1": ("PIPELINE", range(2))}
    dumps = [Dump(0, groups), Dump(1, groups)]
    for _ in range(4):
        dumps[0].transfer("send 0->1", "1").call()
        dumps[1].transfer("recv 1<-0", "1").call()
    dumps[1].transfer("recv 1<-0", "1", state="scheduled")
    figure = draw("timeline", analyze(write(tmp_path, dumps), history=30))
    axes = only_axes(figure)
    assert plot_checks.row_labels(axes) == ["rank 0", "rank 1"]
    assert plot_checks.title(figure) == "Rank 1 waits in a recv of group 1 (PIPELINE) for rank 0"
    assert Counter(plot_checks.texts(figure, "transfer")) == {"\u21921": 4, "\u21900": 5}
    assert sum(box.get_linewidth() > 0 for box in drawn(figure, "transfer") if isinstance(box, Rectangle)) == 1
    assert plot_checks.overlaps(figure) == []


# --- progress ---------------------------------------------------------------------------------------------


def test_progress_names_who_is_behind(small: Report) -> None:
    figure = draw("progress", small)
    assert plot_checks.subtitle(figure) == "Rank 3 is 2 calls behind in group 0 (default_pg)."
    (mesh,) = drawn(figure, "behind")
    assert np.asarray(mesh.get_array()).tolist() == [[0, 0, 0, 2, 0, 0, 0, 0]]
    assert plot_checks.texts(figure, "last").count("6") == 7


def test_groups_of_one_kind_share_a_row(large: Report) -> None:
    figure = draw("progress", large)
    assert plot_checks.row_labels(only_axes(figure)) == ["group 0 (default_pg)", "TENSOR (128 groups)"]
    assert "rank 515" in plot_checks.texts(figure, "furthest behind")


def test_ranks_of_whose_calls_nothing_tells_have_a_mark(large: Report) -> None:
    counts = (GroupCounts("c", "", 4, (0, 1, 2, 3), (5, 5, None, 5)),)
    report = dataclasses.replace(large, history=History("ras", (), counts=counts), ranks=large.ranks[:4])
    figure = draw("progress", report)
    assert plot_checks.subtitle(figure) == "Of rank 2 no calls are known; the others are equally far."
    assert plot_checks.texts(figure, "unknown") == ["?"]


def test_that_most_are_behind_means_that_few_are_ahead(large: Report) -> None:
    counts = (GroupCounts("c", "", 4, (0, 1, 2, 3), (5, 5, 6, 5)),)
    figure = draw("progress", dataclasses.replace(large, history=History("ras", (), counts=counts)))
    assert plot_checks.subtitle(figure) == "Rank 2 is 1 call ahead of the others in c."


# --- skew -------------------------------------------------------------------------------------------------


def test_skew_names_the_rank_that_is_always_late(large: Report) -> None:
    history = large.history
    assert history is not None
    calm = dataclasses.replace(
        history, groups=tuple(dataclasses.replace(g, stuck=None, calls=g.calls[:-1]) for g in history.groups)
    )
    figure = draw("skew", dataclasses.replace(large, history=calm))
    assert plot_checks.title(figure) == "Rank 77 arrives last in 9 of 9 calls, 500 ms after the first"
    (last,) = drawn(figure, "last")
    assert last.get_offsets()[:, 1].tolist() == pytest.approx([500.0] * 9)


def test_skew_draws_who_never_came(large: Report) -> None:
    figure = draw("skew", large)
    assert plot_checks.texts(figure, "missing") == ["rank 515"]
    assert plot_checks.subtitle(figure).startswith("Before: rank 77 arrives last")


# --- ranks ------------------------------------------------------------------------------------------------


def test_ranks_stand_by_host_and_gpu_and_those_named_are_framed(large: Report) -> None:
    figure = draw("ranks", large)
    cells = drawn(figure, "ranks")
    assert sum(len(one.get_paths()) for one in cells) == 1024
    assert sum(len(one.get_paths()) for one in drawn(figure, "at fault")) == 1
    hosts = Counter(label for axes in figure.axes for label in plot_checks.row_labels(axes))
    assert len(hosts) == 128 and set(hosts.values()) == {1}
    assert plot_checks.subtitle(figure).startswith("Rank 515 on node065 is missing.")


def test_states_have_their_glyphs_and_numbers_in_the_legend(small: Report) -> None:
    words = plot_checks.texts(draw("ranks", small))
    assert "M  missing (1): it did not come to the call that others wait in" in words
    assert "3M" in words and "2" in words


# --- init -------------------------------------------------------------------------------------------------


def test_init_says_who_came_how_far(tmp_path: Path) -> None:
    figure = draw("init", unfinished_init(tmp_path))
    labels = plot_checks.row_labels(only_axes(figure))
    assert labels[0].startswith("rank 2") and len(labels) == 4
    widths = sorted(bar.get_width() for bar in drawn(figure, "bar"))
    assert widths == [2.5, 8.5, 8.5, 8.5]
    assert "Rank 2 came to 'Init START' in the init of world" in plot_checks.subtitle(figure)


def test_who_printed_nothing_has_no_bar(large: Report) -> None:
    figure = draw("init", large)
    assert plot_checks.row_labels(only_axes(figure)) == ["rank 515", "1,023 ranks: 0-514,516-1023"]
    assert plot_checks.texts(figure, "none") == ["no line of NCCL"]
    assert len(drawn(figure, "bar")) == 1


# --- waits ------------------------------------------------------------------------------------------------


def test_arrows_lead_from_who_waits_to_whom_it_waits_for(small: Report) -> None:
    figure = draw("waits", small)
    boxes = plot_checks.texts(figure, "box")
    assert {"all_reduce 5", "rank 3", "7 wait: 0-2,4-7"} <= set(boxes)
    assert len(drawn(figure, "waits for")) == 1
    assert len(drawn(figure, "begins")) == 1


def stuck(group: str, arrived: tuple[int, ...], missing: tuple[int, ...], about: str = "") -> CollectiveState:
    return CollectiveState(group, len(arrived) + len(missing), 7, "all_reduce", arrived, missing, {}, about)


def test_hundreds_of_calls_that_wait_alike_are_one_box(large: Report) -> None:
    calls = [stuck("0", tuple(r for r in range(1024) if r != 515), (515,), "WORLD")]
    calls += [stuck(str(n), (n,), (n - 1,), "PIPE") for n in range(1, 500)]
    figure = draw("waits", dataclasses.replace(large, collectives=tuple(calls)))
    assert len(plot_checks.texts(figure, "box")) <= 12
    assert any(text.startswith("499 x all_reduce") for text in plot_checks.texts(figure, "box"))


def test_calls_that_wait_for_each_other_are_a_circle(large: Report) -> None:
    calls = (stuck("a", (0, 1), (2, 3)), stuck("b", (2, 3), (0, 1)))
    verdict = dataclasses.replace(large.verdict, cause="group-order-deadlock", title="They cross", ranks=(2, 3))
    figure = draw("waits", dataclasses.replace(large, collectives=calls, verdict=verdict))
    assert (len(drawn(figure, "begins")), len(drawn(figure, "waits for"))) == (2, 2)
    assert any("wait for each other" in text for text in plot_checks.texts(figure, "note"))


def test_a_chain_of_waits_leads_to_where_it_begins(large: Report) -> None:
    calls = (stuck("a", (0,), (1,)), stuck("b", (1,), (2,)), stuck("c", (2,), (3,)))
    verdict = dataclasses.replace(large.verdict, ranks=(3,))
    figure = draw("waits", dataclasses.replace(large, collectives=calls, verdict=verdict))
    assert len(drawn(figure, "waits for")) == 3
    (root,) = drawn(figure, "begins")
    assert root.get_x() > max(box.get_x() for box in drawn(figure, "waits"))


# --- the function -----------------------------------------------------------------------------------------


def test_a_picture_from_paths(tmp_path: Path) -> None:
    dumps = [Dump(rank).step() for rank in range(4)]
    dumps[0].wait()
    target = tmp_path / "timeline.svg"
    figure = plot_of("timeline", write(tmp_path / "dumps", dumps), output=target)
    assert plot_checks.title(figure).startswith("Rank 0 waits in all_reduce 4")
    assert target.read_text().startswith("<?xml")


def test_reports_of_notebooks_draw_themselves(tmp_path: Path) -> None:
    dumps = [Dump(rank).step() for rank in range(4)]
    dumps[0].wait()
    job = hangscope.load(write(tmp_path, dumps))
    figure = job.analyze().plot("timeline")
    assert plot_checks.title(figure).startswith("Rank 0 waits in all_reduce 4")
    assert hangscope.plot.plot_names() == plot_names()
