"""What is read of lines that list possible causes."""

from __future__ import annotations

import pytest

from hangscope.parse.advice import AdviceSkipper, before_advice

WRITER = ("", None)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("End of file. Some common causes include: (1) the OOM killer", "End of file."),
        ("End of file. There are some potential root causes. (1) SIGKILL", "End of file."),
        ("Possible reasons:", ""),
        ("The most likely cause is the OOM killer", ""),
        ("The reason is that NCCL has failed", "The reason is that NCCL has failed"),
        ("Root Cause (first observed failure):", "Root Cause (first observed failure):"),
    ],
)
def test_the_report_ends_where_the_list_begins(text: str, kept: str) -> None:
    assert before_advice(text) == kept


def test_items_below_the_heading_belong_to_the_list() -> None:
    skipper = AdviceSkipper()
    lines = ["It exited. Common causes:", "  - Killed", "2) Killed", "Killed", "- Killed"]
    assert [skipper.reported(line, WRITER) for line in lines] == ["It exited.", "", "", "Killed", "- Killed"]


def test_another_writer_has_no_part_in_the_list() -> None:
    skipper = AdviceSkipper()
    skipper.reported("Common causes:", WRITER)
    assert skipper.reported("- Killed", ("", 3)) == "- Killed"
