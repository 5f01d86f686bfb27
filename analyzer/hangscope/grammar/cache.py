"""Keeps the compiled grammars in the user's cache folder: compiling takes longer than the rest of a short run.

What is kept carries the hash of all that it was made of, so it is either right or not used. It is plain JSON, of the
user's own or it is not read. Where nothing can be written nothing is kept, and every run compiles.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hangscope.grammar.matcher import Alternative, Grammar


def key(texts: Mapping[str, str]) -> str:
    """What the compiled grammars depend on: the grammar files, this package's code, and Python's `re`."""
    made_by = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))}
    whole = json.dumps([sys.version, made_by, texts], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def recall(wanted: str, texts: Mapping[str, str]) -> tuple[Grammar, ...] | None:
    """The grammars that were kept under this key; None when there are none, or the file is damaged."""
    path = _path()
    try:
        # under sudo the cache folder may be another's
        if path is None or path.stat().st_uid != os.geteuid():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] != wanted:
            return None
        return tuple(
            Grammar(
                item["source"],
                item["about"],
                tuple(item["anchors"]),
                tuple(
                    Alternative(kind, pattern, fields, tuple(literals), line)
                    for kind, pattern, fields, literals, line in item["alternatives"]
                ),
                file=item["file"],
                text=texts[item["file"]],
            )
            for item in kept["grammars"]
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None


def keep(made_of: str, grammars: Sequence[Grammar]) -> None:
    """Keeps the grammars under this key for the next run, if that is allowed."""
    path = _path()
    if path is None:
        return
    content = {
        "key": made_of,
        "grammars": [
            {
                "source": grammar.source,
                "about": grammar.about,
                "anchors": grammar.anchors,
                "file": grammar.file,
                "alternatives": [[a.kind, a.pattern, a.fields, a.literals, a.line] for a in grammar.alternatives],
            }
            for grammar in grammars
        ],
    }
    # written aside and moved: another process reads the old file or the new one, never half of it
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside.write_text(json.dumps(content), encoding="utf-8")
        aside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()


def _path() -> Path | None:
    """Where it is kept, by the XDG base directory rules; None when there is no home folder."""
    # a relative path has to be ignored, say the rules
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "hangscope" / f"grammars.{sys.implementation.cache_tag}.json"
