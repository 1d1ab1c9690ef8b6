"""Drawing functions. Each takes an axis and returns it; none writes a file, fits anything or sets the style.

The sole exception is `show`, which hands a finished figure to the page as SVG together with its alternative text.
"""

import html

import numpy as np

from paper.show.prose import only
from paper.show.style import EMPTY, GREY, drawn, svg_of

BAND = 0.18  # opacity of an interval drawn as a band
PALE = 0.09  # of the second band, for sources and trainings; a bar that wide is drawn at FAINT
FAINT = 0.28
SOURCES, TRAININGS = "95%: other text", "95%: other text and trainings"


def show(figure, alt, fold=None, see="", of=()):
    """Put a figure on the page and close it; alt: one sentence for readers who cannot see what is drawn and shown.

    fold: what stands in its place until a click. see: a sentence of Markdown under it. of: `only` for these corpora.
    """
    from IPython.display import Markdown, display
    from matplotlib import pyplot as plt

    if not str(alt).strip():
        raise ValueError("a figure needs alternative text: say in one sentence what it shows.")
    alt = html.unescape(str(alt))
    svg, seen = svg_of(figure), [ax for ax in figure.axes if ax.get_visible()]
    alt += " Nothing could be drawn." if all(ax.get_gid() == EMPTY for ax in seen) else ""
    bundle = {"image/svg+xml": svg, "text/plain": alt}
    display(bundle, raw=True, metadata={"image/svg+xml": {"alt": alt}, **only(of)} | ({"fold": fold} if fold else {}))
    if see:
        display(Markdown(see), metadata={"see": True})
    plt.close(figure)


def law_axes(ax, ylabel=r"$-\log\,\mathrm{RBP}_k$"):
    """Logarithmic axes with labels that name the quantity."""
    ax.set(xscale="log", yscale="log", xlabel="model size $S$ (non-embedding parameters)", ylabel=ylabel)
    return ax


def k_axis(ax, ylabel, vocab_size=None):
    """k on a logarithmic axis; the end of the vocabulary, where RBP_k is 1 for every model, is marked."""
    ax.set(xscale="log", xlabel="$k$ (ranks counted as a success)", ylabel=ylabel)
    if vocab_size:
        ax.axvline(vocab_size, color=GREY, linewidth=1, linestyle=":")
        ax.annotate("$|V|$", (vocab_size, 1), (3, -10), xycoords=("data", "axes fraction"), textcoords="offset points")
    return ax


def row_axis(ax, names):
    """One row per name, the first on top: the heights to draw at, int64 (n,)."""
    rows = np.arange(len(names))[::-1]
    ax.set_yticks(rows, [drawn(name) for name in names])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="y", visible=False)
    return rows


