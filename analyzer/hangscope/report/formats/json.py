"""One JSON object with the keys of the report contract, for programs."""

from __future__ import annotations

import json
from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.serialize import to_dict

FILE = "report.json"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the report; `quiet`, `verbose` and the width do not change what a program reads."""
    utf8 = options.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    stream.write(json.dumps(to_dict(report), ensure_ascii=not utf8, indent=2, allow_nan=False) + "\n")
