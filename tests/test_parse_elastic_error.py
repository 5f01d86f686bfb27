"""Error files of torchrun's workers: the exception inside and its place in the code, the rank by the folder, damage."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.facts import exceptions
from hangscope.model import Event
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource
from nccl_logs import job_of

STACK = (
    'Traceback (most recent call last):\n  File "/w/t.py", line 8, in inner\n    {}["a"]\nKeyError: \'a\'\n\n'
    "The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/site-packages/torch/distributed/elastic/errors/__init__.py", line 367, '
    'in wrapper\n    return f(*args, **kwargs)\n  File "/w/t.py", line 10, in inner\n    raise MyError("bad") from e\n'
    "__main__.MyError: bad\nsecond line\n"
)


def written(*, indent: int | None = None) -> str:
    extra = {"py_callstack": STACK, "timestamp": "1796029270"}
    return json.dumps({"message": {"message": "MyError: bad\nsecond line", "extraInfo": extra}}, indent=indent)


def raised(source: ParsedSource) -> list[Event]:
    return [event for event in source.events if event.kind == "exception"]


def read(text: str | bytes, name: str = "error.json") -> ParsedSource:
    return read_stream(name, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def test_traceback_inside_is_read() -> None:
    source = read(written())
    first, last = raised(source)
    assert (first.fields["type"], last.fields["type"], last.fields["message"]) == (
        "KeyError",
        "__main__.MyError",
        "bad\nsecond line",
    )
    assert (last.fields["where_file"], last.fields["where_line"], last.fields["where_function"]) == (
        "/w/t.py",
        10,
        "inner",
    )
    assert (last.line.number, last.line.time, source.record.kind) == (1, 1796029270.0, "worker-error")


def test_folder_names_the_rank_and_the_exception_ended_it() -> None:
    job = job_of({"logs/run_x/attempt_0/3/error.json": written(), "logs/run_x/attempt_0/0/stdout.log": ["step 1"]})
    (fact,) = [fact for fact in exceptions.find(job) if fact.kind == "raised"]
    assert (fact.ranks, fact.fields["uncaught"]) == ((3,), True)


def test_error_without_a_traceback() -> None:
    (event,) = read('{"message": "ValueError: no more data", "errorCode": 1}').events
    assert (event.kind, event.fields["type"], event.fields["message"]) == ("exception", "ValueError", "no more data")


@pytest.mark.parametrize("indent", [None, 2])
def test_layout_does_not_matter(indent: int | None) -> None:
    assert [event.fields["type"] for event in raised(read(written(indent=indent)))] == ["KeyError", "__main__.MyError"]


def test_lines_of_a_log_in_json_are_no_error_file() -> None:
    lines = '{"message": "RuntimeError: a", "errorCode": 1}\n{"message": "step 2", "errorCode": 0}\n'
    assert read(lines, "log.json").record.kind == "log"


def test_cut_file_says_so() -> None:
    assert read(written()[:-20]).record.error == "the JSON is cut off or damaged"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20) | st.just(STACK),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack", "timestamp"]), inner, max_size=4)
        ),
        max_leaves=8,
    ),
    st.integers(0, 300),
)
def test_any_value_is_read(value: object, cut: int) -> None:
    text = json.dumps({"message": value, "extraInfo": value, "errorCode": value})
    for piece in (text, text[:cut], '{"message": ' + "[" * 90_000 + ' "extraInfo" "py_callstack"'):
        assert read(piece).record.file == "error.json"
