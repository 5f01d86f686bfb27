"""Takes evidence away from cases with known causes, or reorders it, and looks for verdicts that are turned around.

    python tests/check_perturbed.py [CASES...] [--only TEXT] [--every N] [--jobs 2] [--most-turned N]

CASES are folders with cases anywhere below (`case.yaml` beside `logs/`); by default those in fixtures/. Files get
names that say nothing, in another order; one file after the other is left out; all files, or one, are cut at half. A
verdict may then stay or become weaker. It is turned around when it names, as a cause and with 0.8 or more, something
that neither the case allows nor the whole evidence gave. No test of the suite: all of it takes minutes;
`test_properties.py` does the same with a few cases. Exit status 1 when more than N are turned around; 2 without cases.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from calibration import find_cases
from hangscope.api import analyze
from hangscope.model import Finding, Role
from score_fixtures import FIXTURES

SURE = 0.8
_MOST_FILES = 8
"""Of more files than these, only so many are left out or cut, one at a time."""

Files = Mapping[str, bytes]


def perturb(files: Files, seed: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Everything that is done to the files of a case: what it is called, and the files."""
    suffixes = ["".join(Path(name).suffixes[-2:]) if Path(name).suffix in (".gz", ".zst") else ".txt" for name in files]
    names = [f"{number:03d}{suffix}" for number, suffix in enumerate(suffixes)]
    order = list(zip(names, files.values(), strict=True))
    random.Random(seed).shuffle(order)  # noqa: S311  (repeatable, no secret)
    yield "renamed", dict(order)
    yield "first half", {name: data[: len(data) // 2] for name, data in files.items()}
    yield "second half", {name: data[len(data) // 2 :] for name, data in files.items()}
    if len(files) < 2:
        return
    every = -(-len(files) // _MOST_FILES)
    for name in list(files)[::every]:
        yield f"without {name}", {other: data for other, data in files.items() if other != name}
        yield f"{name} cut", {**files, name: files[name][: len(files[name]) // 2]}


def ask(files: Files) -> Finding:
    with tempfile.TemporaryDirectory(prefix="perturbed") as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return analyze(folder, jobs=1).verdict


def check(folder: Path) -> list[tuple[str, str]]:
    """(what was done, what is wrong or "") of one case."""
    entries = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
    logs = folder / "logs"
    files = {p.relative_to(logs).as_posix(): p.read_bytes() for p in sorted(logs.rglob("*")) if p.is_file()}
    whole = ask(files)
    allowed = {entries["cause"], *(entries["accept"] or ()), whole.cause}
    found = []
    for done, changed in perturb(files, folder.name):
        verdict = ask(changed)
        turned = verdict.cause not in allowed and verdict.role is Role.CAUSE and verdict.confidence >= SURE
        told = f"{verdict.cause} {verdict.confidence:.2f} {verdict.rule} (was {whole.cause} {whole.confidence:.2f})"
        found.append((done, f"{folder.name}, {done}: {told}" if turned else ""))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cases", type=Path, nargs="*", default=[FIXTURES])
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case of N")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most-turned", type=int, metavar="N")
    options = parser.parse_args()
    folders = [folder for folder in find_cases(options.cases) if options.only in folder.name][:: options.every]
    if not folders:
        print("no case found", file=sys.stderr)
        return 2
    total, turned = Counter[str](), Counter[str]()
    with multiprocessing.Pool(options.jobs) as pool:
        for results in pool.imap(check, folders):
            for done, wrong in results:
                kind = done if done in ("renamed", "first half", "second half") else done.split()[-1]
                kind = "one file cut" if kind == "cut" else "one file left out" if done.startswith("without") else kind
                total[kind] += 1
                if wrong:
                    turned[kind] += 1
                    print(wrong, flush=True)
    for kind, count in total.items():
        print(f"{kind:18} {count:5} verdicts, {turned[kind]} turned around")
    return int(options.most_turned is not None and turned.total() > options.most_turned)


if __name__ == "__main__":
    sys.exit(main())
