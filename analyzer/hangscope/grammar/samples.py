"""Reads the sample lines that stand in the header of every grammar file: what they must become."""

from __future__ import annotations

import json

from hangscope.errors import GrammarError
from hangscope.expressions import expression
from hangscope.model import Value
from hangscope.records import dataclass

_SAMPLE = expression(r"//\s?(?:match (?P<kind>\w+)|(?P<no>no-match)):[ ]?(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample line of a grammar's header: what it must become (kind None: it must not match)."""

    text: str
    kind: str | None
    fields: dict[str, Value] | None
    line: int


def read_samples(file: str, text: str) -> tuple[Sample, ...]:
    """The samples of a grammar file, in order.

    Raises:
        GrammarError: naming the line that is wrong.
    """
    samples = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _SAMPLE.match(line)
        if found is None:
            continue
        body, arrow, expected = found["text"].rpartition(" => ")
        fields = None
        if arrow and expected.startswith("{"):
            try:
                fields = json.loads(expected)
            except ValueError as error:
                raise GrammarError(f"{file}:{number}: the expected fields are not JSON: {error}") from error
        else:
            body = found["text"]
        samples.append(Sample(body, found["kind"], fields, number))
    return tuple(samples)
