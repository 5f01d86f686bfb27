"""Keeps the compiled grammars from run to run: compiling takes longer than the rest of a short run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hangscope.cache import kept, stamps
from hangscope.grammar.matcher import Alternative, Grammar


def kept_grammars(folder: Path, compile_all: Callable[[], tuple[Grammar, ...]]) -> tuple[Grammar, ...]:
    """The grammars of a folder: as they were kept, unless a file of theirs or of this package has changed."""
    made_of = [*stamps(folder, ".lark"), *stamps(Path(__file__).parent, ".py")]
    return kept("grammars", made_of, compile_all, _pack, lambda packed: _unpack(folder, packed))


def _pack(grammars: Sequence[Grammar]) -> object:
    return [
        {
            "source": grammar.source,
            "about": grammar.about,
            "anchors": grammar.anchors,
            "file": grammar.file,
            "alternatives": [[a.kind, a.pattern, a.fields, a.literals, a.line] for a in grammar.alternatives],
        }
        for grammar in grammars
    ]


def _unpack(folder: Path, packed: Any) -> tuple[Grammar, ...]:  # noqa: ANN401 - what was in the file
    return tuple(
        Grammar(
            item["source"],
            item["about"],
            tuple(item["anchors"]),
            tuple(
                Alternative(kind, pattern, fields, tuple(literals), line)
                for kind, pattern, fields, literals, line in item["alternatives"]
            ),
            path=folder / item["file"],
        )
        for item in packed
    )
