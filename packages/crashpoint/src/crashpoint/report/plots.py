"""A matrix as a picture: outcomes by row and barrier, and beside them the times to recover.

Made without a display, and the same bytes from the same document: no dates, no random ids.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from crashpoint.model import Outcome
from crashpoint.report.palette import MEANING, PALETTE
from crashpoint.report.view import Cell, View, interval
from crashpoint.report.words import count, folded, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["RECEIPT_FIELD", "png", "svg"]

RECEIPT_FIELD: Final = "Source"
"""The member of a picture's metadata that holds the receipt of the document it shows."""

DPI: Final = 140
MARK: Final = "\N{MULTIPLICATION SIGN}"
INK, FAINT, RULE, HATCH, ALARM = "#1d2129", "#5d6470", "#dfe2e7", "#c9c5bb", "#c00d0d"

STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "crashpoint",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "hatch.linewidth": 0.7,
}

# Inches.
COLUMN, LINE, TIMES, MARGIN = 1.75, 0.74, 3.7, 0.25
CHARACTER, HEADING, LEGEND, CAPTION_LINE, WIDTH_MIN = 0.088, 1.15, 1.12, 0.16, 10.0


def png(document: Mapping[str, Any]) -> bytes:
    """The picture as a PNG; its metadata names the document's receipt. Raises KeyError."""
    return _saved(document, "png", {RECEIPT_FIELD: document["receipt"]})


def svg(document: Mapping[str, Any]) -> bytes:
    """The picture as an SVG with its letters as paths; metadata as for `png`. Raises KeyError."""
    return _saved(document, "svg", {RECEIPT_FIELD: document["receipt"], "Date": None})


def _saved(document: Mapping[str, Any], form: str, metadata: Mapping[str, Any]) -> bytes:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        file = io.BytesIO()
        _figure(View.of(document)).savefig(file, format=form, dpi=DPI, metadata=metadata)
    return file.getvalue()


def _figure(view: View) -> Figure:
    from matplotlib.figure import Figure

    names = MARGIN + CHARACTER * max(len(plain(row)) for row in view.rows) + 0.1
    grid, body = COLUMN * len(view.barriers), LINE * len(view.rows)
    has_times = any(cell.hot or cell.cold for cell in view.cells)
    right = (0.45 + TIMES if has_times else 0) + MARGIN
    width = max(names + grid + right, WIDTH_MIN)
    caption = list(_caption(view, columns=int(width / 0.069)))
    below = LEGEND + CAPTION_LINE * len(caption) + MARGIN
    height = HEADING + body + below
    figure = Figure(figsize=(width, height), facecolor="white")

    def panel(left: float, size: float) -> Axes:
        place = (left / width, below / height, size / width, body / height)
        return figure.add_axes(place)

    def write(x: float, y: float, text: str, **how: Any) -> None:
        figure.text(x / width, 1 - y / height, text, va="baseline", **how)

    document = view.document
    title = f"{plain(document['name'])}: what {document['fault']} did to each row"
    write(MARGIN, 0.33, title, fontsize=min(13, 88 * width / len(title)), weight="bold")
    totals = f"{view.totals()}: {view.verdict()}"
    write(MARGIN, 0.55, totals, fontsize=min(9, 110 * width / len(totals)), color=_alarm(view))
    _draw_grid(panel(names, grid), view)
    if has_times:
        _draw_times(panel(names + grid + 0.45, TIMES), view)
    _draw_legend(figure.add_axes((0, 0, 1, below / height)), width, below)
    for n, line in enumerate(caption):
        y = height - MARGIN - CAPTION_LINE * (len(caption) - 1 - n) + 0.05
        write(MARGIN, y, line, fontsize=7.5, color=FAINT)
    return figure


def _alarm(view: View) -> str:
    return INK if view.exit_code == 0 and view.document["complete"] else ALARM


def _caption(view: View, *, columns: int) -> Iterator[str]:
    document = view.document
    facts = [
        f"fault {document['fault']}, k = {document['k']}, {count(view.trials)} trials",
        *view.engines(),
        plain(f"{document['machine']['cpu']}, {document['machine']['cores']} cores"),
        *view.remarks(),
    ]
    for line in (plain(document["command"]), "; ".join(facts)):
        yield from folded(line, columns)


def _draw_grid(axes: Axes, view: View) -> None:
    axes.set(xlim=(0, len(view.barriers)), ylim=(len(view.rows), 0))
    axes.set_xticks([n + 0.5 for n in range(len(view.barriers))], view.barriers, weight="bold")
    axes.set_yticks(
        [n + 0.5 for n in range(len(view.rows))],
        list(map(plain, view.rows)),
        family="DejaVu Sans Mono",
    )
    axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=5)
    axes.spines[:].set_visible(False)
    for y, row in enumerate(view.rows):
        for x, barrier in enumerate(view.barriers):
            _draw_cell(axes, x, y, view.cell(row, barrier))


