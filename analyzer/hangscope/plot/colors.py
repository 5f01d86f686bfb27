"""The colours of pictures on light and dark pages; whatever colour says, a mark or a word says, too."""

from __future__ import annotations

from hangscope.model import CallState
from hangscope.model.states import state_style
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Colors:
    """One page's colours.

    Attributes:
        page, ink, faint, line: background, text, lesser text, thin lines.
        accent: what the verdict names.
        wait: what waits for it.
        calls: fill of a call by its state, after Okabe and Ito.
        ramp: from "as far as the others" to "far behind", evenly in lightness.
        is_dark: for a dark page.
    """

    page: str
    ink: str
    faint: str
    line: str
    accent: str
    wait: str
    calls: dict[CallState, str]
    ramp: tuple[str, ...]
    is_dark: bool

    def state(self, word: str) -> str:
        """Fill of a rank's state."""
        style = state_style(word)
        return style.dark if self.is_dark else style.light


LIGHT = Colors(
    page="#ffffff",
    ink="#1b1b1f",
    faint="#5b5f66",
    line="#d4d7dc",
    accent="#b0568c",
    wait="#e69f00",
    calls={
        CallState.DONE: "#a9d8c6",
        CallState.STARTED: "#56b4e9",
        CallState.WAITING: "#f0c54a",
        CallState.DIFFERS: "#d55e00",
        CallState.MISSING: "#b0568c",
        CallState.NOT_REACHED: "#eceef1",
        CallState.UNKNOWN: "#ffffff",
    },
    ramp=("#e3eef7", "#9cc3e0", "#4a90c4", "#1f5f99", "#0b2f57"),
    is_dark=False,
)
DARK = Colors(
    page="#16181d",
    ink="#eceef2",
    faint="#a6abb5",
    line="#3a3f49",
    accent="#e08fc0",
    wait="#ffb733",
    calls={
        CallState.DONE: "#2c6b57",
        CallState.STARTED: "#4ba3e3",
        CallState.WAITING: "#c79a22",
        CallState.DIFFERS: "#ff7a2e",
        CallState.MISSING: "#e08fc0",
        CallState.NOT_REACHED: "#2a2e36",
        CallState.UNKNOWN: "#16181d",
    },
    ramp=("#22303d", "#2f6690", "#4f9bd1", "#9fd0f2", "#e8f5ff"),
    is_dark=True,
)


def colors(*, dark: bool) -> Colors:
    """The colours of a light or a dark page."""
    return DARK if dark else LIGHT
