"""Puts the page together: templates, one style sheet, one program, one piece of data, and a policy that allows no more.

Nothing that comes from a log can become markup. Templates escape every value (jinja2's autoescape) after making what
it holds of control and direction characters visible (`finalize`); the program writes text nodes only, and the policy
forbids it more (`require-trusted-types-for`), as it forbids every request and every script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources

import jinja2
from markupsafe import Markup

from hangscope.model import Report
from hangscope.model.names import group_title
from hangscope.model.states import STATES
from hangscope.report import answers, source_words, standings
from hangscope.report.comparisons import who_has
from hangscope.report.html import view
from hangscope.report.html.island import build_island
from hangscope.report.printable import printable
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words, fold_numbers, rank_words

_STYLES = ("page.css", "parts.css", "print.css")
_PROGRAMS = ("text.js", "ranks.js", "table.js", "calls.js", "times.js", "timeline.js", "inputs.js", "page.js")


def render_page(report: Report) -> str:
    """The whole page; the same report gives the same text."""
    style = Markup(_read(_STYLES) + _state_colours())  # noqa: S704  (our own files, and a table of our own)
    program = Markup("\n".join(['"use strict";', "(() => {", _read(_PROGRAMS), "})();"]))  # noqa: S704  (as above)
    return (
        _environment()
        .get_template("page.html")
        .render(
            view.describe(report),
            report=report,
            style=style,
            program=program,
            policy=_policy(style, program),
            island=Markup(build_island(report)),  # noqa: S704  (it escapes what could leave the script element)
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hangscope.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "fold": fold_numbers,
        "place": place_words,
        "prose": view.paragraphs,
    }
    environment.globals |= {
        "answers": answers,
        "count": count_words,
        "group_title": group_title,
        "ranks_in_words": rank_words,
        "source_words": source_words,
        "standings": standings,
        "view": view,
        "who_has": who_has,
    }
    return environment


def _visible(value: object) -> object:
    """Text as it may be shown: what would turn a line around, or hide, is written out."""
    return printable(value, keep="\t\n") if isinstance(value, str) and not isinstance(value, Markup) else value


def _read(names: Iterable[str]) -> str:
    folder = resources.files("hangscope.report.html") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _state_colours() -> str:
    """A fill a state: as a variable that the style sheet uses, so that all formats show the same colours."""
    return "\n".join(
        f'[data-state="{style.word}"] {{ --fill: light-dark({style.light}, {style.dark}); }}'
        for style in STATES.values()
    )


def _policy(style: str, program: str) -> str:
    """What the browser may do for this page: run this very program, apply this very style, and nothing else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(program)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"
