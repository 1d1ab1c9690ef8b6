"""Figures that move: Vega-Lite charts, data inside, drawn in the page by `book/_static/rbp.js`.

Each function gives the chart of its name in `charts/` rows of a run. The file has the rest: what is
drawn, what can be set, which columns are chosen by a menu, and the sentence in place of no rows.
"""

import html
import json
import re
from pathlib import Path
from string import Template

import numpy as np
import yaml
from scipy.special import logsumexp, stdtrit

from paper.show.numbers import RAISED
from paper.show.plain import corpus_title
from paper.show.prose import say, token
from rbplib.bootstrap import percentile_interval
from rbplib.losses import rbp_losses

CHARTS = Path(__file__).with_name("charts")
KS = (1, 2, 5, 10, 20, 50, 100, 1000)
TEMPERATURES = np.arange(2, 31) / 10
BEST = 8  # candidates shown at one place
COLOURS = {"blue": "#2b83ba", "red": "#d7601e"}  # contrast of three and more, light and dark


def raised(text):
    """Text, an expression of Vega, in which a number such as 8e-4 stands as pages set it:
    8 × 10⁻⁴."""
    power = f"replace(split({text}, 'e')[1], /[+]/, '')"
    for sign in "0123456789-−":
        power = f"replace({power}, /{sign}/g, '{sign.replace('−', '-').translate(RAISED)}')"
    mantissa = f"(test(/^1e/, {text}) ? '' : split({text}, 'e')[0] + ' × ')"
    return f"(test(/^[0-9.]+e[-+−]?[0-9]+$/, {text}) ? {mantissa} + '10' + {power} : {text})"


def explored(tables):
    """{key: {k: Loss}} at those k of KS that each vocabulary holds, for the explorers."""
    sizes = [int(t.record["vocab_size"]) for ladder in tables.values() for t in ladder]
    ks = [k for k in KS if k <= min(sizes)]
    return {key: rbp_losses(ladder, ks, repeats=()) for key, ladder in tables.items()}


def show(chart):
    """Put a moving figure on the page, or the sentence that stands in its place."""
    from IPython.display import HTML, display

    if isinstance(chart, str):
        return say(chart)
    # six digits of every number, and what the page's script looks for
    spec = json.loads(json.dumps(chart), parse_float=lambda x: float(f"{float(x):.6g}"))
    data = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    display(
        HTML(
            '<figure class="rbp-move"><div class="rbp-controls"></div><div class="rbp-plot"></div>'
            "<figcaption></figcaption>"
            f'<script type="application/json">{data}</script></figure>'
        )
    )


def chart(name, rows, **values):
    """The chart charts/NAME.yml of rows, or its sentence where there are none.

    values: what the names behind its dollar signs stand for.
    """
    values |= COLOURS | {f"raised_{part}": raised(f"datum.{part}") for part in ("number", "label")}
    look, spec = (
        yaml.safe_load(Template(CHARTS.joinpath(file).read_text("utf-8")).substitute(values))
        for file in ("look.yml", f"{name}.yml")
    )
    menus, empty = spec.pop("menus"), spec.pop("empty", "")
    if not rows:
        return empty
    params = [menu(rows, *names) for names in menus.items()] + spec.pop("params", [])
    return look | spec | {"data": {"values": rows}, "params": params}


def menu(rows, name, title):
    """A list of the values of a column to choose from, or what there is where that is one alone.

    They are shown as the column NAME_shown says, if there is one.
    """
    labels = {row[name]: str(row.get(f"{name}_shown", row[name])) for row in rows}
    param = {"name": name, "value": next(iter(labels))}
    if len(labels) == 1:
        return param
    binding = {"input": "select", "options": list(labels), "labels": list(labels.values())}
    return param | {"bind": binding | {"name": title}}


def title(corpus):
    return html.unescape(corpus_title(corpus))


def explorer(losses, tables):
    """A law that follows its points: family, corpus, k, what size counts, points left out, a floor.

    Its interval is that of other sizes; those of other text take resamples, and are on the page.
    losses, tables: {corpus: {k: Loss}}, {corpus: rank tables}, or both by (family, corpus).
    """
    rows = []
    for key, by_k in losses.items():
        whole = [table.record.get("total_params") for table in tables[key]]
        # a row for each model that has a loss at that k
        for k, loss in by_k.items():
            used = np.flatnonzero(np.isfinite(loss.y))
            if len(np.unique(loss.S[used])) < 3:  # a law takes three sizes
                continue
            for i in used:
                S = int(loss.S[i])
                rows.append(
                    {
                        "family": loss.family,
                        "corpus": title(loss.corpus),
                        "k": k,
                        "model": loss.models[i],
                        "loss": loss.values[i],
                        "S": S,
                        "all": int(whole[i] or S),
                    }
                )
    quantiles = stdtrit(np.arange(1, 60), 0.975)
    return chart("explorer", rows, t=quantiles.round(4).tolist())


