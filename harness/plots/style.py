"""How every figure looks: size, fonts, one colour a row, and SVG bytes that are the same on every run."""

import hashlib
import importlib.metadata
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, SymmetricalLogLocator

from harness.curves import Curve
from harness.groups import Group
from harness.metrics import Metric
from harness.recipe import COMMUNITY_COLOUR, Marker, get_recipe, recipe_paths

WIDTH = 8.3
"""Inches: 797 pixels, the width GitHub shows a figure at."""

PANEL_HEIGHT = 2.7
"""Inches of the axes alone; a figure grows with its legend."""

GREY = "#6e6e6e"
MARKERS = get_args(Marker)
REFERENCE_DASHES: tuple[tuple[int, tuple[float, ...]], ...] = (
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 3)),
    (0, (9, 3)),
    (0, (1, 4)),
    (0, (6, 2, 1, 2, 1, 2)),
    (0, (3, 1.5, 3, 6)),
)
COMMUNITY_DASHES: tuple[tuple[int, tuple[float, ...]], ...] = ((0, (8, 2)), (0, (4, 1.5, 1, 1.5)), (0, (2, 1)))

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "legend.labelspacing": 0.35,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.linewidth": 0.8,
    "svg.hashsalt": "readhead",
    "svg.fonttype": "path",
    "path.simplify": True,
}


@dataclass(frozen=True)
class Style:
    """One row's look in every figure of every board."""

    colour: Any
    marker: str
    dashes: Any = "solid"


def style_of(row: str) -> Style:
    """Return a row's look: an installed recipe's and a solid line; else dashed, by a hash of the row's name."""
    digest = hashlib.sha256(row.encode()).digest()
    marker = MARKERS[digest[3] % len(MARKERS)]
    if row in recipe_paths() and (recipe := get_recipe(row)).colour != COMMUNITY_COLOUR:
        return Style(recipe.colour, recipe.marker or marker)
    hue, lightness = int.from_bytes(digest[:2], "big") / 65536 * 359, (40, 55, 68)[digest[2] % 3]
    colour = sns.husl_palette(1, h=hue / 359, s=0.85, l=lightness / 100)[0]
    return Style(colour, marker, COMMUNITY_DASHES[digest[4] % len(COMMUNITY_DASHES)])


def reference_style(index: int) -> dict[str, Any]:
    """Return the line properties of the reference at ``index``: grey, told apart by its dashes."""
    return {
        "color": GREY,
        "linestyle": REFERENCE_DASHES[index % len(REFERENCE_DASHES)],
        "linewidth": 1.1,
        "zorder": 1.5,
    }


@contextmanager
def themed() -> Iterator[None]:
    """Draw with the board's look, whatever the user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        with sns.axes_style("ticks"), mpl.rc_context(RC):
            yield


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``count`` panels side by side."""
    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT))
    axes = figure.subplots(1, count, squeeze=False)[0].tolist()
    for axis in axes:
        sns.despine(ax=axis)
        axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG without date or random ids, positions cut to hundredths of a point."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return re.sub(rb'(scale\([^)]*\))|(?<=[ "(])(-?\d+\.\d\d)\d+', rb"\1\2", buffer.getvalue())


def score_axis(axis: Axes, metric: Metric, values: np.ndarray) -> None:
    """Label and scale the y axis for ``values`` of a metric: its bounds if finite, symlog if bits span decades."""
    better = {"max": ", more is better", "min": ", less is better", None: ""}[metric.direction]
    unit = "" if metric.unit in ("share", "ratio") or metric.unit in metric.title else f" ({metric.unit})"
    axis.set_ylabel(f"{metric.title}{unit}{better}")
    low, high = metric.bounds
    finite = values[np.isfinite(values)]
    if math.isfinite(low) and math.isfinite(high):
        axis.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    elif len(finite) and metric.unit == "bits" and finite.max() > 10:
        axis.set_yscale("symlog", linthresh=0.1, linscale=0.5)
        axis.set_ylim(-0.03, finite.max() * 1.6)
        axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=0.1))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif len(finite):
        axis.set_ylim(min(0.0, finite.min()) - 0.02 * finite.max(), finite.max() * 1.08 + 1e-9)


def label(group: Group) -> str:
    """Return a row's name in a legend, with its failed seeds."""
    row, failed = group.first.identity.row, sum(member.run.status == "diverged" for member in group.members)
    return f"{row} ({failed}/{len(group.members)} failed)" if failed else row


def mark_undefined(axis: Axes, xs: Sequence[float], colour: Any) -> None:
    """Mark at the foot of the panel where a row has no value, so that a line never just stops."""
    if xs:
        axis.plot(
            xs,
            np.full(len(xs), 0.02),
            transform=axis.get_xaxis_transform(),
            color=colour,
            marker="x",
            markersize=5,
            linestyle="none",
            clip_on=False,
        )


def draw_curve(axis: Axes, curve: Curve, style: Style, name: str, dashes: Any = None) -> None:
    """Draw a row's scores by size with their band, below the rows drawn before; crosses where it has no value."""
    above = 3 - len(axis.lines) / 1_000  # the best rows are drawn first: none of them may hide behind another
    look: dict[str, Any] = {"color": style.colour, "linestyle": dashes or style.dashes, "marker": style.marker}
    every = max(1, len(curve.size) // 12)
    axis.plot(curve.size, curve.centre, **look, zorder=above, linewidth=1.6, markersize=4, markevery=every, label=name)
    axis.fill_between(curve.size, curve.low, curve.high, color=style.colour, alpha=0.15, linewidth=0, zorder=2)
    mark_undefined(axis, curve.size[np.isnan(curve.centre)].tolist(), style.colour)


def thin_lines(axis: Axes, lines: Sequence[tuple[np.ndarray, np.ndarray]], style: Style, zorder: float = 2) -> None:
    """Draw every seed's ``(x, y)`` thin, as one path with gaps: a path a seed makes the file many times larger."""
    gap = np.array([np.nan])
    x, y = (np.concatenate([part for line in lines for part in (line[side], gap)] or [gap]) for side in (0, 1))
    axis.plot(x, y, color=style.colour, linewidth=0.6, alpha=0.5, zorder=zorder)


def legend(figure: Figure, axis: Axes, title: str, caption: str, handle: float = 2.0) -> None:
    """Say above the panels what is shown and what lines and bands mean; put one legend for all panels below them.

    ``handle`` is the length of a line in the legend, in widths of a letter: dashes need more than a colour does.
    Margins are set by hand, in inches: a layout engine would draw every figure twice.
    """
    handles, labels = axis.get_legend_handles_labels()
    longest = max(map(len, labels), default=1)
    columns = max(1, min(4, len(labels), int(WIDTH / (0.6 + 0.07 * longest))))
    below = 0.5 + 0.18 * math.ceil(len(labels) / columns)
    figure.set_figheight(PANEL_HEIGHT + below + 0.3)
    height = figure.get_figheight()
    figure.subplots_adjust(
        left=0.65 / WIDTH, right=1 - 0.1 / WIDTH, bottom=below / height, top=1 - 0.3 / height, wspace=0.2
    )
    heading = f"{title}   ({caption})"
    figure.text(0.1 / WIDTH, 1 - 0.08 / height, heading, ha="left", va="top", fontsize=7.5, color=GREY)
    figure.legend(
        handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0), ncols=columns, frameon=False, handlelength=handle
    )


def plotting_versions() -> dict[str, str]:
    """Return the versions that decide how an SVG comes out."""
    return {name: importlib.metadata.version(name) for name in ("matplotlib", "seaborn")}
