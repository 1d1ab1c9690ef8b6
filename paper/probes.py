"""Trainings that were probed on their way: where copying comes in, and what happens to the loss there.

`published/probes` holds a file a training; its README says what was probed and how.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from paper.show import figures, style
from paper.show.numbers import number
from rbplib.families import held

DEEP = -0.5  # nats: second reading less first, below which a model copies
STRING = "shuffled"  # kind of string whose second reading shows it: the text's own tokens
WIDTH = 1.959963984540054  # standard errors of a 95% interval
COLUMNS = ["size", "seed", "onset", "low", "high", "copyable", "other", "times"]
PARTS = {"copyable": "-", "other": ":"}  # of the held-out text, and their lines


def runs():
    """{(size, seed): its probes} of every kept training, smallest first."""
    files = sorted(held("published", "probes").glob("*.csv"))
    if not files:
        return {}
    probes = pd.concat(map(pd.read_csv, files))
    return {place: part for place, part in probes.groupby(["size", "seed"])}


def series(probes, probe, part):
    """(tokens, value, standard error), float64 each, of one thing probed, hits apart."""
    rows = probes[(probes["probe"] == probe) & (probes["part"] == part)]
    rows = rows.sort_values("tokens")
    return rows["tokens"].to_numpy(float), rows["value"].to_numpy(), rows["se"].to_numpy()


def first_below(tokens, value, level):
    """Where a curve first passes below a level, on straight lines between probes; NaN if never."""
    below = np.flatnonzero(value < level)
    if not len(below) or not below[0]:
        return np.nan
    i = below[0]
    share = (value[i - 1] - level) / (value[i - 1] - value[i])
    return float(tokens[i - 1] + share * (tokens[i] - tokens[i - 1]))


def onset(probes):
    """(tokens, (low, high)): where copying passes below DEEP; the ends are those of value ± 1.96 se."""
    tokens, value, se = series(probes, "copying", STRING)
    low, middle, high = (
        first_below(tokens, value + sign * WIDTH * se, DEEP) for sign in (-1, 0, 1)
    )
    return middle, (low, high)


def fall(probes, part, start, end):
    """Share of its loss that a part of the text loses between two numbers of tokens; NaN beyond them."""
    tokens, value, _ = series(probes, "loss", part)
    ends = np.interp([start, end], tokens, value, left=np.nan, right=np.nan)
    return float(1 - ends[1] / ends[0])


def onset_frame(trainings):
    """A row per training: where copying comes in, and from half of that to twice the fall of both losses."""
    rows = []
    for (size, seed), probes in trainings.items():
        at, (low, high) = onset(probes)
        falls = {part: fall(probes, part, at / 2, 2 * at) for part in PARTS}
        row = {"size": size, "seed": seed, "onset": at, "low": low, "high": high}
        row |= {"copyable": falls["copyable"], "other": falls["other"]}
        times = np.divide(falls["copyable"], falls["other"]) if falls["other"] else np.inf
        rows.append(row | {"times": times})
    return pd.DataFrame(rows, columns=COLUMNS)


def onset_slope(onsets):
    """(slope, (low, high), sizes): of ln onset on ln S, with Student's 95% interval over trainings.

    Only sizes at which copying came in in every training take part: of the others the late onsets are
    not known, and leaving those out would bend the line. NaNs where fewer than two sizes or three
    trainings remain.
    """
    whole = onsets.groupby("size")["onset"].transform(lambda onset: onset.notna().all())
    rows = onsets[whole.astype(bool)]
    sizes = sorted(set(rows["size"]))
    if len(sizes) < 2 or len(rows) < 3:
        return np.nan, (np.nan, np.nan), sizes
    # the line through ln S and ln onset, and what trainings scatter around it
    x = np.log(rows["size"].to_numpy(float))
    y = np.log(rows["onset"].to_numpy(float))
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    left = len(rows) - 2
    error = np.sqrt(np.sum((y - slope * x) ** 2) / left / (x @ x))
    half = float(stdtrit(left, 0.975) * error)
    return slope, (slope - half, slope + half), sizes


def draw(axes, trainings):
    """Left the copying of each training against its tokens, right both losses of the held-out text."""
    sizes = sorted({size for size, _ in trainings})
    looks = dict(zip(sizes, style.series(len(sizes)), strict=True))
    for (size, seed), probes in trainings.items():
        # one colour a size, named with the first of its seeds
        first = seed == min(other for of, other in trainings if of == size)
        name = f"$S$ = {number(size)}" if first else None
        tokens, value, se = series(probes, "copying", STRING)
        line = {"color": looks[size]["color"]}
        figures.draw_band(
            axes[0], tokens / 1e6, value, value - WIDTH * se, value + WIDTH * se, label=name, **line
        )
        for part, dash in PARTS.items():
            tokens, value, _ = series(probes, "loss", part)
            axes[1].plot(tokens[1:] / 1e6, value[1:], linestyle=dash, **line)
    for part, dash in PARTS.items():
        figures.name_once(axes[1], f"{part} tokens", linestyle=dash)
    axes[0].set(xlabel="training tokens, millions", ylabel="copying (nats)")
    axes[1].set(
        xlabel="training tokens, millions", ylabel="loss (nats)", xscale="log", yscale="log"
    )
    return axes
