"""Drawing functions. Each takes an axis; none writes a file, fits or sets the style."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator

from paper.show.plain import plain
from paper.show.style import ACCENT, GREY, WIDTH, darker, drawn, kinds

ENOUGH = 0.02000001  # near a nominal rate; 0.05 less 0.03 is above 0.02
VARIED = "other text", "other text and trainings", "other sizes", "documents"


# ---- axes and their legend


def panels(n, height=2.5, columns=3):
    """(figure, n axes) side by side in columns with common scales."""
    shown = max(n, 1)
    rows = -(-shown // columns)
    columns = min(shown, columns)
    fig, axes = plt.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    fig.set_size_inches(WIDTH, 0.3 + height * rows)
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < shown)
        ax.xaxis.set_tick_params(labelbottom=True)
    return fig, axes.flat[:shown]


def row_axis(ax, names):
    """One row per name, the first on top: the heights to draw at, int64 (n,)."""
    rows = np.arange(len(names))[::-1]
    ax.set_yticks(rows, list(map(drawn, names)))
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="y", visible=False)
    return rows


def name_groups(ax, groups):
    """Name each group of neighbouring rows, a text a row from the top, once: right of its first."""
    for name, row in {name: row for row, name in enumerate(groups[::-1])}.items():
        ax.axhline(row + 0.5, color=GREY, linewidth=0.6)
        ax.text(1.02, row, name, transform=ax.get_yaxis_transform(), va="center")
    ax.set_ylim(-0.6, len(groups) - 0.4)


def label_ends(ax):
    """Write the names of lines and points where they end, in place of a legend.

    Returns:
        the names that were written: none where they do not fit, or beside another panel.
    """
    # the last point of each, in points from the bottom
    ax.get_ylim()  # brings the scales up to date
    lines = [line for line in ax.get_lines() if line.get_transform() == ax.transData]
    dots = 72 / ax.figure.dpi
    ends = []
    for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
        line = handle[0] if hasattr(handle, "has_xerr") else handle
        points = line.get_xydata() if line in lines else []
        points = [point for point in points if np.isfinite(point).all()]
        if points:
            x, y = max(points, key=lambda point: point[0])
            _, height = ax.transData.transform((x, y)) * dots
            ends.append((height, y, name, line.get_color()))
    on_rows = isinstance(ax.yaxis.get_major_locator(), FixedLocator)
    if on_rows or not 1 < len(ends) < 9 or not ax.get_subplotspec().is_last_col():
        return ()

    # as far apart as lines of text are, and no further from their lines
    ends.sort()
    heights, y, names, colors = zip(*ends, strict=True)
    right = np.nanmax(np.hstack([line.get_xdata() for line in lines]))  # behind all lines
    steps = 12 * np.arange(len(ends))
    shifts = np.maximum.accumulate(heights - steps) + steps - heights
    shifts -= shifts.mean()
    if np.abs(shifts).max() > 15 or max(map(len, names)) > 24:
        return ()
    for i, name in enumerate(names):
        ax.annotate(
            name,
            xy=(right, y[i]),
            xytext=(8, shifts[i]),
            textcoords="offset points",
            color=darker(colors[i]),
            va="center",
            fontsize=9,
        )
    return names


# ---- laws over sizes, and what follows from them


def draw_coverage(ax, frame, nominal=0.95):
    """Shares of `coverage`: a row per design, a mark per noise, two standard errors, and a band.

    Returns:
        [(noise, is its share near enough, ...)], a bool for each design.
    """
    # a row a design, and the band of rates that are near enough
    designs, near = frame["design"].unique(), []
    parts = [name.partition(", ") for name in designs]
    rows = row_axis(ax, [first for first, *_ in parts])
    name_groups(ax, [last for *_, last in parts])
    ax.axvspan(nominal - ENOUGH, nominal + ENOUGH, color=GREY, alpha=0.2, linewidth=0)
    ax.axvline(nominal, color="black", linewidth=0.8)
    # marks beside each other
    for i, (noise, look) in enumerate(kinds(VARIED).items()):
        part = frame[frame["noise"] == noise].set_index("design").reindex(designs)
        share, error = part["share"], 2 * part["simulation error"]
        if share.notna().any():
            near.append((noise, *(abs(share.dropna() - nominal) <= ENOUGH)))
            look |= {"linestyle": "none", "markersize": 4.5, "xerr": error, "label": noise}
            ax.errorbar(share, rows + 0.15 * (1.5 - i), **look)
    return near


# ---- distributions of ranks


def draw_candidates(ax, example):
    """Fig. 1 of the paper for one of `examples.examples`: candidates as bars by their ranks,
    the true one apart; dots where ranks are left out."""
    names, bars = [], {}
    for rank, (text, probability) in enumerate(example.candidates, 1):
        look = {"color": GREY}
        # the true token stands out
        if text == example.target:
            look = {"color": ACCENT, "hatch": "//"}
            if example.rank > rank:
                names.append("⋮")
            rank = example.rank
        bars[len(names)] = probability, look
        names.append(f"{rank}  {plain(ascii(text))}")
    rows = row_axis(ax, names)
    for row, (probability, look) in bars.items():
        ax.barh(rows[row], probability, **look)
    ax.set_title(f"true token at rank {example.rank}, p = {example.probability:.3f}")
    ax.set_xlabel("probability")