def legend_below(figure, ax, ncols=3):
    """One legend for all panels, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
    return ax


def family_legend(ax, looks):
    """A legend with one entry per family, whatever was drawn: looks is {name: {"color", "marker"}}."""
    from matplotlib.lines import Line2D

    ax.legend(handles=[Line2D([], [], label=name, linestyle="-", **look) for name, look in looks.items()])
    return ax


def panels(n, height=2.6):
    """(figure, n axes) side by side in two columns with common scales."""
    from matplotlib import pyplot as plt

    rows = -(-max(n, 1) // 2)
    shape = {"figsize": (plt.rcParams["figure.figsize"][0], 0.3 + height * rows), "sharex": True, "sharey": True}
    fig, axes = plt.subplots(rows, min(max(n, 1), 2), squeeze=False, **shape)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    for ax in axes.flat[:n]:
        ax.xaxis.set_tick_params(labelbottom=True)
    return fig, axes.flat[:n]


def name_once(ax, label, **style):
    """An entry in grey for the legend of an axis, unless it has one of that name."""
    if label not in ax.get_legend_handles_labels()[1]:
        ax.plot([], [], color=GREY, label=label, **style)
    return ax


def draw_bars(ax, x, lo, hi, color):
    """Pale bars behind points: their interval over sources and trainings; nothing where that is not known."""
    if lo is not None and np.isfinite(lo).any():
        ax.vlines(x, lo, hi, color=color, alpha=FAINT, linewidth=5)
        name_once(ax, SOURCES, linewidth=1.1)
        name_once(ax, TRAININGS, linewidth=5, alpha=FAINT)
    return ax


def draw_points(ax, x, y, lo=None, hi=None, label=None, hollow=False, **style):
    """Points, arrays (M,), with their interval, if one is given, as bars; hollow: numbers that are not ours."""
    bars = None if lo is None else np.clip([y - lo, hi - y], 0, None)
    face = "white" if hollow else style.get("color")
    style = {"marker": "o", **style, "linestyle": "none"}
    ax.errorbar(x, y, yerr=bars, label=label, markerfacecolor=face, elinewidth=1.1, **style)
    return ax


def draw_line(ax, law, times=1, **style):
    """A fitted law, `times` so high, over its sizes and a little beyond both ends; nothing where the fit failed."""
    if np.isfinite(law.alpha):
        grid = np.geomspace(law.S.min() / 1.25, law.S.max() * 1.25, 100)
        ax.plot(grid, times * np.exp(law.y_at(grid)), **style)
    return ax


def draw_fit(ax, law, ends=None, label=None, hollow=False, shift=0.0, **style):
    """Fig. 3 of the paper: a law with its own points, their intervals, and its line, on logarithmic axes.

    ends: (low, high) of the points, arrays (M,); when not given, the law's own over resampled sources, if any, and
    behind them pale bars over sources and trainings, where those are known. shift: of the points, decades right.
    """
    x = law.S * 10**shift
    if ends is None:
        ends = (None, None) if law.token_band is None else np.exp(law.token_band)
        if law.training_band is not None:
            draw_bars(ax, x, *np.exp(law.training_band), style.get("color", "C0"))
    draw_points(ax, x, np.exp(law.y), *ends, label=label, hollow=hollow, **style)
    return law_axes(draw_line(ax, law, **{k: v for k, v in style.items() if k in ("color", "linestyle")}))


def draw_band(ax, x, y, lo=None, hi=None, label=None, wide=None, **style):
    """A curve with its interval as a band (R² or exponent against k); wide: (low, high) of a second, paler one."""
    marker = style.pop("marker", None)
    (line,) = ax.plot(x, y, label=label, marker=marker, markevery=max(1, len(x) // 8), **style)
    if lo is not None:
        ax.fill_between(x, lo, hi, color=line.get_color(), alpha=BAND, linewidth=0)
    if wide is not None and np.isfinite(wide).any():
        ax.fill_between(x, *wide, color=line.get_color(), alpha=PALE, linewidth=0)
        name_once(ax, SOURCES, linewidth=6, alpha=BAND + PALE)
        name_once(ax, TRAININGS, linewidth=6, alpha=PALE)
    return ax


def draw_steps(ax, found, shift=0.0, label=None, **style):
    """Exponents between neighbouring sizes (`noise.LocalExponents`) with both intervals; shift: decades right."""
    x, style = found.S * 10**shift, {k: v for k, v in style.items() if k in ("color", "marker")}
    draw_bars(ax, x, *found.trainings, style.get("color", "C0"))
    draw_points(ax, x, found.alpha, *found.sources, label=label, **style)
    ax.plot(x, found.alpha, color=style.get("color", "C0"), linewidth=0.8)
    ax.set(xscale="log", xlabel="model size $S$, middle of a step", ylabel="local exponent")
    return ax


def draw_intervals(ax, labels, values, intervals, names):
    """One row per label: the value and one or more intervals (n, 2) beside each other, each with a name."""
    rows = row_axis(ax, labels)
    for i, (ends, name) in enumerate(zip(intervals, names, strict=True)):
        shift = 0.16 * (i - (len(intervals) - 1) / 2)
        look = {"color": f"C{i}", "linewidth": 3.4 - 2.2 * i / max(1, len(names) - 1)}  # not told by colour alone
        ax.hlines(rows - shift, *np.asarray(ends, float).T, label=name, **look)
    ax.plot(values, rows, linestyle="none", marker="o", color="black", markersize=4)
    return ax


def draw_three(ax, labels, laws, parameter="alpha"):
    """`draw_intervals` of one parameter of laws: other text; and trainings, where known; other sizes."""
    laws = list(laws)
    names = max((list(w.intervals(parameter)) for w in laws), key=len)
    ends = [[w.intervals(parameter).get(name, (np.nan, np.nan)) for w in laws] for name in names]
    return draw_intervals(ax, labels, [w.parameters[parameter] for w in laws], ends, names)


def draw_noise(ax, misses, sd, **style):
    """Standard deviation of log(-log RBP_k) over resampled sources against the misses it rests on."""
    ax.plot(misses, sd, **{"marker": "o", **style, "linestyle": "none", "markersize": 4})
    ax.set(xscale="log", yscale="log", xlabel="misses $m$ (tokens ranked above $k$)")
    ax.set_ylabel(r"sd of $\log(-\log\,\mathrm{RBP}_k)$ over sources")
    return ax


def draw_noise_line(ax):
    """What independent misses would give, over the axis as it stands."""
    low, high = ax.get_xlim()
    low = low if low > 0 else high / 10  # an axis without a point
    m = np.geomspace(low, high, 50)
    ax.plot(m, 1 / np.sqrt(m), color="black", linewidth=1.2, label=r"$1/\sqrt{m}$")
    ax.set_xlim(low, high)
    return ax


def draw_expected(ax, x, measured, low, high, label=None, wide=None, **style):
    """A measured curve, and a grey band for what it would be if a law held exactly; wide: a second, paler one."""
    look = {"color": GREY, "linewidth": 0}
    if wide is not None and np.isfinite(wide).any():
        ax.fill_between(x, *wide, alpha=0.15, label="exact law, noise of sources and trainings", **look)
    ax.fill_between(x, low, high, alpha=0.4, label="exact law, noise of sources", **look)
    ax.plot(x, measured, label=label, markersize=4, **style)
    return ax


def draw_runs(ax, law, single, N, **style):
    """N hits in a row: points, the law fitted to them, and N times the law at N = 1, dashed between hollow marks."""
    draw_fit(ax, law, label=f"$N = {N}$", markersize=4, **style)
    draw_line(ax, single, times=N, **style, linestyle="--", linewidth=1, markersize=4, mfc="white", markevery=[0, -1])
    return ax


def draw_sigmoid(ax, single, N, law, **style):
    """Probability of N hits in a row on a linear axis: the law at N = 1 over sizes never measured, and points."""
    S, name = single.loss.S, f"$N = {N}$"
    ax.axvspan(S.min(), S.max(), color="#BBBBBB", alpha=0.12, linewidth=0)
    if np.isfinite(single.alpha):
        grid = np.geomspace(max(1, S.min() / 1e4), S.max() * 1e40, 400)  # no model has less than one parameter
        ax.plot(grid, np.exp(-N * np.exp(single.y_at(grid))), label=name, markevery=[], markersize=4, **style)
        ax.margins(x=0)
        name = None  # the line stands in the legend with its points
    draw_points(ax, law.S, np.exp(-np.exp(law.y)), label=name, markersize=4, **style)
    ax.set(xscale="log", ylim=(-0.03, 1.03))
    return ax


def draw_coverage(ax, frame, rate, kind, kinds, nominal=0.95, within=0.02):
    """Rates of `laws.coverage`: a row per design, a mark per kind, two standard errors; what is meant is a band."""
    designs = list(dict.fromkeys(frame["design"]))
    rows, table = row_axis(ax, designs), frame.set_index([kind, "design"])
    ax.axvspan(nominal - within, nominal + within, color=GREY, alpha=0.2, linewidth=0)
    for i, name in enumerate(k for k in kinds if k in table.index):
        part = table.loc[name].reindex(designs)
        ax.errorbar(part[rate], rows + 0.15 * (1.5 - i), xerr=2 * part["simulation error"], label=name, **mark(i))
    ax.axvline(nominal, color="black", linewidth=0.8)
    return ax


def draw_shifts(ax, frame):
    """Change of RBP_k per precision, rows of tables.shift_frame: colour and marker say the rank definition."""
    precisions = list(dict.fromkeys(frame["precision"]))
    rows = dict(zip(precisions, row_axis(ax, precisions), strict=True))
    frame = frame.assign(change=frame["change"].where(frame["change"].abs() >= 1e-9, 0))  # what floats leave of nothing
    for i, (definition, part) in enumerate(frame.groupby("definition", sort=False)):
        ax.plot(part["change"], part["precision"].map(rows) + 0.2 * (1 - i), label=definition, **mark(i))
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel("change (% points)")
    ax.locator_params(axis="x", nbins=2)
    ax.xaxis.set_major_formatter(lambda x, _: f"{round(100 * x, 9):.3g}".replace("-", "−"))
    ax.label_outer()  # side by side, rows are named once
    return ax


def mark(i):
    """The look of the i-th kind of points that share rows."""
    return {"marker": "os^D"[i % 4], "markersize": 4.5, "color": f"C{i}", "linestyle": "none"}
