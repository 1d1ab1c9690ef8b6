"""Figures that move: Vega-Lite charts, data inside, drawn in the page by `book/_static/rbp.js`.

Each function returns the chart of its name in `charts/`, Vega-Lite in YAML, on rows of a run, or the
sentence that stands in its place where there is nothing to move.
"""

import html
import json
import re
from pathlib import Path
from string import Template

import numpy as np
import yaml
from scipy.special import logsumexp, stdtrit

from paper.curves import rbp_curves
from paper.show.numbers import raised
from paper.show.plain import corpus_title
from paper.show.prose import say, token
from rbplib.bootstrap import percentile_interval

CHARTS = Path(__file__).with_name("charts")
KS = (1, 2, 5, 10, 20, 50, 100, 1000)
RESAMPLES = 500  # behind the spread of the points over sources of text
TEMPERATURES = np.arange(2, 31) / 10
CURVE = ("tokens", "value")
BEST = 8  # candidates shown at one place
NO_PLACE = "Nothing moves here: no token of this text was foretold."
MOVES = "A figure that moves: the fields beside it say what can be set."
NO_LADDER = "Nothing moves here: no text has three models with a loss to fit."

INK = "currentColor"  # that of the page, light or dark
BLUE, RED = "#2b83ba", "#d7601e"  # contrast of three and more on both
AXIS = {
    "gridOpacity": 0.15,
    "labelFontSize": 11.5,
    "labelSeparation": 8,
    "titleFontSize": 12,
    "titleFontWeight": 400,
    "labelExpr": f"isString(datum.value) ? datum.label : {raised('datum.label')}",
    "domainColor": INK,
    "gridColor": INK,
    "labelColor": INK,
    "tickColor": INK,
    "titleColor": INK,
}
LOOK = {
    "config": {
        "font": "inherit",
        "view": {"stroke": None},
        "axis": AXIS,
        "axisY": {"minExtent": 42},
        "axisX": {"labelBound": True},
        "text": {"color": INK, "fontSize": 12.5, "lineHeight": 17},
    },
    "width": "container",
    "height": 260,
    "background": "transparent",
    "autosize": {"type": "fit-x", "contains": "padding"},
}
LABELS = {"family": "Family", "corpus": "Text", "form": "Axis", "what": "Drawn anew"}


def explored(tables):
    """Curves at those k of KS that each vocabulary holds, for the explorers."""
    sizes = [int(t.record["vocab_size"]) for found in tables.values() for t in found]
    return rbp_curves(tables, [k for k in KS if k <= min(sizes)])


def show(chart, caption=""):
    """Put a moving figure on the page, or the sentence that stands in its place.

    caption: on what to see and try; the paragraph *Try:* under the cell where it is not given.
    """
    from IPython.display import HTML, display

    if isinstance(chart, str):
        return say(chart)
    # the look and the caption, and six digits of every number
    spec = LOOK | chart | {"config": LOOK["config"], "description": caption or MOVES}
    spec = json.loads(json.dumps(spec), parse_float=lambda x: float(f"{float(x):.6g}"))
    data = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    # what the page's script looks for
    display(
        HTML(
            '<figure class="rbp-move"><div class="rbp-controls"></div><div class="rbp-plot"></div>'
            f"<figcaption>{html.escape(caption)}</figcaption>"
            f'<script type="application/json">{data}</script></figure>'
        )
    )


def chart(name, rows, knobs, **values):
    """The chart charts/NAME.yml of rows, with the fields that set it.

    values: what the names behind its dollar signs stand for.
    """
    text = CHARTS.joinpath(f"{name}.yml").read_text(encoding="utf-8")
    values |= {"blue": BLUE, "red": RED, "raised_number": raised("datum.number")}
    spec = yaml.safe_load(Template(text).substitute(values))
    return spec | {"data": {"values": rows}, "params": [*knobs, *spec.get("params", ())]}


def title(corpus):
    return html.unescape(corpus_title(corpus))


def menu(name, values, label=None, labels=None):
    """A list of the distinct values to choose from, or what there is where that is one alone."""
    values = list(dict.fromkeys(values))
    param = {"name": name, "value": values[0]}
    if len(values) == 1:
        return param
    binding = {"input": "select", "options": values, "labels": list(map(str, labels or values))}
    return param | {"bind": binding | {"name": label or LABELS.get(name, name)}}


def menus(rows, *names):
    """A menu for each of these columns."""
    return [menu(name, [row[name] for row in rows]) for name in names]


def slide(name, label, value, least, most, step):
    binding = {"input": "range", "min": least, "max": most, "step": step, "name": label}
    return {"name": name, "value": value, "bind": binding}


def spread(loss, used, seed):
    """Scatter of the points over sources: (m, m), rows whose products are the covariance.

    Zeros, (m, 1), where it is not known.
    """
    resampled = loss.resampled(RESAMPLES, seed)
    if resampled is None:
        return np.zeros((len(used), 1))
    y = resampled.y[:, used]
    y = y[np.isfinite(y).all(axis=1)]
    if len(y) <= RESAMPLES // 2:
        return np.zeros((len(used), 1))
    # a square root of the covariance
    centred = (y - y.mean(axis=0)) / np.sqrt(len(y) - 1)
    _, size, axes = np.linalg.svd(centred, full_matrices=False)
    return (size[:, None] * axes).T