def dots(losses):
    """The loss of each model as a dot, on one axis for all k: {corpus: {k: Loss}}."""
    rows = []
    for corpus, by_k in losses.items():
        values = np.array([loss.values for loss in by_k.values()]).T  # (M, K)
        models = next(iter(by_k.values())).models
        for model, nats in zip(models, values, strict=True):
            finite = [x if np.isfinite(x) else None for x in nats.tolist()]
            rows.append({"corpus": title(corpus), "ks": [*by_k], "model": model, "losses": finite})
    most = max(len(row["ks"]) for row in rows)
    return chart("dots", rows, last=most - 1)


def emergence(laws):
    """N hits in a row beyond the sizes measured: N, the exponent, a correlation, 10% to 90%.

    laws: {corpus: {(k, N): Law}} of runs of N hits; the correlation is of `runs.log_run_beta`.
    """
    rows, far = [], 1.0
    for corpus, grid in laws.items():
        for (k, N), law in grid.items():
            single = grid[k, 1]
            if not (single.ok and single.alpha > 0):
                continue
            # where a line of least squares passes, and where it gives N hits in 90% of the places
            x = float(np.log(single.S).mean())
            y = float(single.y.mean())
            rise = np.log(N) + y - np.log(-np.log(0.9))
            likely = x + rise / single.alpha
            far = max(far, likely / np.log(10) + 1)
            share = np.exp(-np.exp(law.y))
            rows.append(
                {
                    "corpus": title(corpus),
                    "k": int(k),
                    "N": int(N),
                    "alpha": single.alpha,
                    "S": law.S.tolist(),
                    "p": share.tolist(),
                    "x": x,
                    "y": y,
                }
            )
    power = raised("'1e' + datum.value")
    return chart("emergence", rows, far=f"{min(far, 200):.6g}", raised_power=power)


def while_training(rows):
    """What probed trainings can do, up to a number of training tokens:
    the size and what is shown to choose.

    rows: of `probes.curves`. The dotted lines are where copying came in, one a training.
    """
    shown = []
    for row in rows:
        # a score may end at 0.000002
        lists = {name: np.round(row[name], 9).tolist() for name in ("tokens", "value")}
        shown.append(row | lists | {"size_shown": f"{row['size']:,} parameters"})
    return chart("training", shown, last=f"{shown[0]['tokens'][-1]:.6g}")


def visible(text, most=14, end=False):
    """A token as plain text with its spaces visible, cut to its beginning or its end."""
    text = html.unescape(re.sub("<[^>]*>", "", token(text)))
    if len(text) <= most:
        return text
    return f"…{text[1 - most :]}" if end else f"{text[: most - 1]}…"


def guess(logits, ids, decode):
    """The next token at each place of a text, told when asked, at a temperature of all scores.

    Args:
        logits: float (T, V), row t scores every candidate for token t + 1.
        ids: int (T + 1,). decode: text of some ids.
    """
    rows = []
    for t, (scores, true) in enumerate(zip(np.asarray(logits, float), ids[1:], strict=True), 1):
        if not np.isfinite(scores[true]):
            continue
        # candidates by score; of those tied, the true token is the last
        scores = scores - scores.max()
        order = np.lexsort((np.arange(len(scores)) == true, -scores))
        rank = int(np.argmax(order == true)) + 1
        # the best, and the true one where it is not among them
        shown = np.arange(min(BEST, np.isfinite(scores).sum())) + 1
        ranks = np.union1d(shown, rank).tolist()
        best = [int(order[j - 1]) for j in ranks]
        names = [visible(decode([number])) for number in best]
        # of the whole vocabulary, at each temperature
        sums = logsumexp(scores / TEMPERATURES[:, None], axis=1)
        rows.append(
            {
                "place": t,
                "rank": rank,
                "own": scores[true],
                "context": visible(decode(list(ids[:t])), 34, end=True),
                "names": [f"{j:,} {name}" for j, name in zip(ranks, names, strict=True)],
                "hit": [j == rank for j in ranks],
                "true": visible(decode([true])),
                "scores": scores[best].tolist(),
                "sums": sums.tolist(),
            }
        )
    return chart("guess", rows, best=BEST)


def resampling(drawn):
    """Resampled exponents: a histogram by what was drawn, and under it the middle 95% by each.

    drawn: {corpus: {what was drawn: exponents (B,)}}, see `coverage.drawn_exponents`; what moves no
    exponent is not shown.
    """
    rows = []
    for corpus, draws in drawn.items():
        ends = {what: percentile_interval(values) for what, values in draws.items()}
        ends = {what: interval for what, interval in ends.items() if np.ptp(interval) > 0}
        draws = {what: draws[what][np.isfinite(draws[what])] for what in ends}
        if not draws:
            continue
        # the same bars for all
        edges = np.histogram_bin_edges(np.concatenate(list(draws.values())), 80)
        first = next(iter(draws))
        for what, values in draws.items():
            low, high = ends[what]
            times = (high - low) / np.ptp(ends[first])
            share = np.histogram(values, edges)[0] / len(values)
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
                    "share": share.tolist(),
                }
            )
    return chart("resampling", rows)
