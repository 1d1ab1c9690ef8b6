"""Figures that move: Vega-Lite charts, data inside, drawn in the page by `book/_ext/rbpmove.py`.

Each function returns a chart, or the sentence that stands in its place where there is nothing to
move. What a chart computes in the browser is written in Vega's expressions, a string per line.
"""

import html
import json
import re

import altair as alt
import numpy as np
from scipy import stats
from scipy.special import logsumexp

from paper.curves import rbp_curves
from paper.show.numbers import raised
from paper.show.plain import corpus_title
from paper.show.prose import say, token
from rbplib.bootstrap import percentile_interval

KS = (1, 2, 5, 10, 20, 50, 100, 1000)
RESAMPLES = 500  # behind the spread of the points over sources of text
TEMPERATURES = np.arange(2, 31) / 10
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
DOT = {"filled": True, "size": 110, "opacity": 1, "color": BLUE}
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
    spec = LOOK | chart.to_dict() | {"config": LOOK["config"], "description": caption or MOVES}
    del spec["$schema"]
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


def inline(rows):
    """A chart of rows that are kept once in the figure, however many layers draw them."""
    return alt.Chart(alt.InlineData(values=rows))


def title(corpus):
    return html.unescape(corpus_title(corpus))


def menu(name, values, label=None, labels=None):
    """A list of the distinct values to choose from, or what there is where that is one alone."""
    values = list(dict.fromkeys(values))
    if len(values) == 1:
        return alt.param(name=name, value=values[0])
    labels = [str(x) for x in labels or values]
    label = label or LABELS.get(name, name)
    binding = alt.binding_select(options=values, labels=labels, name=label)
    return alt.param(name=name, value=values[0], bind=binding)


def menus(rows, *names):
    """A menu for each of these columns."""
    return [menu(name, [row[name] for row in rows]) for name in names]


def slide(name, label, value, least, most, step):
    binding = alt.binding_range(min=least, max=most, step=step, name=label)
    return alt.param(name=name, value=value, bind=binding)


def heading(chart, lines=1, text="told:N", x=-50):
    """So many lines of text above the axes."""
    marks = chart.mark_text(align="left", baseline="top", x=x, y=-13 - 17 * lines)
    return marks.encode(text=text)


def as_lines(*expressions):
    """Lines of text, an expression of Vega each, as one expression."""
    return f"[{', '.join(expressions)}]"


