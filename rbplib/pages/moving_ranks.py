"""Figures that move, of single predictions, of histograms of ranks and of noise; built and shown as those of `moving`.

Each function returns a chart, or the sentence that stands in its place where the run has nothing to move.
"""

import html
import re

import altair as alt
import numpy as np
from scipy.special import logsumexp

from rbplib.pages.moving import BLUE, RED, choice, said, slide
from rbplib.pages.prose import token

TEMPERATURES = np.arange(2, 31) / 10
BEST = 8  # candidates shown at one place
NO_PLACE = "Nothing moves here: no token of this text was foretold."


def visible(text, most=14, end=False):
    """A token as plain text with its spaces visible, cut to its beginning or its end."""
    text = html.unescape(re.sub("<[^>]*>", "", token(text)))
    return text if len(text) <= most else f"…{text[1 - most :]}" if end else f"{text[: most - 1]}…"


def guess(logits, ids, decode):
    """The next token at each place of a text, with a temperature that every score is divided by.

    Args:
        logits: float (T, V), row t scores every candidate for token t + 1. ids: int (T + 1,). decode: text of some ids.
    """
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
    if not rows:
        return NO_PLACE
    rows.reverse()  # the place with most to go by comes first
    places = [f"{row['place']}: {visible(row['context'], 16, end=True)} → {row['true']}" for row in rows]
    knobs = [choice("place", [row["place"] for row in rows], "Place", places)]
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
