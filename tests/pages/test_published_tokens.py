"""The page on size and tokens in published models: every kind of fit by hand, from the tables themselves."""

import html
import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.pagerunner import run_page, words

ROOT = Path(__file__).resolve().parents[2]
PAGE = "20_published_tokens"
TEXTS = {"c4_original": "C4", "rpj": "RedPajama", "rw_original": "RefinedWeb"}  # of training, as the page names them


@pytest.fixture(scope="module")
def page():
    """The page on one loss and two tasks: ({name of a download: data frame}, what it says)."""
    ran = run_page(PAGE, losses=["c4"], tasks=["lambada_openai", "coqa"])
    found = " ".join(o.data.get("text/html", "") for c in ran.cells for o in c.get("outputs", []) if "data" in o)
    links = re.findall(r'data-name="(.*?)" data-csv="(.*?)"', found)
    frames = {name: pd.read_csv(StringIO(json.loads(html.unescape(csv)))) for name, csv in links}
    return frames, words(ran)[1]


@pytest.fixture(scope="module")
def grid():
    rows = pd.read_csv(ROOT / "published/openlm_scaling.csv")
    names = {"nonembedding_params": "S", "tokens": "D", "tokens_per_20_params": "m", "training_data": "corpus"}
    return rows.rename(columns=names)


def by_hand(S, loss):
    """(exponent, R^2, fall of the local exponent over a decade)."""
    x, y = np.log(np.asarray(S)), np.log(np.asarray(loss))
    fall = 2 * np.polyfit(x, y, 2)[0] * np.log(10)
    return -np.polyfit(x, y, 1)[0], np.corrcoef(x, y)[0, 1] ** 2, fall


def told(frame, **where):
    for name, value in where.items():
        frame = frame[np.isclose(frame[name], value)] if isinstance(value, float) else frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


@pytest.mark.parametrize(("corpus", "m"), [("rw_original", 1.0), ("c4_original", 16.0)])
def test_the_law_at_one_multiple(page, grid, corpus, m):
    for name, loss in {"c4": grid["loss_c4"], "lambada_openai": -np.log(grid["acc_lambada_openai"].clip(1e-9))}.items():
        own = (grid["corpus"] == corpus) & (grid["m"] == m) & ((name == "c4") | (grid["acc_lambada_openai"] >= 0.02))
        cut = {"training text": TEXTS[corpus], "tokens": "one multiple", "at": m}
        row = told(page[0]["size-at-each-budget.csv"], loss=name, **cut)
        assert row["models"] == own.sum()
        alpha, r2, fall = by_hand(grid["S"][own], loss[own])
        assert row[["alpha", "R²"]].tolist() == pytest.approx([alpha, r2], rel=1e-9)
        assert row["fall"] == pytest.approx(fall, abs=2e-8)


def test_the_law_at_one_number_of_tokens(page, grid):
    """The smallest size's run at 16 times: the other three between the two runs on either side of it."""
    own = grid[grid["corpus"] == "rpj"]
    D = float(own["D"][(own["width"] == 96) & (own["m"] == 16)].iloc[0])
    S, losses = [], []
    for width, (below, above) in {96: (16, 16), 512: (2, 4), 576: (1, 2), 1024: (0.25, 0.5)}.items():
        near = own[(own["width"] == width) & own["m"].isin([below, above])].sort_values("D")
        share = 0.0 if len(near) == 1 else np.log(D / near["D"].iloc[0]) / np.log(near["D"].iloc[1] / near["D"].iloc[0])
        assert 0 <= share <= 1
        logs = np.log(near["loss_c4"].to_numpy())
        S.append(near["S"].iloc[0])
        losses.append(np.exp(logs[0] + share * (logs[-1] - logs[0])))
    cut = {"training text": TEXTS["rpj"], "tokens": "one number", "at": D}
    row = told(page[0]["size-at-each-budget.csv"], loss="c4", **cut)
    alpha, r2, fall = by_hand(S, losses)
    assert row["models"] == 4 and row["fall"] == pytest.approx(fall, abs=2e-8)
    assert row[["alpha", "R²"]].tolist() == pytest.approx([alpha, r2], rel=1e-9)


