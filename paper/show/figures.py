"""Drawing functions. Each takes an axis and returns it; none writes a file, fits or sets the style.

The sole exception is `show`, which hands a finished figure to the page as SVG, with words for
readers who cannot see it.
"""

import html

import numpy as np
from matplotlib.colors import to_hex

from paper.runs import rise_width
from paper.show.describe import drawn_data
from paper.show.numbers import interval, number
from paper.show.prose import only, plain
from paper.show.style import ACCENT, EMPTY, GREY, LINES, darker, drawn, svg_of

BAND = 0.18  # opacity of an interval drawn as a band
PALE = 0.09  # of the second band, for sources and trainings
FAINT = 0.28  # of a bar that wide
SOURCES, TRAININGS = "95%: other text", "95%: other text and trainings"
RATIOS = (0.25, 0.5, 0.75, 1, 1.5, 2, 4)  # marked on an axis of fitted over observed


# ---- a figure on the page, its axes and its legend


def show(figure, alt, fold=None, see="", of=()):
    """Put a figure on the page and close it; alt: one sentence that says what is drawn and seen.

    fold: what stands in its place until a click. see: a sentence of Markdown under it. of: `only`
    for these corpora.
    """
    from IPython.display import Markdown, display
    from matplotlib import pyplot as plt

    if not str(alt).strip():
        raise ValueError("a figure needs alternative text: say in one sentence what it shows.")
    # drawing says of empty axes that they are
    svg, alt = svg_of(figure), html.unescape(str(alt))
    if all(ax.get_gid() == EMPTY for ax in figure.axes if ax.get_visible()):
        alt += " Nothing could be drawn."
    # what the page's own script reads
    metadata = {"image/svg+xml": {"alt": alt}, "data": drawn_data(figure), **only(of)}
    if fold:
        metadata["fold"] = fold
    display({"image/svg+xml": svg, "text/plain": alt}, raw=True, metadata=metadata)
    if see:
        display(Markdown(see), metadata={"see": True})
    plt.close(figure)


def panels(n, height=2.6, columns=2):
    """(figure, n axes) side by side in columns with common scales."""
    from matplotlib import pyplot as plt

    n = max(n, 1)
    shape = -(-n // columns), min(n, columns)
    size = (plt.rcParams["figure.figsize"][0], 0.3 + height * shape[0])
    fig, axes = plt.subplots(*shape, squeeze=False, figsize=size, sharex=True, sharey=True)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    for ax in axes.flat[:n]:
        ax.xaxis.set_tick_params(labelbottom=True)
    return fig, axes.flat[:n]


def law_axes(ax, ylabel=r"$-\log\,\mathrm{RBP}_k$"):
    """Logarithmic axes with labels that name the quantity."""
    ax.set(xscale="log", yscale="log", ylabel=ylabel)
    # labels of panels side by side would meet
    place = ax.get_subplotspec()
    alone = place is None or place.get_gridspec().ncols == 1
    ax.set_xlabel("model size $S$ (non-embedding parameters)" if alone else "model size $S$")
    return ax


def k_axis(ax, ylabel, vocab_size=None):
    """k on a logarithmic axis; |V|, where RBP_k is 1 for every model, is marked."""
    ax.set(xscale="log", xlabel="$k$ (ranks counted as a success)", ylabel=ylabel)
    if vocab_size:
        ax.axvline(vocab_size, color=GREY, linewidth=1, linestyle=":")
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate("$|V|$", (vocab_size, 1), (3, -10), **place)
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
    return {"marker": "os^D"[i % 4], "markersize": 4.5, "color": f"C{i}", "linestyle": "none"}


def tell(ax, kind, fact):
    """Note what is drawn: `book.show` titles the figure by the macro shows_KIND of words.md."""
    vars(ax.figure).setdefault("shows", {}).setdefault(kind, []).append(fact)


def label_ends(ax):
    """Write the names of lines and points where they end, in place of a legend; did they fit?"""
    handles, names = ax.get_legend_handles_labels()
    ends = []
    lines = [line for line in ax.get_lines() if line.get_transform() == ax.transData]
    for handle, name in zip(handles, names, strict=True):
        line = handle[0] if hasattr(handle, "has_xerr") else handle
        if line not in lines:
            return False
        color = to_hex(line.get_color())
        points = [part.get_xydata() for part in lines if to_hex(part.get_color()) == color]
        points = np.vstack([np.empty((0, 2)), *points])
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points) or len(name) > 24:
            return False
        end = points[points[:, 0].argmax()]
        # points of its height
        at = ax.transAxes.inverted().transform(ax.transData.transform(end))[1]
        ends.append([at * 0.72 * 72 * ax.figure.get_figheight(), end, name, color])
    if not 1 < len(ends) < 7:
        return False
    # as far apart as lines of text are, and no further from their lines
    ends.sort(key=lambda end: end[0])
    heights = np.array([end[0] for end in ends])
    spread = np.maximum.accumulate(heights - 12 * np.arange(len(ends))) + 12 * np.arange(len(ends))
    spread -= (spread - heights).mean()
    if np.abs(spread - heights).max() > 15:
        return False
    right = max(end[1][0] for end in ends)
    for (_, (_, y), name, color), shift in zip(ends, spread - heights, strict=True):
        place = {"xytext": (16, shift), "textcoords": "offset points", "va": "center"}
        ax.annotate(name, (right, y), color=darker(color), fontsize=9, **place)
    return True


