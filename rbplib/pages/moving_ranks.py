"""Figures that move, of single predictions, of histograms of ranks and of noise; built and shown as those of `moving`.

Each function returns a chart, or the sentence that stands in its place where the run has nothing to move.
"""

import html
import re

import altair as alt
import numpy as np
from scipy.special import logsumexp

from rbplib.laws.noise import size_spread, y_se
from rbplib.pages.moving import BLUE, INK, RED, choice, said, slide
from rbplib.pages.prose import token
from rbplib.pages.tables import corpus_title

TEMPERATURES = np.arange(2, 31) / 10
BEST = 8  # candidates shown at one place
STRENGTH = np.geomspace(0.01, 1e6, 81)  # of a line against the noise of its points: alpha² S_xx over their variance
BAND = ["low", "mid", "high"]
NO_PLACE = "Nothing moves here: no token of this text was foretold."


def visible(text, most=14, end=False):
    """A token as plain text with its spaces visible, cut to its beginning or its end."""
    text = html.unescape(re.sub("<[^>]*>", "", token(text)))
    return text if len(text) <= most else f"…{text[1 - most :]}" if end else f"{text[: most - 1]}…"


def places(logits, ids, decode):
    """What `guess` shows of each place with a finite score: a dict each, the place with most to go by first."""
    rows = []
    for t, (scores, true) in enumerate(zip(np.asarray(logits, float), ids[1:], strict=True)):
        if np.isfinite(scores[true]):
            scores = scores - scores.max()
            order = np.lexsort((np.arange(len(scores)) == true, -scores))  # of those tied, the true token is the last
            rank = int(np.flatnonzero(order == true)[0]) + 1
            at = [*range(1, min(BEST, int(np.isfinite(scores).sum())) + 1), *[rank] * (rank > BEST)]
            names = [f"{j:,} {visible(decode([int(order[j - 1])]))}" for j in at]
            rows.append(
                {"place": t + 1, "rank": rank, "own": scores[true], "names": names, "hit": [j == rank for j in at]}
                | {"context": visible(decode(list(ids[: t + 1])), 34, end=True), "true": visible(decode([ids[t + 1]]))}
                | {"scores": [scores[order[j - 1]] for j in at]}
                | {"sums": logsumexp(scores / TEMPERATURES[:, None], axis=1).tolist()}  # of the whole vocabulary
            )
    return rows[::-1]


def guess(logits, ids, decode):
    """The next token at each place of a text, with a temperature that every score is divided by.

    Args:
        logits: float (T, V), row t scores every candidate for token t + 1. ids: int (T + 1,). decode: text of some ids.
    """
    if not (rows := places(logits, ids, decode)):
        return NO_PLACE
    names = [f"{row['place']}: {visible(row['context'], 16, end=True)} → {row['true']}" for row in rows]
    knobs = [choice("place", [row["place"] for row in rows], "Place", names)]
    knobs += [slide("T", "Temperature T", 1, 0.2, 3, 0.1)]
    chosen = (
        alt.Chart(alt.Data(values=rows))
        .transform_calculate(sum="datum.sums[round(10 * T) - 2]")
        .transform_calculate(nats="datum.sum - datum.own / T")
        .transform_joinaggregate(mean="mean(nats)", places="count()")
        .transform_filter("datum.place == place")
    )
    told = "[datum.context + ' → ?', 'true token ' + datum.true + ': rank ' + format(datum.rank, ',') + ' at every T', "
    told += "'its −log p at T = ' + format(T, '.1f') + ': ' + format(datum.nats, '.3f') + ' nats', "
    told += "'mean of the ' + datum.places + ' places: ' + format(datum.mean, '.3f') + ' nats']"
    each = chosen.transform_flatten(["names", "scores", "hit"]).transform_calculate(
        p="exp(datum.scores / T - datum.sum)"
    )
    each = each.transform_calculate(
        told="format(datum.p, datum.p < 0.001 ? '.0e' : '.3f') + (datum.hit ? ' ← true' : '')"
    )
    wide = alt.Axis(minExtent=112, maxExtent=112, title=None)
    y = alt.Y("names:N", sort=None, axis=wide)
    x = (
        alt.X("p:Q", title="probability at T")
        .scale(domain=[0, 1.3])
        .axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")
    )
    color = alt.when("datum.hit").then(alt.value(RED)).otherwise(alt.value(BLUE))
    numbers = each.mark_text(align="left", dx=4, fontSize=11).encode(x, y, text="told:N")
    above = said(chosen.transform_calculate(told=told), 4)
    above.mark.x = -112
    return alt.layer(each.mark_bar().encode(x, y, color=color), numbers, above).add_params(*knobs)


