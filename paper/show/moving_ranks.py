"""Figures that move, of single predictions, of histograms of ranks, noise and draws; built and shown as in `moving`.

Each function returns a chart, or the sentence that stands in its place where the run has nothing to move.
"""

import html
import re

import altair as alt
import numpy as np
from scipy.special import logsumexp

from paper.histogram import table_histogram
from paper.likelihood import Likelihood
from paper.lognormal_fit import ridge as ridge_of
from paper.show.moving import BLUE, INK, RED, choice, lacking, raised, said, slide
from paper.show.prose import token
from paper.show.tables import corpus_title
from paper.steps import size_spread, y_se
from rbplib.bootstrap import percentile_interval

TEMPERATURES = np.arange(2, 31) / 10
BEST = 8  # candidates shown at one place
STRENGTH = np.geomspace(0.01, 1e6, 81)  # of a line against the noise of its points: alpha² S_xx over their variance
BAND = ["low", "mid", "high"]
SIGMAS = np.arange(2, 41) / 2  # of the lognormals of `ridge`: the steps of its slider
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
    """The next token at each place of a text, told when asked, with a temperature that every score is divided by.

    Args:
        logits: float (T, V), row t scores every candidate for token t + 1. ids: int (T + 1,). decode: text of some ids.
    """
    if not (rows := places(logits, ids, decode)):
        return NO_PLACE
    names = [f"{row['place']}: {visible(row['context'], 16, end=True)}" for row in rows]
    knobs = [choice("place", [row["place"] for row in rows], "Place", names)]
    knobs += [slide("T", "Temperature T", 1, 0.2, 3, 0.1)]
    knobs += [alt.param(name="show", value=False, bind=alt.binding_checkbox(name="Show the true token"))]
    chosen = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_calculate(sum="datum.sums[round(10 * T) - 2]")
        .transform_calculate(nats="datum.sum - datum.own / T")
        .transform_joinaggregate(mean="mean(nats)", places="count()")
        .transform_filter("datum.place == place")
    )
    told = "[datum.context + ' → ?', "
    told += "show ? 'true token ' + datum.true + ': rank ' + format(datum.rank, ',') + ' at every T' : '', "
    told += "show ? 'its −log p at T = ' + format(T, '.1f') + ': ' + format(datum.nats, '.3f') + ' nats' : '', "
    told += "'mean of the ' + datum.places + ' places: ' + format(datum.mean, '.3f') + ' nats']"
    each = chosen.transform_flatten(["names", "scores", "hit"])
    each = each.transform_filter(f"show || !datum.hit || datum.rank <= {BEST}")
    shown = raised("format(datum.p, datum.p < 0.001 ? '.0e' : '.3f')") + " + (show && datum.hit ? ' ← true' : '')"
    each = each.transform_calculate(p="exp(datum.scores / T - datum.sum)", told=shown)
    wide = alt.Axis(minExtent=112, maxExtent=112, title=None)
    y = alt.Y("names:N", sort=None, axis=wide)
    ticks = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g", domain=False)  # beyond 1 there are numbers alone
    x = alt.X("p:Q", title="probability at T", axis=ticks).scale(domain=[0, 1.3])
    color = alt.when("show && datum.hit").then(alt.value(RED)).otherwise(alt.value(BLUE))
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
    here = alt.Chart(alt.InlineData(values=rows)).transform_filter("datum.corpus == corpus")
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
    told += f", 'R² = ' + {mid} + ', nine in ten from ' + {low} + ' to ' + {high}]"
    above = above.transform_calculate(told=told)
    ends = [f(row["misses"] for row in rows) * far for f, far in ((min, 0.01), (max, 100))]
    x = alt.X("x:Q", title="misses of the largest model").axis(format="~s", tickCount=6)
    x, y = x.scale(type="log", domain=ends, nice=False), alt.Y("mid:Q", title="R²").scale(domain=[0, 1])
    area = curve.mark_area(color=BLUE, opacity=0.3, clip=True).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"))
    points = here.mark_point(filled=True, color=INK, opacity=0.7, size=30).encode(x="misses:Q", y="r2:Q")
    ring = one.mark_point(color=RED, size=160, strokeWidth=3).encode(x="misses:Q", y="r2:Q")
    rule = one.mark_rule(color=RED, strokeDash=[5, 4]).encode(x="m:Q")
    drawn = (area, curve.mark_line(color=BLUE, clip=True).encode(x, y), points, ring, rule, said(above, 3))
    return alt.layer(*drawn, datasets={"bands": bands}).add_params(*knobs)


