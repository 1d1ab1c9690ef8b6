"""Published numbers: the tables are whole, and refitting them gives what was printed."""

import csv
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from paper import ladders, published
from rbplib.families import InputError

FOLDER = Path(__file__).resolve().parents[2] / "published"


def line(S, y):
    """(alpha, R^2) of least squares of log y on log S."""
    x, z = np.log(S) - np.log(S).mean(), np.log(y) - np.log(y).mean()
    slope = (x @ z) / (x @ x)
    return -slope, slope**2 * (x @ x) / (z @ z)


def test_authors_gpt2_points_refit_as_printed():
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    alpha, r2 = line(S, loss)
    assert round(alpha, 4) == 0.0560 and round(r2, 3) == 0.983
    ks, slopes, _ = published.gpt2_reference("slope")
    assert ks.tolist() == [1, 10, 100, 1000, 10000] and abs(slopes[0] + alpha) < 5e-4
    local = -np.diff(np.log(loss)) / np.diff(np.log(S))
    assert np.allclose(local, (0.070, 0.050, 0.038), atol=6e-4)  # the points bend


def test_histogram_is_whole():
    low, high, mass = published.gpt2_histogram()
    assert len(low) == 43 and low[0] == 1 and high[-1] == 50257
    assert np.array_equal(low[1:], high[:-1] + 1)
    assert round(mass.sum(), 3) == 0.998 and round(mass[0], 3) == 0.414
    _, loss, _ = published.gpt2_reference("neg_log_rbp")
    assert abs(mass[0] / mass.sum() - np.exp(-loss[0])) < 2e-3


def test_lambada_sizes_and_checkpoints():
    for family in ("pythia", "pythia-deduped"):
        steps = published.lambada_steps(family)
        assert len(steps) == 27 and steps[0] == 0 and steps[-1] == 143000
        for step in steps:
            found = published.lambada(family, step)
            assert len(found) == 8 and np.all(np.diff(found.S) > 0)
            assert np.allclose(found.tokens, step * 2_097_152)
        assert np.isinf(published.lambada(family, 0).loss).all()
    assert len(published.lambada("opt")) == 8 and len(published.lambada("bloom")) == 5
    final = published.lambada("pythia")
    assert set(final.step) == {143000} and np.all((final.acc > 0) & (final.acc < 1))


def test_reported_errors_fit_the_number_of_passages():
    """acc_stderr is that of a share of 5,153 passages, which is what y_se passes on."""
    for family in ("opt", "bloom", "pythia"):
        found = published.lambada(family)
        assert np.allclose(found.acc_stderr, np.sqrt(found.acc * (1 - found.acc) / 5152), rtol=1e-6)
        assert np.allclose(found.y_se, found.acc_stderr / found.acc / -np.log(found.acc))


def by_hand(family, quantity):
    """(S, loss in nats) of the finished models of a family, read from the files by the csv module alone."""
    names = ("humaneval_by_size",) if "pass" in quantity else ("lambada", "lambada_by_size", "openlm_scaling")
    rows = [row for name in names for row in csv.DictReader((FOLDER / f"{name}.csv").read_text().splitlines())]
    column = {"-log acc": "acc", "log ppl": "ppl", "cross-entropy": "loss"}.get(quantity)
    column = column or "pass_" + quantity.partition("@")[2]
    name, _, rest = family.partition(", ")
    if name.startswith("open_lm"):
        column, text = "acc_lambada_openai", {"c4": "c4_original", "rpj": "rpj", "rw": "rw_original"}[name.split()[1]]
        rows = [r for r in rows if r.get("training_data") == text and "tokens_per_20_params" in r]
        rows = [r for r in rows if float(r["tokens_per_20_params"]) == float(rest[1:]) and float(r[column]) >= 0.02]
    else:
        rows = [
            r for r in rows if r.get("family") == name and r.get("shots", "0") in (rest[:1] or "0", "") and r[column]
        ]
    last = max((int(r["step"]) for r in rows if r.get("step")), default=None)
    rows = [r for r in rows if not r.get("step") or int(r["step"]) == last]
    S = np.array([float(r.get("nonembedding_params") or r["params"]) for r in rows])
    values = np.array([float(r[column]) for r in rows])
    return S, values if column == "loss" else np.log(values) if column == "ppl" else -np.log(values)


LAWS = ladders.published_laws()


