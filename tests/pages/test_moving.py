"""Figures that move: each is valid Vega-Lite, and what it says in the reader's browser is what the library says."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import altair
import numpy as np
import psutil
import pytest
import vl_convert

from paper.runs import log_run_beta, rise_width
from paper.show import moving
from rbplib.law import fit
from tests.conftest import ROOT
from tests.pagerunner import caught
from tests.planted import planted_curve

WHOLE = np.round(np.geomspace(9e4, 2.5e7, 7))  # all parameters of the planted models


def spec_of(chart, caption="What to see."):
    """The specification on the page, checked against the schema of Vega-Lite."""
    with caught() as outputs:
        moving.show(chart, caption)
    (text,) = [o.data["text/html"] for o in outputs]
    assert caption in text
    spec = json.loads(re.search(r'<script type="application/json">(.*)</script>', text, re.S)[1])
    altair.Chart.from_dict(spec)
    return spec


def drawn(spec, **chosen):
    """A figure as SVG, with its parameters set so."""
    known = {p["name"] for p in spec["params"]}
    assert set(chosen) <= known
    params = [p | ({"value": chosen[p["name"]]} if p["name"] in chosen else {}) for p in spec["params"]]
    return vl_convert.vegalite_to_svg(spec | {"width": 600, "params": params})


def labels(spec, **chosen):
    """Every text and mark of a figure in words, as a screen reader has them."""
    return re.findall(r'aria-label="([^"]*)"', drawn(spec, **chosen))


def words_of(spec, **chosen):
    """Every text of a figure as it is seen."""
    return re.findall(r">([^<>]+)</t", drawn(spec, **chosen))


def law_told(spec, **chosen):
    """(alpha, R², sources, scatter) as the law explorer tells them."""
    (told,) = [x for x in labels(spec, **chosen) if "α = " in x]
    number = r"(−?[\d.]+)"
    parts = rf"α = {number} · R² = {number}.*other text: {number} to {number} .*other sizes: {number} to {number}"
    found = [float(x.replace("−", "-")) for x in re.search(parts, told).groups()]
    return found[0], found[1], found[2:4], found[4:6]


@pytest.fixture(scope="module")
def curve():
    return planted_curve()


@pytest.fixture(scope="module")
def explored(curve):
    tables = [SimpleNamespace(record={"total_params": int(n)}) for n in WHOLE]
    chart = moving.explorer({("planted", "one"): curve}, {("planted", "one"): tables}, floor=True)
    return spec_of(chart)


@pytest.mark.parametrize("k", [1, 100])
def test_the_law_in_the_browser_is_the_librarys(explored, curve, k):
    law = fit(curve.loss(k), n_bootstrap=2000)
    alpha, r2, sources, scatter = law_told(explored, k=k)
    assert alpha == pytest.approx(-np.polyfit(np.log(curve.S), law.y, 1)[0], rel=6e-3)
    assert r2 == pytest.approx(law.r2, abs=6e-4)
    assert scatter == pytest.approx(law.ci_models, rel=6e-3)
    assert sources == pytest.approx(law.ci_tokens, abs=0.15 * np.ptp(law.ci_tokens))


def test_points_left_out_other_sizes_and_a_floor_are_followed(explored, curve):
    y, loss = curve.loss(1).y, curve.loss(1).values
    assert law_told(explored, size="all")[0] == pytest.approx(-np.polyfit(np.log(WHOLE), y, 1)[0], rel=6e-3)
    bent = np.log(loss - 0.9 * loss.min())
    assert law_told(explored, floor=0.9)[0] == pytest.approx(-np.polyfit(np.log(curve.S), bent, 1)[0], rel=6e-3)
    alpha, _, sources, scatter = law_told(explored, out=[{"model": "m0"}, {"model": "m3"}])
    kept = fit(curve.keep([1, 2, 4, 5, 6]).loss(1), n_bootstrap=2000)
    assert alpha == pytest.approx(kept.alpha, rel=6e-3) and scatter == pytest.approx(kept.ci_models, rel=6e-3)
    assert sources == pytest.approx(kept.ci_tokens, abs=0.15 * np.ptp(kept.ci_tokens))


def test_too_few_models_are_a_sentence_and_too_few_sources_are_said(curve):
    with caught() as outputs:
        moving.show(moving.explorer({"one": curve.keep([0, 1])}, {"one": []}), "What to see.")
    assert [o.data["text/markdown"] for o in outputs] == [moving.NO_LADDER]
    tables = [SimpleNamespace(record={}) for _ in WHOLE]  # nothing is known of all parameters: those without stand in
    one = replace(curve, source=np.zeros(len(curve.totals), int))
    spec = spec_of(moving.explorer({"one": one}, {"one": tables}))
    assert any("other text: too few sources" in x for x in labels(spec, size="all"))
    left = labels(spec, out=[{"model": f"m{i}"} for i in range(5)])
    assert not any("α = " in x for x in left) and "Leave out m0" in left
    few = "Too few are left for a line."
    assert few not in words_of(spec, out=[{"model": f"m{i}"} for i in range(4)])
    pictures = [drawn(spec, out=[{"model": f"m{i}"} for i in range(n)]) for n in (0, 5, 7)]
    assert [few in picture for picture in pictures] == [False, True, True]  # no row is left at the end, either
    assert len({re.search(r'height="(\d+)', picture)[1] for picture in pictures}) == 1


def test_where_no_models_have_a_loss_the_explorer_says_so(curve):
    tables, other = [SimpleNamespace(record={}) for _ in WHOLE], replace(curve, ks=np.array([1, 5, 100]))
    spec = spec_of(moving.explorer({"one": curve, "two": other}, {"one": tables, "two": tables}))
    assert "Fewer than three models have a loss here." in words_of(spec, corpus="two", k=10)
    assert "Fewer than three models have a loss here." not in words_of(spec, corpus="one", k=10)


def test_a_reader_without_scripts_has_what_the_figure_first_shows(extension, explored):
    picture, told = extension.still(explored), extension.first_set(explored["params"])
    assert [x for x in re.findall(r">([^<>]+)</t", picture) if "α = " in x] == [
        x for x in words_of(explored) if "α" in x
    ]
    assert "currentColor" in picture and not re.search(r" d=\"[^\"]*\.\d{3}", picture)
    assert told.endswith("looks (k: 1; Parameters: without embeddings (S); Floor, share of the least loss: 0).")


def test_dots_are_the_losses_of_the_chosen_text_and_zeros_are_words(curve):
    hits = curve.hits.copy()
    hits[:, 0, 0], hits[:, 1, 0], hits[:, :, -1] = 0, curve.totals, curve.totals[:, None]
    spec = spec_of(moving.dots({"one": curve, "two, with: signs": replace(curve, hits=hits)}))
    loss = curve.loss(1).values
    assert {f"{v:.3g}" for v in loss} <= set(words_of(spec)) and "k = 1" in words_of(spec)
    shown = words_of(spec, corpus="two, with: signs")
    assert {"no hit", "RBP = 1", *(f"{v:.3g}" for v in loss[2:])} <= set(shown)
    assert not {f"{v:.3g}" for v in loss[:2]} & set(shown)
    last = words_of(spec, corpus="two, with: signs", step=len(curve.ks) - 1)
    assert last.count("RBP = 1") == len(loss)


def test_the_dots_of_one_k_fill_their_axis(curve):
    """Bars of 0.11 to 0.19 once stood on an axis up to 1.8."""
    spec = spec_of(moving.dots({"one": curve}))
    for step in range(len(curve.ks)):
        places = re.findall(r'roledescription="point" transform="translate\([^,]*,([\d.]+)', drawn(spec, step=step))
        assert np.ptp([float(y) for y in places]) > 0.6 * spec["height"], step


@pytest.mark.parametrize(
    ("text", "set_as"),
    [("1e-2", "10⁻²"), ("8e−14", "8 × 10⁻¹⁴"), ("2.5e+30", "2.5 × 10³⁰"), ("0.2", "0.2"), ("Me2e", "Me2e")],
)
def test_powers_are_set_as_on_the_pages(text, set_as):
    spec = (
        moving.alt.Chart(moving.alt.InlineData(values=[{"x": 1}]))
        .mark_text()
        .transform_calculate(told=moving.raised(f"'{text}'"))
    )
    assert re.findall(r">([^<>]+)</text", vl_convert.vegalite_to_svg(spec.encode(text="told:N").to_dict())) == [set_as]


def test_powers_on_axes_are_set_so_and_names_are_not_touched():
    small = SimpleNamespace(ks=[1], models=("1e-5", "m"))
    small.loss = lambda k: SimpleNamespace(values=np.array([3e-4, 4e-8]))
    shown = words_of(spec_of(moving.dots({"one": small})))
    assert {"3 × 10⁻⁴", "4 × 10⁻⁸", "1e-5"} <= set(shown)
    assert [x for x in shown if re.match(r"\d+e[-−]\d", x)] == ["1e-5"]


def run_laws(curve, alpha=0.3):
    """{(1, N): Law} with an exact law at N = 1 and points of N = 10 that are half of what independence says."""
    laws = {}
    for N, share in ((1, 1.0), (10, 0.5)):
        p = share * np.exp(-N * 2 * (curve.S / curve.S[0]) ** -alpha)
        totals = np.full(300, 10**6)
        loss = replace(curve.loss(1), sums=np.round(p * 10**6)[None].repeat(300, 0).astype(int), totals=totals)
        laws[1, N] = fit(loss, n_bootstrap=0)
    return laws


def test_emergence_is_the_law_of_runs(curve):
    laws = run_laws(curve)
    spec, (one, ten) = spec_of(moving.emergence({"one": laws})), laws.values()
    shown = r"size S: ([\d.]+); probability of N hits in a row: ([\d.e-]+)"
    points = [x for x in labels(spec, N=10) if re.match("log₁₀ of the model " + shown, x)]
    for x, S, y in zip(points[-len(ten.S) :], ten.S, ten.y, strict=True):  # after the line's own
        s, p = map(float, re.search(shown, x).groups())
        assert s == pytest.approx(np.log10(S), abs=1e-4) and p == pytest.approx(np.exp(-np.exp(y)), rel=1e-4)
    assert {"10⁻²", "10⁻¹²"} <= set(words_of(spec, form="log"))
    for times, N in ((1, 1), (1, 10), (2, 10)):
        (told,) = [x for x in labels(spec, N=N, times=times) if "told: " in x]
        alpha, decades = map(float, re.search(r"α = ([\d.]+) · 10% to 90%: ([\d.]+) decades", told).groups())
        assert alpha == pytest.approx(times * one.alpha, rel=5e-3)
        assert decades == pytest.approx(rise_width(times * one.alpha) / np.log(10), abs=0.03)
    for chosen, ruled in (({"N": 10}, True), ({"N": 1, "times": 0.01}, False)):
        told = drawn(spec, **chosen)
        assert ("not both on this axis" not in told) == ('stroke-width="4"' in told) == ruled, chosen


@pytest.mark.parametrize(("p", "N", "icc"), [(0.5, 10, 0.01), (0.01, 100, 0.3), (0.999, 5, 0.1)])
def test_the_browser_has_the_beta_law_of_runs(p, N, icc):
    a, c = p * (1 - icc) / icc, (1 - icc) / icc
    steps = (f"{sign}{moving.log_gamma(f'({x})')}" for sign, x in (("", a + N), ("-", a), ("+", c), ("-", c + N)))
    found = eval(" ".join(steps), {"log": np.log, "pow": pow})
    assert found == pytest.approx(float(log_run_beta(p, N, icc)), rel=1e-6)


def test_laws_that_foretell_nothing_are_a_sentence(curve):
    chart = moving.emergence({"one": run_laws(curve, alpha=-0.1)})
    assert isinstance(chart, str) and chart == moving.emergence({})


def test_names_that_people_give_are_text(curve):
    evil = replace(curve, family="</script><b>", models=tuple(f"<i>{m}" for m in curve.models))
    tables = [SimpleNamespace(record={}) for _ in WHOLE]
    with caught() as outputs:
        moving.show(moving.explorer({("</script>", "x"): evil}, {("</script>", "x"): tables}), "A <b>caption.")
    text = outputs[0].data["text/html"]
    assert text.count("</script>") == 1 and "<b>" not in text and "<i>" not in text


KILLED = """import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import psutil, rbpmove
    on, place = {}, Path(sys.argv[2])
    app = SimpleNamespace(outdir=place, connect=on.__setitem__, add_js_file=lambda name, **how: None)
    rbpmove.load_moving(app)
    on["html-page-context"](app, "page", "page.html", {"body": (place / "body.html").read_text()}, None)
    while not list(place.glob("_images/*.svg")):
        pass
    artist = next(p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline()))
    (place / "artist").write_text(str(artist.pid))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def extension(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import rbpmove

    yield rbpmove
    sys.modules.pop("rbpmove")


def test_the_script_is_asked_for_by_pages_with_a_figure_and_stored_once(extension, tmp_path, curve):
    asked, on = [], {}
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"), connect=on.__setitem__)
    app.add_js_file = lambda name, **how: asked.append(name)
    with caught() as outputs:
        moving.show(moving.dots({"one": curve}), "What to see.")
    extension.load_moving(app)
    for page, body in {"with": outputs[0].data["text/html"], "without": "<p>rbp-move</p>"}.items():
        on["html-page-context"](app, page, "page.html", {"body": body}, None)
        assert asked == [extension.SCRIPT], page
    on["build-finished"](app, None)
    (picture,) = (tmp_path / "_images").iterdir()
    picture.unlink()
    on["html-page-context"](app, "search", "search.html", {}, None)
    extension.copy_vega(app, None)
    (stored,) = (p for p in tmp_path.rglob("*") if p.is_file())
    text = stored.read_text(encoding="utf-8")
    assert stored == tmp_path / "_static" / extension.SCRIPT and "window.vegaEmbed" in text
    assert text.startswith("(function () {") and text.endswith("})();\n")  # its short names are not the page's
    assert len(asked) == 1


def test_a_still_picture_that_cannot_be_drawn_ends_the_build(extension, tmp_path):
    on, figure = {}, '<figure class="rbp-move"><figcaption>x</figcaption><script type="application/json">{}</script>'
    app = SimpleNamespace(outdir=tmp_path, connect=on.__setitem__, add_js_file=lambda name, **how: None)
    extension.load_moving(app)
    on["html-page-context"](app, "page", "page.html", {"body": figure}, None)
    with pytest.raises(ValueError, match="mark"):
        on["build-finished"](app, None)


def test_who_draws_still_pictures_ends_with_a_killed_build(extension, tmp_path, curve):
    with caught() as outputs:
        moving.show(moving.dots({"one": curve}), "What to see.")
    (tmp_path / "body.html").write_text(outputs[0].data["text/html"])
    (tmp_path / "build.py").write_text(KILLED)
    command = [sys.executable, tmp_path / "build.py", ROOT / "book" / "_ext", tmp_path]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    artist = int((tmp_path / "artist").read_text())
    for _ in range(100):
        if not psutil.pid_exists(artist) or psutil.Process(artist).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    psutil.Process(artist).kill()
    pytest.fail("it goes on without the build")


def test_another_page_shows_a_runs_moving_figure_or_its_still_one(extension, tmp_path, curve, monkeypatch):
    from sphinx.application import Sphinx

    with caught() as outputs:
        moving.show(moving.dots({"one": curve}), "What to see.")
    still = {"data": {"image/svg+xml": "<svg/>"}, "metadata": {"image/svg+xml": {"alt": "a line"}}}
    both, none = [{"outputs": [still, *outputs]}], [{"outputs": [still]}]
    (tmp_path / "book" / "_executed" / "all").mkdir(parents=True)
    for name, cells in {"13_x": both, "14_y": none}.items():
        (tmp_path / "book" / "_executed" / "all" / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
    words = "".join(f"## {page}\n\n```{{run-move}} {page} a line\n```\n\n" for page in ("13_x", "14_y", "15_z"))
    (tmp_path / "book" / "page.md").write_text(f"# Page\n\n{words}")
    (tmp_path / "index.md").write_text("# X\n\n```{toctree}\nbook/page\n```\n")
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "one;")
    config, out = {"extensions": ["myst_parser", "rbpteach", "rbpmove"]}, tmp_path / "out"
    Sphinx(tmp_path, None, out, out / "trees", "html", config, None, None, parallel=0).build()
    page = (out / "book" / "page.html").read_text(encoding="utf-8")
    (figure,) = re.findall(r'13_x.*<figure class="rbp-move">(.*?)</figure>.*14_y', page, re.S)
    pattern = r'<noscript><img class="rbp-figure" src="../(_images/.*?)" alt="What to see."><p>(.*?)</p></noscript>'
    (picture, told), spec = re.search(pattern, figure).groups(), json.loads(re.search('json">(.*?)</script', figure)[1])
    assert told.endswith("as it first looks.") and spec["height"] == 170
    assert "k = 1" in re.findall(r">([^<>]+)</t", (out / picture).read_text(encoding="utf-8"))
    assert re.findall('<img .*? alt="a line">', page.partition("14_y")[2]) and "a line" not in figure
    assert "without this figure of the page 15_z" in page and page.count("_static/vendor/vega.js") == 1
    assert "vega.js" not in (out / "index.html").read_text(encoding="utf-8")
