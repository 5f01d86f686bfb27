"""Lines of evidence as they stand in the logs: the line itself marked, what its writer wrote around it dimmed."""

from __future__ import annotations

import itertools

from rich.text import Text

from hangscope.expressions import expression
from hangscope.model import Evidence, Finding, Report
from hangscope.report.answers import proof_word
from hangscope.report.printable import one_line
from hangscope.report.proof import Proof, at_first_sight, place_words
from hangscope.report.spans import count_words, rank_words
from hangscope.report.terminal.screen import Screen

_LINES = 6
_ROWS = 3
_PLACES = 3
_MARK, _NO_MARK = "> ", "  "
_LONG_HEAD = 16
# launchers' tags, the headers of torch and NCCL: who wrote the line, and when
_HEAD = expression(r".*(?:\]:? |NCCL (?:INFO|WARN) )")
_GAP = expression(r"(?<=\S) {8,}")


def show_proof(screen: Screen, report: Report) -> None:
    """The lines that prove the verdict, but for those that stand on the first screen already."""
    evidence = report.verdict.evidence
    if screen.options.verbose:
        proofs, left = [Proof(one) for one in evidence], 0
    else:
        chosen = at_first_sight(evidence, _LINES)
        left = len(evidence) - sum(1 + len(proof.alike) for proof in chosen)
        proofs = [proof for proof in chosen[1:] if not _stands_beside(proof.line, chosen[0].line)]
    if not proofs:
        return
    screen.heading(
        proof_word(report.verdict) if screen.options.verbose else f"More {proof_word(report.verdict).lower()}"
    )
    _show(screen, proofs, indent=1)
    if left > 0:
        screen.prose(f"and {count_words(left, 'more line')} (--verbose shows all)", indent=1, style="dim")


def _stands_beside(item: Evidence, best: Evidence) -> bool:
    """Whether the line was shown as one of those around the best one."""
    return item.at.file == best.at.file and item.text in (*best.before, *best.after)


def show_all_evidence(screen: Screen, finding: Finding, *, indent: int) -> None:
    """Every line of a finding."""
    _show(screen, [Proof(one) for one in finding.evidence], indent=indent)


def best_line(screen: Screen, finding: Finding, *, width: int) -> Text | None:
    """Where the first line of evidence stands, the line itself, and those around it; in so many columns."""
    if not finding.evidence:
        return None
    best = at_first_sight(finding.evidence, _LINES)[0]
    content = _head(best.line)
    for row in _quoted(screen, best.line, width, around=True):
        content.append("\n").append(row)
    if best.alike:
        content.append(f"\n{_alike_words(best)}", style="dim")
    return content


def _show(screen: Screen, proofs: list[Proof], *, indent: int) -> None:
    for proof in proofs:
        screen.show(_head(proof.line), indent=indent)
        for row in _quoted(screen, proof.line, screen.width - indent - 2, around=screen.options.verbose):
            screen.show(row, indent=indent + 2)
        if proof.alike:
            screen.prose(_alike_words(proof), indent=indent + 2, style="dim")


def _head(item: Evidence) -> Text:
    head = Text(overflow="fold")
    head.append(place_words(item.at), style="underline")
    if item.why:
        head.append(f"  {one_line(item.why)}")
    return head


def _alike_words(proof: Proof) -> str:
    """``and 14 alike: ranks 1-15``, or where they stand when they name no ranks."""
    who = rank_words(proof.ranks_alike, most=48) if proof.ranks_alike else ""
    if not who and len(proof.alike) <= _PLACES:
        who = ", ".join(place_words(one.at) for one in proof.alike)
    return f"and {len(proof.alike):,} alike" + (f": {who}" if who else "")


def _quoted(screen: Screen, item: Evidence, width: int, *, around: bool) -> list[Text]:
    """The rows of a quoted line; when others stand around it, it is marked, and each of those has one row."""
    if not (around and (item.before or item.after)):
        return [Text(screen.shorten(_squeezed(screen, item.text.strip()), (width - 8) * _ROWS), overflow="fold")]
    room = width - len(_MARK)
    # what all have in front is no indentation
    *before, text = (one_line(line) for line in (*item.before, item.text))
    after = [one_line(line) for line in item.after]
    margin = min(len(line) - len(line.lstrip()) for line in (*before, text, *after))
    rows = [_beside(screen, line[margin:], text[margin:], room) for line in before]
    shown = screen.shorten(_squeezed(screen, text[margin:]), (room - 8) * _ROWS)
    for number, row in enumerate(Text(shown).wrap(screen.console, room, overflow="fold")):
        row.rstrip()
        rows.append(Text.assemble((_NO_MARK if number else _MARK, "bold red"), (row.plain, "bold")))
    return rows + [_beside(screen, line[margin:], text[margin:], room) for line in after]


def _beside(screen: Screen, line: str, best: str, room: int) -> Text:
    """A line that stands beside the one that counts: one row of it, if need be without the head that both have."""
    line, best = _squeezed(screen, line), _squeezed(screen, best)
    mark = screen.glyphs.ellipsis
    if len(line) > room:
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(line, best, strict=False)))
        head = _HEAD.match(line, 0, same)
        line = f"{mark} {line[head.end() :].lstrip()}" if head is not None and len(head[0]) > _LONG_HEAD else line
    if len(line) > room:
        line = line[: room - len(mark)] + mark
    return Text(_NO_MARK + line, style="dim", overflow="crop", no_wrap=True)


def _squeezed(screen: Screen, text: str) -> str:
    """The line without long addresses, and without wide gaps behind its indentation."""
    return _GAP.sub("  ", screen.drop_noise(one_line(text)))
