"""The cases that claims are judged by, as rows: of laws, runs, exponents, contests, forecasts."""

from contextlib import suppress
from operator import attrgetter

import numpy as np
import pandas as pd

from paper.families import NONE
from paper.forecasts import tried as tried
from paper.show.claims import beyond, cases, finite
from paper.show.claims import known_interval as known_interval
from paper.steps import size_spread, spread_of_trainings
from rbplib.comparing import exponent_difference
from rbplib.families import InputError, load_corpus, load_family
from rbplib.law import EXPLAINED, exponent_ratio, fit
from rbplib.noise import half_width, own_seeds

RECURRENT = ("mamba", "rwkv", "xlstm")  # in names of families that are no transformers
BENDS = (1, 10, 100, None)  # k whose lines are asked for a bend; None: the cross-entropy
TRAINED = ("docs", "code", "doctests")  # kinds of text that the embedded families were trained on

# columns of rows, which a frame without any row has too
LAW = "family corpus k alpha r2 ci_tokens ci_trainings ci_models scored_tokens status".split()
NOISE = "explained_by noise_p worst_residual misses residual_sd noise_sd training_sd".split()
RISE = "family corpus change ci_tokens ci_trainings".split()
BEND = "k below direction estimate interval groups sources_sd trainings_sd noise_p".split()
FORECAST = "left_out worth share held error worst_error too_low".split()
LINE = "line_worth line_share line_held line_far line_low reach".split()
CONTEST = (
    "family corpus place laws behind behind_interval zipf_lead interval misfit best_misfit best"
).split()
LADDER = "family corpus ridge size_r2 log_size_r2 p_of_size p_of_log_size models".split()
WORSE = "family corpus k times p surely".split()

# does the first noise that is enough leave a line standing? none where trainings are not known
ANY_NOISE = dict(zip(EXPLAINED, (True, True, True, False), strict=False))


def trained_kind(family, corpus):
    """Was a family trained on text of this corpus's kind? None where that is not known."""
    with suppress(InputError):  # known by the path of a file alone
        kind = load_corpus(corpus).kind
        if kind and load_family(family).embedded:
            return kind in TRAINED
    return None


def law_rows(laws, noise=False):
    """A row per Law, with `surely`; noise: also what explains how its models leave
    the line (cost: a fit)."""
    columns = [*LAW, *NOISE] if noise else LAW
    fields = attrgetter(*columns)
    return surely(cases([*map(fields, laws)], columns))


def surely(rows):
    """Rows of laws with what claims ask beside their fields.

    ci_known: the exponent's interval over other text, and trainings where known. sure_alpha: 1 or
    -1, the side of 0 of it, or of that over other sizes where there is none; none where 0 is in it.
    not_rejected: no noise known rejects the line at 5%. noise_enough: whether all noise known is,
    see `enough`.
    """
    intervals = known_interval(rows)
    sure = beyond(intervals.where(finite(intervals), rows["ci_models"]))
    rows = rows.assign(ci_known=intervals, sure_alpha=sure.mask(sure == 0))
    if "explained_by" not in rows:
        return rows
    not_rejected = rows["explained_by"].map(ANY_NOISE).astype("boolean")
    squares = rows["noise_sd"] ** 2 + rows["training_sd"].fillna(0) ** 2
    share = squares / rows["residual_sd"] ** 2
    return rows.assign(not_rejected=not_rejected, noise_enough=enough(share, not_rejected))


def enough(share, not_rejected):
    """Is a noise enough for how models leave their line? Float64: 1 yes, -1 no,
    0 it cannot be told.

    Yes where it makes as large a mean square as was measured (share at least 1), no where the
    measured is rejected at 5%. Not to be rejected alone shows nothing: such a test hardly sees.
    """
    sides = share.ge(1).astype("Float64").where(share.notna())
    return sides.mask(~not_rejected.fillna(True), -1.0)


def rise_row(first, second, n_bootstrap=10_000, seed=42):
    """The exponent of the second Loss less that of the first, with its intervals."""
    change, text = exponent_difference(first, second, n_bootstrap, seed)
    trainings = with_trainings(first, second, change, text)
    return {
        "family": first.family,
        "corpus": first.corpus,
        "change": change,
        "ci_tokens": text,
        "ci_trainings": trainings,
    }


def rise_rows(rows):
    """Rows of `rise_row`, with those of `differences`."""
    return differences(cases(rows, RISE))


def loss_exponents(losses, **drawn):
    """One row per loss of {name: Loss}: exponent with its intervals, R², and the last loss,
    -log RBP_1, against it.

    The difference is the exponent of -log RBP_1 less its own, on the same resamples and trainings;
    the ratio is the one over the other by Fieller's theorem, NaN where the two rest on other
    models. Intervals with trainings are NaN where their scatter is not known.
    """
    *_, top = losses.values()
    top_law, rows = fit(top, **drawn), []
    for name, loss in losses.items():
        law = top_law if loss is top else fit(loss, **drawn)
        row = {"loss": name, "alpha": law.alpha, **both_ends(law.ci_tokens, "other text: ")}
        row |= {**both_ends(law.ci_trainings, "other text and trainings: "), "R²": law.r2}
        if loss is top:
            rows.append(row | {"ratio": 1.0})
            continue
        gap, interval = exponent_difference(loss, top, **drawn)
        trainings = with_trainings(loss, top, gap, interval)
        row |= {"that of -log RBP_1 less it": gap, **both_ends(interval, "difference: ")}
        row |= both_ends(trainings, "difference, and trainings: ")
        same = law.used == top_law.used
        row["ratio"], around = exponent_ratio(law, top_law) if same else (np.nan, NONE)
        rows.append(row | both_ends(around, "ratio over other sizes: "))
    return pd.DataFrame(rows)