# ---- laws over sizes, and what follows from them


def draw_bars(ax, x, lo, hi, color):
    """Pale bars behind points: their interval over sources and trainings, where it is known."""
    if lo is not None and np.isfinite(lo).any():
        ax.vlines(x, lo, hi, color=color, alpha=FAINT, linewidth=5)
        name_once(ax, SOURCES, linewidth=1.1)
        name_once(ax, TRAININGS, linewidth=5, alpha=FAINT)
    return ax


def draw_points(ax, x, y, lo=None, hi=None, label=None, hollow=False, **style):
    """Points, arrays (M,), with their interval as bars; hollow: numbers that are not ours."""
    bars = None if lo is None else np.clip([y - lo, hi - y], 0, None)
    face = "white" if hollow else style.get("color")
    style = {"marker": "o", **style, "linestyle": "none"}
    ax.errorbar(x, y, yerr=bars, label=label, markerfacecolor=face, elinewidth=1.1, **style)
    return ax


def draw_line(ax, law, times=1, **style):
    """A fitted law, `times` so high, a little beyond both ends of its sizes, where it was fitted."""
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
    tell(ax, "fits", law)
    # intervals of the points
    if ends is None and law.training_band is not None:
        draw_bars(ax, x, *np.exp(law.training_band), style.get("color", "C0"))
    if ends is None:
        ends = (None, None) if law.band is None else np.exp(law.band)
    draw_points(ax, x, np.exp(law.y), *ends, label=label, hollow=hollow, **style)
    # the line has no marks
    line = {name: style[name] for name in ("color", "linestyle") if name in style}
    return law_axes(draw_line(ax, law, **line))


