"""A panel of a timeline with what the ranks of an unmatched send or receive sent and received last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.patches import Rectangle

from hangscope.model import Report, Transfer
from hangscope.model.history import OPEN
from hangscope.model.states import ink_on
from hangscope.plot.findings import group_words, main_call
from hangscope.plot.labels import FONT, fitted, width_in
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Picture
from hangscope.records import dataclass

_ROW_IN = 0.26
_MOST_RANKS = 8
_MOST_SHOWN = 18
_CELL_IN = 0.5


@dataclass(frozen=True, slots=True)
class TransferPanel:
    """What some ranks sent and received, each in its own order.

    Attributes:
        heading: what stands above.
        rows: rank -> its last transfers.
    """

    heading: str
    rows: Mapping[int, Sequence[Transfer]]

    @property
    def height_in(self) -> float:
        return 0.3 + _ROW_IN * len(self.rows) + 0.3

    @property
    def labels(self) -> list[str]:
        return [f"rank {rank}" for rank in self.rows]


def find_transfer_panel(report: Report) -> TransferPanel | None:
    """The panel of the stuck call that the verdict rests on; None when that is no send or receive."""
    stuck, history = main_call(report), report.history
    if stuck is None or history is None or stuck.op not in ("send", "recv"):
        return None
    involved = sorted({*stuck.arrived, *stuck.missing})[:_MOST_RANKS]
    rows = {
        rank: [one for one in history.transfers if one.rank == rank and one.group == stuck.group][-_MOST_SHOWN:]
        for rank in involved
    }
    rows = {rank: made for rank, made in rows.items() if made}
    if not rows:
        return None
    about = group_words(stuck.group, stuck.description)
    words = f"{about}: sends (\u2192) and receives (\u2190) of each rank in its own order, the last at the right"
    return TransferPanel(words, rows)


def draw_transfer_panel(picture: Picture, panel: TransferPanel, left: float, top: float) -> None:
    """Draws it at a place in inches from the upper left corner."""
    palette = picture.palette
    page_in = float(picture.get_size_inches()[0])
    longest = max(len(made) for made in panel.rows.values())
    cell = min(_CELL_IN, (page_in - left - MARGIN_IN) / longest)
    picture.write(
        MARGIN_IN,
        top + 0.15,
        fitted(panel.heading, LABEL, page_in - 2 * MARGIN_IN, bold=True),
        weight="bold",
        gid="panel",
    )
    axes = picture.panel(left, top + 0.3, cell * longest, _ROW_IN * len(panel.rows))
    for line, made in enumerate(panel.rows.values()):
        for at, one in enumerate(made):
            column = longest - len(made) + at
            fill = palette.calls[one.state]
            box = Rectangle(
                (column + 0.03, line + 0.06), 0.94, 0.88, facecolor=fill, edgecolor=palette.ink, gid="transfer"
            )
            box.set_linewidth(1.2 if one.state in OPEN else 0.0)
            axes.add_patch(box)
            words = ("\u2192" if one.op == "send" else "\u2190") + ("?" if one.peer is None else str(one.peer))
            if width_in(words, SMALL) < cell * 0.9:
                axes.text(
                    column + 0.5, line + 0.5, words, ha="center", va="center", family=FONT, size=SMALL,
                    color=ink_on(fill), weight="bold" if one.state in OPEN else "normal", gid="transfer",
                )  # fmt: skip
    axes.set_xlim(0, longest)
    axes.set_ylim(len(panel.rows), 0)
    axes.set_xticks([])
    axes.set_yticks([line + 0.5 for line in range(len(panel.rows))], panel.labels)
    for tick in axes.get_yticklabels():
        picture.set_tick(tick)
    for spine in axes.spines.values():
        spine.set_visible(False)
