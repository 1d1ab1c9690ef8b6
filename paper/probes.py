"""Trainings that were probed on their way: where copying comes in,
and what happens to the loss there.

`published/probes` holds a file a training; its README says what was probed and how.
"""

import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import log_ndtr, stdtrit

from rbplib.families import InputError, held, telling
from rbplib.sheets import rows_of

DEEP = -0.5  # nats: second reading less first, below which a model copies
STRING = "shuffled"  # kind of string whose second reading shows it: the text's own tokens
PARTS = ("copyable", "other")  # of a text's tokens
STRINGS = ("random", STRING, "excerpt")  # kinds of strings that are read twice
COPYING, LOSS, FIRST = "copying (nats)", "loss (nats)", "−log RBP₁ (nats)"
TEN = "ten in a row, if independent"
BATCH, WINDOW = 8, 256  # windows a step, and tokens of one
REACH = 10**5.7  # T of Aoyama et al.
WIDTH = 1.959963984540054  # standard errors of a 95% interval
RUN, PROBED = ["size", "seed"], ["tokens", "probe", "part", "k"]  # what a row is known by
COLUMNS = [*RUN, *PROBED, "value", "se", "total"]
ONSETS = [*RUN, "onset", "low", "high", "copyable", "other", "times", "before", "end"]
LOSSES = [*RUN, "tokens", "k", *PARTS, "whole", "share"]
STEEP = np.log(2) / 2  # half the length of the steep piece, in ln tokens
FITTED = ["line", "step", "bent", "fall", "steep"]


def runs(folder="."):
    """{(size, seed): its probes} of every kept training, smallest first; k = 0 of what is no hits.

    folder: of `published/probes`, of trainings with another batch, which end where they copy.
    InputError: no file of one is there, or one has a fault, whose row is named.
    """
    files = {}
    for file in sorted(held("published", "probes", folder).glob("*.csv")):
        with telling(f"{file} cannot be read, get it again"):
            files[file.name] = rows_of(file)[0].reset_index(drop=True)
    if not files:
        raise InputError("published/probes holds no training: get its files from the repository.")
    probes = pd.concat(files, names=["file"]).reindex(columns=COLUMNS)
    numbers = probes.drop(columns=["probe", "part"]).apply(pd.to_numeric, errors="coerce")
    # hits are of a k, and have no standard error
    hits = probes["probe"] == "hits"
    numbers["k"] = numbers["k"].where(hits, 0)
    complete = np.isfinite(numbers.assign(se=numbers["se"].mask(hits, 0))).all(axis=1)
    complete &= ~hits | (numbers["value"] / numbers["total"]).between(0, 1)
    # a training has a row once
    probes = probes.assign(**numbers)
    complete &= ~probes.duplicated(COLUMNS[:6])
    if not complete.all():
        file, row = complete.idxmin()
        raise InputError(
            f"published/probes/{file}, row {row + 2}: a number is missing or cannot be, or the row "
            "is there already; get the file again, or train anew."
        )
    if folder != ".":
        return dict(list(probes.groupby(RUN)))
    # and every row that others have; a file is of one training
    seen = probes.groupby(["file", *RUN, *PROBED]).size().unstack(["file", *RUN])
    gaps = seen.unstack("tokens").isna().any()
    if gaps.any():
        file, *_, tokens = gaps.idxmax()
        raise InputError(
            f"published/probes/{file} lacks rows at {tokens} tokens that others have: it was cut, "
            "or is of fewer tokens; get it again, train anew, or move it away."
        )
    return dict(list(probes.groupby(RUN)))


def series(probes, probe, part):
    """(tokens, value, standard error), float64 each, of one thing probed, hits apart."""
    chosen = (probes["probe"] == probe) & (probes["part"] == part)
    rows = probes[chosen].sort_values("tokens")
    return tuple(rows[["tokens", "value", "se"]].to_numpy(float).T)


def first_below(tokens, value, level):
    """Where a curve first passes below a level, on straight lines between probes; NaN if never."""
    i = np.argmax(value < level)
    if i == 0:  # never, or from the first probe on
        return np.nan
    around = [i, i - 1]
    return np.interp(level, value[around], tokens[around])