def with_trainings(first, second, gap, interval):
    """The 95% interval of `exponent_difference` with the scatter between
    trainings of both losses."""
    if not np.isfinite(gap) or first.repeats is None or second.repeats is None:
        return NONE
    sd, df = spread_of_trainings(first.repeats.y - second.repeats.y, first.repeats.S)
    # the variances of both noises
    sources = ((interval[1] - interval[0]) / 2 / 1.96) ** 2
    trainings = sd**2 / size_spread(first.S)
    if not sources + trainings > 0:
        return NONE
    half = half_width(sources, first.n_sources - 1, trainings, df, own_seeds(first, df))
    return gap - half, gap + half


def both_ends(interval, prefix=""):
    """Both ends of an interval as columns."""
    return {f"{prefix}low": interval[0], f"{prefix}high": interval[1]}


def differences(rows):
    """Rows of differences with their interval over what noise is known, and what lies beyond it."""
    intervals = known_interval(rows)
    return rows.assign(ci_known=intervals, beyond_noise=beyond(intervals))


def ladder_row(frame):
    """How straight mu/sigma runs along size and its logarithm,
    over models off the ridge: a frame with a row a model, as of page 08.

    p_of_size: against mu/sigma being linear in S, with log S added; p_of_log_size: the other way
    round. From four sizes, as such a test takes.
    """
    fine = frame[np.isfinite(frame["mu/sigma"]) & (frame["status"] == "ok")]
    row = {"ridge": int((frame["status"] == "ridge").sum())}
    S, y = fine["S"].to_numpy(float), fine["mu/sigma"].to_numpy()
    if len(set(S)) > 3 and len(set(y)) > 1:
        row["size_r2"], row["p_of_size"] = straight(S, np.log(S), y)
        row["log_size_r2"], row["p_of_log_size"] = straight(np.log(S), S, y)
        row["models"] = len(S)
    return row


def straight(x, other, y):
    """(R² of a line of y in x, p of what `other` adds to it: Student's t on three parameters)."""
    columns = np.column_stack([x**0, x])
    rest, added = (z - columns @ np.linalg.lstsq(columns, z)[0] for z in (y, other))
    r2 = 1 - rest @ rest / ((y - y.mean()) ** 2).sum()
    return r2, two_sided(rest, added, len(x) - 3)


def two_sided(first, second, df):
    """p of the correlation of two vectors that have their means taken off,
    on df degrees of freedom."""
    from scipy.special import betainc

    r2 = (first @ second) ** 2 / max((first @ first) * (second @ second), 1e-300)
    return float(betainc(df / 2, 0.5, max(1 - r2, 0.0)))


def worse_row(first, second):
    """How many times as far models lie from their line in the second Law as in the first,
    and its p.

    Both laws are of the same models on the same text, so residuals come in pairs: Pitman's and
    Morgan's test of two variances, by the correlation of sums and differences. surely: the
    logarithm of the times where noise does not explain it at 5%, else 0.
    """
    row = {"family": first.family, "corpus": first.corpus, "k": second.k}
    before, after = (law.y - law.fitted for law in (first, second))
    if len(before) != len(after) or len(before) < 4 or not (before.any() and after.any()):
        return row
    p = two_sided(before + after, after - before, len(before) - 3)
    times = np.linalg.norm(after) / np.linalg.norm(before)
    return row | {"times": times, "p": p, "surely": np.log(times) * (p < 0.05)}


def direction(interval, noise_p):
    """1 or -1, the side of 0 on which an interval lies, of what noise does not explain at 5%;
    else NaN."""
    low, high = np.sign(interval)
    return low if noise_p < 0.05 and low * high > 0 else np.nan


def forecast_rows(frame, columns=(*FORECAST, *LINE)):
    """The one row of a frame of models left out, see `tried`, with what `covers` says of its
    intervals."""
    rows = cases(tried(frame), list(columns))
    for line in ("", "line_"):
        if f"{line}share" in rows:
            counts = map(covers, rows[f"{line}share"], rows[f"{line}worth"])
            rows[f"{line}covers"] = pd.Series(counts, rows.index, dtype="Float64")
    return rows


def covers(share, n):
    """Do as many of n 95% intervals hold as they say: 1, 2 if too many, 0 if too few; else NaN.

    n: how many independent cases they are worth, no whole number.
    """
    from scipy.special import betainc

    # one-sided tests at 5%: not fewer than 95%, and more than 90%, or more than 95%
    hits = share * n
    if hits < n and betainc(n - hits, hits + 1, 0.05) < 0.05:
        return 0.0
    more = [hits > 0 and betainc(hits, n - hits + 1, least) < 0.05 for least in (0.9, 0.95)]
    return float(sum(more)) or np.nan
