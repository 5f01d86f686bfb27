"""Lines of NCCL that are taken by what came before them say what each of them says by itself."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from dataclasses import astuple

import pytest

from hangscope.grammar import load_grammars
from hangscope.parse import known_lines, reader
from hangscope.parse.known_lines import KnownLines
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource
from hangscope.sources.decode import Lines, RawLine

SAMPLES = sorted({sample.text for grammar in load_grammars() for sample in grammar.samples if len(sample.text) < 300})
HEADS = [f"node0{n}:{pid}:{pid + thread} [{pid % 8}] NCCL INFO " for n, pid in ((1, 41), (2, 57)) for thread in (0, 9)]
CHANNEL = "Channel {0:02d}/0 : {0}[{0}] -> {1}[{1}] via P2P/CUMEM/read"


def said(source: ParsedSource) -> list[object]:
    """All that later layers see of an input."""
    writers = [(astuple(writer.key), astuple(writer)) for writer in source.writers]
    return [source.record, [astuple(event) for event in source.events], writers, len(source.calls)]


def log(rng: random.Random) -> Iterator[str]:
    """NCCL's lines, each wording several times with other numbers, among those of other writers, some torn or glued."""
    texts = rng.sample(SAMPLES, 30)
    for _ in range(600):
        text = re.sub(r"\d", lambda _: rng.choice("0123456789"), rng.choice(texts))
        line = rng.choice(HEADS) + rng.choice((text, text, CHANNEL.format(rng.randrange(9), rng.randrange(99))))
        odd = rng.random()
        if odd < 0.02:
            line = line.replace("INFO", "WARN")
        elif odd < 0.04:
            line += rng.choice(HEADS) + text
        elif odd < 0.06:
            line = line[rng.randrange(len(line)) :]
        elif odd < 0.08:
            line = f"10%|#  | {text}\r20%|## | {line}"
        elif odd < 0.1:
            line += "\n" + text
        elif odd < 0.12:
            line += " The most likely causes are:\n" + HEADS[0] + "1. the network"
        yield line


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_known_lines_say_what_they_say_by_themselves(seed: int, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)  # noqa: S311 - other numbers, no secret
    data = end.join(log(rng)).encode()
    known = said(read_stream("job.log", io.BytesIO(data)))
    monkeypatch.setattr(reader, "NCCL", b"\0")
    assert known == said(read_stream("job.log", io.BytesIO(data)))


def usual_lines(monkeypatch: pytest.MonkeyPatch, data: str) -> list[str]:
    """The lines that were taken the usual way, of those with others like them before."""
    usual: list[str] = []
    take = KnownLines.take

    def watched(self: KnownLines, lines: Lines, way: object) -> None:
        assert callable(way)

        def noted(raw: RawLine) -> None:
            usual.append(raw.text)
            way(raw)

        take(self, lines, noted)

    known_lines._messages.cache_clear()
    monkeypatch.setattr(KnownLines, "take", watched)
    read_stream("job.log", io.BytesIO(data.encode()))
    return usual


def test_only_the_first_lines_of_a_head_and_of_a_wording_go_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [head + CHANNEL.format(channel, channel + 1) for channel in range(9) for head in HEADS]
    assert len(usual_lines(monkeypatch, "\n".join(lines) + "\n")) <= len(HEADS) + 2


def test_a_line_that_may_hold_two_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    glued = HEADS[0] + "Channel 00/0 : 0[0] -> 1[1] via " + HEADS[1] + "Connected all rings"
    lines = [HEADS[0] + CHANNEL.format(1, 2)] * 9 + [glued] * 9
    assert usual_lines(monkeypatch, "\n".join(lines) + "\n").count(glued) == 9
