"""Do the intervals cover, and do the tests reject as often as they say? Counted on planted laws.

A measured -log RBP_k is the population. A family is drawn from it by drawing its sources of text
anew, with all their documents, and a law is planted by thinning: where a model's planted share of
hits is below the measured one each hit stays with the chance of their ratio, where it is above each
miss. So sources and documents differ as they were measured, models of one text are alike as they
were measured, and on endless text each model has exactly its planted loss: the law's, moved by the
training's own scatter. Whatever is counted comes from `fit`, as on the pages.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from paper.show.figures import draw_coverage as draw_coverage
from rbplib.bootstrap import line
from rbplib.law import fit
from rbplib.losses import Loss, logarithm, minus_log

THESE, ANY = "α of these models", "α of any training"
TRUE_LAW = "a true law is rejected"
TOGETHER = "other text and trainings"
BLOCK = 20  # families that share one set of resamples: few, so that the sets' luck averages out


# --- families with a planted law


@dataclass(frozen=True)
class Design:
    """What the families of a simulation look like.

    every: Loss of all trainings, C of them, each once; ladder, repeats_at: int arrays, which are
    the family and which its repeats, some of them maybe both. y: float64 (C,), log losses of the
    planted law. training_sd: of y between trainings of one size.
    """

    every: Loss
    ladder: np.ndarray
    repeats_at: np.ndarray
    alpha: float
    y: np.ndarray
    training_sd: float = 0.0

    @classmethod
    def like(cls, loss):
        """The design of a measured -log RBP_k of three sizes: its text, its law and its scatter.

        A family without repeats is one training a size, without scatter between trainings.
        """
        family = loss.defined()
        parts = [family]
        if loss.repeats is not None:
            parts.append(loss.repeats.defined())
        S = np.hstack([part.S for part in parts])
        sums = np.hstack([part.sums for part in parts])
        # trainings are the same where all their sums are
        contents = [column.tobytes() for column in sums.T]
        numbers, _ = pd.factorize(np.array(contents, object))
        _, first = np.unique(numbers, return_index=True)
        names = tuple(f"training {i}" for i in range(len(first)))
        every = replace(family, S=S[first], sums=sums[:, first], models=names, repeats=None)
        ladder, repeats_at = np.split(numbers, [len(family.S)])
        # the law, and the scatter about it
        law = fit(family, n_bootstrap=0)
        sd = float(np.nan_to_num(loss.training_noise()[0]))
        return cls(every, ladder, repeats_at, law.alpha, law.y_at(every.S), sd)

    def bent(self, bend):
        """The law with a quadratic in log S, whose sd about the best line
        is `bend` (models - 2)."""
        x = np.log(self.every.S / self.every.S[0])
        ladder = x[self.ladder]
        straight = np.polyfit(ladder, ladder**2, 1)
        bow = x**2 - np.polyval(straight, x)
        squares = (bow[self.ladder] ** 2).sum()
        sd = np.sqrt(squares / (len(ladder) - 2))
        return replace(self, y=self.y + bend * bow / sd)

    @cached_property
    def sources(self):
        """Numbers of the documents, int (n,) each, of every source with something scored."""
        units, used = self.every.units, self.every.used
        return [np.flatnonzero(units == number) for number in np.unique(units[used])]

    def draw(self, rng):
        """(Loss of a drawn family with its repeats, its y on endless text, float64 (M,))."""
        y = self.y + self.training_sd * rng.standard_normal(len(self.y))

        # sources anew, each with all its documents
        every, sources = self.every, self.sources
        drawn = [sources[i] for i in rng.choice(len(sources), len(sources))]
        documents = np.concatenate(drawn)
        hits, totals = every.sums[documents], every.totals[documents]

        # the planted share of hits in place of the measured one
        share = np.exp(-every.values)
        planted = np.exp(-np.exp(y))
        stay = np.minimum(planted / share, 1)
        gain = np.maximum((planted - share) / (1 - share), 0)
        misses = totals[:, None] - hits
        hits = rng.binomial(hits, stay) + rng.binomial(misses, gain)

        # a source that was drawn twice is two
        lengths = list(map(len, drawn))
        source = np.repeat(np.arange(len(drawn)), lengths)
        every = replace(every, sums=hits, totals=totals, source=source)
        repeats = every.keep(self.repeats_at) if len(self.repeats_at) else None
        return replace(every.keep(self.ladder), repeats=repeats), y[self.ladder]


# --- how often intervals cover, and tests reject


def coverage(designs, families=400, n_resamples=500, seed=0):
    """How often each 95% interval holds what it is about, and each test at 5% rejects a true law.

    Args:
        designs: {name: Design}. families: drawn of each; a rate p has the simulation error
            sqrt(p (1 - p) / families). n_resamples: B of each family.
    Returns:
        data frame with a row per design, question (THESE, ANY, TRUE_LAW) and noise: the share that
        covered or rejected, its simulation error, the mean width or p, the share without an answer.
    Cost: 6 ms of a processor a family of six models, a sixth of it for resamples.
    """
    # what each drawn family answers
    rows = []
    for name, design in designs.items():
        rng = np.random.default_rng(seed)
        for i in range(families):
            loss, y = design.draw(rng)
            answers = judged(loss, y, design.alpha, n_resamples, seed + i // BLOCK)
            rows += [(name, *by, *answer) for by, answer in answers.items()]
    # their rates
    case = ["design", "question", "noise"]
    frame = pd.DataFrame(rows, columns=[*case, "share", "width"])
    groups = frame.groupby(case, sort=False)
    rates = groups[["share", "width"]].mean()
    p = rates["share"]
    variance = np.maximum(p * (1 - p), 0.25 / families)
    rates["simulation error"] = np.sqrt(variance / families)
    rates["without"] = 1 - groups["width"].count() / families
    return rates.reset_index()


def judged(loss, y, alpha, n_resamples, seed):
    """{(question, noise): (whether it covers or rejects, its width or p)} of one drawn family.

    Questions: the exponent of these very models on endless text, that of the planted law, of any
    training, and whether a test at 5% rejects the law. NaN where there is no answer.
    """
    law, documents = (
        fit(way, n_bootstrap=n_resamples, seed=seed) for way in (loss, loss.over_documents())
    )
    # the exponent of these models on endless text
    these = np.nan
    if np.isfinite(law.alpha):
        slope, _, _ = line(y[list(law.used)], np.log(law.S))
        these = -slope
    # what is asked of each noise, and its answer
    intervals = [
        (THESE, "other text", law.ci_tokens, these),
        (THESE, "documents", documents.ci_tokens, these),
        (ANY, "other text", law.ci_tokens, alpha),
        (ANY, TOGETHER, law.ci_trainings, alpha),
        (ANY, "other sizes", law.ci_models, alpha),
    ]
    tests = {
        "documents": documents.p["sources"],
        "other text": law.p["sources"],
        TOGETHER: law.p["trainings"],
    }
    answers = {}
    for question, noise, (low, high), truth in intervals:
        answers[question, noise] = low <= truth <= high, high - low
    for noise, p in tests.items():
        answers[TRUE_LAW, noise] = p < 0.05, p
    return answers


def drawn_exponents(loss, tables=(), n_resamples=4000, seed=42):
    """{what was drawn: alpha of a Loss of hits by least squares, float64 (B,)}.

    Drawn are tokens, documents and sources, the same for all models; "..., unpaired": each its own.
    What there are too few of is not drawn, sources also where each document is its own. Empty
    without three sizes.

    tables: rank tables of the models, in the order of the loss; without them tokens are not drawn.
    """
    used = np.flatnonzero(np.isfinite(loss.y))
    part = loss.keep(used)
    draws = {}
    if len(np.unique(part.S)) < 3 or loss.equal:
        return {}

    # tokens that the same models hit are alike
    if tables:
        hits = [tables[i].rank(loss.definition) <= loss.k for i in used]
        alike, tokens = np.unique(hits, axis=1, return_counts=True)
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(part.total, tokens / part.total, n_resamples)
        shares = counts @ alike.T / part.total
        draws["tokens"] = logarithm(minus_log(shares))

    # documents, and sources where they are fewer
    ways = {"documents": part.over_documents()}
    if part.n_sources < part.n_documents:
        ways["sources"] = part
    for name, way in ways.items():
        if resampled := way.resampled(n_resamples, seed):
            draws[name] = resampled.y

    # the same, unpaired: rows are independent
    for name, y in list(draws.items()):
        rolled = [np.roll(column, i) for i, column in enumerate(y.T)]
        draws[f"{name}, unpaired"] = np.stack(rolled, axis=1)
    x = np.log(part.S)
    return {name: -line(y, x)[0] for name, y in draws.items()}