def floor_rows(curves, floors, draws, seed):
    """What `floor` shows: (a dict for each text and k, quantiles of a perfect law's R² by STRENGTH for each text)."""
    rng, rows, bands = np.random.default_rng(seed), [], []
    for name, found in floors.items():
        corpus, S, n = html.unescape(corpus_title(name)), curves[name].S, curves[name].scored_tokens
        found = [one for one in found if np.isfinite(one.r2) and one.alpha and one.misses is not None and len(S) > 2]
        for one in found:
            with np.errstate(divide="ignore", invalid="ignore"):
                per = one.alpha**2 * size_spread(S) / np.mean(y_se(one.misses / n, n) ** 2) / one.misses[-1]
            if not 0 < per < np.inf:
                continue
            told = {"k": int(one.k), "misses": int(one.misses[-1]), "alpha": one.alpha, "r2": one.r2, "per": per}
            rows.append({"corpus": corpus, "at": sum(row["corpus"] == corpus for row in rows)} | told)
        slope = (np.sqrt(STRENGTH)[:, None] + rng.normal(size=draws)) ** 2
        r2 = np.quantile(slope / (slope + rng.chisquare(max(1, len(S) - 2), draws)), [0.05, 0.5, 0.95], axis=1)
        bands.append({"corpus": corpus} | dict(zip(BAND, r2.tolist(), strict=True)))
    return rows, bands


def floor(curves, floors, draws=4000, seed=42):
    """R² of a perfect law whose points have the noise of their misses alone, against the largest's; and the measured.

    With normal noise of one variance at M points R² = (√λ + z)² / ((√λ + z)² + χ²_{M-2}), λ being alpha² S_xx over that
    variance (label eq-se; eq-r2 has the first order): quantiles are drawn once, by λ.
    curves: {corpus: Curve}. floors: {corpus: NoiseFloors of some of its k}.
    """
    rows, bands = floor_rows(curves, floors, draws, seed)
    if not rows:
        return "Nothing moves here: no text has a law whose noise is known."
    knobs = [choice("corpus", [row["corpus"] for row in rows])]
    knobs += [slide("step", "k, step by step", 0, 0, max(row["at"] for row in rows), 1)]
    knobs += [slide("more", "Tokens, times 10 to the", 0, -2, 2, 0.1)]
    here = alt.Chart(alt.Data(values=rows)).transform_filter("datum.corpus == corpus")
    one = here.transform_joinaggregate(last="max(at)").transform_filter("datum.at == min(step, datum.last)")
    carried = alt.LookupData(data=alt.NamedData("bands"), key="corpus", fields=BAND)
    one = one.transform_calculate(m="datum.misses * pow(10, more)").transform_lookup(lookup="corpus", from_=carried)
    curve = one.transform_calculate(strength=str(STRENGTH.tolist())).transform_flatten(["strength", *BAND])
    curve = curve.transform_calculate(x="datum.strength / datum.per")
    above = one.transform_calculate(place="clamp((log(datum.per * datum.m) / LN10 + 2) * 10, 0, 79.999)")
    read = "datum.{0}[floor(datum.place)] * (1 - datum.place % 1) + datum.{0}[ceil(datum.place)] * (datum.place % 1)"
    low, mid, high = (f"format({read.format(name)}, '.3f')" for name in BAND)
    told = (
        "['k = ' + format(datum.k, ',') + ': α = ' + format(datum.alpha, '.3r') + ', R² = ' + format(datum.r2, '.3f'), "
    )
    told += "'a perfect law with ' + format(datum.m, ',.0f') + ' misses:'"
    above = above.transform_calculate(
        told=f"{told}, 'R² = ' + {mid} + ', nine in ten from ' + {low} + ' to ' + {high}]"
    )
    ends = [f(row["misses"] for row in rows) * far for f, far in ((min, 0.01), (max, 100))]
    x = alt.X("x:Q", title="misses of the largest model").axis(format="~s", tickCount=6)
    x, y = x.scale(type="log", domain=ends, nice=False), alt.Y("mid:Q", title="R²").scale(domain=[0, 1])
    area = curve.mark_area(color=BLUE, opacity=0.3, clip=True).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"))
    points = here.mark_point(filled=True, color=INK, opacity=0.7, size=30).encode(x="misses:Q", y="r2:Q")
    ring = one.mark_point(color=RED, size=160, strokeWidth=3).encode(x="misses:Q", y="r2:Q")
    rule = one.mark_rule(color=RED, strokeDash=[5, 4]).encode(x="m:Q")
    drawn = (area, curve.mark_line(clip=True).encode(x, y), points, ring, rule, said(above, 3))
    return alt.layer(*drawn, datasets={"bands": bands}).add_params(*knobs)
