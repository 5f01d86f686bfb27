"""Names in the order in which people count, and groups as people know them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hangscope.model.names import group_title, natural_order


@given(st.lists(st.text(max_size=40)))
@example(["9" * 5000, "²", "٣", "1", "01"])
def test_any_names_have_one_order(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(names, key=natural_order) == sorted(backwards, key=natural_order)


def test_numbers_in_names_are_counted() -> None:
    names = ["n10", "n2", "n1", "rank2.log", "rank10.log", "10.0.0.11", "10.0.0.9", "group 10", "group 9"]
    assert sorted(names, key=natural_order) == [
        "10.0.0.9", "10.0.0.11", "group 9", "group 10", "n1", "n2", "n10", "rank2.log", "rank10.log",
    ]  # fmt: skip


def test_groups_are_told_with_what_the_job_calls_them() -> None:
    assert group_title("5", "DATA_PARALLEL_GROUP") == "5 (DATA_PARALLEL_GROUP)"
    assert group_title("world", "") == group_title("world", "world") == "world"
