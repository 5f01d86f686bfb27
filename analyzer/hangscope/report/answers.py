"""Answers the first questions in words, the same in every format: what it is, who, where, with which versions."""

from __future__ import annotations

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import Evidence, Finding, JobInfo, Report, Role, StackState, StoryStep
from hangscope.report.printable import one_line
from hangscope.report.spans import confidence_word, count_words, fold_hosts, rank_numbers, rank_words
from hangscope.report.story import says_nothing
from hangscope.report.times import split_time
from hangscope.sources.stamps import REFERENCE_YEAR

FAULT, UNSURE, GOOD = "fault", "unsure", "good"
"""What kind of answer a verdict is."""

_PLACES = 3


def tone(verdict: Finding) -> str:
    """Whether a verdict names a fault, is not sure of one, or says that all is well."""
    if verdict.cause == NO_FAULT_FOUND:
        return GOOD
    return UNSURE if verdict.cause == INSUFFICIENT_EVIDENCE or verdict.role is Role.SYMPTOM else FAULT


def names_fault(finding: Finding) -> bool:
    """Whether a finding says what is wrong: there is more to read on its cause."""
    return finding.cause not in (NO_FAULT_FOUND, INSUFFICIENT_EVIDENCE)


def headline(verdict: Finding) -> str:
    """What stands above the verdict's title: how much it is worth."""
    if verdict.cause == NO_FAULT_FOUND:
        return "NO FAULT FOUND"
    if verdict.cause == INSUFFICIENT_EVIDENCE:
        return "NOT ENOUGH EVIDENCE"
    if verdict.role is Role.SYMPTOM:
        return "A SYMPTOM ONLY: its cause is not in this evidence"
    return {"high": "ROOT CAUSE", "medium": "LIKELY CAUSE", "low": "BEST GUESS"}[confidence_word(verdict.confidence)]


def steps_title(verdict: Finding) -> str:
    """How the next steps are headed."""
    if verdict.cause == NO_FAULT_FOUND:
        return "If it hangs again"
    return "What to collect" if verdict.cause == INSUFFICIENT_EVIDENCE else "What to do now"


def proof_word(verdict: Finding) -> str:
    """How the lines are headed that a verdict cites; of one that knows no reason they prove nothing."""
    return "Seen" if verdict.cause == INSUFFICIENT_EVIDENCE else "Proof"


def confidence_words(finding: Finding) -> str:
    """``high 0.93``."""
    return f"{confidence_word(finding.confidence)} {finding.confidence:.2f}"


def part_words(finding: Finding) -> str:
    """What part a finding plays: its role, or the cause that explains it."""
    return f"explained by {finding.explained_by}" if finding.explained_by else str(finding.role)


def who_lines(report: Report) -> list[str]:
    """Who is at fault, and on a line of its own who suffers from it."""
    verdict = report.verdict
    culprit = next((state for state in report.ranks if verdict.ranks == (state.rank,)), None)
    words = rank_words(verdict.ranks, most=60) if verdict.ranks else ""
    hosts = set(verdict.hosts)
    if culprit is not None:
        known = [
            *([one_line(culprit.host)] if culprit.host else []),
            *([f"GPU {one_line(culprit.gpu)}"] if culprit.gpu is not None else []),
            *([f"pid {culprit.pid}"] if culprit.pid is not None else []),
        ]
        words += f" ({', '.join(known)})" if known else ""
        hosts -= {culprit.host or ""}
    if hosts:
        words += (" on " if words else "host ") + one_line(fold_hosts(hosts))
    lines = [words] if words else []
    if verdict.affected_ranks and verdict.cause != NO_FAULT_FOUND:
        count = len(verdict.affected_ranks)
        numbers = rank_numbers(verdict.affected_ranks, most=60)
        verb = "suffers" if count == 1 else "suffer"
        suffer = f"{count_words(count, 'rank')} {verb}"
        lines.append(f"{suffer} from it: {numbers}" if words else f"not known; {suffer}: {numbers}")
    return lines


def where_lines(report: Report) -> list[str]:
    """The lines of the job's own code where those at fault are, where most of them are first."""
    places = [(one_line(where), ranks) for where, ranks in code_places(report, report.verdict)]
    if len(places) <= 1:
        return [where for where, _ in places]
    return [f"{where} ({rank_words(ranks, most=30)})" for where, ranks in places[:_PLACES]]


def code_places(report: Report, finding: Finding) -> list[tuple[str, tuple[int, ...]]]:
    """``file:line function`` where the ranks at fault are, and which of them; where most of them are first.

    Of a process whose rank nobody knows it is the place of the stack that the finding cites.
    """
    at_fault = frozenset(finding.ranks)
    places: dict[str, list[int]] = {}
    for state in report.ranks:
        if state.where and state.rank in at_fault:
            places.setdefault(state.where, []).append(state.rank)
    if names_fault(finding) and not at_fault and finding.evidence:
        places.update(
            (stack.where, []) for stack in report.stacks if stack.where and _cites(finding.evidence[0], stack)
        )
    return [(where, tuple(ranks)) for where, ranks in sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))]


def _cites(line: Evidence, stack: StackState) -> bool:
    """Whether a line of evidence is a frame of the dump that stands for a stack."""
    at, of = line.at, stack.at
    if at.file != of.file or at.line is None or of.line is None or not 0 < at.line - of.line <= len(stack.frames):
        return False
    return any(frame.partition(" (")[0] in line.text for frame in stack.frames)


def tells_of_ranks(report: Report) -> bool:
    """Whether anything is known of where the ranks are."""
    return any(state.state != "unknown" or state.host or state.where for state in report.ranks)


def ranks_about(report: Report) -> str:
    """``16 ranks, 2 hosts``."""
    hosts = {state.host for state in report.ranks if state.host}
    return count_words(len(report.ranks), "rank") + (f", {count_words(len(hosts), 'host')}" if hosts else "")


def other_findings(report: Report) -> list[Finding]:
    """What else was found, without what says nothing where the verdict says something."""
    return [
        finding
        for finding in report.findings
        if finding != report.verdict and (says_nothing(report.verdict) or not says_nothing(finding))
    ]


def story_day(report: Report) -> str:
    """The day of the story in words; "" when it is not one."""
    dates = {split_time(step.time)[0] for step in report.story if step.time}
    return day_words(dates.pop()) if len(dates) == 1 else ""


def story_who(step: StoryStep) -> str:
    """Whom a step of the story is about, where its own words do not name them; else ""."""
    who = rank_words(step.ranks, most=40)
    return who if step.ranks and who.casefold() not in step.text.casefold() else ""


def job_words(job: JobInfo) -> str:
    """``torch 2.8.0, NCCL 2.27.3, started by torchrun``."""
    words = []
    for name, version, inferred in (
        ("torch", job.torch_version, job.inferred.get("torch")),
        ("NCCL", job.nccl_version, job.inferred.get("nccl")),
        ("CUDA", job.cuda_version, None),
        ("driver", job.driver_version, None),
    ):
        if version:
            words.append(f"{name} {version if isinstance(version, str) else ' and '.join(version)}")
        elif inferred:
            words.append(f"{name} {inferred.text} (inferred from {inferred.by})")
    if job.launcher:
        words.append(f"started by {job.launcher}")
    return ", ".join(words)


def day_words(date: str) -> str:
    """A date; without its year where the logs name none (then it is the sources layer's reference year)."""
    year, _, rest = date.partition("-")
    return f"{rest}, year unknown" if year == str(REFERENCE_YEAR) else date
