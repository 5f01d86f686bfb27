"""Says how the attempts before the last one ended, and whether all ended alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import AttemptResult, Finding
from hangscope.report.spans import confidence_word

_SAYS_NOTHING = (NO_FAULT_FOUND, INSUFFICIENT_EVIDENCE)


def describe_attempts(attempts: Sequence[AttemptResult], verdict: Finding) -> Iterator[str]:
    """Warnings about earlier attempts: a line for each, and one when the same fault ended all that tell.

    Args:
        attempts: the earlier ones, the oldest first.
        verdict: about the last one.
    """
    for attempt in attempts:
        told = attempt.verdict
        if told.cause in _SAYS_NOTHING:
            yield f"attempt {attempt.number}, before a restart: its lines do not show why it ended"
        else:
            sure = confidence_word(told.confidence)
            yield f"attempt {attempt.number}, before a restart: {told.title} ({told.cause}, {sure})"
    told_of = [attempt.verdict for attempt in attempts if attempt.verdict.cause not in _SAYS_NOTHING]
    if verdict.cause in _SAYS_NOTHING or not told_of or any(told.cause != verdict.cause for told in told_of):
        return
    places = [set(told.hosts or verdict.hosts) for told in told_of if told.hosts]
    hosts = set(verdict.hosts).intersection(*places) if places else set()
    where = f" on {', '.join(sorted(hosts))}" if len(hosts) == 1 else ""
    yield f"every attempt that tells ended with {verdict.cause}{where}: starting again does not help"