@pytest.mark.parametrize("found", LAWS, ids=lambda p: f"{p.law.family} {p.quantity}")
def test_every_published_fit_is_plain_least_squares(found):
    S, loss = by_hand(found.law.family, found.quantity)
    assert len(S) == found.law.n_models == found.record["n"] and [S.min(), S.max()] == found.record["S"]
    slope, intercept = np.polyfit(np.log(S), np.log(loss), 1)
    assert found.record["alpha"] == pytest.approx(-slope, rel=1e-8)
    assert found.law.log_c == pytest.approx(intercept, rel=1e-8)
    assert found.record["r2"] == pytest.approx(np.corrcoef(np.log(S), np.log(loss))[0, 1] ** 2, rel=1e-8)
    exact = sm.OLS(np.log(loss), sm.add_constant(np.log(S))).fit().conf_int()[1]
    assert found.record["interval"] == pytest.approx((-exact[1], -exact[0]), rel=1e-6)


def test_every_family_that_can_be_fitted_is():
    told = {(p.law.family, p.quantity) for p in LAWS}
    assert len(told) == len(LAWS)
    large = set()
    for name in ("lambada", "lambada_by_size", "humaneval_by_size"):
        large |= {f for f, part in pd.read_csv(FOLDER / f"{name}.csv").groupby("family") if len(part) > 2}
    assert {family.partition(",")[0] for family, _ in told if "open_lm" not in family} == large
    assert len({family for family, _ in told if "open_lm" in family}) == 21  # of 24 cells three have fewer than 3 sizes
    assert {p.law.family for p in ladders.published_laws("mamba")} == {"mamba"}
    assert {p.law.family for p in ladders.published_laws("GPT-3")} == {"gpt-3"}
    with pytest.raises(InputError, match="; cerebras-gpt, 5 shots; "):  # names that hold commas are told apart
        ladders.published_laws("?")


def test_open_lm_is_whole_and_its_sizes_leave_out_both_embeddings():
    rows = published.read("openlm_scaling")
    assert len(rows) == 104 and len(published.open_lm("loss_c4")) == 104 and rows["name"].is_unique
    total = rows["tokens"] / rows["tokens_per_20_params"] / 20
    two = 2 * 50_432 * rows["width"]
    assert np.allclose(rows["nonembedding_params"] + two, total, rtol=2e-3)
    block = 12 * rows["layers"] * rows["width"] ** 2  # the leading part of a transformer's parameters
    assert (rows["nonembedding_params"] / block).between(0.95, 1.1).all()
    for task, questions in {"lambada_openai": 5153, "coqa": 7983, "bigbench_qa_wikidata": 20321}.items():
        right = rows[f"acc_{task}"] * questions
        assert np.abs(right - right.round()).max() < 2e-3, task


def test_open_lm_losses_are_as_they_stand_or_minus_log_of_a_share():
    rows = published.read("openlm_scaling").set_index("name")
    found = published.open_lm("acc_coqa", least=0.1)
    assert set(found.index) == set(rows.index[rows["acc_coqa"] >= 0.1]) and np.isfinite(found["loss"]).all()
    assert np.allclose(np.exp(-found["loss"]), rows["acc_coqa"][found.index])
    assert (published.open_lm("loss_ptb")["loss"] == rows["loss_ptb"]).all()
    at_one = published.open_lm("loss_c4").query("corpus == 'rw_original' and multiple == 1")
    assert len(at_one) == 6 and 0.08 < line(at_one.S, at_one.loss)[0] < 0.09
    with pytest.raises(InputError, match="did you mean 'loss_c4"):
        published.open_lm("loss_c5")


def test_unknown_names_are_told():
    with pytest.raises(InputError, match="did you mean 'pythia'"):
        published.lambada("pytia")
    with pytest.raises(InputError, match="not evaluated at step 7"):
        published.lambada("pythia", 7)
    with pytest.raises(InputError, match="not evaluated at step 7"):
        published.lambada("opt", 7)
    with pytest.raises(InputError, match="did you mean 'slope'"):
        published.gpt2_reference("slop")
    with pytest.raises(InputError, match="did you mean 'mamba'"):
        ladders.published_laws("mmaba")
    with pytest.raises(InputError, match="did you mean 'log ppl'"):
        ladders.published_law("pythia", "log pp")
    with pytest.raises(InputError, match="fewer than three models"):
        ladders.published_law("pythia", step=0)
    with pytest.raises(InputError, match="no published table"):
        published.read("lamda")


def test_every_row_carried_is_in_the_shared_tables():
    shared = Path(os.environ.get("RBP_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "published"
    if not shared.is_dir():
        pytest.skip("the shared tables are not on this machine")
    carried = list((Path(__file__).resolve().parents[2] / "published").glob("*.csv"))
    assert carried
    for path in carried:
        assert not set(path.read_text().splitlines()) - set((shared / path.name).read_text().splitlines()), path.name