def onset(probes, string=STRING, deep=DEEP):
    """(tokens, (low, high)): where copying of a kind of string passes below so many nats;
    the ends are those of value ± 1.96 se."""
    tokens, value, se = series(probes, "copying", string)
    low, high = (first_below(tokens, value + WIDTH * error, deep) for error in (-se, se))
    return first_below(tokens, value, deep), (low, high)


def fall(probes, part, start, end):
    """Share of its loss that a part of the text loses between two numbers of tokens;
    NaN beyond them."""
    tokens, value, _ = series(probes, "loss", part)
    before, after = np.interp([start, end], tokens, value, np.nan, np.nan)
    return 1 - after / before


def gains(probes, at):
    """(copyable, other, times, before): the fall of both losses from half to twice so many tokens.

    times: copyable over other; before: the same ratio over as wide a stretch just before, from an
    eighth to half.
    """
    copyable, other = (fall(probes, part, at / 2, 2 * at) for part in PARTS)
    earlier, less = (fall(probes, part, at / 8, at / 2) for part in PARTS)
    times = copyable / other if other else np.inf
    before = earlier / less if less else np.inf
    return copyable, other, times, before


def onset_frame(trainings):
    """A row per training: where copying comes in, its `gains` there, and tokens of the last
    probe."""
    rows = []
    for (size, seed), probes in trainings.items():
        at, around = onset(probes)
        rows.append((size, seed, at, *around, *gains(probes, at), probes["tokens"].max()))
    return pd.DataFrame(rows, columns=ONSETS)


def by_batch(trainings):
    """`onset_frame` of the sizes that were trained with several batches, with the batch (windows a
    step) and the onset that Aoyama et al. predict (2025, arXiv:2511.16893): REACH times the root of
    the tokens of a batch.

    trainings: of `runs`, with BATCH windows a step.
    """
    kept = {BATCH: trainings}
    for folder in sorted(held("published", "probes").glob("batch-*")):
        kept[int(folder.name[6:])] = runs(folder.name)
    frames = [onset_frame(some).assign(batch=batch) for batch, some in kept.items()]
    frame = pd.concat(frames).sort_values(["batch", "size", "seed"], ignore_index=True)
    several = frame.groupby("size")["batch"].transform("nunique") > 1
    return frame[several].assign(predicted=lambda rows: REACH * np.sqrt(rows["batch"] * WINDOW))


def onset_slope(onsets):
    """(slope, (low, high)): of ln onset on ln S, by maximum likelihood with normal scatter.

    Of a training that did not come to copy the onset lies beyond its last probe (a censored
    regression). The 95% interval is the likelihood's, at the height that is Student's where no
    onset is censored. NaNs where fewer than two sizes, or three onsets, are known.
    """
    came = onsets["onset"].notna()
    x, y = np.log([onsets["size"], onsets["onset"].fillna(onsets["end"])])
    spare = len(y) - 2
    if came.sum() < 3 or len(set(x[came])) < 2:
        return np.nan, (np.nan, np.nan)

    def depth(slope):
        """-ln likelihood, with the best level and scatter."""
        off = y - slope * x

        def lost(normal):
            # known onsets by their density, the others by the share that comes later
            level, log_scatter = normal
            away = (off - level) / np.exp(log_scatter)
            density = away**2 / 2 + log_scatter
            return np.where(came, density, -log_ndtr(-away)).sum()

        start = off.mean(), np.log(off.std())
        return minimize(lost, start).fun

    # the slope, and where the likelihood has fallen as far as Student's interval lets it
    best = minimize_scalar(depth, bracket=(-1, 1))
    t = stdtrit(spare, 0.975)
    height = best.fun + len(y) / 2 * np.log1p(t**2 / spare)

    def above(slope):
        return depth(slope) - height

    low, high = (brentq(above, best.x, best.x + far) for far in (-9, 9))
    return best.x, (low, high)


