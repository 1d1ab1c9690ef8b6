"""Figures that move: valid Vega-Lite, and what they say in the reader's browser is what the library
says."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import altair
import numpy as np
import pytest
import vl_convert
from scipy.special import log_softmax

from paper.show import moving
from rbplib import fit
from rbplib.runs import log_run_beta
from tests.pagerunner import caught
from tests.planted import planted_losses

WHOLE = np.round(np.geomspace(9e4, 2.5e7, 7))  # all parameters of the planted models


def spec_of(chart):
    """The specification on the page, checked against the schema of Vega-Lite."""
    with caught() as outputs:
        moving.show(chart)
    text = outputs[0].data["text/html"]
    spec = json.loads(re.search(r'<script type="application/json">(.*)</script>', text, re.S)[1])
    altair.Chart.from_dict(spec)
    return spec


def texts(spec, **chosen):
    """Every text and mark of the drawn figure in words, with its parameters set so."""
    params = {param["name"]: param for param in spec["params"]}
    for name, value in chosen.items():
        params[name] = params[name] | {"value": value}
    svg = vl_convert.vegalite_to_svg(spec | {"width": 600, "params": [*params.values()]})
    assert not re.search(r'<text[^>]*fill="#', svg)  # the ink of the page, dark or light
    seen = re.findall(r'aria-label="([^"]*)"', svg) + re.findall(r">([^<>]+)</t", svg)
    return " | ".join(seen).replace("−", "-").replace(",", "")


def numbers(pattern, text):
    return [float(x) for x in re.search(pattern, text).groups()]


@pytest.fixture(scope="module")
def losses():
    return planted_losses()


@pytest.fixture(scope="module")
def explored(losses):
    tables = [SimpleNamespace(record={"total_params": int(n)}) for n in WHOLE]
    return spec_of(moving.explorer({"one": losses}, {"one": tables}))


ENDS = r"(-?[\d.]+) to (-?[\d.]+)"
LAW = rf"α = (-?[\d.]+) · R² = ([\d.]+).*other sizes: {ENDS}"


def exponent(S, loss):
    return pytest.approx(-np.polyfit(np.log(S), np.log(loss), 1)[0], rel=6e-3)


def test_the_law_in_the_browser_is_the_librarys(explored, losses):
    law = fit(losses[100], n_bootstrap=0)
    alpha, r2, *intervals = numbers(LAW, texts(explored, k=100))
    assert alpha == exponent(losses[1].S, losses[100].values)
    assert r2 == pytest.approx(law.r2, abs=6e-4)
    assert intervals == pytest.approx(law.ci_models, rel=6e-3)


def test_points_left_out_other_sizes_and_a_floor_are_followed(explored, losses):
    loss, S, part = losses[1].values, losses[1].S, [1, 2, 4, 5, 6]
    left_out = {"out": [{"model": "m0"}, {"model": "m3"}]}
    for chosen, *line in (
        ({"size": "all"}, WHOLE, loss),
        ({"floor": 0.9}, S, loss - 0.9 * loss.min()),
        (left_out, S[part], loss[part]),
    ):
        assert numbers(LAW, texts(explored, **chosen))[0] == exponent(*line)
    few = texts(explored, out=[{"model": f"m{i}"} for i in range(5)])
    assert "Too few are left for a line." in few and "α = " not in few
    nothing = moving.explorer({"one": planted_losses(models=2)}, {"one": []})
    assert nothing.startswith("Nothing moves here: no text")


def test_emergence_is_the_law_of_runs(losses):
    """An exact law at N = 1, and points of N = 10 that are half of what independence says."""
    laws, S = {}, losses[1].S
    for N, share in ((1, 1.0), (10, 0.5)):
        hits = np.round(1e6 * share * np.exp(-N * 2 * (S / S[0]) ** -0.3))
        counts = {"sums": np.tile(hits, (300, 1)), "totals": np.full(300, 10**6)}
        laws[1, N] = fit(replace(losses[1], **counts), n_bootstrap=0)
    spec, lift = spec_of(moving.emergence({"one": laws})), np.linspace(-8, 5, 10_000)
    hit = np.exp(-np.exp(lift))
    for times, icc, run in ((2, 0, 10 * np.log(hit)), (1, 0.2, log_run_beta(hit, 10, 0.2))):
        text = texts(spec, N=10, times=times, icc=icc)
        alpha, decades = numbers(r"α = ([\d.]+) · 10% to 90%: ([\d.]+) decades", text)
        assert alpha == pytest.approx(times * 0.3, rel=5e-3)
        rise = np.ptp(lift[(run > np.log(0.1)) & (run < np.log(0.9))]) / alpha / np.log(10)
        assert decades == pytest.approx(rise, abs=0.03)


@pytest.mark.parametrize("at", [1, 3])
def test_temperature_moves_nats_and_no_rank(at, T=3):
    logits, ids = np.random.default_rng(1).normal(0, 2, (3, 50)), [7, 11, 3, 40]
    logits[0, 12] = logits[0, 11]  # a tie counts against the true token
    spec = spec_of(moving.guess(logits, ids, lambda some: "".join(f" <{i}>" for i in some)))
    assert "true token" not in texts(spec, place=at, T=T)
    shown = numbers(
        r"rank (\d+) at every T.*: ([\d.]+) nats.*places: ([\d.]+) nats",
        texts(spec, place=at, T=T, show=True),
    )
    rank = (logits[at - 1] >= logits[at - 1, ids[at]]).sum()
    nats = -log_softmax(logits / T, axis=1)[np.arange(3), ids[1:]]
    assert shown == pytest.approx([rank, nats[at - 1], nats.mean()], abs=6e-4)
