"""Do the intervals cover, and do the tests reject as often as they say? Counted on planted laws.

Families are drawn as text is found: sources, documents in them, and trainings that scatter. On
document d of source s training m misses the share p_dm of the tokens,

    log(-log(1 - p_dm)) = mu_m + a_sm + b_dm,   a_s ~ N(0, between),  b_d ~ N(0, within),

with mu_m such that the mean share is exactly that of the planted law, moved by the training's own
scatter. On one document the misses of the better training lie among those of the worse. Whatever is
counted comes from `fit` and `extrapolate`, as on the pages.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtri

from paper.forecasts import extrapolate
from paper.laws import fit
from paper.show.numbers import Values
from paper.steps import slope_weights, y_se
from rbplib.bootstrap import line, percentile_interval, sum_by_source
from rbplib.losses import Loss, logarithm, minus_log

THESE, ANY = "alpha of these models", "alpha of any training"
RBP, NEXT = "RBP of the largest", "next model"
BLOCK = 20  # families that share one set of resamples: few, so that the sets' luck averages out
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
TAILS = [0.025, 0.975]  # of a 95% interval


# --- families with a planted law


@dataclass(frozen=True)
class Design:
    """What the families of a simulation look like: C trainings, the first `models` are the family.

    totals, source: int64 (D,), scored tokens and source of each document. S: float64 (C,), sizes.
    alpha, loss: the law, loss = -log RBP_k of the first model. between, within: float64 (C, C),
    covariances of the effects of sources and of documents in a source. training_sd: of
    log(-log RBP_k) between trainings of one size.
    """

    totals: np.ndarray
    source: np.ndarray
    S: np.ndarray
    models: int
    alpha: float
    loss: float
    between: np.ndarray
    within: np.ndarray
    training_sd: float = 0.0
    among: bool = True  # whether the family's own models count among its repeats
    bend: float = 0.0  # sd of the models about a line without noise: they follow a quadratic

    @classmethod
    def plain(
        cls,
        sources=120,
        documents=4,
        tokens=220,
        models=6,
        decades=2.5,
        between=(0.2, 0.02),
        loss=1.5,
        training_sd=0.015,
    ):
        """A corpus made up: documents of each source (a number, or one for each), three trainings.

        between: (sd that all trainings share, sd of each on its own) of the sources' effects; the
        documents': 0.4, 0.1.
        """
        source = np.repeat(np.arange(sources), documents)
        rng = np.random.default_rng(0)
        totals = rng.integers(tokens // 2, tokens * 3 // 2 + 1, len(source))
        S = np.tile(np.geomspace(2e3, 2e3 * 10**decades, models), 3)
        shared, own = between
        between = shared**2 + own**2 * np.eye(len(S))
        within = 0.4**2 + 0.1**2 * np.eye(len(S))
        return cls(totals, source, S, models, 0.06, loss, between, within, training_sd)

    @classmethod
    def of(cls, loss):
        """The design of a measured -log RBP_k: its documents, sources, sizes, law and scatter.

        A family without repeats is one training a size, without scatter between trainings.
        """
        loss = loss.keep(np.flatnonzero(np.isfinite(loss.y)))
        law, used, sums, S = fit(loss, n_bootstrap=0), loss.used, loss.sums, loss.S

        # other trainings of the same sizes, but for those that are the family's own models
        among, more = True, loss.repeats
        if more is not None:
            known = {column.tobytes() for column in sums.T}
            valued = np.flatnonzero(np.isfinite(more.y))
            again = [i for i in valued if more.sums[:, i].tobytes() not in known]
            among = len(again) < len(valued)
            sums, S = np.hstack([sums, more.sums[:, again]]), np.append(S, more.S[again])

        totals = loss.totals[used]
        source = np.arange(len(totals))
        if loss.source is not None:
            source = np.unique(loss.source[used], return_inverse=True)[1]
        between, within = components(totals[:, None] - sums[used], totals, source)
        return cls(
            totals=totals,
            source=source,
            S=S,
            models=len(loss.S),
            alpha=law.alpha,
            loss=float(np.exp(law.y_at(S[0]))),
            between=between,
            within=within,
            training_sd=float(np.nan_to_num(loss.training_noise()[0])),
            among=among,
        )

    @property
    def y(self):
        """The planted law, with its bend: float64 (C,)."""
        x = np.log(self.S / self.S[0])
        law, own = np.log(self.loss) - self.alpha * x, x[: self.models]
        if not self.bend:
            return law
        bow = x**2 - np.polyval(np.polyfit(own, own**2, 1), x)
        sd = np.sqrt((bow[: self.models] ** 2).sum() / (self.models - 2))
        return law + self.bend * bow / sd

    @property
    def expected_misses(self):
        """Of the largest model, over the whole corpus."""
        return float(-np.expm1(-np.exp(self.y[: self.models].min())) * self.totals.sum())

    def draw(self, families, rng):
        """(misses int64 (F, D, C), y float64 (F, C)): drawn families, and their endless text."""
        D, C, sources = len(self.totals), len(self.S), self.source.max() + 1
        y = self.y + self.training_sd * rng.standard_normal((families, C))
        a = rng.standard_normal((families, sources, C)) @ _root(self.between)
        b = rng.standard_normal((families, D, C)) @ _root(self.within)
        mu = centre(y, np.diag(self.between + self.within))
        eta = mu[:, None] + a[:, self.source] + b

        # from the worst training to the best, each misses some of what the one before it missed
        order = np.argsort(-eta, axis=-1)
        share = -np.expm1(-np.exp(np.take_along_axis(eta, order, axis=-1)))
        share[..., 1:] /= share[..., :-1].copy()
        chain = np.empty((families, D, C), np.int64)
        left = np.broadcast_to(self.totals, (families, D))
        for place in range(C):
            left = chain[..., place] = rng.binomial(left, share[..., place])
        misses = np.empty_like(chain)
        np.put_along_axis(misses, order, chain, axis=-1)
        return misses, y

    def losses(self, families, rng):
        """[(Loss with sources and repeats, y float64 (M,) on endless text)] of drawn families."""
        misses, y = self.draw(families, rng)
        M, C = self.models, len(self.S)
        pairs = []
        for missed, known in zip(misses, y, strict=True):
            every = Loss(
                sums=self.totals[:, None] - missed,
                totals=self.totals,
                S=self.S,
                k=1,
                family="drawn",
                models=tuple(f"t{i}" for i in range(C)),
                source=self.source,
            )
            repeats = every.keep(np.arange(0 if self.among else M, C)) if C > M else None
            pairs.append((replace(every.keep(np.arange(M)), repeats=repeats), known[:M]))
        return pairs


def measured_designs(curves, k):
    """{corpus: Design} of {corpus: Curve} with three sizes whose values at k differ."""
    designs = {}
    for name, curve in curves.items():
        if k in curve.ks:
            loss = curve.loss(k)
            if not loss.equal and len(np.unique(loss.S[np.isfinite(loss.y)])) > 2:
                designs[name] = Design.of(loss)
    return designs


def components(misses, totals, source):
    """(between, within): float64 (C, C) each, of log(-log(1 - p)), from misses int64 (D, C).

    With r = misses - share * tokens, the squares of the sources' sums of r less those of the
    documents hold `between` alone, and the documents' less those of nested tokens hold both;
    negative parts of an estimate are cut off.
    """
    T, share = totals.sum(), misses.sum(0) / totals.sum()
    rest = misses - totals[:, None] * share
    lengths, sums = sum_by_source(totals, source), sum_by_source(rest, source)
    documents, sources = (r.T @ r * len(r) / max(len(r) - 1, 1) for r in (rest, sums))
    tokens = T * (np.minimum.outer(share, share) - np.outer(share, share))

    # covariances of the shares of misses
    squares = (totals**2).sum()
    spare = (lengths**2).sum() - squares
    between = _positive((sources - documents) / spare) if spare else 0 * tokens
    within = _positive((documents - tokens) / max(squares - T, 1) - between)

    # the variance of log(-log(1 - p)) that gives shares this standard deviation
    sd, y = np.sqrt(np.diag(between + within)), np.log(-np.log1p(-share))
    variance = np.full(len(share), 0.1)
    for _ in range(60):
        shares = _shares(centre(y, variance), variance)
        spread = np.sqrt(np.maximum(shares**2 @ WEIGHTS - (shares @ WEIGHTS) ** 2, 0))
        variance *= np.maximum(sd, 1e-9) / np.maximum(spread, 1e-9)
    scale = np.sqrt(variance) / np.maximum(sd, 1e-9)
    return between * np.outer(scale, scale), within * np.outer(scale, scale)


def centre(y, variance):
    """mu of log(-log(1 - p)) ~ N(mu, variance) at which p has the mean 1 - exp(-exp(y)): as y."""
    mu = y
    for _ in range(60):
        last, mu = mu, mu + y - np.log(-np.log1p(-(_shares(mu, variance) @ WEIGHTS)))
        if np.array_equal(last, mu):
            break
    return mu


def _shares(mu, variance):
    return -np.expm1(-np.exp(mu[..., None] + np.sqrt(variance)[..., None] * NODES))


def _positive(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def _root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))).T


# --- how often intervals cover, and tests reject


def coverage(designs, families=400, n_resamples=500, seed=0, progress=iter):
    """How often each 95% interval holds what it is about, and each test at 5% rejects a true law.

    Args:
        designs: {name: Design}. families: drawn of each; a rate p has the simulation error
            sqrt(p (1 - p) / families). n_resamples: B of each family.
    Returns:
        two data frames: a row per design, interval and what it is about, with the share that
        covered, its simulation error, the mean width and the share without an interval (they do not
        cover); a row per design and noise that the law was tested against, with the share that
        rejected, its simulation error and the share without a p.
    Cost: about 12 ms a family of six models.
    """
    ends, tests = [], []
    for name, design in progress(designs.items()):
        rng = np.random.default_rng(seed)
        for i in range(0, families, BLOCK):
            for loss, y in design.losses(min(BLOCK, families - i), rng):
                intervals, ps = judged(loss, y, design.alpha, n_resamples, seed + i)
                ends += [(name, *what, *interval) for what, interval in intervals.items()]
                tests += [(name, *test) for test in ps.items()]
    ends = pd.DataFrame(ends, columns=["design", "of", "interval", "low", "high", "truth"])
    ends["covered"] = ends["truth"].between(ends["low"], ends["high"])
    ends["width"] = ends["high"] - ends["low"]
    tests = pd.DataFrame(tests, columns=["design", "against", "p"])
    tests["rejected"] = tests["p"] < 0.05
    covered = _rates(ends.groupby(["design", "of", "interval"], sort=False), "covered", "width")
    rejected = _rates(tests.groupby(["design", "against"], sort=False), "rejected", "p")
    rejected = rejected.drop(columns="mean p")
    return covered.rename(columns={"without width": "without interval"}), rejected


def _rates(groups, event, value):
    """Of each group: share with the event, its error, a mean of a value, the share without it."""
    rate, n = groups[event].mean(), groups.size()
    columns = {
        event: rate,
        "simulation error": np.sqrt(np.maximum(rate * (1 - rate), 0.25 / n) / n),
        f"mean {value}": groups[value].mean(),
        f"without {value}": 1 - groups[value].count() / n,
    }
    return pd.DataFrame(columns).reset_index()


def spans(frame, rate, groups):
    """The smallest and largest rate of each kind of interval or test over groups of designs, as a table.

    frame: one of `coverage`. rate: its column. groups: {title: names of designs}; those in which no
    family has an interval do not count.
    """
    kinds = [name for name in ("of", "interval", "against") if name in frame]
    rows = []
    for kind, part in frame.groupby(kinds, sort=False):
        row = dict(zip(kinds, kind, strict=True))
        known = part[part.iloc[:, -1] < 1]
        for title, designs in groups.items():
            row[title] = Values(known.loc[known["design"].isin(designs), rate]).between("%")
        rows.append(row)
    return pd.DataFrame(rows, columns=[*kinds, *groups])


def power(designs, noises, families, n_resamples, seed=0):
    """How often a straight line is rejected at 5% where the planted law bends: a row a design and bend.

    noises: of each design, what scatters its models about a line, in logarithms of the loss; 0: no row.
    """
    tests = ["sources", "sources and trainings"]
    rows = []
    for name, noise in noises.items():
        for times in (1, 1.5, 2, 3) if noise > 0 and designs[name].models > 2 else ():
            bent = {name: replace(designs[name], bend=times * noise)}
            rates = coverage(bent, families, n_resamples, seed)[1].set_index("against")
            shares = rates["rejected"].where(rates["without p"] < 0.5)[tests]
            rows.append((name, times, times * noise, *shares))
    return pd.DataFrame(rows, columns=["design", "bend over noise", "bend", *tests])


def judged(loss, y, alpha, n_resamples, seed):
    """({(target, interval): (low, high, truth)}, {noise: p of the lack of fit}) of one family.

    Targets: the exponent of these very models on endless text, that of the planted law (any
    training), RBP_k of the largest model, and the largest model as predicted from the others. The
    intervals over sources are also computed for fewer sources than MIN_DOCUMENTS, where pages give
    none.
    """
    law = fit(loss, n_bootstrap=n_resamples, seed=seed)
    documents, part, used = law.over_documents, loss.keep(list(law.used)), y[list(law.used)]

    # the exponent of these models, and of any training
    names = ("sources", "sources, unpaired", "tokens")
    ends, these = dict.fromkeys(names, (np.nan, np.nan)), np.nan
    if np.isfinite(law.alpha):
        ends |= _resampled(part, n_resamples, seed)
        ends["tokens"] = token_interval(part, law.alpha)
        these = -line(used, np.log(law.S))[0]
    ends["documents"] = documents.ci_tokens
    intervals = {(THESE, name): (*pair, these) for name, pair in ends.items()}
    intervals[ANY, "sources"] = (*ends["sources"], alpha)
    intervals[ANY, "sources and trainings"] = (*law.ci_trainings, alpha)
    intervals[ANY, "models"] = (*law.ci_models, alpha)

    # the largest model, and as a new one
    largest = used[-1] if len(used) else np.nan
    for name, band in (("sources", law.band), ("documents", documents.band)):
        pair = (np.nan, np.nan) if band is None else band[:, -1]
        intervals[RBP, name] = (*pair, largest)
    if len(loss.models) > 3:
        ahead = extrapolate(loss)
        intervals[NEXT, "models"] = (*ahead.interval[:, 0], ahead.observed[0])
    return intervals, {
        "documents": documents.lack_of_fit_p,
        "sources": law.lack_of_fit_p,
        "sources and trainings": law.trained_lack_of_fit_p,
    }


def _resampled(part, n_resamples, seed):
    """{name: interval of alpha} by one set of resampled sources."""
    x, y = np.log(part.S), part.resampled(n_resamples, seed, least=1).y
    paired, unpaired = -line(y, x)[0], -line(apart(y), x)[0]
    return {
        "sources": percentile_interval(paired),
        "sources, unpaired": percentile_interval(unpaired),
    }


def token_interval(loss, alpha):
    """95% ends for alpha were tokens independent and each model scored on tokens of its own."""
    se = y_se(-np.expm1(-loss.values), loss.total)
    half = ndtri(TAILS[1]) * np.sqrt(se**2 @ slope_weights(loss.S) ** 2)
    return alpha - half, alpha + half


def apart(drawn):
    """Resampled values (B, M), each model's from other resamples: rows are drawn independently."""
    return np.stack([np.roll(column, i) for i, column in enumerate(drawn.T)], axis=1)


