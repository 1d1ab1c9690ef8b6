"""Figures that move: Vega-Lite charts, data inside, drawn in the page by the script of `book/_ext/rbpmove.py`.

Each function returns a chart, or the sentence that stands in its place where the run has nothing to move. What the
reader sees follows from formulas in the chart itself; a test compares them with those of the library.
"""

import html
import json

import numpy as np
from scipy import stats

from rbplib.pages.prose import say
from rbplib.pages.tables import corpus_title

KS = (1, 2, 5, 10, 20, 50, 100, 1000)
RESAMPLES = 500  # behind the spread of the points over sources of text
INK = "currentColor"  # that of the page, light or dark
BLUE, RED = "#2b83ba", "#d7601e"  # contrast of three and more on both
LOOK = {
    "width": "container",
    "height": 260,
    "background": "transparent",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "config": {
        "font": "inherit",
        "view": {"stroke": None},
        "axis": {f"{part}Color": INK for part in ("domain", "grid", "label", "tick", "title")}
        | {
            "gridOpacity": 0.15,
            "labelFontSize": 11.5,
            "labelSeparation": 8,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "axisY": {"minExtent": 42},
        "text": {"color": INK, "fontSize": 12.5, "lineHeight": 17},
    },
}
NO_LADDER = "Nothing moves here: no text has three models with a loss to fit."


def show(chart, caption):
    """Put a moving figure on the page, with a caption that says what to see and to try; or its sentence."""
    from IPython.display import HTML, display

    if isinstance(chart, str):
        return say(chart)
    spec = (
        LOOK | {k: v for k, v in chart.to_dict().items() if k not in ("$schema", "config")} | {"description": caption}
    )
    text = json.dumps(spec, separators=(",", ":"), allow_nan=False)
    said = html.escape(caption)
    still = "It moves where scripts may run; the figure of the same numbers nearest to it stands still."
    display(
        HTML(
            f'<figure class="rbp-move"><div class="rbp-controls"></div><div class="rbp-plot"></div><noscript>{still}'
            f'</noscript><figcaption>{said}</figcaption><script type="application/json">'
            f"{text.replace('<', chr(92) + 'u003c')}</script></figure>"
        )
    )


def choice(name, label, values, labels=None):
    """A list to choose from, or what there is where that is one alone."""
    import altair as alt

    values, labels = list(values), [str(x) for x in labels or values]
    bind = {"bind": alt.binding_select(options=values, labels=labels, name=label)} if len(values) > 1 else {}
    return alt.param(name=name, value=values[0], **bind)


def slide(name, label, value, least, most, step):
    import altair as alt

    return alt.param(name=name, value=value, bind=alt.binding_range(min=least, max=most, step=step, name=label))


def rounded(x, digits=5):
    """Numbers as a page carries them: lists of floats of so many significant digits."""
    return [float(f"{v:.{digits}g}") for v in np.ravel(x)]


def spread(loss, used, seed):
    """What the choice of sources does to the points: (m, m), rows whose products are the covariance; zeros: not known.

    The exponent is linear in the points, so its variance over sources follows for any of them and for either size.
    """
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
        family, corpus = (curve.family, place) if isinstance(place, str) else place
        whole = [int(t.record.get("total_params") or 0) for t in tables[place]]
        for k in (int(k) for k in curve.ks if k in KS):
            loss = curve.loss(k)
            used = np.flatnonzero(np.isfinite(loss.y))
            if len(np.unique(loss.S[used])) < 3:
                continue
            here = {"family": family, "corpus": html.unescape(corpus_title(corpus)), "k": k}
            for i, row in zip(used, spread(loss, used, seed), strict=True):
                model = {"model": loss.models[i], "S": int(loss.S[i]), "all": whole[i] or int(loss.S[i])}
                rows.append(here | model | {"loss": rounded(loss.values[i], 7)[0], "spread": rounded(row)})
    return rows


def explorer(curves, tables, seed=42, floor=False):
    """A law that follows its points: family, corpus, k, size with or without embeddings, points left out by a click.

    Args:
        curves, tables: {corpus: Curve}, {corpus: rank tables}, or both by (family, corpus). floor: a slider for it.
    """
    import altair as alt

    if not (rows := ladder_rows(curves, tables, seed)):
        return NO_LADDER
    names = {name: list(dict.fromkeys(row[name] for row in rows)) for name in ("family", "corpus", "k")}
    knobs = [choice(name, label, names[name]) for name, label in (("family", "Family"), ("corpus", "Text"), ("k", "k"))]
    knobs += [choice("size", "Parameters", ["S", "all"], ["without embeddings (S)", "all"])]
    knobs += [slide("floor", "Floor, share of the least loss", 0, 0, 0.95, 0.01) if floor else alt.param("floor", 0)]
    out = alt.selection_point(name="out", fields=["model"], toggle="true", empty=False)
    chosen = (
        alt.Chart(alt.Data(values=rows))
        .transform_filter("datum.family == family && datum.corpus == corpus && datum.k == k")
        .transform_joinaggregate(least="min(loss)", models="count()")
        .transform_calculate(about="'Leave out ' + datum.model", x="datum[size]", y="datum.loss - floor * datum.least")
    )
    line = fitted(chosen.transform_filter(~out)).transform_filter("datum.n > 2 && datum.sxx > 1e-9")
    x = alt.X("x:Q", title="model size (parameters)").scale(type="log", nice=False, padding=24).axis(format="~s")
    title = "−log RBP at k, less the floor (nats)" if floor else "−log RBP at k (nats)"
    y = alt.Y("y:Q", title=title).scale(type="log", nice=False, padding=18)
    tips = ["model:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("loss:Q", format=".4f")]
    hollow = alt.when(out).then(alt.value(0)).otherwise(alt.value(1))
    points = chosen.mark_point(filled=True, size=110, opacity=1, color=BLUE, stroke=BLUE, strokeWidth=2)
    points = points.encode(x, y, fillOpacity=hollow, description="about:N", tooltip=tips)
    drawn = line.mark_line(color=RED, strokeWidth=2).encode(x, alt.Y("line:Q"))
    return alt.layer(drawn, points.add_params(out), law_text(line, floor)).add_params(*knobs)


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
    t = rounded(stats.t.ppf(0.975, np.arange(1, 60)))
    told = ["'α = ' + format(-datum.slope, '.3r') + ' · R² = ' + format(datum.r2, '.4f')"]
    told[0] += " + ' · ' + datum.n + ' of ' + datum.models + ' models'"
    told[0] += " + ' · E = ' + format(floor * datum.least, '.3r') + ' nats'" if floor else ""
    ends = "format(-datum.slope - {0}, '.3r') + ' to ' + format({0} - datum.slope, '.3r')"
    told += [
        "'95% by sources of text: ' + " + "(datum.var > 0 ? {} : 'too few of them')".format(ends.format("datum.text"))
    ]
    told += ["'95% by scatter of the models: ' + " + ends.format("datum.models95")]
    return (
        line.transform_flatten(["spread"])
        .transform_window(j="row_number()", groupby=["model"])
        .transform_calculate(part="datum.dx / datum.sxx * datum.spread * datum.loss / datum.y")
        .transform_aggregate(sum="sum(part)", groupby=["j", *shared])
        .transform_calculate(square="datum.sum * datum.sum")
        .transform_aggregate(var="sum(square)", groupby=shared)
        .transform_calculate(text="1.96 * sqrt(datum.var)")
        .transform_calculate(sd="sqrt(max(0, datum.syy * (1 - datum.r2)) / (datum.n - 2) / datum.sxx)")
        .transform_calculate(models95=f"{t}[min(datum.n, {len(t) + 2}) - 3] * datum.sd")
        .transform_calculate(told=f"[{', '.join(told)}]")
        .mark_text(align="left", baseline="top", x=-50, y=-60)
        .encode(text="told:N")
    )


def bars(curve):
    """The loss of each model of a `Curve` as a bar; a slider goes through its k."""
    import altair as alt

    rows = [
        {"step": i, "k": int(k), "model": model, "loss": rounded(loss)[0] if np.isfinite(loss) else None}
        for i, k in enumerate(curve.ks)
        for model, loss in zip(curve.models, curve.loss(k).values, strict=True)
    ]
    most = max((row["loss"] or 0 for row in rows), default=0) or 1
    chosen = alt.Chart(alt.Data(values=rows)).transform_filter("datum.step == step")
    told = "datum.loss === null ? 'none' : format(datum.loss, datum.loss < 0.001 && datum.loss > 0 ? '.1e' : '.3f')"
    chosen = chosen.transform_calculate(told=told, height="datum.loss || 0")
    x = alt.X("model:N", sort=None, title="model, smallest first").axis(labelAngle=0)
    y = alt.Y("height:Q", title="−log RBP at k (nats)").scale(domain=[0, 1.08 * most], nice=False)
    numbers = chosen.mark_text(dy=-8).encode(x, y, text="told:N")
    at_k = chosen.transform_aggregate(k="min(k)").transform_calculate(told="'k = ' + format(datum.k, ',')")
    at_k = at_k.mark_text(align="left", x=-50, y=-20).encode(text="told:N")
    bar = chosen.mark_bar(color=BLUE).encode(x, y)
    return alt.layer(bar, numbers, at_k).add_params(slide("step", "k, step by step", 0, 0, len(curve.ks) - 1, 1))
