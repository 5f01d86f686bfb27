"""One JSON object with the keys of the report contract, for programs."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.serialize import json_text, to_dict

FILE = "report.json"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the report; `quiet`, `verbose` and the width do not change what a program reads."""
    stream.write(json_text(to_dict(report), options))
