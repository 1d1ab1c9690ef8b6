"""Figures that move: Vega-Lite charts, data inside, drawn in the page by the script of `book/_ext/rbpmove.py`.

Each function returns a chart, or the sentence that stands in its place where the run has nothing to move.
"""

import html
import json

import altair as alt
import numpy as np
from scipy import stats

from paper.show.numbers import raised
from paper.show.prose import say
from paper.show.tables import corpus_title

KS = (1, 2, 5, 10, 20, 50, 100, 1000)
RESAMPLES = 500  # behind the spread of the points over sources of text
INK = "currentColor"  # that of the page, light or dark
BLUE, RED = "#2b83ba", "#d7601e"  # contrast of three and more on both
AXIS = {"gridOpacity": 0.15, "labelFontSize": 11.5, "labelSeparation": 8, "titleFontSize": 12, "titleFontWeight": 400}
AXIS |= {"labelExpr": f"isString(datum.value) ? datum.label : {raised('datum.label')}"}
FIT = {"type": "fit-x", "contains": "padding"}
LOOK = {
    "config": {
        "font": "inherit",
        "view": {"stroke": None},
        "axis": AXIS | {f"{part}Color": INK for part in ("domain", "grid", "label", "tick", "title")},
        **{"axisY": {"minExtent": 42}, "axisX": {"labelBound": True}},
        "text": {"color": INK, "fontSize": 12.5, "lineHeight": 17},
    },
    **{"width": "container", "height": 260, "background": "transparent", "autosize": FIT},
}
LISTS = {"family": "Family", "corpus": "Text", "k": "k", "N": "N", "form": "Axis", "what": "Drawn anew"}
NO_LADDER = "Nothing moves here: no text has three models with a loss to fit."


def show(chart, caption):
    """Put a moving figure on the page, with a caption that says what to see and to try; or its sentence."""
    from IPython.display import HTML, display

    if isinstance(chart, str):
        return say(chart)
    spec = {k: v for k, v in chart.to_dict().items() if k not in ("$schema", "config")} | {"description": caption}
    spec = LOOK | json.loads(json.dumps(spec), parse_float=lambda x: float(f"{float(x):.6g}"))
    text = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = '<div class="rbp-controls"></div><div class="rbp-plot"></div>'
    parts += f'<figcaption>{html.escape(caption)}</figcaption><script type="application/json">{text}</script>'
    display(HTML(f'<figure class="rbp-move">{parts}</figure>'))


def choice(name, values, label=None, labels=None):
    """A list to choose from, or what there is where that is one alone; once each."""
    values = list(dict.fromkeys(values))
    named = {"labels": [str(x) for x in labels or values], "name": label or LISTS.get(name, name.title())}
    bind = {"bind": alt.binding_select(options=values, **named)} if len(values) > 1 else {}
    return alt.param(name=name, value=values[0], **bind)


def slide(name, label, value, least, most, step):
    return alt.param(name=name, value=value, bind=alt.binding_range(min=least, max=most, step=step, name=label))


def said(chart, lines=1, text="told:N"):
    """Lines of text above the axes."""
    return chart.mark_text(align="left", baseline="top", x=-50, y=-13 - 17 * lines).encode(text=text)


def lacking(rows, condition, lines, text, least=1, of="true"):
    """Text above the axes while too few of all rows meet a condition; of none left an aggregate would have no row."""
    met = alt.Chart(alt.InlineData(values=rows)).transform_calculate(met=f"{condition} ? 1 : 0", of=f"{of} ? 1 : 0")
    met = met.transform_aggregate(met="sum(met)", of="sum(of)").transform_filter(f"datum.met < {least} && datum.of")
    return said(met, lines, alt.value(text))


def spread(loss, used, seed):
    """What the choice of sources does to the points: (m, m), rows whose products are the covariance; zeros: unknown."""
    drawn = loss.resampled(RESAMPLES, seed)
    y = np.empty((0, len(used))) if drawn is None else drawn.y[:, used]
    y = y[np.isfinite(y).all(axis=1)]
    if len(y) <= RESAMPLES // 2:
        return np.zeros((len(used), 1))
    _, size, axes = np.linalg.svd((y - y.mean(axis=0)) / np.sqrt(len(y) - 1), full_matrices=False)
    return (size[:, None] * axes).T


