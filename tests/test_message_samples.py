"""The samples that tests/check_messages.py makes of a catalogue: plausible values, headers of the versions."""

from __future__ import annotations

import pytest

from message_samples import Row, is_bare, samples


def row(template: str, **more: object) -> Row:
    usual = {"level": "WARN", "file": "init.cc", "func": "initFunc", "cause": None, "first": "2.19.4", "last": "2.19.4"}
    return {**usual, "template": template, **more}


@pytest.mark.parametrize(
    ("first", "last", "heads"),
    [
        ("2.3.5", "2.25.1", ["node02:4113:4200 [1] init.cc:123 NCCL WARN "]),
        ("2.26.2", "2.30.3", ["[2026-01-31 12:00:00] node02:4113:4200 [1] init.cc:123 NCCL WARN "]),
        (
            "2.24.3",
            "2.32.3",
            [
                "node02:4113:4200 [1] init.cc:123 NCCL WARN ",
                "[2026-01-31 12:00:00] node02:4113:4200 [1] init.cc:123 (initFunc) NCCL WARN ",
            ],
        ),
    ],
)
def test_header_is_that_of_the_first_and_of_the_last_version(first: str, last: str, heads: list[str]) -> None:
    made = [sample.log for sample in samples(row("nothing works", first=first, last=last))]
    assert made == [f"{head}nothing works" for head in heads]


def test_holes_are_filled_by_the_words_in_front_of_them() -> None:
    template = "peer %s: rank %d of %d ranks, %ld bytes at %p, %s failed : %s (%d), 100%%"
    (sample,) = samples(row(template))
    assert sample.text == (
        "peer 10.0.0.2<40123>: rank 3 of 8 ranks, 7 bytes at 0x7f60a5a35010, name1 failed : "
        "Protocol not available (92), 100%"
    )


def test_each_refinement_is_a_sample_of_its_own_cause() -> None:
    refine = {"Too many open files": "file-descriptor-limit", "shm_.*No space left": "shm-exhausted"}
    names = ["bind", "shm_open"]
    made = list(samples(row("Call to {name} failed : %s", names=names, refine=refine, cause="peer-lost")))
    assert {(sample.cause, sample.text) for sample in made} == {
        ("peer-lost", "Call to bind failed : Protocol not available"),
        ("peer-lost", "Call to shm_open failed : Protocol not available"),
        ("file-descriptor-limit", "Call to bind failed : Too many open files"),
        ("shm-exhausted", "Call to shm_open failed : No space left on device"),
    }


def test_odd_values_are_others() -> None:
    (usual,), (odd,) = samples(row("color %d of %s")), samples(row("color %d of %s"), odd=True)
    assert usual.text == "color 7 of name1"
    assert odd.text == "color 0 of a b: (c) 'd'"


def test_named_holes_of_torch_take_a_header_of_torch() -> None:
    catalogue = {"source": "TCPStore", "template": "{k} of {n|m} came to {host}", "cause": None}
    made = [sample.log for sample in samples({**catalogue, "first": "2.0", "last": None})]
    assert made == [
        "[E TCPStore.cpp:607] 7 of n came to node02",
        "[rank3]:[E0131 12:00:00.356947152 TCPStore.cpp:607] 7 of n came to node02",
    ]


def test_template_of_holes_only_says_nothing() -> None:
    assert is_bare(row("%s %d"))
    assert is_bare(row("{a}: {b}"))
    assert not is_bare(row("rank %d"))
