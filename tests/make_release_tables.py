"""Writes grammars/releases/: which wording, source line and function belong to which release of NCCL and PyTorch.

    python tests/make_release_tables.py FOLDER

FOLDER holds the catalogues that were taken from the releases themselves: ``nccl_messages.jsonl`` and
``torch_messages.jsonl`` (every message with the first and the last release that has it) and ``torch_lines.json``
(the lines of messages and functions in PyTorch's sources, a release each). What tells no release from another is left
out. `hangscope.align.releases` reads what this writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RELEASES = Path(__file__).resolve().parent.parent / "grammars" / "releases"
MIN_LITERAL = 12
"""Characters that a text must spell out: ``%s : %s`` says nothing about a release."""

Pieces = tuple[str, ...]
"""What a text spells out, and between it, by turns, what stands in the holes: a number (``#``) or anything (``*``)."""
Text = tuple[Pieces, int, int]
"""Pieces, number of the first release, number behind the last one. In the table, a 1 follows where it has to begin."""

_NCCL_PATCHES = {
    3: (5, 7), 4: (2, 6, 7, 8), 5: (6, 7), 6: (4,), 7: (3, 5, 6, 8), 8: (3, 4), 9: (6, 8, 9), 10: (3,), 11: (4,),
    12: (7, 10, 12), 13: (4,), 14: (3,), 15: (1, 5), 16: (2, 5), 17: (1,), 18: (1, 3, 5, 6), 19: (1, 3, 4), 20: (3, 5),
    21: (5,), 22: (3,), 23: (4,), 24: (3,), 25: (1,), 26: (2, 3, 5, 6), 27: (3, 5, 6, 7), 28: (3, 7, 9), 29: (2, 3, 7),
    30: (3, 4, 7), 31: (2,), 32: (3,),
}  # fmt: skip
_NCCL_TAGS = [f"2.{minor}.{patch}" for minor, patches in _NCCL_PATCHES.items() for patch in patches]
"""The releases that the catalogue was taken from."""

_NAMED = {" - %s COMPLETE": ("Abort", "Destroy", "Finalize", "Revoke")}
"""What stands in a hole of a template whose words would fit another one ("Init COMPLETE")."""
_PRINTF = re.compile(r"%[-+ 0#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|t|j)?[diouxXcspfFeEgG]|\{\w+\}")
_BRACES = re.compile(r"\{[^{}]*\}")
_WORD = re.compile(r"[A-Za-z_]{4,}")
_TORCH_SOURCES = frozenset({
    *("ProcessGroupNCCL", "NCCLUtils", "c10d", "TCPStore", "socket", "elastic", "elastic.rendezvous", "torchrun"),
    *("Reducer", "ProcessGroupWrapper", "ProcessGroupGloo", "FlightRecorder", "DDP", "FSDP", "DeviceMesh"),
})  # fmt: skip
_PROVEN = frozenset({"binary", "source", "live"})
_SAYS = {
    "async_exception": "raised the following async exception",
    "blocking_wait": "timed out in blocking wait",
    "data_inconsistency": "To avoid data inconsistency",
    "detected_by_watchdog": "detected by watchdog at work",
    "failed_or_timed_out": "Some NCCL operations have failed or timed out",
    "first_to_signal": "First PG on this rank to signal dumping",
    "no_gil": "Could not acquire GIL",
    "observed_dump_signal": "Observed flight recorder dump signal",
    "preparing_dump": "preparing to dump debug info",
    "remote_error": "remote error detected from rank",
    "stack_found": "Stack trace of the failed collective:",
    "stack_missing": "Stack trace of the failed collective not found",
    "terminated_with_exception": "watchdog thread terminated with exception",
    "timeout_at_work": "Timeout at NCCL work",
    "watchdog_timeout": "Watchdog caught collective operation timeout",
    "guessing_device": "Guessing device ID based on global rank",
    "run.py omp_banner": "Setting OMP_NUM_THREADS",
    "multiprocessing/api.py sending_sigterm": "closing signal SIGTERM",
    "multiprocessing/api.py failed_binary": "of binary:",
    "multiprocessing/api.py failed_fn": "of fn:",
    "multiprocessing/api.py closing_via": "via signal",
    "agent/server/api.py death_signal": "death signal, shutting down workers",
}
"""What the messages of ``torch_lines.json`` say: a line number counts only together with its wording."""


def main() -> None:
    (folder,) = map(Path, sys.argv[1:])
    RELEASES.mkdir(exist_ok=True)
    _write("nccl", _nccl(_read_lines(folder / "nccl_messages.jsonl")))
    lines = json.loads((folder / "torch_lines.json").read_text(encoding="utf-8"))
    _write("torch", _torch(_read_lines(folder / "torch_messages.jsonl"), lines))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _write(product: str, table: dict[str, Any]) -> None:
    """A line an entry, so that a change shows in a diff."""
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f" {json.dumps(name)}: {json.dumps(item)}" for name, item in sorted(value.items()))
            parts.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    (RELEASES / f"{product}.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _nccl(messages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    # a preview was scanned too: what came with it came with the release after it, and what it had last may live on
    first = {tag: number for number, tag in enumerate(_NCCL_TAGS)} | {"2.31.0a7": _NCCL_TAGS.index("2.31.2")}
    behind = {tag: number + 1 for number, tag in enumerate(_NCCL_TAGS)} | {"2.31.0a7": len(_NCCL_TAGS) + 1}
    behind[_NCCL_TAGS[-1]] = len(_NCCL_TAGS) + 1
    texts = [
        (_pieces(_PRINTF, template), first[message["first"]], behind[message["last"]])
        for message in messages
        for template in _spell_out(message["template"].split("\n")[0])
        if message["level"] in ("INFO", "WARN", "ATTN") and message["kind"] != "plugin" and message["file"]
    ]
    return {"releases": _NCCL_TAGS, "texts": _by_word(texts, len(_NCCL_TAGS))}


def _spell_out(template: str) -> list[str]:
    for part, names in _NAMED.items():
        if part in template:
            return [template.replace(part, part.replace("%s", name)) for name in names]
    return [template]


def _torch(messages: Iterable[dict[str, Any]], lines: dict[str, Any]) -> dict[str, Any]:
    releases = [_minor(release) for release in lines]
    places = {release: number for number, release in enumerate(releases)}
    texts = []
    for message in messages:
        if message["source"] not in _TORCH_SOURCES or message["evidence"] not in _PROVEN or not message["first"]:
            continue
        begin = places[message["first"].removeprefix("<=")]
        end = places[message["last"]] + 1 if message["last"] else len(releases) + 1
        template = message["template"].strip("\n").split("\n")[0].replace("{pgprefix}", "")
        texts.append((_pieces(_BRACES, template), begin, end))
    return {
        "releases": releases,
        "texts": _by_word(texts, len(releases)),
        "lines": _torch_lines(lines),
        "functions": _torch_functions(lines),
    }


def _torch_lines(lines: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """What a line says, and its file -> its line there -> the releases."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, release in enumerate(lines.values()):
        named = {("ProcessGroupNCCL.cpp", name): line for name, line in release.get("ProcessGroupNCCL.cpp", {}).items()}
        named |= {(name.split()[0], name): line for name, line in release.get("elastic", {}).items()}
        for (file, name), line in named.items():
            if name in _SAYS:
                found[f"{file} {_SAYS[name]}"][str(line)].append(number)
        for function, line in (release.get("exception_lines_seen") or {}).items():
            found[f"ProcessGroupNCCL.cpp Exception raised from {function}"][str(line)].append(number)
    return found


def _torch_functions(lines: dict[str, Any]) -> dict[str, list[list[int]]]:
    """File and function -> release, first and last line there."""
    found: dict[str, list[list[int]]] = defaultdict(list)
    for number, release in enumerate(lines.values()):
        for file, functions in release["python_frames"].items():
            for function, bounds in functions.items():
                # where overloads are declared in front of it, there are several pairs
                pairs = bounds if isinstance(bounds[0], list) else [bounds]
                found[f"{file} {function}"] += [[number, first, last] for first, last in pairs]
    return found


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _pieces(holes: re.Pattern[str], template: str) -> Pieces:
    """The pieces of a template; an empty one at an end means that a hole is there."""
    pieces, at = [], 0
    for hole in holes.finditer(template):
        pieces += [template[at : hole.start()].replace("%%", "%"), "*" if hole[0][-1] in "sc}" else "#"]
        at = hole.end()
    return (*pieces, template[at:].replace("%%", "%").rstrip())


def _by_word(texts: Iterable[Text], newest: int) -> dict[str, list[list[Any]]]:
    """Every text that tells releases apart, below its rarest word; and what looks like one and does not."""
    spelled = [text for text in texts if sum(map(len, text[0][::2])) >= MIN_LITERAL and _words(text[0])]
    united: dict[Pieces, list[int]] = {}
    for pieces, begin, end in spelled:
        known = united.setdefault(pieces, [begin, end])
        known[:] = [min(known[0], begin), max(known[1], end)]
    telling = {pieces for pieces, (begin, end) in united.items() if begin > 0 or end <= newest}
    samples = ["".join("7" if number % 2 else piece for number, piece in enumerate(pieces)) for pieces in telling]
    like = {pieces for pieces in united.keys() - telling if any(_holds(pieces, sample) for sample in samples)}
    counts = Counter(word for pieces in united for word in set(_words(pieces)))
    table: dict[str, list[list[Any]]] = defaultdict(list)
    for pieces in sorted(telling | like):
        word = min(_words(pieces), key=lambda word: (counts[word], -len(word), word))
        # cut off at its beginning, a later text would read like this one
        inside = [1] if any(_ends_with(other, pieces) for other in telling | like if other != pieces) else []
        table[word].append([list(pieces), *united[pieces], *inside])
    return table


def _ends_with(other: Pieces, pieces: Pieces) -> bool:
    return (
        other[-len(pieces) :][1:] == pieces[1:] and other[-len(pieces)].endswith(pieces[0])
        if len(other) >= len(pieces)
        else False
    )


def _words(pieces: Sequence[str]) -> list[str]:
    """Words that are whole whatever stands in the holes beside them."""
    found = []
    for number, piece in enumerate(pieces[::2]):
        for word in _WORD.finditer(piece):
            begins = word.start() > 0 or number == 0
            ends = word.end() < len(piece) or number == len(pieces) // 2
            if begins and ends:
                found.append(word[0])
    return found


def _holds(pieces: Pieces, text: str) -> bool:
    at = 0
    for piece in pieces[::2]:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


if __name__ == "__main__":
    main()