def _draw_cell(axes: Axes, x: int, y: int, cell: Cell) -> None:
    from matplotlib.patches import FancyBboxPatch

    shade = PALETTE[cell.observed]
    pad = 0.035
    ratio = COLUMN / LINE  # so that corners are round and gaps equal in both directions

    def box(inset: float, **how: Any) -> None:
        dx, dy = pad + inset, (pad + inset) * ratio
        axes.add_patch(
            FancyBboxPatch(
                (x + dx, y + dy),
                1 - 2 * dx,
                1 - 2 * dy,
                boxstyle="round,pad=0,rounding_size=0.05",
                mutation_aspect=ratio,
                **how,
            )
        )

    hatch = "////" if cell.observed is Outcome.VOID else None
    box(0, facecolor=shade.fill, linewidth=0, hatch=hatch, edgecolor=HATCH)
    if cell.red_predicted:
        box(0.022, facecolor="none", edgecolor=shade.ink, linewidth=1.1, linestyle=(0, (4, 2)))
    if cell.alarm:
        box(0, facecolor="none", edgecolor=ALARM, linewidth=2.6)

    def write(dy: float, text: str, **how: Any) -> None:
        axes.text(x + 0.5, y + dy, text, ha="center", va="center", color=shade.ink, **how)

    up = 0.11 if cell.alarm else 0
    write(0.37 - up, cell.shown, fontsize=8.5, weight="bold")
    write(0.64 - up, f"{cell.hits}/{cell.k}   {interval(cell)}", fontsize=7.5)
    if cell.alarm:
        axes.text(
            *(x + 0.5, y + 0.79),
            f"{MARK} {cell.alarm}",
            ha="center",
            va="center",
            color="white",
            fontsize=6.8,
            weight="bold",
            bbox={"facecolor": ALARM, "edgecolor": "none", "boxstyle": "round,pad=0.25"},
        )


def _draw_times(axes: Axes, view: View) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set(ylim=(len(view.rows), 0))
    axes.set_yticks([])
    axes.set_title(
        "time to recover (dot: hot, diamond: cold, bar: median of hot)",
        fontsize=8,
        pad=23,
        loc="left",
    )
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="both", length=0, labeltop=True, labelbottom=False, pad=5)
    axes.grid(axis="x", which="major", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    for n in range(len(view.rows) + 1):
        axes.axhline(n, color=RULE, linewidth=0.8)
    values = list(_recoveries(view))
    marks: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("hot", "o", {"s": 9, "facecolors": "#31688e", "alpha": 0.35, "linewidths": 0}),
        ("cold", "D", {"s": 13, "facecolors": "white", "edgecolors": "#8a3b00", "linewidths": 0.9}),
    )
    for mode, marker, how in marks:
        some = [(us / 1e6, y) for its_mode, y, us in values if its_mode == mode]
        if some:
            axes.scatter(*zip(*some, strict=True), marker=marker, **how)
    for y in sorted({y for mode, y, _ in values if mode == "hot"}):
        middle = statistics.median(us for mode, at, us in values if (mode, at) == ("hot", y)) / 1e6
        axes.plot([middle, middle], [y - 0.1, y + 0.1], color=INK, linewidth=1.5)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.009), max(high, 1.1))
    for y in range(len(view.rows)):
        for barrier in view.barriers:
            axes.annotate(
                *(barrier, (0, y + _slot(view, barrier))),
                xycoords=("axes fraction", "data"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=6.5,
                color=FAINT,
            )


def _recoveries(view: View) -> Iterator[tuple[str, float, int]]:
    """Mode, height in the panel and microseconds of each recovery that counts."""
    for trial in view.document["trials"]:
        seen = trial["seen"]
        if "recover_us" in seen and "void" not in trial["verdict"]:
            y = view.rows.index(trial["row"]) + _slot(view, trial["barrier"])
            yield seen["mode"], y, seen["recover_us"]


def _slot(view: View, barrier: str) -> float:
    """Where in a row's height the times of a barrier lie."""
    return (view.barriers.index(barrier) + 1) / (len(view.barriers) + 1)


def _tick(seconds: float, _position: object) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1e3:g} ms"


def _draw_legend(axes: Axes, width: float, height: float) -> None:
    """A line for each kind of mark, in inches from the lower left corner of the picture."""
    from matplotlib.patches import Rectangle

    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    step = min((width - 2 * MARGIN) / len(PALETTE), 2.5)
    top = height - 0.42
    for n, (outcome, shade) in enumerate(PALETTE.items()):
        x = MARGIN + n * step
        hatch = "/////" if outcome is Outcome.VOID else None
        axes.add_patch(
            Rectangle((x, top), 0.2, 0.2, facecolor=shade.fill, edgecolor=HATCH, hatch=hatch)
        )
        axes.text(x + 0.27, top + 0.1, outcome, fontsize=8, weight="bold", va="center")
        axes.text(x, top - 0.13, MEANING[outcome], fontsize=6.6, color=FAINT, va="center")
    axes.add_patch(
        Rectangle(
            (MARGIN, top - 0.52), 0.2, 0.2, facecolor="none", edgecolor=INK, linestyle=(0, (4, 2))
        )
    )
    axes.text(
        *(MARGIN + 0.27, top - 0.42),
        "the model predicts a red outcome (not EXACTLY_ONCE)",
        fontsize=8,
        va="center",
    )
    x = MARGIN + 3.8
    axes.add_patch(
        Rectangle((x, top - 0.52), 0.2, 0.2, facecolor="none", edgecolor=ALARM, linewidth=2.4)
    )
    axes.text(
        *(x + 0.27, top - 0.42),
        "differs from the prediction, or too many VOID; figures: hits/k, 95% interval",
        fontsize=8,
        va="center",
    )