def drawn_exponents(loss, tables=(), n_resamples=4000, seed=42):
    """{what was drawn: alpha of a Loss of hits by least squares, float64 (B,)}.

    Drawn are tokens, documents and sources, the same for all models; "..., unpaired": each its own.
    What there are fewer than MIN_DOCUMENTS of is not drawn, sources also where each document is its
    own. Empty without three sizes.

    tables: rank tables of the models, in the order of the loss; without them tokens are not drawn.
    """
    used = np.flatnonzero(np.isfinite(loss.y))
    part, rng, draws = loss.keep(used), np.random.default_rng(seed), {}
    if len(np.unique(part.S)) < 3 or loss.equal:
        return {}

    # tokens that the same models hit are alike
    if tables:
        hits = [tables[i].rank(loss.definition) <= loss.k for i in used]
        alike, tokens = np.unique(hits, axis=1, return_counts=True)
        drawn = rng.multinomial(part.total, tokens / part.total, n_resamples) @ alike.T
        draws["tokens"] = logarithm(minus_log(drawn / part.total))

    ways = {"documents": part.over_documents()}
    if part.n_sources < part.n_documents:
        ways["sources"] = part
    for name, way in ways.items():
        resampled = way.resampled(n_resamples, seed)
        if resampled is not None:
            draws[name] = resampled.y
    for name in list(draws):
        draws[f"{name}, unpaired"] = apart(draws[name])
    return {name: -line(y, np.log(part.S))[0] for name, y in draws.items()}