def draw_band(ax, x, y, lo=None, hi=None, label=None, wide=None, **style):
    """A curve with its interval as a band; wide: (low, high) of a second, paler one."""
    marker, every = style.pop("marker", None), max(1, len(x) // 8)
    (line,) = ax.plot(x, y, label=label, marker=marker, markevery=every, **style)
    look = {"color": line.get_color(), "linewidth": 0}
    if lo is not None:
        ax.fill_between(x, lo, hi, alpha=BAND, **look)
    if wide is not None and np.isfinite(wide).any():
        ax.fill_between(x, *wide, alpha=PALE, **look)
        name_once(ax, SOURCES, linewidth=6, alpha=BAND + PALE)
        name_once(ax, TRAININGS, linewidth=6, alpha=PALE)
    return ax


def draw_published(ax, family, corpus, **style):
    """Points that others published of a family on this text, where there are any, as open marks."""
    from paper.published import reference_points

    theirs = reference_points(family, corpus)
    if theirs is not None:
        draw_points(ax, theirs.S, theirs.loss, label=theirs.label, hollow=True, **style)
    return ax


def draw_forecast(ax, forecast, label=None, color=None, **_):
    """A `Forecast` of a loss, dotted, with its 95% interval as a band; its end is told in words."""
    tell(ax, "forecasts", forecast)
    curve = {"color": color, "linestyle": ":"}
    draw_band(ax, forecast.S, np.exp(forecast.y), *np.exp(forecast.y_interval), **curve)
    value, around = forecast.told(-1)
    end = f"{number(value)} {interval(around)}"
    ax.get_lines()[-1].told = f"forecast for {label} at the right end {end}"
    return ax


def draw_intervals(ax, labels, values, intervals, names):
    """One row per label: the value and intervals (n, 2) beside each other, each with a name."""
    rows = row_axis(ax, labels)
    for i, (ends, name) in enumerate(zip(intervals, names, strict=True)):
        low, high = np.asarray(ends, float).T
        shift = 0.16 * (i - (len(intervals) - 1) / 2)
        width = 3.4 - 2.2 * i / max(1, len(names) - 1)  # not told by colour alone
        ax.hlines(rows - shift, low, high, label=name, color=f"C{i}", linewidth=width)
    ax.plot(values, rows, linestyle="none", marker="o", color="black", markersize=4)
    return ax


def draw_three(ax, labels, laws, parameter="alpha"):
    """`draw_intervals` of one parameter of laws: other text; and trainings; other sizes."""
    for law in laws:
        tell(ax, "intervals", law)
    sides = [law.sides(parameter) for law in laws]
    names = list(max(sides, key=len))
    ends = []
    for name in names:
        ends.append([side.get(name, (np.nan, np.nan)) for side in sides])
    return draw_intervals(ax, labels, [law.parameters[parameter] for law in laws], ends, names)


def draw_noise(ax, misses, sd, **style):
    """Standard deviation of log(-log RBP_k) over sources against the misses it rests on."""
    style = {"marker": "o", **style, "linestyle": "none", "markersize": 4}
    for times in np.asarray(sd) * np.sqrt(misses):
        tell(ax, "noise", times)
    ax.plot(misses, sd, **style)
    ax.set(xscale="log", yscale="log", xlabel="misses $m$ (tokens ranked above $k$)")
    ax.set_ylabel(r"sd of $\log(-\log\,\mathrm{RBP}_k)$ over sources")
    return ax


def draw_noise_line(ax):
    """What independent misses would give, over the axis as it stands."""
    low, high = ax.get_xlim()
    if low <= 0:  # an axis without a point
        low = high / 10
    m = np.geomspace(low, high, 50)
    ax.plot(m, 1 / np.sqrt(m), color="black", linewidth=1.2, label=r"$1/\sqrt{m}$")
    ax.set_xlim(low, high)
    return ax


def draw_expected(ax, x, measured, low, high, label=None, **style):
    """A measured curve, and a grey band for what it would be if a law held exactly."""
    for known, value, most in zip(np.isfinite(high), measured, high, strict=True):
        tell(ax, "expected", bool(value <= most) if known else None)
    look = {"color": GREY, "linewidth": 0, "label": "exact law, noise of sources"}
    ax.fill_between(x, low, high, alpha=0.4, **look)
    ax.plot(x, measured, label=label, markersize=4, **style)
    return ax


def draw_runs(ax, law, single, N, **style):
    """N hits in a row: points, their law, and N times the law at N = 1, dashed between marks."""
    draw_fit(ax, law, label=f"$N = {N}$", markersize=4, **style)
    times = np.exp(N * np.exp(single.y[-1:]) - np.exp(law.y[-1:]))
    tell(ax, "runs", {"N": N, "times": float(times[0]) if len(times) else np.nan})
    dashed = {"linestyle": "--", "linewidth": 1, "markersize": 4, "mfc": "white"}
    return draw_line(ax, single, times=N, **style, **dashed, markevery=[0, -1])


def draw_sigmoid(ax, single, N, law, **style):
    """Probability of N hits in a row: the law at N = 1 over sizes never measured, and points."""
    tell(ax, "rises", rise_width(single.alpha) / np.log(10))
    S, name = single.loss.S, f"$N = {N}$"
    ax.axvspan(S.min(), S.max(), color="#BBBBBB", alpha=0.12, linewidth=0)
    # no model has less than one parameter
    if np.isfinite(single.alpha):
        sizes = np.geomspace(max(1, S.min() / 1e4), S.max() * 1e40, 400)
        p = np.exp(-N * np.exp(single.y_at(sizes)))
        ax.plot(sizes, p, label=name, markevery=[], markersize=4, **style)
        ax.margins(x=0)
        name = None  # the line stands in the legend with its points
    draw_points(ax, law.S, np.exp(-np.exp(law.y)), label=name, markersize=4, **style)
    ax.set(xscale="log", ylim=(-0.03, 1.03))
    return ax


def draw_coverage(ax, frame, rate, kind, kinds, nominal=0.95, within=0.02):
    """Rates of `coverage`: a row per design, a mark per kind, two standard errors, and a band."""
    designs = list(dict.fromkeys(frame["design"]))
    rows = row_axis(ax, designs)
    ax.axvspan(nominal - within, nominal + within, color=GREY, alpha=0.2, linewidth=0)
    present = [name for name in kinds if name in set(frame[kind])]
    for i, name in enumerate(present):
        part = frame[frame[kind] == name].set_index("design").reindex(designs)
        errors = 2 * part["simulation error"]
        for value in part[rate].dropna():
            tell(ax, "rates", {"rate": value, "inside": abs(value - nominal) <= within})
        ax.errorbar(part[rate], rows + 0.15 * (1.5 - i), xerr=errors, label=name, **mark(i))
    ax.axvline(nominal, color="black", linewidth=0.8)
    return ax


def draw_shifts(ax, frame):
    """Change of RBP_k per precision, rows of precision.shift_frame, a mark per rank definition."""
    precisions = list(dict.fromkeys(frame["precision"]))
    rows = dict(zip(precisions, row_axis(ax, precisions), strict=True))
    # what floats leave of nothing is nothing
    frame = frame.assign(change=frame["change"].where(frame["change"].abs() >= 1e-9, 0))
    for i, (definition, part) in enumerate(frame.groupby("definition", sort=False)):
        heights = part["precision"].map(rows) + 0.2 * (1 - i)
        (line,) = ax.plot(part["change"], heights, label=definition, **mark(i))
        low, high = 100 * part["change"].min(), 100 * part["change"].max()
        line.told = f"{definition} {interval((low, high))}"
        tell(ax, "shifts", max(-low, high))
    # few numbers, in percentage points
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel("change (% points)")
    ax.locator_params(axis="x", nbins=2)
    ax.xaxis.set_major_formatter(lambda x, _: f"{round(100 * x, 9):.3g}".replace("-", "−"))
    ax.label_outer()  # side by side, rows are named once
    return ax


# ---- distributions of ranks


def draw_rank_histogram(ax, histogram, fits=(), label="measured"):
    """Share of tokens per rank against rank, with fitted ones as lines (paper Fig. 8c).

    Args:
        histogram: RankHistogram. fits: RankDistributions.
    """
    low, high, share = histogram.wide()
    seen = share > 0
    density = (share / (high - low + 1))[seen]
    look = {"color": "black", "marker": "o", "markersize": 3.5, "linestyle": "none"}
    ax.plot(np.sqrt(low * high)[seen], density, label=label, **look)
    for fit, line in zip(fits, LINES, strict=False):
        ax.plot(np.arange(1, len(fit.pmf) + 1), fit.pmf, label=fit.title, linestyle=line)
    ax.set(xscale="log", yscale="log", xlabel="rank of the true token")
    ax.set_ylabel("share of tokens per rank")
    ax.set_ylim(bottom=density.min() / 10)
    return ax


def draw_fit_ratio(ax, histogram, fits):
    """Fitted over observed share in log bins: what a logarithmic histogram hides."""
    low, high, share = histogram.wide()
    seen = share > 0
    middle = np.sqrt(low * high)[seen]
    for fit, line in zip(fits, LINES, strict=False):
        below = np.concatenate([[0.0], fit.pmf.cumsum()])
        fitted = below[high] - below[low - 1]
        ratio = fitted[seen] / share[seen]
        tell(ax, "ratios", {"fit": fit.title, "times": np.exp(np.abs(np.log(ratio)).max())})
        ax.plot(middle, ratio, label=fit.title, linestyle=line)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="rank of the true token", ylabel="fitted / observed")
    ax.set_yticks(RATIOS, [f"{r:g}" for r in RATIOS])
    ax.set_yticks([], minor=True)
    return ax


