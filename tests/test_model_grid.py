"""The grid of ranks and the table of their states: every job has a layout that loses no rank."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.model import RankState
from hangscope.model.grid import lay_out, put_alike_together
from hangscope.model.states import STATES, in_severity_order, state_style
from hangscope.report.rank_states import _STATE_OF_CAUSE
from hangscope.report.stack_states import RANK_WORDS


def _state(rank: int, host: str | None = None, gpu: str | None = None, state: str = "waiting") -> RankState:
    return RankState(rank, host, None, gpu, state, None, None)


def test_hosts_are_rows_in_natural_order_and_gpus_are_columns() -> None:
    states = [_state(rank, f"node{rank // 4 + 1}", f"{rank % 4} (bus 19000)") for rank in range(48)]
    grid = lay_out(reversed(states), at_fault=(5,))
    assert [row.host for row in grid.rows] == [f"node{n}" for n in range(1, 13)]
    assert (grid.columns, grid.by_gpu) == (4, True)
    assert grid.rows[1].ranks == (4, 5, 6, 7)
    assert grid.rows[1].at_fault == (5,)


def test_gpus_that_no_rank_uses_are_empty_cells() -> None:
    grid = lay_out([_state(0, "a", "2"), _state(1, "a", "0"), _state(2, "b", "1")])
    assert [[cell and cell.state.rank for cell in row.cells] for row in grid.rows] == [[1, None, 0], [None, 2]]


@pytest.mark.parametrize("gpus", [("0", "0"), ("0", None), ("0", "700"), ("uuid", "bus")])
def test_gpus_that_tell_nothing_leave_the_ranks_in_their_order(gpus: tuple[str | None, str | None]) -> None:
    grid = lay_out([_state(7, "a", gpus[0]), _state(3, "a", gpus[1])])
    assert [[cell and cell.state.rank for cell in row.cells] for row in grid.rows] == [[3, 7]]
    assert not grid.by_gpu


def test_ranks_of_unknown_host_stand_last_in_rows_as_wide_as_the_others() -> None:
    grid = lay_out([_state(0), *(_state(rank, "z", str(rank % 2)) for rank in (1, 2)), _state(3), _state(4)])
    assert [(row.host, row.ranks) for row in grid.rows] == [("z", (1, 2)), (None, (0, 3)), (None, (4,))]


def test_hosts_with_unequal_numbers_of_ranks_each_have_their_own_row() -> None:
    grid = lay_out([_state(rank, "a" if rank < 40 else "b") for rank in range(43)], widest=16)
    assert [len(row.cells) for row in grid.rows] == [16, 16, 8, 3]
    assert [row.host for row in grid.rows] == ["a", "a", "a", "b"]


def test_without_any_host_rows_have_eight_ranks_or_a_multiple() -> None:
    grid = lay_out([_state(rank) for rank in range(1024)], widest=13)
    assert [row.ranks[0] for row in grid.rows] == list(range(0, 1024, 8))
    assert lay_out([_state(rank) for rank in range(1024)]).columns == 16


def test_a_job_without_ranks_has_no_rows() -> None:
    grid = lay_out([])
    assert (grid.rows, grid.columns, put_alike_together(grid)) == ((), 0, ())


def test_rows_that_look_alike_are_put_together_and_the_odd_one_stands_first() -> None:
    states = [
        _state(rank, f"node{rank // 8:04}", str(rank % 8), "missing" if rank == 9003 else "waiting")
        for rank in range(16384)
    ]
    odd, usual = put_alike_together(lay_out(states, at_fault=(9003,)))
    assert odd.hosts == ("node1125",)
    assert len(usual.hosts) == 2047
    assert len(usual.ranks) == 16376


def test_a_rank_at_fault_does_not_look_like_its_neighbours_in_the_same_state() -> None:
    states = [_state(rank, f"h{rank}") for rank in range(4)]
    first, rest = put_alike_together(lay_out(states, at_fault=(2,)))
    assert (first.ranks, rest.ranks) == ((2,), (0, 1, 3))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.sampled_from([None, "", "a", "a1", "a10", "b" * 30]),
            st.sampled_from([None, "0", "1", "5 (bus 3)", "x", "9" * 30]),
            st.sampled_from([*STATES, "new word"]),
        ),
        unique_by=lambda entry: entry[0],
    )
)
def test_no_layout_loses_or_repeats_a_rank(ranks: list[tuple[int, str | None, str | None, str]]) -> None:
    grid = lay_out([_state(*entry) for entry in ranks])
    laid = [rank for row in grid.rows for rank in row.ranks]
    assert sorted(laid) == sorted(entry[0] for entry in ranks)
    together = [rank for alike in put_alike_together(grid) for rank in alike.ranks]
    assert sorted(together) == sorted(laid)
    assert all(row.cells[-1] is not None and len(row.cells) <= grid.columns for row in grid.rows)


def test_every_word_that_a_report_uses_is_in_the_table() -> None:
    own = {"dead", "missing", "waiting", "running", "finished", "unknown"}
    assert own | set(RANK_WORDS.values()) | set(_STATE_OF_CAUSE.values()) == set(STATES)


def test_states_are_told_apart_without_colour() -> None:
    glyphs = [style.glyph for style in STATES.values()]
    assert len(set(glyphs)) == len(glyphs)
    assert all(len(glyph) == 1 and glyph.isascii() and glyph.isprintable() and glyph != " " for glyph in glyphs)
    assert all(re.fullmatch("#[0-9a-f]{6}", style.light) for style in STATES.values())
    assert all(re.fullmatch("#[0-9a-f]{6}", style.dark) for style in STATES.values())


def test_words_come_in_the_order_of_severity() -> None:
    assert in_severity_order(["waiting", "dead", "waiting", "unheard", "missing"]) == [
        "dead", "missing", "unheard", "waiting",
    ]  # fmt: skip
    assert state_style("unheard").word == "unknown"