def ridge_rows(tables, ks):
    """What `ridge` shows of each text and model, the largest first: a dict each."""
    rows = []
    for name, table in ((name, table) for name, found in tables.items() for table in found[::-1]):
        histogram = table_histogram(table)
        fit, mu, below = ridge_of(histogram, SIGMAS)
        if fit.bound[0] or (fit.bound[1] and fit.values[1]):
            continue
        likelihood, (low, high, share) = Likelihood(histogram, fit.candidate), histogram.wide()
        held = np.array([float(f"{x:.6g}") for x in likelihood.share])  # as `moving.show` writes them
        hits = [int(histogram.count[histogram.low <= k].sum()) for k in (*ks, np.inf)]
        bins = zip(np.sqrt(low * high), share / (high - low + 1), strict=True)
        row = {"corpus": html.unescape(corpus_title(name)), "model": table.record["model"]}
        row |= {"V": histogram.vocab_size, "tokens": hits[-1], "hits": hits, "bins": [bin for bin in bins if bin[1]]}
        row |= {"k": likelihood.k.tolist(), "held": held.tolist(), "mu": mu.tolist(), "below": below.tolist()}
        rows.append(row | {"nll": f"{-held @ likelihood.log_mass(fit.values)[0]:.9f}"})
    return rows


def between(low, high):
    """Mass of the lognormal (m, sigma) between ranks, as an expression of Vega; by the tail in which it is exact."""
    a, b = (f"cumulativeNormal((log({low}) > datum.m ? -1 : 1) * (log({x}) - datum.m) / sigma)" for x in (low, high))
    return f"abs({b} - {a})"


def ridge_text(law, ks):
    """How likely the lognormal of `ridge` makes the ranks, against the best fit, and its RBP at ks."""
    below = "max(0, -datum.total - toNumber(datum.nll))"
    told = "'μ = ' + format(datum.m, '.4~r') + ', σ = ' + sigma + ', below the best fit by', "
    told += "(datum.less < 1e-5 ? 'less than 0.00001' : format(datum.less, '.2r')) + ' nats per token,', "
    told += "format(datum.less * datum.tokens, ',.2r') + ' over all ' + format(datum.tokens, ',') + ' tokens'"
    for j, k in enumerate(ks):
        told += f", 'RBP at k = {k:,}: ' + format({between(0.5, k + 0.5)} / datum.whole, '.3f')"
        told += f" + ', measured ' + format(datum.hits[{j}] / datum.tokens, '.3f')"
    at = law.transform_joinaggregate(total="sum(part)").transform_filter("datum.k == 1").transform_calculate(less=below)
    told = f"isFinite(datum.less) ? [{told}] : ['This law gives some rank less than a computer can hold.']"
    return said(at.transform_calculate(told=told), 4 + len(ks))


def ridge(tables, ks):
    """The rounded lognormal by mu and sigma on the histogram of ranks; under it the best mu for each sigma.

    tables: {corpus: rank tables, smallest model first}. ks: ranks at which RBP is told.
    """
    if not (rows := ridge_rows(tables, ks)):
        return "Nothing moves here: no lognormal fits the ranks of a model inside the bounds of its search."
    low, high = (f(mu for row in rows for mu in row["mu"]) for f in (min, max))
    step = 10 ** np.ceil(np.log10((high - low) / 2000))
    ends = [step * f(mu / step) for f, mu in ((np.round, rows[0]["mu"][18]), (np.floor, low), (np.ceil, high))]
    knobs = [choice(name, [row[name] for row in rows]) for name in ("corpus", "model")]
    knobs += [slide("sigma", "σ", 10, 1, 20, 0.5), slide("mu", "μ, where set by hand", *ends, step)]
    knobs += [choice("way", ["set", "best"], "μ is", ["set by hand", "the best for this σ"])]
    asked = "datum.corpus == corpus && datum.model == model"
    chosen = alt.Chart(alt.InlineData(values=rows)).transform_filter(asked)
    chosen = chosen.transform_calculate(m="way == 'set' ? mu : datum.mu[2 * sigma - 2]", s="sigma")
    law = chosen.transform_calculate(whole=between(0.5, "(datum.V + 0.5)")).transform_flatten(["k", "held"])
    share = f"{between('(datum.k - 0.5)', '(datum.k + 0.5)')} / datum.whole"
    law = law.transform_calculate(y=share, part="datum.held * log(datum.y)")
    x = alt.X("x:Q", title="rank of the true token").scale(type="log", nice=False)
    y = alt.Y("y:Q", title="share of tokens per rank").scale(type="log", range=[220, 0], nice=False)
    x, y = x.axis(format="~s", offset=-240, tickCount=6, grid=False), y.axis(format=".0e", tickCount=5, orient="left")
    seen = chosen.transform_flatten(["bins"]).transform_calculate(x="datum.bins[0]", y="datum.bins[1]")
    seen = seen.mark_point(color=INK, filled=True, opacity=0.8).encode(x, y)
    curve = law.transform_filter("datum.y > 0").mark_line(color=RED, clip=True).encode(x="k:Q", y="y:Q")
    plane = chosen.transform_calculate(sigma=str(SIGMAS.tolist())).transform_flatten(["sigma", "mu", "below"])
    x = alt.X("sigma:Q", title="σ").scale(domain=[1, 20], nice=False).axis(orient="bottom", grid=False)
    y = alt.Y("mu:Q", title="μ").scale(zero=False, range=[460, 300]).axis(orient="left", tickCount=5)
    near = plane.transform_filter("datum.below < 0.001").mark_line(color=BLUE, opacity=0.4, strokeWidth=9)
    here = chosen.mark_point(color=RED, filled=True, size=120, opacity=1).encode(x="s:Q", y="m:Q")
    plane = alt.layer(near.encode(x, y), plane.mark_line(color=BLUE).encode(x, y), here)
    none = lacking(rows, asked, 4 + len(ks), "The fit of this model to this text ends at a bound of its search.")
    drawn = alt.layer(alt.layer(seen, curve), plane, ridge_text(law, ks), none, height=460).add_params(*knobs)
    return drawn.resolve_scale(x="independent", y="independent")


