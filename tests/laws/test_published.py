"""Published numbers: the tables are whole, and refitting them gives what was printed."""

import os
from pathlib import Path

import numpy as np
import pytest

from rbplib.laws import published
from rbplib.settings import InputError


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


def test_plain_least_squares_on_lambada():
    """By hand: exponents of -log acc on S."""
    found = {f: line(published.lambada(f).S, published.lambada(f).loss) for f in ("opt", "bloom", "pythia")}
    for family, (alpha, r2) in found.items():
        assert 0.1 < alpha < 0.4 and r2 > 0.9, family


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