def test_joint_forms_and_what_was_left_out(page, grid):
    own = grid[grid["corpus"] == "c4_original"]
    design = np.column_stack([np.ones(len(own)), -np.log(own["S"]), -np.log(own["D"])])
    y = np.log(own["loss_c4"].to_numpy())
    (_, a, b), squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    row = told(page[0]["joint-forms.csv"], loss="c4", corpus="c4_original", form="the product")
    sd = np.sqrt(squares[0] / (len(own) - 3))
    assert row[["a", "b", "residual sd"]].tolist() == pytest.approx([a, b, sd], rel=1e-6)
    squares = []
    for m in np.unique(own["m"]):
        out = (own["m"] == m).to_numpy()
        miss = y[out] - design[out] @ np.linalg.lstsq(design[~out], y[~out], rcond=None)[0]
        squares.append(np.mean(miss**2))
    row = told(page[0]["held-out.csv"], loss="c4", **{"training text": "C4", "left out": "each budget"})
    assert row["the product"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    errors = row[
        ["size alone", "size with a floor", "the product", "the sum", "Kaplan's form", "the sum with a floor"]
    ].astype(float)
    assert row["best"] == errors.idxmin()


def test_families_by_size_and_together(page):
    steps = pd.read_csv(ROOT / "published/lambada.csv").query("family == 'pythia' and step == 143000")
    others = pd.read_csv(ROOT / "published/lambada_by_size.csv").query("family == 'cerebras-gpt' and shots == 0")
    for name, own in (("pythia", steps), ("cerebras-gpt", others)):
        alpha, r2, fall = by_hand(own["nonembedding_params"], -np.log(own["acc"]))
        row = told(page[0]["falls.csv"], family=name)
        assert row[["alpha", "R²", "fall"]].tolist() == pytest.approx([alpha, r2, fall], rel=1e-6)
    both = pd.concat([steps, others])
    S, D, y = np.log(both["nonembedding_params"]), np.log(both["tokens"]), np.log(-np.log(both["acc"]))
    design = np.column_stack([np.ones(len(both)), -S, -D])
    row = told(page[0]["pool.csv"], form="the product")
    assert row[["a", "b"]].tolist() == pytest.approx(np.linalg.lstsq(design, y, rcond=None)[0][1:].tolist(), rel=1e-6)
    sds = page[0]["pool.csv"].set_index("form")["residual sd"]
    assert sds["the sum"] < sds["the product"] < sds["size alone"]


def test_a_fall_decides_beyond_two_standard_errors_alone(page):
    """Both claims ask the same of a family: the ladders that flatten, that bend upwards, and that tell nothing."""
    own = page[0]["falls.csv"]
    for kind, where in (("one amount", "On one amount of text"), ("grows with size", "Where text grows with size")):
        side = own[own["tokens"] == kind]
        up, down = ((sign * side["fall"] > 2 * side["se of fall"]).sum() for sign in (1, -1))
        words_of = page[1].split(f"{where} the fall is")[1]
        assert f"above 0 in {up} and below 0 in {down} of {len(side)} families" in words_of
        assert f"(two standard errors), beyond them in {up + down} of {len(side)}" in page[1]


def test_one_task_against_another(page, grid):
    both = grid[(grid["acc_lambada_openai"] >= 0.02) & (grid["acc_coqa"] >= 0.02)]
    x, y = (np.log(-np.log(both[f"acc_{t}"])) for t in ("lambada_openai", "coqa"))
    row = told(page[0]["tasks.csv"], tasks="coqa on lambada_openai")
    slope = y.std() / x.std()
    assert row["models"] == len(both) and row["slope"] == pytest.approx(slope, rel=1e-9)
    assert row["R²"] == pytest.approx(np.polyfit(x, y, 1)[0] * np.polyfit(y, x, 1)[0], rel=1e-9)
    assert row["low"] < slope < row["high"] and row["low"] * row["high"] == pytest.approx(slope**2)
    assert row["largest ratio"] == pytest.approx(np.exp((y - x).max()), rel=1e-9)


def test_the_ratio_of_exponents_at_the_last_step(page):
    rows = pd.read_csv(ROOT / "published/lambada.csv").query("family == 'pythia' and step == 143000")
    x = np.log(rows["nonembedding_params"])
    acc, ppl = (np.polyfit(x, np.log(v), 1)[0] for v in (-np.log(rows["acc"]), np.log(rows["ppl"])))
    row = told(page[0]["ratio-trends.csv"], series="pythia")
    assert row["most tokens"] == pytest.approx(acc / ppl, rel=1e-6)


def test_what_cannot_be_fitted_is_said():
    """A task that hardly a model solves, families whose tokens are not stated, one that was evaluated once."""
    asked = {"losses": ["ptb"], "tasks": ["simple_arithmetic_nospaces"], "pool": ["opt", "bloom"], "along": "opt"}
    _, said = words(run_page(PAGE, **asked))
    assert "No form in size and tokens can be fitted to these families: it has 4 parameters" in said
    assert "Nothing can be fitted along training here." in said
    assert "Fewer than two tasks have enough models in common." in said
    assert "No series of four ratios or more is to be had here." in said
    assert "nan" not in re.findall(r"[a-z]+", said)