def ladder_rows(curves, tables, seed=42):
    """What the law explorer knows of each model: a dict for each place, k and model with a loss; see `explorer`."""
    rows = []
    for place, curve in curves.items():
        corpus = html.unescape(corpus_title(place if isinstance(place, str) else place[1]))
        whole = [int(t.record.get("total_params") or 0) for t in tables[place]]
        for k in (int(k) for k in curve.ks if k in KS):
            loss = curve.loss(k)
            used = np.flatnonzero(np.isfinite(loss.y))
            if len(np.unique(loss.S[used])) < 3:
                continue
            here = {"family": curve.family, "corpus": corpus, "k": k}
            for i, row in zip(used, spread(loss, used, seed), strict=True):
                model = {"model": loss.models[i], "S": int(loss.S[i]), "all": whole[i] or int(loss.S[i])}
                rows.append(here | model | {"loss": loss.values[i], "spread": row.round(6).tolist()})
    return rows


def explorer(curves, tables, seed=42, floor=False):
    """A law that follows its points: family, corpus, k, size with or without embeddings, points left out by a click.

    curves, tables: {corpus: Curve}, {corpus: rank tables}, or both by (family, corpus). floor: a slider for it.
    """
    if not (rows := ladder_rows(curves, tables, seed)):
        return NO_LADDER
    knobs = [choice(name, [row[name] for row in rows]) for name in ("family", "corpus", "k")]
    knobs += [choice("size", ["S", "all"], "Parameters", ["without embeddings (S)", "all"])]
    knobs += [slide("floor", "Floor, share of the least loss", 0, 0, 0.95, 0.01) if floor else alt.param("floor", 0)]
    out = alt.selection_point(name="out", fields=["model"], toggle="true", empty=False)
    asked = "datum.family == family && datum.corpus == corpus && datum.k == k"
    chosen = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_filter(asked)
        .transform_joinaggregate(least="min(loss)", models="count()")
        .transform_calculate(x="datum[size]", y="datum.loss - floor * datum.least", about="'Leave out ' + datum.model")
    )
    line = fitted(chosen.transform_filter(~out)).transform_filter("datum.n > 2 && datum.sxx > 1e-9")
    x = alt.X("x:Q", title="model size (parameters)").scale(type="log", nice=False, padding=24).axis(format="~s")
    loss = "−log RBP at k" + ", less the floor" * floor
    y = alt.Y("y:Q", title=f"{loss} (nats)").scale(type="log", nice=False, padding=18)
    tips = ["model:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("loss:Q", format=".4f")]
    hollow = alt.when(out).then(alt.value(0)).otherwise(alt.value(1))
    points = chosen.mark_point(filled=True, size=110, opacity=1, color=BLUE, stroke=BLUE, strokeWidth=2)
    points = points.encode(x, y, fillOpacity=hollow, description="about:N", tooltip=tips).add_params(out)
    kept = f"{asked} && indexof(out.model || [], datum.model) < 0"
    few = lacking(rows, kept, 3 + floor, "Too few are left for a line.", least=3, of=asked)
    none = lacking(rows, asked, 3 + floor, "Fewer than three models have a loss here.")
    drawn = line.mark_line(color=RED, strokeWidth=2).encode(x, alt.Y("line:Q"))
    return alt.layer(drawn, points, law_text(line, floor), few, none).add_params(*knobs)


def fitted(chart):
    """Least squares of log y on log x, by aggregates alone: slope, r2, the line, and dx, sxx, syy, n for its noise."""
    return (
        chart.transform_calculate(lx="log(datum.x)", ly="log(datum.y)")
        .transform_joinaggregate(n="count()", mx="mean(lx)", my="mean(ly)")
        .transform_calculate(dx="datum.lx - datum.mx", dy="datum.ly - datum.my")
        .transform_calculate(xx="datum.dx * datum.dx", xy="datum.dx * datum.dy", yy="datum.dy * datum.dy")
        .transform_joinaggregate(sxx="sum(xx)", sxy="sum(xy)", syy="sum(yy)")
        .transform_calculate(slope="datum.sxy / datum.sxx", r2="datum.sxy * datum.sxy / datum.sxx / datum.syy")
        .transform_calculate(line="exp(datum.my + datum.slope * datum.dx)")
    )


def law_text(line, floor):
    """Exponent, R² and both intervals above the figure, from the rows of `fitted`."""
    shared = ["n", "models", "least", "slope", "r2", "sxx", "syy"]
    t = stats.t.ppf(0.975, np.arange(1, 60)).round(4).tolist()
    told = "'α = ' + format(-datum.slope, '.3r') + ' · R² = ' + format(datum.r2, '.3f') + ' · ' + datum.n + ' of '"
    told += " + datum.models + ' models'" + ", 'floor E = ' + format(floor * datum.least, '.3r') + ' nats'" * floor
    ends = "format(-datum.slope - {0}, '.3r') + ' to ' + format({0} - datum.slope, '.3r')"
    told += f", '95%, other text: ' + (datum.var > 0 ? {ends.format('datum.text')} : 'too few sources')"
    told += f", '95%, other sizes: ' + {ends.format('datum.scatter')}"
    over_sources = (
        line.transform_flatten(["spread"])
        .transform_window(j="row_number()", groupby=["model"])
        .transform_calculate(part="datum.dx / datum.sxx * datum.spread * datum.loss / datum.y")
        .transform_aggregate(sum="sum(part)", groupby=["j", *shared])
        .transform_calculate(square="datum.sum * datum.sum")
        .transform_aggregate(var="sum(square)", groupby=shared)
        .transform_calculate(sd="sqrt(max(0, datum.syy * (1 - datum.r2)) / (datum.n - 2) / datum.sxx)")
        .transform_calculate(text="1.96 * sqrt(datum.var)", scatter=f"{t}[min(datum.n, 61) - 3] * datum.sd")
        .transform_calculate(told=f"[{told}]")
    )
    return said(over_sources, 3 + floor)


def dots(curves):
    """The loss of each model as a dot, on an axis as long as those of one k are apart: {corpus: Curve}."""
    rows = []
    for place, curve in curves.items():
        here = {"corpus": html.unescape(corpus_title(place)), "ks": [int(k) for k in curve.ks]}
        losses = np.array([curve.loss(k).values for k in curve.ks]).T  # (M, K)
        losses = [[float(x) if np.isfinite(x) else None for x in of] for of in losses]
        rows += [here | {"model": model, "losses": of} for model, of in zip(curve.models, losses, strict=True)]
    chosen = alt.Chart(alt.InlineData(values=rows)).transform_filter("datum.corpus == corpus")
    at = "[min(step, length(datum.ks) - 1)]"
    chosen = chosen.transform_calculate(y=f"datum.losses{at}", k=f"'k = ' + format(datum.ks{at}, ',')")
    told = "datum.y ? format(datum.y, datum.y < 0.001 ? '.0e' : '.3~g') : datum.y === 0 ? 'RBP = 1' : 'no hit'"
    chosen, text = chosen.transform_calculate(told=raised(f"({told})")), {"dy": -13, "fontSize": 10.5}
    seen, none = (chosen.transform_filter(what) for what in ("datum.y", "!datum.y"))
    x = alt.X("model:N", sort=None, title="model, smallest first").axis(labelAngle=0)
    y = alt.Y("y:Q", title="−log RBP at k (nats)").scale(type="log", nice=False, padding=24)
    marks = [seen.mark_point(filled=True, size=110, opacity=1, color=BLUE).encode(x, y)]
    marks += [seen.mark_text(**text).encode(x, y, text="told:N")]
    marks += [none.mark_text(**text).encode(x, y=alt.value(260), text="told:N")]
    marks += [said(chosen.transform_aggregate(told="min(k)"))]
    steps = slide("step", "k, step by step", 0, 0, max(len(curve.ks) for curve in curves.values()) - 1, 1)
    return alt.layer(*marks).add_params(choice("corpus", [row["corpus"] for row in rows]), steps)


def log_gamma(x):
    """Stirling's series for log Gamma(x) less log(2 pi) / 2, as an expression of Vega, which has none; x > 0."""
    z, steps = f"({x} + 7)", " * ".join(f"({x} + {i})" for i in range(7))
    return f"(({z} - 0.5) * log({z}) - {z} + 1 / (12 * {z}) - 1 / (360 * pow({z}, 3)) - log({steps}))"


def emergence(laws):
    """N hits in a row far beyond the sizes measured: N, the exponent, a correlation, a ruler from 10% to 90%.

    laws: {corpus: {(k, N): Law}}, see `runs.run_laws`; the correlation is that of `runs.log_run_beta`.
    """
    rows, far = [], 1.0
    for corpus, (k, N), law in ((c, place, law) for c, found in laws.items() for place, law in found.items()):
        if (one := laws[corpus][k, 1]).ok and one.alpha > 0:
            x, y = float(np.log(one.S).mean()), float(one.y.mean())  # where a line of least squares passes
            far = max(far, (x + (np.log(N) + y - np.log(np.log(1 / 0.9))) / one.alpha) / np.log(10) + 1)
            p = np.exp(-np.exp(law.y)).tolist()
            numbers = {"alpha": one.alpha, "x": x, "y": y, "S": law.S.tolist(), "p": p}
            rows.append({"corpus": html.unescape(corpus_title(corpus)), "k": int(k), "N": int(N)} | numbers)
    if not rows:
        return "Nothing moves here: no law at N = 1 foretells that larger models succeed more often."
    knobs = [choice(name, [row[name] for row in rows]) for name in ("corpus", "k", "N")]
    knobs += [choice("form", ["linear", "log"]), slide("times", "Exponent, times the fitted", 1, 0.5, 4, 0.05)]
    knobs += [slide("icc", "Correlation within a document", 0, 0, 0.3, 0.01)]
    here = alt.Chart(alt.InlineData(values=rows))  # kept once in the figure, however many layers draw it
    chosen = here.transform_filter("datum.corpus == corpus && datum.k == k && datum.N == N")
    a, c, height = "datum.one * (1 - icc) / icc", "(1 - icc) / icc", "form == 'log' ? max(-12, log({0}) / LN10) : {0}"
    beta = f"{log_gamma(f'({a} + N)')} - {log_gamma(f'({a})')} + {log_gamma(f'({c})')} - {log_gamma(f'({c} + N)')}"
    line = (
        chosen.transform_calculate(s=f"sequence(0, {min(far, 200):.6g}, {min(far, 200) / 2000:.6g})")
        .transform_flatten(["s"])
        .transform_calculate(one="exp(-exp(datum.y - times * datum.alpha * (datum.s * LN10 - datum.x)))")
        .transform_calculate(p=f"icc > 0 && datum.one < 1 ? exp({beta}) : pow(datum.one, N)")
        .transform_calculate(h=height.format("datum.p"))
    )
    points = chosen.transform_flatten(["S", "p"]).transform_calculate(s="log(datum.S) / LN10")
    points = points.transform_calculate(h=height.format("datum.p")).mark_point(color=BLUE, filled=True, opacity=1)
    rise = line.transform_filter("datum.p >= 0.1 && datum.p <= 0.9")
    rise = rise.transform_aggregate(a="min(s)", b="max(s)", low="min(p)", high="max(p)", alpha="min(alpha)")
    whole = "datum.low < 0.13 && datum.high > 0.87"
    wide = f"{whole} ? format(datum.b - datum.a, '.3r') + ' decades' : 'not both on this axis'"
    told = f"'α = ' + format(times * datum.alpha, '.3r') + ' · 10% to 90%: ' + ({wide})"
    rise = rise.transform_calculate(h=height.format(0.5), told=told)
    ticks = alt.Axis(labelExpr="form == 'log' ? " + raised("'1e' + datum.value") + " : datum.label")
    ends = [alt.expr(f"form == 'log' ? {log} : {linear}") for log, linear in ((-12, 0), (0, 1))]
    y = alt.Y("h:Q", title="probability of N hits in a row", axis=ticks).scale(domainMin=ends[0], domainMax=ends[1])
    x = alt.X("s:Q", title="log₁₀ of the model size S")
    ruler = rise.transform_filter(whole).mark_rule(color=RED, strokeWidth=4).encode(x="a:Q", x2="b:Q", y=y)
    return alt.layer(line.mark_line(color=BLUE).encode(x, y), points.encode(x, y), ruler, said(rise)).add_params(*knobs)
