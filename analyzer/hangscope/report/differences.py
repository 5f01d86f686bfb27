"""What two jobs differ in, in words and as plain values, the same for every format."""

from __future__ import annotations

from typing import Any

from hangscope.model import ComparedValue
from hangscope.model.difference import CallDifference, Called, CallsCompared, Change, Difference, JobDifference, JobSide
from hangscope.model.history import SOURCE_WORDS
from hangscope.report.answers import confidence_words
from hangscope.report.comparisons import who_has
from hangscope.report.printable import one_line, printable
from hangscope.report.serialize import plain_finding, plain_job, plain_value
from hangscope.report.spans import count_words, fold_hosts, fold_numbers, rank_words

Plain = dict[str, Any]


def differ(difference: JobDifference) -> bool:
    """Whether anything differs: a property of the jobs, or their calls."""
    calls = difference.calls
    return bool(difference.differences or calls.differences or calls.only_good or calls.only_bad)


def verdict_words(side: JobSide) -> str:
    """``collective-op-mismatch (high 0.88): Rank 2 called ...``."""
    verdict = side.verdict
    return f"{verdict.cause} ({confidence_words(verdict)}): {' '.join(one_line(verdict.title).split())}"


def call_title(difference: CallDifference) -> str:
    """``call 4 of world (4 ranks)``, and what the job calls the group."""
    about = [difference.description] if difference.description not in ("", difference.group) else []
    about += [count_words(difference.size, "rank")] if difference.size else []
    # torch's own names are mere numbers
    group = f"group {difference.group}" if difference.group.isdecimal() else difference.group
    return f"call {difference.seq} of {one_line(group)}" + (f" ({one_line(', '.join(about))})" if about else "")


def before_words(difference: CallDifference) -> str:
    """How far the jobs are equal."""
    if not difference.equal_before:
        return "it is the first that both show"
    count = difference.equal_before
    return f"the {count:,} calls before are equal" if count > 1 else "the call before is equal"


def reading_of(difference: CallDifference) -> str:
    """What such a difference means."""
    good, bad = difference.good, difference.bad
    if len(good) == len(bad) == 1 and good[0].call and bad[0].call:
        return "All ranks call something else: the program, its settings or its data are others."
    if any(not called.call for called in bad) and len(good) == 1:
        return "In the bad job some ranks did not come to this call, in the good job all did."
    if len(good) == 1 and len(bad) > 1:
        return "In the bad job the ranks part here, in the good job they do not."
    return ""


def called_words(called: Called) -> str:
    """The call, or that there is none."""
    return one_line(called.call) or "no call"


def calls_words(calls: CallsCompared) -> str:
    """One sentence on what was compared."""
    if not calls.source:
        return (
            "The calls could not be compared: the jobs have neither NCCL's call lines nor flight recorders in common."
        )
    compared = f"Compared by {SOURCE_WORDS.get(calls.source, calls.source)}: {count_words(calls.groups, 'group')}"
    if calls.groups and not calls.differences:
        equal = f"{count_words(calls.equal, 'call')}, all equal as far as both jobs came"
        compared += f", {equal if calls.equal else 'of which both jobs show no call of the same number'}"
    for names, job in ((calls.only_good, "good"), (calls.only_bad, "bad")):
        if names:
            compared += f"; {count_words(len(names), 'group')} of the {job} job without a counterpart"
    return compared + "."


def other_hosts(difference: JobDifference) -> str:
    """That the jobs ran on other machines, which is no difference by itself; "" when they did not."""
    good, bad = set(difference.good.job.hosts), set(difference.bad.job.hosts)
    if not good or not bad or good == bad:
        return ""
    hosts = f"{one_line(fold_hosts(good))} and {one_line(fold_hosts(bad))}"
    return f"They ran on {'other hosts' if not good & bad else 'hosts of which some are others'}: {hosts}."


def value_words(value: ComparedValue, *, alone: bool) -> str:
    """A value, and who has it unless all have."""
    return value.text if alone else f"{value.text} ({who_has(value, most=40)})"


def mark(difference: Difference) -> str:
    """``!`` where ranks of the bad job that have to agree do not."""
    return "!" if difference.change is Change.SPLIT and difference.must_agree else ""


def silence(difference: Difference) -> str:
    """What stands for a job that does not say it."""
    return "not set" if difference.telling else "not said"


def to_plain(difference: JobDifference) -> Plain:
    """All of it as dictionaries and lists with keys in a fixed order; text is made printable."""
    return {
        "schema_version": difference.schema_version,
        "hangscope_version": difference.hangscope_version,
        "good": _side(difference.good),
        "bad": _side(difference.bad),
        "differences": [_difference(one) for one in difference.differences],
        "equal": [{"topic": topic, "aspect": printable(aspect)} for topic, aspect in difference.equal],
        "calls": {
            "source": difference.calls.source,
            "groups": difference.calls.groups,
            "equal": difference.calls.equal,
            "differences": [_call_difference(one) for one in difference.calls.differences],
            "only_good": [printable(name) for name in difference.calls.only_good],
            "only_bad": [printable(name) for name in difference.calls.only_bad],
        },
    }


def _side(side: JobSide) -> Plain:
    return {"name": printable(side.name), "job": plain_job(side.job), "verdict": plain_finding(side.verdict)}


def _difference(difference: Difference) -> Plain:
    return {
        "topic": difference.topic,
        "aspect": printable(difference.aspect),
        "change": str(difference.change),
        "must_agree": difference.must_agree,
        "telling": difference.telling,
        "good": [plain_value(value) for value in difference.good],
        "bad": [plain_value(value) for value in difference.bad],
    }


def _call_difference(difference: CallDifference) -> Plain:
    return {
        "group": printable(difference.group),
        "size": difference.size,
        "description": printable(difference.description),
        "seq": difference.seq,
        "equal_before": difference.equal_before,
        "good": [_called(called) for called in difference.good],
        "bad": [_called(called) for called in difference.bad],
    }


def _called(called: Called) -> Plain:
    return {
        "call": printable(called.call) or None,
        "ranks": fold_numbers(called.ranks, strides=False),
        "where": printable(called.where) or None,
        "file": None if called.at is None else printable(called.at.file),
        "line": None if called.at is None else called.at.line,
    }


def ranks_words(called: Called, everyone: int) -> str:
    """``all ranks``, ``rank 2``."""
    return "all ranks" if len(called.ranks) == everyone > 1 else rank_words(called.ranks, most=40)