def ladder_rows(curves, tables, seed=42):
    """What the law explorer knows: a dict for each place, k and model with a loss."""
    rows = []
    for place, curve in curves.items():
        corpus = title(place if isinstance(place, str) else place[1])
        whole = [int(table.record.get("total_params") or 0) for table in tables[place]]
        for k in curve.ks:
            if k not in KS:
                continue
            # a law takes three sizes
            loss = curve.loss(k)
            used = np.flatnonzero(np.isfinite(loss.y))
            if len(np.unique(loss.S[used])) < 3:
                continue
            for i, scatter in zip(used, spread(loss, used, seed), strict=True):
                S = int(loss.S[i])
                rows.append(
                    {
                        "family": curve.family,
                        "corpus": corpus,
                        "k": int(k),
                        "model": loss.models[i],
                        "S": S,
                        "all": whole[i] or S,
                        "loss": loss.values[i],
                        "spread": scatter.round(6).tolist(),
                    }
                )
    return rows


def explorer(curves, tables, seed=42):
    """A law that follows its points: family, corpus, k, what size counts, points left out.

    curves, tables: {corpus: Curve}, {corpus: rank tables}, or both by (family, corpus).
    """
    rows = ladder_rows(curves, tables, seed)
    if not rows:
        return NO_LADDER
    sizes = ["without embeddings (S)", "all"]
    knobs = menus(rows, "family", "corpus", "k")
    knobs.append(menu("size", ["S", "all"], "Parameters", sizes))
    knobs.append(slide("floor", "Floor, share of the least loss", 0, 0, 0.95, 0.01))
    t = stdtrit(np.arange(1, 60), 0.975).round(4).tolist()
    return chart("explorer", rows, knobs, t=t)


def dots(curves):
    """The loss of each model as a dot, on one axis for all k: {corpus: Curve}."""
    rows = []
    for place, curve in curves.items():
        losses = np.array([curve.loss(k).values for k in curve.ks]).T  # (M, K)
        for model, values in zip(curve.models, losses, strict=True):
            row = {"corpus": title(place), "ks": [int(k) for k in curve.ks], "model": model}
            row["losses"] = [float(x) if np.isfinite(x) else None for x in values]
            rows.append(row)
    last = max(len(curve.ks) for curve in curves.values()) - 1
    steps = slide("step", "k, step by step", 0, 0, last, 1)
    return chart("dots", rows, [*menus(rows, "corpus"), steps])


def log_gamma(x):
    """log Gamma(x) less log(2 pi) / 2 by Stirling's series, in Vega's words; x > 0."""
    z = f"({x} + 7)"
    steps = " * ".join(f"({x} + {i})" for i in range(7))
    series = f"({z} - 0.5) * log({z}) - {z} + 1 / (12 * {z}) - 1 / (360 * pow({z}, 3))"
    return f"({series} - log({steps}))"


def run_rows(laws):
    """(rows, the decade at which the longest run of all is likely) of {corpus: {(k, N): Law}}."""
    rows, far = [], 1.0
    for corpus, grid in laws.items():
        for (k, N), law in grid.items():
            single = grid[k, 1]
            if not (single.ok and single.alpha > 0):
                continue
            # where a line of least squares passes, and where it gives N hits in 90% of the places
            x, y = float(np.log(single.S).mean()), float(single.y.mean())
            likely = x + (np.log(N) + y - np.log(np.log(1 / 0.9))) / single.alpha
            far = max(far, likely / np.log(10) + 1)
            rows.append(
                {
                    "corpus": title(corpus),
                    "k": int(k),
                    "N": int(N),
                    "alpha": single.alpha,
                    "x": x,
                    "y": y,
                    "S": law.S.tolist(),
                    "p": np.exp(-np.exp(law.y)).tolist(),
                }
            )
    return rows, min(far, 200)


def emergence(laws):
    """N hits in a row beyond the sizes measured: N, the exponent, a correlation, 10% to 90%.

    laws: {corpus: {(k, N): Law}} of `runs.run_laws`; the correlation is of `runs.log_run_beta`.
    """
    rows, far = run_rows(laws)
    if not rows:
        return (
            "Nothing moves here: no law at N = 1 forecasts that larger models succeed more often."
        )
    knobs = menus(rows, "corpus", "k", "N")
    knobs.append(menu("form", ["linear", "log"]))
    knobs.append(slide("times", "Exponent, times the fitted", 1, 0.5, 4, 0.05))
    knobs.append(slide("icc", "Correlation within a document", 0, 0, 0.3, 0.01))
    # log of B(a + N, b) / B(a, b), the chance of N hits in a row of a beta distribution
    a, c = "datum.one * (1 - icc) / icc", "(1 - icc) / icc"
    beta = f"{log_gamma(f'({a} + N)')} - {log_gamma(f'({a})')} + {log_gamma(f'({c})')}"
    beta += f" - {log_gamma(f'({c} + N)')}"
    values = {"far": f"{far:.6g}", "beta": beta, "raised_power": raised("'1e' + datum.value")}
    return chart("emergence", rows, knobs, **values)


