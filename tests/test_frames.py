"""Every pattern of grammars/frames.toml by its own samples, and what the table promises about itself."""

from __future__ import annotations

import pytest

from hangscope.grammar.frames import Pattern, load_frames
from stack_samples import thread

TABLE = load_frames()
MATCHES = [(pattern, sample) for pattern in TABLE.patterns for sample in pattern.match]
NO_MATCHES = [(pattern, sample) for pattern in TABLE.patterns for sample in pattern.no_match]


@pytest.mark.parametrize(("pattern", "sample"), MATCHES, ids=[f"{p.id}-{i}" for i, (p, _) in enumerate(MATCHES)])
def test_a_pattern_decides_its_samples(pattern: Pattern, sample: str) -> None:
    reading = TABLE.read(thread(sample))
    assert (reading.pattern, reading.state) == (pattern.id, pattern.state)


@pytest.mark.parametrize(("pattern", "sample"), NO_MATCHES, ids=[f"{p.id}-{i}" for i, (p, _) in enumerate(NO_MATCHES)])
def test_a_pattern_leaves_other_stacks_alone(pattern: Pattern, sample: str) -> None:
    assert TABLE.read(thread(sample)).pattern != pattern.id