def draw_regions(ax, ratio, sigma, error, label, point, name):
    """A map of relative error over (mu/sigma, sigma), lines of 1% and 10%, and a named point.

    Args:
        ratio: (X,). sigma: (Y,). error: (Y, X), signed; NaN where the formula gives no number.
    """
    # the map, in powers of ten
    size = np.log10(np.clip(np.abs(error), 1e-6, 10))
    look = {"cmap": "cividis", "shading": "nearest", "rasterized": True}
    mesh = ax.pcolormesh(ratio, sigma, size, vmin=-6, vmax=1, **look)
    mesh.told = f"below 1% on {number(100 * (size < -2).mean(), 2)}% of the map"
    # its lines
    look = {"levels": [-2, -1], "colors": ["white", "black"], "linewidths": 1.4}
    lines = ax.contour(ratio, sigma, size, **look)
    ax.clabel(lines, fmt={-2: "1%", -1: "10%"}, fontsize=9)
    ax.set(yscale="log", xlabel=r"$\mu/\sigma$", ylabel=r"$\sigma$")
    ax.grid(visible=False)
    ax.figure.colorbar(mesh, ax=ax, label=label)
    # the point
    star = {"marker": "*", "markersize": 12, "color": "white", "markeredgecolor": "black"}
    ax.plot(*point, linestyle="none", **star)
    ax.annotate(name, point, (9, 7), textcoords="offset points", color="white", fontsize=9)
    return ax


def draw_candidates(ax, example):
    """Fig. 1 of the paper for one of `examples.examples`: candidates as bars, the true one apart."""
    candidates = list(example.candidates)
    if example.target not in [text for text, _ in candidates]:
        candidates.append((example.target, example.probability))
    rows = row_axis(ax, [plain(ascii(text)) for text, _ in candidates])
    for row, (text, probability) in zip(rows, candidates, strict=True):
        if text == example.target:
            ax.barh(row, probability, color=ACCENT, hatch="//")
        else:
            ax.barh(row, probability, color="#717D8A")
    ax.axvline(example.probability, color="black", linewidth=1, linestyle=":")
    title = f"true token at rank {example.rank}, p = {example.probability:.3f}"
    ax.set(xlabel="probability", title=title)
    return ax


def draw_two_models(examples, names):
    """The first choices of two models at one place of a text, and where each ranks what stands there."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(plt.rcParams["figure.figsize"][0], 2.4))
    for ax, example, name in zip(axes, examples, names, strict=True):
        draw_candidates(ax, example)
        ax.set_title(f"first choices of {name}: rank {example.rank}")
    context = plain(" ".join("".join(examples[0].context).split()))
    fig.suptitle(f"… {context} → ?", fontsize=10.5)
    return fig
