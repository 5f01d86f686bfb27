"""Says which messages of a catalogue hangscope recognizes: each is printed alone, and analyzed.

    python tests/check_messages.py CATALOGUE [--level WARN,ATTN] [--source ProcessGroupNCCL] [--missing] [--odd]
                                   [--min-recognized SHARE] [--min-shown SHARE] [--max-claimed COUNT]

A message with a cause is recognized when a finding of the report has that cause, or one that `torch_messages` names.
One without must not make a finding that blames somebody, and has to be shown beside a finding about its process. For
the catalogue's form, see `message_samples`. No test of the suite, because the catalogues are not part of the
repository. Exit status 1 when less is right than asked for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hangscope.api import analyze, analyze_text
from hangscope.diagnose.catalogue import BOOKKEEPING_FAMILY, causes
from hangscope.report.serialize import to_dict
from message_samples import Row, Sample, is_bare, read_catalogue, samples
from torch_messages import answer_to

_NO_CAUSE = "(none)"
# A fault whose finding every version names; what NCCL says besides has to stand in its report.
_COMPANION = (
    "{head}node02:4113:4200 [1] bootstrap.cc:123 NCCL WARN Bootstrap Root : rank 3 of 8 ranks has already checked in\n"
)


@dataclass
class Tally:
    """What became of the samples of one cause."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.right + len(self.wrong)


def chosen(rows: Iterable[Row], levels: str | None, sources: str | None) -> list[Row]:
    """The rows of these levels and sources that say anything at all."""
    wanted = {
        "level": frozenset(levels.split(",")) if levels else None,
        "source": frozenset(sources.split(",")) if sources else None,
    }
    return [
        row
        for row in rows
        if not is_bare(row) and all(values is None or row.get(key) in values for key, values in wanted.items())
    ]


def found_causes(sample: Sample) -> set[str]:
    """The causes of all findings that blame somebody or something."""
    return {
        finding.cause for finding in analyze_text(sample.log) if causes()[finding.cause].family != BOOKKEEPING_FAMILY
    }


def is_shown(sample: Sample, folder: Path) -> bool:
    """Whether the first line of the text stands in the report on a fault of the same process."""
    stamp = "[2026-01-31 12:00:00] " if sample.log.startswith("[2026") else ""
    (folder / "nccl.log").write_text(_COMPANION.format(head=stamp) + sample.log + "\n", encoding="utf-8")
    words = " ".join(sample.text.strip().splitlines()[0].split())
    return words in " ".join(str(to_dict(analyze(folder, jobs=1))["findings"]).replace("\\'", "'").split())


def check(rows: Iterable[Row], *, odd: bool, shown: bool) -> tuple[dict[str, Tally], Tally]:
    """Tallies by cause, and one of the messages without a cause that have to be shown."""
    by_cause: dict[str, Tally] = defaultdict(Tally)
    beside = Tally()
    with tempfile.TemporaryDirectory(prefix="messages") as name:
        folder = Path(name)
        for row in rows:
            for number, sample in enumerate(samples(row, odd=odd)):
                found = found_causes(sample)
                tally = by_cause[sample.cause or _NO_CAUSE]
                if _is_right(sample, found):
                    tally.right += 1
                else:
                    tally.wrong.append(f"{_describe(sample)}\n        found: {', '.join(sorted(found)) or 'nothing'}")
                if shown and not number and sample.cause is None and row.get("level") in ("WARN", "ATTN"):
                    if is_shown(sample, folder):
                        beside.right += 1
                    else:
                        beside.wrong.append(_describe(sample))
    return by_cause, beside


def _is_right(sample: Sample, found: set[str]) -> bool:
    """Whether the findings answer a message: by its cause, or as `torch_messages` says."""
    answer = answer_to(sample.row)
    if sample.cause in found or (answer is not None and not found.isdisjoint(answer.causes)):
        return True
    return not found and (sample.cause is None or (answer is not None and not answer.causes))


def _describe(sample: Sample) -> str:
    row = sample.row
    where = f"{row.get('file') or row.get('source')}, {row['first']} to {row['last'] or 'now'}"
    return f"{(sample.log.splitlines() or [''])[0]}  ({where})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--level", help="NCCL's levels, by comma")
    parser.add_argument("--source", help="torch's sources, by comma")
    parser.add_argument("--cause", help="only messages of these causes, by comma; 'null' for those without")
    parser.add_argument("--missing", action="store_true", help="list what is not recognized")
    parser.add_argument("--odd", action="store_true", help="fill the holes with unexpected values")
    parser.add_argument(
        "--shown", action="store_true", help="also check that WARN and ATTN messages without a cause are shown"
    )
    parser.add_argument("--min-recognized", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--min-shown", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--max-claimed", type=int, metavar="COUNT", help="messages without a cause that get one")
    options = parser.parse_args()
    rows = chosen(read_catalogue(options.catalogue), options.level, options.source)
    if options.cause:
        wanted = {None if name == "null" else name for name in options.cause.split(",")}
        rows = [row for row in rows if row["cause"] in wanted or wanted & set(row.get("refine", {}).values())]
    by_cause, beside = check(rows, odd=options.odd, shown=options.shown)
    without = by_cause.pop(_NO_CAUSE, Tally())
    for cause, tally in sorted(by_cause.items(), key=lambda item: -len(item[1].wrong)):
        print(f"{cause:28} {tally.right:4} of {tally.total}")
        if options.missing:
            print("".join(f"    {text}\n" for text in tally.wrong), end="")
    right, total = sum(t.right for t in by_cause.values()), sum(t.total for t in by_cause.values())
    print(f"{'with a cause':28} {right:4} of {total} recognized ({right / max(total, 1):.1%})")
    print(f"{'without a cause':28} {len(without.wrong):4} of {without.total} claimed")
    if options.missing:
        print("".join(f"    {text}\n" for text in without.wrong), end="")
    if options.shown:
        print(f"{'':28} {beside.right:4} of {beside.total} shown beside a finding")
        if options.missing:
            print("".join(f"    {text}\n" for text in beside.wrong), end="")
    return int(
        right < options.min_recognized * total
        or beside.right < options.min_shown * beside.total
        or (options.max_claimed is not None and len(without.wrong) > options.max_claimed)
    )


if __name__ == "__main__":
    sys.exit(main())
