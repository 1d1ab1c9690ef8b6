"""Drawing functions. Each takes an axis; none writes a file, fits or sets the style."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator

from paper.show.plain import plain
from paper.show.style import ACCENT, GREY, WIDTH, darker, drawn

FAINT = 0.28  # opacity of a wide bar
ENOUGH = 0.02000001  # near a nominal rate; 0.05 less 0.03 is above 0.02
SOURCES, TRAININGS = "95%: other text", "95%: other text and trainings"
VARIED = "sources", "sources and trainings", "models", "documents"


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


def law_axes(ax, ylabel=r"$-\log\,\mathrm{RBP}_k$"):
    """Logarithmic axes with labels that name the quantity."""
    ax.set(xscale="log", yscale="log", ylabel=ylabel)
    # labels of panels side by side would meet
    place = ax.get_subplotspec()
    alone = place is None or place.get_gridspec().ncols == 1
    ax.set_xlabel("model size $S$ (non-embedding parameters)" if alone else "model size $S$")
    return ax


def row_axis(ax, names):
    """One row per name, the first on top: the heights to draw at, int64 (n,)."""
    rows = np.arange(len(names))[::-1]
    ax.set_yticks(rows, [drawn(name) for name in names])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="y", visible=False)
    return rows


def name_once(ax, label, **style):
    """An entry in grey for the legend of an axis, unless it has one of that name."""
    if label not in ax.get_legend_handles_labels()[1]:
        ax.plot([], [], color=GREY, label=label, **style)
    return ax


def mark(i):
    """The look of the i-th kind of points that share rows."""
    return {
        "marker": "os^D"[i % 4],
        "markersize": 4.5,
        "color": f"C{i}",
        "linestyle": "none",
    }


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


def draw_points(ax, x, y, lo=None, hi=None, label=None, hollow=False, **style):
    """Points, arrays (M,), with their interval as bars; hollow: numbers that are not ours."""
    bars = None if lo is None else np.clip([y - lo, hi - y], 0, None)
    style = {"marker": "o", **style, "linestyle": "none", "elinewidth": 1.1}
    style["markerfacecolor"] = "white" if hollow else style.get("color")
    ax.errorbar(x, y, yerr=bars, label=label, **style)
    return ax


def draw_line(ax, law, times=1, **style):
    """A fitted law, `times` so high, a little beyond both ends of its sizes,
    where it was fitted."""
    if np.isfinite(law.alpha):
        sizes = np.geomspace(law.S.min() / 1.25, law.S.max() * 1.25, 100)
        ax.plot(sizes, times * np.exp(law.y_at(sizes)), **style)
    return ax


def draw_fit(ax, law, ends=None, label=None, hollow=False, shift=0.0, **style):
    """Fig. 3 of the paper: a law with its points, their intervals, and its line.

    ends: (low, high) of the points, arrays (M,); when not given, the law's own over resampled
    sources, and behind them pale bars over sources and trainings, each where it is known.
    shift: of the points, decades right.
    """
    x = law.S * 10**shift
    look = {"color": style.get("color", "C0")}
    if ends is None and law.training_band is not None:
        low, high = np.exp(law.training_band)
        wide = {"linewidth": 5, "alpha": FAINT}
        ax.vlines(x, low, high, **look, **wide)
        name_once(ax, SOURCES, linewidth=1.1)
        name_once(ax, TRAININGS, **wide)
    if ends is None:
        ends = (None, None) if law.band is None else np.exp(law.band)
    loss = np.exp(law.y)
    draw_points(ax, x, loss, *ends, label, hollow, **style)

    # the line has no marks
    look["linestyle"] = style.get("linestyle", "-")
    draw_line(ax, law, **look)
    return law_axes(ax)


def draw_coverage(ax, frame, nominal=0.95):
    """Shares of `coverage`: a row per design, a mark per noise, two standard errors, and a band.

    Returns:
        [(noise, is its share near enough, ...)], a bool for each design.
    """
    # a row a design, and the band of rates that are near enough
    designs, near = list(dict.fromkeys(frame["design"])), []
    rows = row_axis(ax, designs)
    ax.axvspan(nominal - ENOUGH, nominal + ENOUGH, color=GREY, alpha=0.2, linewidth=0)
    ax.axvline(nominal, color="black", linewidth=0.8)
    # marks beside each other
    for i, noise in enumerate(VARIED):
        part = frame[frame["noise"] == noise].set_index("design").reindex(designs)
        share, error = part["share"], 2 * part["simulation error"]
        if share.notna().any():
            near.append((noise, *(abs(share.dropna() - nominal) <= ENOUGH)))
            ax.errorbar(share, rows + 0.15 * (1.5 - i), xerr=error, label=noise, **mark(i))
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
    for place, (probability, look) in bars.items():
        ax.barh(rows[place], probability, **look)
    title = f"true token at rank {example.rank}, p = {example.probability:.3f}"
    ax.set(xlabel="probability", title=title)
    return ax
