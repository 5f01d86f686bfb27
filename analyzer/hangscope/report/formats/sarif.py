"""SARIF 2.1.0, for tools that show findings beside the code: the job's own line, and the log lines that prove it."""

from __future__ import annotations

import json
from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.sarif import to_sarif

FILE = "report.sarif"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the log; `quiet`, `verbose` and the width do not change what a program reads."""
    utf8 = options.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    stream.write(json.dumps(to_sarif(report), ensure_ascii=not utf8, indent=2, allow_nan=False) + "\n")