def while_training(rows):
    """What probed trainings can do, up to a number of training tokens: the size and what is shown to choose.

    rows: of `probes.curves`. The dotted lines are where copying came in, one a training.
    """
    if not rows:
        return "Nothing moves here: no training was probed on its way."
    lists = [{name: np.round(row[name], 4).tolist() for name in CURVE} for row in rows]
    rows = [row | values for row, values in zip(rows, lists, strict=True)]
    sizes, last = dict.fromkeys(row["size"] for row in rows), max(rows[0]["tokens"])
    names = [f"{size:,} parameters" for size in sizes]
    knobs = [menu("size", sizes, "Size", names), menu("what", [r["what"] for r in rows], "Shown")]
    knobs.append(slide("upto", "Training tokens, millions", last, 0.4, last, 0.1))
    return chart("training", rows, knobs, last=f"{last:.6g}")


def visible(text, most=14, end=False):
    """A token as plain text with its spaces visible, cut to its beginning or its end."""
    text = html.unescape(re.sub("<[^>]*>", "", token(text)))
    if len(text) <= most:
        return text
    return f"…{text[1 - most :]}" if end else f"{text[: most - 1]}…"


def places(logits, ids, decode):
    """What `guess` shows of each place with a finite score, the one with most to go by first."""
    rows = []
    for t, (scores, true) in enumerate(zip(np.asarray(logits, float), ids[1:], strict=True)):
        if not np.isfinite(scores[true]):
            continue
        # candidates by score; of those tied, the true token is the last
        scores = scores - scores.max()
        order = np.lexsort((np.arange(len(scores)) == true, -scores))
        rank = int(np.flatnonzero(order == true)[0]) + 1
        # the best, and the true one where it is not among them
        ranks = list(range(1, min(BEST, int(np.isfinite(scores).sum())) + 1))
        if rank > BEST:
            ranks.append(rank)
        rows.append(
            {
                "place": t + 1,
                "rank": rank,
                "own": scores[true],
                "names": [f"{j:,} {visible(decode([int(order[j - 1])]))}" for j in ranks],
                "hit": [j == rank for j in ranks],
                "context": visible(decode(list(ids[: t + 1])), 34, end=True),
                "true": visible(decode([ids[t + 1]])),
                "scores": [scores[order[j - 1]] for j in ranks],
                # of the whole vocabulary, at each temperature
                "sums": logsumexp(scores / TEMPERATURES[:, None], axis=1).tolist(),
            }
        )
    return rows[::-1]


def guess(logits, ids, decode):
    """The next token at each place of a text, told when asked, at a temperature of all scores.

    Args:
        logits: float (T, V), row t scores every candidate for token t + 1.
        ids: int (T + 1,). decode: text of some ids.
    """
    rows = places(logits, ids, decode)
    if not rows:
        return NO_PLACE
    contexts = [f"{row['place']}: {visible(row['context'], 16, end=True)}" for row in rows]
    knobs = [
        menu("place", [row["place"] for row in rows], "Place", contexts),
        slide("T", "Temperature T", 1, 0.2, 3, 0.1),
        {
            "name": "show",
            "value": False,
            "bind": {"input": "checkbox", "name": "Show the true token"},
        },
    ]
    return chart("guess", rows, knobs, best=BEST)


def draw_rows(corpus, draws):
    """What `resampling` shows of one corpus, a row for each thing drawn anew that moves it."""
    ends = {what: percentile_interval(values) for what, values in draws.items()}
    draws = {
        what: values[np.isfinite(values)]
        for what, values in draws.items()
        if np.ptp(ends[what]) > 0
    }
    if not draws:
        return []
    # the same bars for all
    edges = np.histogram_bin_edges(np.concatenate(list(draws.values())), 80)
    first = next(iter(draws))
    rows = []
    for what, values in draws.items():
        low, high = ends[what]
        times = np.ptp(ends[what]) / np.ptp(ends[first])
        rows.append(
            {
                "corpus": title(corpus),
                "what": what,
                "n": len(values),
                "first": first,
                "low": low,
                "mid": (low + high) / 2,
                "high": high,
                "times": times,
                "label": f"{what} × {times:.2f}",
                "start": edges[0],
                "step": edges[1] - edges[0],
                "share": (np.histogram(values, edges)[0] / len(values)).tolist(),
            }
        )
    return rows


def resampling(drawn):
    """Resampled exponents: a histogram by what was drawn, and under it the middle 95% by each.

    drawn: {corpus: {what was drawn: exponents (B,)}}, see `coverage.drawn_exponents`.
    """
    rows = []
    for corpus, draws in drawn.items():
        rows.extend(draw_rows(corpus, draws))
    if not rows:
        return "Nothing moves here: no text has an exponent that could be resampled."
    return chart("resampling", rows, menus(rows, "corpus", "what"))
