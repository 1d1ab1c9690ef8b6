"""Which noise explains a misfit: Hotelling, GLS, the jackknife and F by hand, SciPy, statsmodels
and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_loss, seeded_loss
from scipy import stats

import rbplib as rbp
from rbplib.noise import exceeding, own_seeds

X = np.log(np.geomspace(1e4, 1e6, 6))
JACOBIAN = np.column_stack([-X, X**0])


@pytest.fixture(scope="module")
def loss():
    """A loss whose repeats each meet the text in their own way, as models do."""
    loss = planted_loss(-0.1 * X, 0.3)
    own = np.random.default_rng(6).normal(1, 0.2, (60, 18))[loss.source]
    return replace(loss, repeats=replace(loss.repeats, sums=loss.repeats.sums * own))


def test_the_texts_part_in_the_scatter_of_trainings_is_the_jackknifes(loss):
    variance, text, df = loss.training_variance
    repeated, U = loss.repeats, 60
    left_out = []  # log losses without one source
    for source in range(U):
        rest = repeated.source != source
        left_out.append(np.log(repeated.sums[rest].sum(0) / repeated.totals[rest].sum()))
    spread = variances = 0.0
    for size in np.unique(repeated.S):
        of_size = np.array(left_out)[:, repeated.S == size]
        away = of_size - of_size.mean(axis=1, keepdims=True)
        spread += (U - 1) * away.var(axis=0).sum()
        variances += repeated.y[repeated.S == size].var(ddof=1)
    assert df == 12 and text == pytest.approx(spread / df, rel=1e-9)
    assert variance == pytest.approx(variances / 6, rel=1e-9)


def test_the_lack_of_fit_is_hotellings_and_with_trainings_the_texts_noise_counts_once(loss):
    spare, n = 4, 60
    law, drawn = rbp.fit(loss, n_bootstrap=400), loss.resampled(400, 42).y
    covariance = np.cov(drawn, rowvar=False)

    def squares(covariance):
        """Off the law, by least squares of residuals that are made independent."""
        whitening = np.linalg.inv(np.linalg.cholesky(covariance))
        return np.linalg.lstsq(whitening @ JACOBIAN, whitening @ (law.y - law.fitted))[1].item()

    hotelling = squares(covariance) * (n - spare) / (spare * (n - 1))
    assert law.p["sources"] == pytest.approx(stats.f.sf(hotelling, spare, n - spare), rel=1e-9)
    # what sources make of the residuals, and the part of it that is in the trainings' scatter
    variance, shared, df = loss.training_variance
    noise = np.trace((np.eye(6) - JACOBIAN @ np.linalg.pinv(JACOBIAN)) @ covariance) / spare
    assert law.noise_variance == pytest.approx(noise) and 0.2 * noise < shared < noise
    f = squares(covariance * (noise - shared) / noise + variance * np.eye(6)) / spare
    p = exceeding(f, spare, noise - shared, n - 1, variance, df, own_seeds(loss, df))
    assert law.p["trainings"] == pytest.approx(p, rel=1e-9)


def test_trainings_are_held_against_an_f_distribution_or_their_own_by_simulation():
    assert exceeding(1.5, 3, 0.0, 50, 2.0, 6) == pytest.approx(stats.f.sf(1.5, 3, 6), rel=1e-12)
    # one of three trainings a size in contrast, the scatter estimated from all three
    trained = np.random.default_rng(3).normal(size=(400_000, 6, 3))
    contrast = trained[:, :, 0] @ (np.array([1, 1, 1, -1, -1, -1]) / np.sqrt(6))
    scatter = trained.var(axis=2, ddof=1).mean(axis=1)
    share = np.mean(contrast**2 > 2 * scatter)
    assert exceeding(2.0, 1, 0.0, 50, 1.0, 12, 3) == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize("seeds", [1, 2, 10])
def test_seeds_are_no_sizes(seeds):
    """Planted scatter between sizes and seeds: 95% intervals hold the exponent over other sizes,
    how many times the parameters another family needs, and the next model; those over trainings,
    where sizes do not scatter, hold the exponent too."""
    rng, held = np.random.default_rng(seeds), []
    for _ in range(200):
        sure = seeded_loss(rng, seeds, 6, 0.005, 0.005)
        unsure = seeded_loss(rng, seeds, 4, level=1.1)
        apart, alike = (seeded_loss(rng, seeds, 6, between) for between in (0.005, 0.0))
        new = 1 - 0.1 * np.log(1e10) + rng.normal(0, np.hypot(0.005, 0.02))
        pairs = (
            (rbp.fit(unsure, n_bootstrap=0).ci_models, 0.1),
            (rbp.compare(sure, unsure, n_bootstrap=0).intervals["models"], np.e),
            (rbp.extrapolate(replace(apart, repeats=None), [1e10]).y_interval[:, 0], new),
            (rbp.fit(alike, n_bootstrap=0).ci_trainings, 0.1),
        )
        held.append([low < truth < high for (low, high), truth in pairs])
    *others, trainings = np.mean(held, axis=0)
    assert all(0.92 <= share <= 0.98 for share in others)
    assert trainings == 0 if seeds == 1 else 0.92 <= trainings <= 0.98


def test_seeds_on_a_text_in_one_piece_are_means_and_an_analysis_of_variance():
    sm = pytest.importorskip("statsmodels.api")
    loss = seeded_loss(np.random.default_rng(3), 4)
    law, groups = rbp.fit(loss, n_bootstrap=0), loss.y.reshape(6, 4)
    line = sm.OLS(groups.mean(axis=1), sm.add_constant(-np.log(loss.S[::4]))).fit()
    assert law.ci_models == pytest.approx(line.conf_int()[1]) and law.spare == 4
    # lack of fit against pure error
    f = 4 * line.mse_resid / groups.var(axis=1, ddof=1).mean()
    assert law.p["trainings"] == pytest.approx(stats.f.sf(f, 4, 18))


def test_sizes_within_five_per_cent_are_one():
    with pytest.raises(rbp.InputError, match="differ by more than 5%"):
        rbp.fit([3, 2.5, 2], S=[1e6, 1e6 * (1 + 1e-8), 1.04e6])
    # a fourth of three sizes spares one, and none for a bend
    law = rbp.fit([3, 2.9, 2.5, 2], S=[1e6, 1.01e6, 1e7, 1e8])
    assert law.spare == 1 and np.isnan(rbp.fit(law.loss, "quadratic").residual_sd)
    line = rbp.forecast(law.loss, 1e9).laws["line"]
    assert line.S == pytest.approx([np.sqrt(1.01) * 1e6, 1e7, 1e8])


def test_all_trainings_of_a_size_are_the_classical_test_against_pure_error(loss):
    # three trainings of each size, of which the first are the models: a line, a little bent
    y = -0.1 * X + 0.004 * (X - X.mean()) ** 2
    many = replace(planted_loss(np.repeat(y, 3), 0.0, repeated=0), S=np.repeat(np.exp(X), 3))
    law = rbp.fit(replace(many.keep(np.arange(0, 18, 3)), repeats=many), n_bootstrap=200)
    groups = many.y.reshape(6, 3)
    means = groups.mean(axis=1)
    lack = np.sum((means - np.polyval(np.polyfit(X, means, 1), X)) ** 2) / 4
    f = 3 * lack / groups.var(axis=1, ddof=1).mean()
    assert law.p["trainings"] == pytest.approx(stats.f.sf(f, 4, 12), rel=1e-6)
    # what pages say of it; of trainings among which the models are not, nothing is pooled
    assert law.pooled_sd == pytest.approx(np.sqrt(lack), rel=1e-9)
    assert np.isnan(rbp.fit(loss, n_bootstrap=0).pooled_sd)
