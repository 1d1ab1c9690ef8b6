"""Drawing functions of the pages on distributions of ranks. Each takes an axis and returns it, as in `figures`."""

import numpy as np

from paper.show.figures import row_axis
from paper.show.prose import plain
from paper.show.style import LINES

RATIOS = (0.25, 0.5, 0.75, 1, 1.5, 2, 4)
OBSERVED = {"color": "black", "marker": "o", "markersize": 3.5, "linestyle": "none"}


def draw_rank_histogram(ax, histogram, fits=(), label="measured"):
    """Share of tokens per rank against rank, on logarithmic axes, with fitted ones as lines (paper Fig. 8c).

    Args:
        histogram: RankHistogram. fits: RankDistributions.
    """
    low, high, share = histogram.wide()
    seen = share > 0
    density = (share / (high - low + 1))[seen]
    ax.plot(np.sqrt(low * high)[seen], density, label=label, **OBSERVED)
    for fit, line in zip(fits, LINES, strict=False):
        ax.plot(np.arange(1, len(fit.pmf) + 1), fit.pmf, label=fit.title, linestyle=line)
    ax.set(xscale="log", yscale="log", xlabel="rank of the true token", ylabel="share of tokens per rank")
    ax.set_ylim(bottom=density.min() / 10)
    return ax


def draw_fit_ratio(ax, histogram, fits):
    """Fitted over observed share in log bins: what a logarithmic histogram hides."""
    low, high, share = histogram.wide()
    seen, middle = share > 0, np.sqrt(low * high)
    for fit, line in zip(fits, LINES, strict=False):
        below = np.concatenate([[0.0], fit.pmf.cumsum()])
        ax.plot(middle[seen], (below[high] - below[low - 1])[seen] / share[seen], label=fit.title, linestyle=line)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="rank of the true token", ylabel="fitted / observed")
    ax.set_yticks(RATIOS, [f"{r:g}" for r in RATIOS])
    ax.set_yticks([], minor=True)
    return ax


def draw_regions(ax, ratio, sigma, error, label, point, name):
    """A map of relative error over (mu/sigma, sigma) with the lines of 1% and 10% error, and a named point.

    Args:
        ratio: (X,). sigma: (Y,). error: (Y, X), signed relative error; NaN where the formula gives no number.
    """
    size = np.log10(np.clip(np.abs(error), 1e-6, 10))
    mesh = ax.pcolormesh(ratio, sigma, size, cmap="cividis", shading="nearest", rasterized=True, vmin=-6, vmax=1)
    lines = ax.contour(ratio, sigma, size, levels=[-2, -1], colors=["white", "black"], linewidths=1.4)
    ax.clabel(lines, fmt={-2: "1%", -1: "10%"}, fontsize=9)
    ax.set(yscale="log", xlabel=r"$\mu/\sigma$", ylabel=r"$\sigma$")
    ax.grid(visible=False)
    ax.figure.colorbar(mesh, ax=ax, label=label)
    ax.plot(*point, marker="*", markersize=12, color="white", markeredgecolor="black", linestyle="none")
    ax.annotate(name, point, (9, 7), textcoords="offset points", color="white", fontsize=9)
    return ax


def draw_ratio_parts(ax, parts):
    """What the printed likelihood ratio is made of: one bar per pair of a power law and a lognormal."""
    rows = row_axis(ax, parts.names)
    ax.barh(rows, parts.ratios, color=["#D55E00" if r < 0 else "#0072B2" for r in parts.ratios], height=0.6)
    for row, value in zip(rows, parts.ratios, strict=True):
        gap, side = (60, "left") if value >= 0 else (-60, "right")
        ax.text(value + gap, row, f"{round(value):,}".replace("-", "−"), va="center", ha=side, fontsize=8.5)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.margins(x=0.22)
    ax.set_xlabel("log likelihood above that of the lognormal (nats)")
    return ax


def draw_candidates(ax, example):
    """Fig. 1 of the paper for one of `examples.examples`: candidates as bars, the true token's apart, its p dotted."""
    texts, chances = map(list, zip(*example.candidates, strict=True))
    if example.target not in texts:
        texts.append(example.target)
        chances.append(example.probability)
    rows = row_axis(ax, [plain(ascii(text)) for text in texts])
    true = [text == example.target for text in texts]
    colours, hatches = ["#D55E00" if t else "#717D8A" for t in true], ["//" if t else "" for t in true]
    ax.barh(rows, chances, color=colours, hatch=hatches)
    ax.axvline(example.probability, color="black", linewidth=1, linestyle=":")
    ax.set(xlabel="probability", title=f"true token at rank {example.rank}, p = {example.probability:.3f}")
    return ax