def lacking(rows, condition, lines, text, least=1, among="true"):
    """Text above the axes while fewer than `least` rows meet a condition, and some are `among`.

    Counted over all rows: of none left, an aggregate would have no row to draw.
    """
    counts = inline(rows).transform_calculate(
        met=f"{condition} ? 1 : 0",
        of=f"{among} ? 1 : 0",
    )
    counts = counts.transform_aggregate(met="sum(met)", of="sum(of)")
    few = counts.transform_filter(f"datum.met < {least} && datum.of")
    return heading(few, lines, alt.value(text))


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
    # what the reader sets
    sizes = ["without embeddings (S)", "all"]
    knobs = menus(rows, "family", "corpus", "k")
    knobs.append(menu("size", ["S", "all"], "Parameters", sizes))
    knobs.append(slide("floor", "Floor, share of the least loss", 0, 0, 0.95, 0.01))
    out = alt.selection_point(name="out", fields=["model"], toggle="true", empty=False)
    # the models of one place, and the line through those left in
    asked = "datum.family == family && datum.corpus == corpus && datum.k == k"
    chosen = (
        inline(rows)
        .transform_filter(asked)
        .transform_joinaggregate(least="min(loss)", models="count()")
        .transform_calculate(
            x="datum[size]",
            y="datum.loss - floor * datum.least",
            about="'Leave out ' + datum.model",
        )
    )
    line = fitted(chosen.transform_filter(~out))
    line = line.transform_filter("datum.n > 2 && datum.sxx > 1e-9")
    # points that a click leaves out, hollow then
    x = alt.X("x:Q", title="model size (parameters)").axis(format="~s")
    x = x.scale(type="log", nice=False, padding=24)
    y = alt.Y("y:Q", title="−log RBP at k, less the floor (nats)")
    y = y.scale(type="log", nice=False, padding=18)
    points = chosen.mark_point(**DOT, stroke=BLUE, strokeWidth=2).encode(
        x,
        y,
        fillOpacity=alt.when(out).then(alt.value(0)).otherwise(alt.value(1)),
        description="about:N",
        tooltip=["model:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("loss:Q", format=".4f")],
    )
    drawn = line.mark_line(color=RED, strokeWidth=2).encode(x, alt.Y("line:Q"))
    # words, where there is no line
    left_in = f"{asked} && indexof(out.model || [], datum.model) < 0"
    few = lacking(rows, left_in, 4, "Too few are left for a line.", least=3, among=asked)
    none = lacking(rows, asked, 4, "Fewer than three models have a loss here.")
    layers = alt.layer(drawn, points.add_params(out), law_text(line), few, none)
    return layers.add_params(*knobs)


def fitted(chart):
    """Least squares of log y on log x: slope, r2, the line, and dx, sxx, syy, n for its noise."""
    return (
        chart.transform_calculate(lx="log(datum.x)", ly="log(datum.y)")
        .transform_joinaggregate(n="count()", mx="mean(lx)", my="mean(ly)")
        .transform_calculate(dx="datum.lx - datum.mx", dy="datum.ly - datum.my")
        .transform_calculate(
            xx="datum.dx * datum.dx",
            xy="datum.dx * datum.dy",
            yy="datum.dy * datum.dy",
        )
        .transform_joinaggregate(sxx="sum(xx)", sxy="sum(xy)", syy="sum(yy)")
        .transform_calculate(
            slope="datum.sxy / datum.sxx",
            r2="datum.sxy * datum.sxy / datum.sxx / datum.syy",
        )
        .transform_calculate(line="exp(datum.my + datum.slope * datum.dx)")
    )


def law_text(line):
    """Exponent, R² and both intervals above the figure, from the rows of `fitted`."""
    shared = ["n", "models", "least", "slope", "r2", "sxx", "syy"]
    t = stats.t.ppf(0.975, np.arange(1, 60)).round(4).tolist()
    half_widths = (
        line.transform_flatten(["spread"])
        .transform_window(j="row_number()", groupby=["model"])
        .transform_calculate(part="datum.dx / datum.sxx * datum.spread * datum.loss / datum.y")
        .transform_aggregate(sum="sum(part)", groupby=["j", *shared])
        .transform_calculate(square="datum.sum * datum.sum")
        .transform_aggregate(var="sum(square)", groupby=shared)
        .transform_calculate(
            sd="sqrt(max(0, datum.syy * (1 - datum.r2)) / (datum.n - 2) / datum.sxx)"
        )
        .transform_calculate(
            text="1.96 * sqrt(datum.var)",
            scatter=f"{t}[min(datum.n, 61) - 3] * datum.sd",
        )
    )
    ends = "format(-datum.slope - {0}, '.3r') + ' to ' + format({0} - datum.slope, '.3r')"
    over_text, over_sizes = ends.format("datum.text"), ends.format("datum.scatter")
    told = as_lines(
        "'α = ' + format(-datum.slope, '.3r') + ' · R² = ' + format(datum.r2, '.3f')"
        " + ' · ' + datum.n + ' of ' + datum.models + ' models'",
        "'floor E = ' + format(floor * datum.least, '.3r') + ' nats'",
        f"'95%, other text: ' + (datum.var > 0 ? {over_text} : 'too few sources')",
        f"'95%, other sizes: ' + {over_sizes}",
    )
    return heading(half_widths.transform_calculate(told=told), 4)


def dots(curves):
    """The loss of each model as a dot, on one axis for all k: {corpus: Curve}."""
    rows = []
    for place, curve in curves.items():
        losses = np.array([curve.loss(k).values for k in curve.ks]).T  # (M, K)
        for model, values in zip(curve.models, losses, strict=True):
            row = {"corpus": title(place), "ks": [int(k) for k in curve.ks], "model": model}
            row["losses"] = [float(x) if np.isfinite(x) else None for x in values]
            rows.append(row)
    # the loss at the k of this step, in words
    place = "[min(step, length(datum.ks) - 1)]"
    told = "datum.y ? format(datum.y, datum.y < 0.001 ? '.0e' : '.3~g') : datum.y === 0 ? 'RBP = 1' : 'no hit'"
    chosen = (
        inline(rows)
        .transform_filter("datum.corpus == corpus")
        .transform_calculate(
            y=f"datum.losses{place}",
            k=f"'k = ' + format(datum.ks{place}, ',')",
        )
        .transform_calculate(told=raised(f"({told})"))
    )
    # a dot and its number, or words at the foot where the axis has no place for it
    x = alt.X("model:N", sort=None, title="model, smallest first").axis(labelAngle=0)
    y = alt.Y("y:Q", title="−log RBP at k (nats)").scale(type="log", nice=False, padding=24)
    number = {"dy": -13, "fontSize": 10.5}
    seen = chosen.transform_filter("datum.y")
    none = chosen.transform_filter("!datum.y")
    layers = alt.layer(
        seen.mark_point(**DOT).encode(x, y),
        seen.mark_text(**number).encode(x, y, text="told:N"),
        none.mark_text(**number).encode(x, y=alt.value(260), text="told:N"),
        heading(chosen.transform_aggregate(told="min(k)")),
    )
    last = max(len(curve.ks) for curve in curves.values()) - 1
    steps = slide("step", "k, step by step", 0, 0, last, 1)
    return layers.add_params(*menus(rows, "corpus"), steps)


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
    chosen = inline(rows)
    chosen = chosen.transform_filter("datum.corpus == corpus && datum.k == k && datum.N == N")
    # the law over sizes; with a correlation, hits in a row are those of a beta distribution
    a, c = "datum.one * (1 - icc) / icc", "(1 - icc) / icc"
    beta = f"{log_gamma(f'({a} + N)')} - {log_gamma(f'({a})')} + {log_gamma(f'({c})')} - {log_gamma(f'({c} + N)')}"
    height = "form == 'log' ? max(-12, log({0}) / LN10) : {0}"
    line = (
        chosen.transform_calculate(s=f"sequence(0, {far:.6g}, {far / 2000:.6g})")
        .transform_flatten(["s"])
        .transform_calculate(
            one="exp(-exp(datum.y - times * datum.alpha * (datum.s * LN10 - datum.x)))"
        )
        .transform_calculate(p=f"icc > 0 && datum.one < 1 ? exp({beta}) : pow(datum.one, N)")
        .transform_calculate(h=height.format("datum.p"))
    )
    points = (
        chosen.transform_flatten(["S", "p"])
        .transform_calculate(s="log(datum.S) / LN10")
        .transform_calculate(h=height.format("datum.p"))
    )
    # the rise from 10% to 90%
    whole = "datum.low < 0.13 && datum.high > 0.87"
    told = (
        "'α = ' + format(times * datum.alpha, '.3r') + ' · 10% to 90%: '"
        f" + ({whole} ? format(datum.b - datum.a, '.3r') + ' decades' : 'not both on this axis')"
    )
    rise = (
        line.transform_filter("datum.p >= 0.1 && datum.p <= 0.9")
        .transform_aggregate(
            a="min(s)", b="max(s)", low="min(p)", high="max(p)", alpha="min(alpha)"
        )
        .transform_calculate(h=height.format(0.5), told=told)
    )
    # one axis, linear or of powers of ten
    powers = "form == 'log' ? " + raised("'1e' + datum.value") + " : datum.label"
    x = alt.X("s:Q", title="log₁₀ of the model size S")
    y = alt.Y("h:Q", title="probability of N hits in a row", axis=alt.Axis(labelExpr=powers))
    foot, top = alt.expr("form == 'log' ? -12 : 0"), alt.expr("form == 'log' ? 0 : 1")
    y = y.scale(domainMin=foot, domainMax=top)
    ruler = rise.transform_filter(whole).mark_rule(color=RED, strokeWidth=4)
    layers = alt.layer(
        line.mark_line(color=BLUE).encode(x, y),
        points.mark_point(color=BLUE, filled=True, opacity=1).encode(x, y),
        ruler.encode(x="a:Q", x2="b:Q", y=y),
        heading(rise),
    )
    return layers.add_params(*knobs)


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
    box = alt.binding_checkbox(name="Show the true token")
    knobs = [
        menu("place", [row["place"] for row in rows], "Place", contexts),
        slide("T", "Temperature T", 1, 0.2, 3, 0.1),
        alt.param(name="show", value=False, bind=box),
    ]
    # nats of the true token here, and in the mean of all places
    told = as_lines(
        "datum.context + ' → ?'",
        "show ? 'true token ' + datum.true + ': rank ' + format(datum.rank, ',') + ' at every T' : ''",
        "show ? 'its −log p at T = ' + format(T, '.1f') + ': ' + format(datum.nats, '.3f') + ' nats' : ''",
        "'mean of the ' + datum.places + ' places: ' + format(datum.mean, '.3f') + ' nats'",
    )
    chosen = (
        inline(rows)
        .transform_calculate(sum="datum.sums[round(10 * T) - 2]")
        .transform_calculate(nats="datum.sum - datum.own / T")
        .transform_joinaggregate(mean="mean(nats)", places="count()")
        .transform_filter("datum.place == place")
    )
    # a bar for each candidate, with its number
    number = raised("format(datum.p, datum.p < 0.001 ? '.0e' : '.3f')")
    each = (
        chosen.transform_flatten(["names", "scores", "hit"])
        .transform_filter(f"show || !datum.hit || datum.rank <= {BEST}")
        .transform_calculate(
            p="exp(datum.scores / T - datum.sum)",
            told=f"{number} + (show && datum.hit ? ' ← true' : '')",
        )
    )
    y = alt.Y("names:N", sort=None, axis=alt.Axis(minExtent=112, maxExtent=112, title=None))
    ticks = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g", domain=False)
    x = alt.X("p:Q", title="probability at T", axis=ticks)
    x = x.scale(domain=[0, 1.3])  # beyond 1 there are numbers alone
    color = alt.when("show && datum.hit").then(alt.value(RED)).otherwise(alt.value(BLUE))
    layers = alt.layer(
        each.mark_bar().encode(x, y, color=color),
        each.mark_text(align="left", dx=4, fontSize=11).encode(x, y, text="told:N"),
        heading(chosen.transform_calculate(told=told), 4, x=-112),
    )
    return layers.add_params(*knobs)


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
    here = inline(rows).transform_filter("datum.corpus == corpus")
    chosen = here.transform_filter("datum.what == what")
    # the interval in words
    told = as_lines(
        "'95% of ' + format(datum.n, ',') + ' draws of ' + what + ':'",
        "format(datum.low, '.4f') + ' to ' + format(datum.high, '.4f')"
        " + ', ' + format(datum.times, '.2f') + ' times as wide'",
        "'as by ' + datum.first",
    )
    words = heading(chosen.transform_calculate(told=told), 3)
    asked = "datum.corpus == corpus && datum.what == what"
    none = lacking(rows, asked, 3, "This text is not drawn so.")
    # the histogram
    bars = chosen.transform_flatten(["share"]).transform_window(j="row_number()")
    bars = bars.transform_calculate(
        b="datum.start + datum.step * datum.j",
        a="datum.b - datum.step",
    )
    x = alt.X("a:Q", title="exponent α").scale(zero=False, nice=False)
    x = x.axis(grid=False, tickCount=6)
    y = alt.Y("share:Q", title="share of draws").scale(range=[180, 0])
    y = y.axis(orient="left", tickCount=4)
    bars = bars.mark_rect(color=BLUE).encode(x, alt.X2("b:Q"), y, alt.Y2Datum(0))
    # a rule for each thing drawn, the chosen one apart
    mine = "datum.what == what"
    row = alt.Y("what:N", sort=None).scale(range=[205, 375]).axis(None)
    rules = here.mark_rule().encode(
        x="low:Q",
        x2="high:Q",
        y=row,
        color=alt.condition(mine, alt.value(RED), alt.value(BLUE)),
        strokeWidth=alt.condition(mine, alt.value(6), alt.value(3)),
    )
    labels = here.mark_text(dy=-9, fontSize=11).encode(x="mid:Q", y=row, text="label:N")
    layers = alt.layer(bars, alt.layer(rules, labels), words, none, height=375)
    layers = layers.add_params(*menus(rows, "corpus", "what"))
    return layers.resolve_scale(y="independent")