def resampling(drawn):
    """Resampled exponents: a histogram by what was drawn, and under it the middle 95% by each.

    drawn: {corpus: {what was drawn: exponents (B,)}}, see `coverage.drawn_exponents`.
    """
    rows = []
    for name, found in drawn.items():
        ends = {what: percentile_interval(values) for what, values in found.items()}
        found = {what: values[np.isfinite(values)] for what, values in found.items() if np.ptp(ends[what]) > 0}
        edges = np.histogram_bin_edges(np.concatenate([[], *found.values()]), 80)
        for what, values in found.items():
            (low, high), first, bars = ends[what], next(iter(found)), np.histogram(values, edges)[0] / len(values)
            times = np.ptp(ends[what]) / np.ptp(ends[first])
            row = {"corpus": html.unescape(corpus_title(name)), "what": what, "n": len(values), "first": first}
            row |= {"low": low, "mid": (low + high) / 2, "high": high, "times": times, "label": f"{what} × {times:.2f}"}
            rows.append(row | {"start": edges[0], "step": edges[1] - edges[0], "share": bars.tolist()})
    if not rows:
        return "Nothing moves here: no text has an exponent that could be resampled."
    knobs = [choice(name, [row[name] for row in rows]) for name in ("corpus", "what")]
    here = alt.Chart(alt.InlineData(values=rows)).transform_filter("datum.corpus == corpus")
    one = here.transform_filter("datum.what == what")
    told = "'95% of ' + format(datum.n, ',') + ' draws of ' + what + ':', format(datum.low, '.4f') + ' to ' + "
    told += "format(datum.high, '.4f') + ', ' + format(datum.times, '.2f') + ' times as wide', 'as by ' + datum.first"
    none = lacking(rows, "datum.corpus == corpus && datum.what == what", 3, "This text is not drawn so.")
    text = [said(one.transform_calculate(told=f"[{told}]"), 3), none]
    bars = one.transform_flatten(["share"]).transform_window(j="row_number()")
    bars = bars.transform_calculate(b="datum.start + datum.step * datum.j", a="datum.b - datum.step")
    y = alt.Y("share:Q", title="share of draws").scale(range=[180, 0]).axis(orient="left", tickCount=4)
    x = alt.X("a:Q", title="exponent α").scale(zero=False, nice=False).axis(grid=False, tickCount=6)
    bars = bars.mark_rect(color=BLUE).encode(x, alt.X2("b:Q"), y, alt.Y2Datum(0))
    y = alt.Y("what:N", sort=None).scale(range=[205, 375]).axis(None)
    mine = [alt.condition("datum.what == what", alt.value(a), alt.value(b)) for a, b in ((RED, BLUE), (6, 3))]
    rules = here.mark_rule().encode(x="low:Q", x2="high:Q", y=y, color=mine[0], strokeWidth=mine[1])
    rules = alt.layer(rules, here.mark_text(dy=-9, fontSize=11).encode(x="mid:Q", y=y, text="label:N"))
    return alt.layer(bars, rules, *text, height=375).add_params(*knobs).resolve_scale(y="independent")