def copyable(table):
    """Which rows of a rank table, bool (n,), could be copied: their bigram (the token before, the
    token itself) stood before among the scored tokens of their document: of their window, by the
    protocol `paper`."""
    # a row that does not go on from another has no bigram
    before = np.where(table.joined, np.roll(table.token, 1), -1)
    bigrams = pd.DataFrame({"document": table.document, "before": before, "token": table.token})
    return bigrams.duplicated().to_numpy() & table.joined


def losses(trainings):
    """A row per training, probe and loss: -log RBP_k of each part and of the whole text,
    k = 0 the cross-entropy.

    share: of the tokens that are copyable.
    """
    text = pd.concat(trainings.values())
    begun = text["tokens"] > 0
    text = text[begun & text["probe"].isin(["hits", "loss"])]
    # hits, or the mean loss, with both parts side by side
    text = text.assign(k=text["k"].astype(int))
    wide = text.pivot(index=LOSSES[:4], columns="part", values=["value", "total"])
    totals = wide["total"]
    ranked = wide.index.get_level_values("k") > 0
    means = wide["value"]
    means[ranked] = -np.log(means[ranked] / totals[ranked])
    # the whole text, out of its parts
    share = totals["copyable"] / totals.sum(axis=1)
    whole = joined(means["copyable"], means["other"], share, ranked)
    return means.assign(whole=whole, share=share).reset_index()[LOSSES]


def joined(copyable, other, share, k):
    """The loss of the whole text from those of its parts; k = 0: cross-entropy."""
    mean = share * copyable + (1 - share) * other
    hits = share * np.exp(-copyable) + (1 - share) * np.exp(-other)
    return np.where(k == 0, mean, -np.log(hits))


def shape_errors(tokens, loss, start):
    """{shape: root mean square of what a point misses, in ln loss,
    once the others are fitted} over ln tokens.

    steep: three pieces without a jump, the middle one from the start over 2 ** 0.5 to the start
    times that; it goes on where no other point shows what follows. NaN with fewer than three
    points on one side of the start.
    """
    # ln tokens from the start on
    x = np.log(np.asarray(tokens, float) / start)
    y = np.log(np.asarray(loss, float))
    after = x > 0
    # columns of each shape; two of the steep one count from the ends of its middle piece
    designs = {
        "line": [x],
        "step": [after],
        "bent": [x, x * after],
        "fall": [x, after, x * after],
        "steep": [x, np.minimum(x + STEEP, 0), np.maximum(x - STEEP, 0)],
    }
    errors = dict.fromkeys(designs, np.nan)
    if min(after.sum(), len(x) - after.sum()) < 3:
        return errors
    # what each point misses: of a column that the others leave at 0, lstsq takes nothing
    rows = np.arange(len(x))
    for shape, columns in designs.items():
        design = np.column_stack([np.ones(len(x)), *columns])
        fits = [np.linalg.lstsq(design[rows != i], y[rows != i])[0] for i in rows]
        missed = y - np.sum(design * fits, axis=1)
        errors[shape] = np.sqrt(np.mean(missed**2))
    return errors


def curves(trainings):
    """What figures over training show: a row for each training, thing shown and part,
    with its whole curve.

    What is shown: copying, the loss, -log RBP_1,
    and ten first choices in a row of the other tokens as independent hits have them.
    """
    rows = []
    for (size, seed), probes in trainings.items():
        # strings that are read twice
        shown = [(COPYING, part, *series(probes, "copying", part)[:2]) for part in STRINGS]
        # both parts of the text
        text = losses({(size, seed): probes})
        mean, first = (text[text["k"] == k] for k in (0, 1))
        for part in PARTS:
            curve = FIRST, part, first["tokens"], first[part]
            shown += [(LOSS, part, mean["tokens"], mean[part]), curve]
        shown.append((TEN, "other", first["tokens"], np.exp(-10 * first["other"])))
        # a row for each
        at = onset(probes)[0] / 1e6
        row = {"size": int(size), "seed": int(seed), "onset": at if at == at else None}
        for what, part, tokens, value in shown:
            curve = {"tokens": np.array(tokens) / 1e6, "value": np.array(value)}
            rows.append(row | {"what": what, "part": part} | curve)
    return rows
