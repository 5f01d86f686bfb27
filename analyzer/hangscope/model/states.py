"""The words for where a rank is, and how every format shows them: a glyph, a meaning, an order, colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class StateStyle:
    """How one word of `RankState.state` is shown.

    Attributes:
        word: the word.
        glyph: one ASCII character, a different one for each word: what is read without colour.
        meaning: one line for a legend.
        severity: place in the order in which ranks are looked at; 0 comes first.
        light, dark: fill colours (``#rrggbb``) on a light and on a dark page, told apart by the colour-blind too.
        ansi: the terminal's colour and weight, in rich's words; "" for none.
    """

    word: str
    glyph: str
    meaning: str
    severity: int
    light: str
    dark: str
    ansi: str


# Okabe and Ito's palette, which most colour-blind people can tell apart; for dark pages a step lighter. Words of one
# kind share a colour: the glyph tells them apart.
_RED = ("#d55e00", "#ff7a2e", "bold red")
_PURPLE = ("#b0568c", "#e08fc0", "bold magenta")
_AMBER = ("#e69f00", "#ffb733", "bold yellow")
_BLUE = ("#0072b2", "#4ba3e3", "cyan")
_GREY = ("#8c8c8c", "#8f8f8f", "dim")
_GREEN = ("#009e73", "#2cc295", "green")
_PALE = ("#f0e442", "#c9bd2e", "yellow")

_TABLE = (
    ("dead", "X", "it ended, or its last words are an error", _RED),
    ("silent", "~", "nothing is heard of it: it ended, it is stopped, or what it left was not collected", _RED),
    ("missing", "M", "it did not come to the call that others wait in", _PURPLE),
    ("frozen", "F", "its process is stopped and does not run", _AMBER),
    ("blocked", "B", "it waits for a lock, a thread, a queue or a child process", _AMBER),
    ("loading", "L", "it loads data or a checkpoint", _BLUE),
    ("saving", "S", "it saves a checkpoint", _BLUE),
    ("compiling", "C", "it compiles", _BLUE),
    ("starting", "^", "it still imports its modules", _BLUE),
    ("exiting", "E", "it is on its way out", _BLUE),
    ("unknown", "?", "nothing says where it is", _GREY),
    ("running", "r", "it runs", _GREEN),
    ("idle", "i", "it has nothing to do", _GREEN),
    ("finished", "=", "it came to its regular end", _GREEN),
    ("waiting", ".", "it waits for the others", _PALE),
)

STATES: Mapping[str, StateStyle] = MappingProxyType(
    {
        word: StateStyle(word, glyph, meaning, place, *colors)
        for place, (word, glyph, meaning, colors) in enumerate(_TABLE)
    }
)
"""Every word, in the order of severity."""


def state_style(word: str) -> StateStyle:
    """The style of a word; one that is not in the table looks like "unknown"."""
    return STATES.get(word, STATES["unknown"])


def ink_on(fill: str) -> str:
    """Black or white, whichever is read better on a colour: both ``#rrggbb``."""
    red, green, blue = (int(fill[at : at + 2], 16) / 255 for at in (1, 3, 5))
    luminance = 0.2126 * _linear(red) + 0.7152 * _linear(green) + 0.0722 * _linear(blue)
    # the contrast of WCAG to black is higher than that to white
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


def _linear(part: float) -> float:
    """How much light a part of an sRGB colour stands for."""
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def in_severity_order(words: Iterable[str]) -> list[str]:
    """Each word once, what is looked at first in front."""
    return sorted(set(words), key=lambda word: (state_style(word).severity, word))
