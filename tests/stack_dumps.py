"""Reads text with stack dumps for the tests, and says shortly what was found."""

from __future__ import annotations

import io

from hangscope.model import ProcessDump
from hangscope.parse.columns import writer_key
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource


def parse(text: str, name: str = "job.log") -> ParsedSource:
    """The source; every dump's line has a writer in it, whatever the text."""
    source = read_stream(name, io.BytesIO(text.encode("utf-8", "surrogateescape")))
    writers = {writer.key for writer in source.writers}
    assert all(writer_key(dump.line) in writers for dump in source.dumps)
    return source


def read(text: str, name: str = "job.log") -> list[ProcessDump]:
    """The dumps in a text."""
    return parse(text, name).dumps


def read_one(text: str, name: str = "job.log") -> ProcessDump:
    """The only dump in a text."""
    [dump] = read(text, name)
    return dump


def functions(dump: ProcessDump) -> list[list[str]]:
    """The names of the functions of each thread, innermost first."""
    return [[frame.function for frame in thread.frames] for thread in dump.threads]
