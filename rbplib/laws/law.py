"""From a curve to a law: exponent, two intervals, R^2, lack of fit, and a status that says how far to trust them.

The law is log(-log RBP_k) = log_c - alpha log S (paper Eq. 5). Its exponent is uncertain in two ways that are kept
apart: which documents were scored (`ci_tokens`, paired document bootstrap) and how the few models scatter around any
straight line (`ci_models`, Student t on the residuals, with the leave-one-model-out range beside it).
"""

from dataclasses import dataclass, field

import numpy as np

from rbplib.laws.bootstrap import MIN_DOCUMENTS, bca_interval, percentile_interval, resampled_sums
from rbplib.laws.estimators import ESTIMATORS, EXPONENTS
from rbplib.settings import InputError, check_choice

FEW_MISSES = 100  # below this a true law with alpha near 0.1 shows R^2 under 0.9 half of the time (page 04_large_k)
NONE = (np.nan, np.nan)


class DoubtfulFit(InputError):
    """A fit was asked for strictly and its status is not ok; the fit itself is in `law`."""

    def __init__(self, law):
        self.law = law
        where = f"{law.family} on {law.corpus}" + (f", k = {law.k}" if law.k else "")
        super().__init__(f"The fit of {where} is doubtful ({'; '.join(law.notes)}): read it with strict=False.")


@dataclass(frozen=True)
class Law:
    """One fitted law. NaN marks what could not be computed; `status` says why, `notes` every reason."""

    family: str
    corpus: str
    protocol: str
    definition: str
    k: int | None  # None for the cross-entropy law
    estimator: str
    alpha: float  # exponent, positive when larger models do better
    log_c: float  # log(-log RBP_k) extrapolated to S = 1
    r2: float  # of log(-log RBP_k), fitted against flat
    ci_tokens: tuple[float, float]  # of alpha: documents resampled, the same for every model
    ci_models: tuple[float, float]  # of alpha: Student t on the scatter of the models around the law
    ci_leave_one_out: tuple[float, float]  # smallest and largest alpha with one model left out
    level: float
    method: str  # of ci_tokens: percentile or bca
    status: str  # ok, or the gravest note
    notes: tuple[str, ...]
    models: tuple[str, ...]  # those the fit used, by size
    left_out: tuple[str, ...]  # measured but without a value to fit, or not measured at all
    S: np.ndarray  # float64 (M,), of `models`
    y: np.ndarray  # float64 (M,), log(-log RBP_k) or log cross-entropy
    fitted: np.ndarray  # float64 (M,)
    n_models: int
    n_documents: int
    scored_tokens: int
    misses: int | None  # tokens ranked above k by the largest model
    residual_sd: float  # of y - fitted, by degrees of freedom
    noise_sd: float  # what the documents alone would make of residual_sd
    excess_sd: float  # scatter of the models beyond that noise
    deviance: float  # binomial, of hits against the fitted RBP_k
    lack_of_fit: float  # residuals against their document-bootstrap covariance
    lack_of_fit_p: float  # small: the models scatter more than the documents explain
    undefined: int  # resamples without a value
    n_bootstrap: int
    seed: int
    parameters: dict = field(default_factory=dict)  # name -> value, all of the estimator's
    token_intervals: dict = field(default_factory=dict)  # name -> (low, high)
    model_intervals: dict = field(default_factory=dict)
    token_band: np.ndarray | None = None  # float64 (2, M), interval of y for each model

    @property
    def ok(self):
        return self.status == "ok"

    def log_loss(self, S):
        """Fitted log(-log RBP_k), or log cross-entropy, at sizes S: float64, shape of S."""
        x, centre = np.log(np.asarray(S, dtype=np.float64)), np.log(self.S).mean()
        params = np.array([self.parameters[name] for name in ESTIMATORS[self.estimator].parameters])
        return ESTIMATORS[self.estimator].curve(params, np.atleast_1d(x), centre).reshape(x.shape)

    def rbp(self, S):
        """Fitted RBP_k at sizes S."""
        return np.exp(-np.exp(self.log_loss(S)))


@dataclass(frozen=True)
class Resamples:
    """Losses of every model on resampled documents, made once for all k of a curve."""

    loss: np.ndarray  # float64 (B, M, K + 1): -log RBP_k per k, then the cross-entropy
    totals: np.ndarray  # float64 (B,), scored tokens
    seed: int


def resampled_losses(curve, n_bootstrap=10_000, seed=42, ks=None):
    """Losses over resampled documents, or None where the documents are too few to resample.

    Args:
        curve: Curve.
        n_bootstrap: B; 0 for none.
        seed: int.
        ks: values of k to carry, all of the curve's when not given.
    """
    used = curve.totals > 0
    if n_bootstrap < 1 or used.sum() < MIN_DOCUMENTS:
        return None
    hits = curve.hits if ks is None else curve.hits[:, :, [curve.index(k) for k in ks]]
    shape = (n_bootstrap, hits.shape[1], hits.shape[2])
    counts = np.column_stack([curve.totals, hits.reshape(len(hits), -1)])[used]
    sums = resampled_sums(counts, n_bootstrap, seed)
    totals = sums[:, 0]
    cross_entropy = resampled_sums(curve.nll[used], n_bootstrap, seed) / totals[:, None]
    loss = np.concatenate([_rbp_loss(sums[:, 1:].reshape(shape), totals), cross_entropy[:, :, None]], axis=2)
    return Resamples(loss, totals, seed)


def fit_law(curve, k=1, estimator="least_squares", n_bootstrap=10_000, seed=42, level=0.95, method="percentile",
            strict=False, resamples=None):  # fmt: skip
    """Fit one law to one k of a curve.

    Args:
        curve: Curve of one family on one corpus.
        k: threshold, one of the curve's; not used by the cross-entropy law.
        estimator: "least_squares" (the paper's), "binomial" (maximum likelihood, complementary log-log link),
            "irreducible" (a floor under the loss), "quadratic" (in log S) or "cross_entropy".
        n_bootstrap: document resamples; 0 for none.
        seed: int.
        level: of both intervals.
        method: of the token interval, "percentile" or "bca".
        strict: raise DoubtfulFit instead of handing back a fit whose status is not ok.
        resamples: from `resampled_losses` with the curve's own ks, so that many fits share them.
    Returns:
        Law.
    Raises:
        InputError: fewer than three sizes, a model twice, a k not counted, an unknown estimator.
    Cost: one matrix product (B, D) by (D, M) when resamples are not given.
    """
    check_choice(estimator, tuple(ESTIMATORS), "estimator")
    check_choice(method, ("percentile", "bca"), "interval")
    _check_models(curve)
    law = _Fit(curve, None if estimator == "cross_entropy" else int(k), estimator, n_bootstrap, seed, level, method,
               resamples).law()  # fmt: skip
    if strict and not law.ok:
        raise DoubtfulFit(law)
    return law


def fit_laws(curve, ks=None, estimators=("least_squares",), n_bootstrap=10_000, seed=42, resamples=None, **options):
    """`fit_law` for several k and estimators of one curve over the same resamples: list of Law, k by k.

    A k above this family's vocabulary is left out by the caller's choice of the curve's ks.
    """
    ks = [int(k) for k in (curve.ks if ks is None else ks)]
    resamples = resamples or resampled_losses(curve, n_bootstrap, seed)
    return [
        fit_law(curve, k, name, n_bootstrap, seed, resamples=resamples, **options) for k in ks for name in estimators
    ]


def _check_models(curve):
    if len(curve.models) < 3 or len(np.unique(curve.S)) < 3:
        raise InputError(
            f"{curve.family} has {len(np.unique(curve.S))} model size(s) on {curve.corpus}: a fit needs three."
        )
    if len(set(curve.models)) < len(curve.models):
        twice = next(m for m in curve.models if curve.models.count(m) > 1)
        raise InputError(f"{curve.family} holds the model {twice!r} twice on {curve.corpus}: name it once.")


def _rbp_loss(hits, totals):
    """-log(hits / totals): 0 and infinity where the ratio is 1 and 0. hits (..., M, K), totals (...,)."""
    with np.errstate(divide="ignore"):
        return -np.log(hits / np.asarray(totals, dtype=np.float64)[..., None, None])


class _Fit:
    """The working state of one fit; `law()` turns it into the record."""

    def __init__(self, curve, k, estimator, n_bootstrap, seed, level, method, resamples):
        self.curve, self.k, self.estimator = curve, k, ESTIMATORS[estimator]
        self.n_bootstrap, self.seed, self.level, self.method = n_bootstrap, seed, level, method
        self.column = -1 if k is None else curve.index(k)
        self.total = float(curve.totals.sum())
        every = curve.cross_entropy if k is None else _rbp_loss(curve.hits[:, :, self.column].sum(0)[:, None],
                                                                self.total)[:, 0]  # fmt: skip
        with np.errstate(divide="ignore"):
            self.defined = np.isfinite(np.log(every))
        # Maximum likelihood can use a model without a single miss (or hit); a straight line through logs cannot.
        self.used = np.ones_like(self.defined) if estimator == "binomial" else self.defined
        self.loss, self.x = every[self.used], np.log(curve.S[self.used])
        self.documents = int((curve.totals > 0).sum())
        self.resamples = resamples
        if resamples is None:
            self.resamples = resampled_losses(curve, n_bootstrap, seed, ks=[] if k is None else [k])
            self.column = -1 if k is None else 0

    def law(self):
        curve, names = self.curve, self.estimator.parameters
        enough = len(np.unique(self.x)) >= max(3, len(names))
        self.params = self._solve(self.loss, self.total) if enough else np.full(len(names), np.nan)
        fitted = self.estimator.curve(self.params, self.x, self.x.mean() if len(self.x) else 0.0)
        self.y = np.where(self.defined[self.used], np.log(np.where(self.defined[self.used], self.loss, 1)), np.nan)
        self.residuals = self.y - fitted
        draws = self._draws() if enough else None
        token_intervals = self._token_intervals(draws)
        scatter = self._scatter()
        fit_q, fit_p, noise_sd, excess_sd, band = self._noise(draws, scatter["residual_sd"])
        undefined = 0 if draws is None else int(np.isnan(draws[0][:, 0]).sum())
        notes = self._notes(enough, undefined, token_intervals)
        missing = tuple(getattr(curve, "missing", ()))
        kept = tuple(m for m, use in zip(curve.models, self.used, strict=True) if use)
        return Law(
            curve.family, curve.corpus, curve.protocol, curve.definition, self.k, self.estimator.name,
            alpha=float(self.params[0]), log_c=float(self.params[1]), r2=self._r2(),
            ci_tokens=token_intervals["alpha"], ci_models=scatter["intervals"]["alpha"],
            ci_leave_one_out=self._leave_one_out() if enough else NONE, level=self.level, method=self.method,
            status=notes[0] if notes else "ok", notes=notes, models=kept,
            left_out=tuple(m for m in curve.models if m not in kept) + missing,
            S=np.exp(self.x), y=self.y, fitted=fitted, n_models=len(kept), n_documents=self.documents,
            scored_tokens=int(self.total), misses=self._misses(), residual_sd=scatter["residual_sd"],
            noise_sd=noise_sd, excess_sd=excess_sd, deviance=self._deviance(fitted), lack_of_fit=fit_q,
            lack_of_fit_p=fit_p, undefined=undefined,
            n_bootstrap=self.n_bootstrap if self.resamples is not None else 0, seed=self.seed,
            parameters={n: float(v) for n, v in zip(names, self.params, strict=True)},
            token_intervals=token_intervals, model_intervals=scatter["intervals"], token_band=band,
        )  # fmt: skip

    def _solve(self, loss, total, models=slice(None)):
        return self.estimator.solve(loss[..., models], self.x[models], total)

    def _draws(self):
        """(parameters (B, P), losses (B, M)) over resampled documents, or None."""
        if self.resamples is None:
            return None
        losses = self.resamples.loss[:, self.used, self.column]
        return self._solve(losses, self.resamples.totals), losses

    def _token_intervals(self, draws):
        names = self.estimator.parameters
        if draws is None:
            return dict.fromkeys(names, NONE)
        if self.method == "bca":
            ends = bca_interval(draws[0], self.params, self._jackknife(), self.level)
        else:
            ends = percentile_interval(draws[0], self.level)
        return {name: (float(low), float(high)) for name, low, high in zip(names, *ends, strict=True)}

    def _jackknife(self):
        """Parameters with one document left out: (D, P)."""
        curve, rows = self.curve, self.curve.totals > 0
        totals = (curve.totals.sum() - curve.totals)[rows]
        if self.k is None:
            loss = (curve.nll.sum(0) - curve.nll)[rows] / totals[:, None]
        else:
            hits = curve.hits[:, :, [curve.index(self.k)]]
            loss = _rbp_loss((hits.sum(0) - hits)[rows], totals)[:, :, 0]
        return self._solve(loss[:, self.used], totals)

    def _scatter(self):
        """Scatter of the models around the law, and the t intervals that follow from it."""
        from scipy.special import stdtrit

        names, spare = self.estimator.parameters, np.isfinite(self.residuals).sum() - len(self.params)
        nothing = {"residual_sd": np.nan, "intervals": dict.fromkeys(names, NONE)}
        if spare < 1 or not np.isfinite(self.params).all():
            return nothing
        points = np.isfinite(self.residuals)
        weights = self._weights()[points]
        jacobian = self.estimator.jacobian(self.params, self.x[points], self.x.mean())
        gram = jacobian.T @ (weights[:, None] * jacobian)
        if np.linalg.matrix_rank(gram) < len(names):
            return nothing
        squares = weights * self.residuals[points] ** 2
        half = stdtrit(spare, (1 + self.level) / 2) * np.sqrt(np.diag(np.linalg.inv(gram)) * squares.sum() / spare)
        ends = {n: (float(p - h), float(p + h)) for n, p, h in zip(names, self.params, half, strict=True)}
        return {"residual_sd": float(np.sqrt((self.residuals[points] ** 2).sum() / spare)), "intervals": ends}

    def _weights(self):
        """Equal for least squares; the information of each binomial count for maximum likelihood."""
        if self.estimator.name != "binomial":
            return np.ones(len(self.x))
        rate = np.exp(self.estimator.curve(self.params, self.x, self.x.mean()))
        return self.total * rate**2 * np.exp(-rate) / -np.expm1(-rate)

    def _noise(self, draws, residual_sd):
        """Lack of fit against the document bootstrap: (Q, p, noise_sd, excess_sd, band of y)."""
        from scipy.special import fdtrc

        nothing = (np.nan, np.nan, np.nan, np.nan, None)
        if draws is None:
            return nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(draws[1])
        points = np.isfinite(self.residuals)
        spare = int(points.sum()) - len(self.params)
        logs = np.where(np.isfinite(logs), logs, np.nan)
        band = percentile_interval(logs, self.level)
        whole = logs[np.isfinite(logs).all(axis=1)][:, points]
        if spare < 1 or len(whole) < 0.5 * len(logs) or not np.isfinite(self.params).all():
            return (*nothing[:4], band)
        covariance = np.cov(whole, rowvar=False)
        jacobian = self.estimator.jacobian(self.params, self.x[points], self.x.mean())
        residuals, inverse = self.residuals[points], np.linalg.pinv(covariance, hermitian=True)
        shift = np.linalg.lstsq(jacobian.T @ inverse @ jacobian, jacobian.T @ inverse @ residuals, rcond=None)[0]
        rest = residuals - jacobian @ shift
        q, d = float(rest @ inverse @ rest), self.documents
        p = float(fdtrc(spare, d - spare, q * (d - spare) / (spare * (d - 1)))) if d > spare else np.nan
        projector = np.eye(len(residuals)) - jacobian @ np.linalg.pinv(jacobian)
        noise = max(float(np.trace(projector @ covariance)) / spare, 0.0)
        return q, p, float(np.sqrt(noise)), float(np.sqrt(max(residual_sd**2 - noise, 0.0))), band

    def _leave_one_out(self):
        """Range of alpha over the fits without one model; NaN where those have no spare model."""
        if len(self.x) <= len(self.params):
            return NONE
        rows = [np.delete(np.arange(len(self.x)), i) for i in range(len(self.x))]
        alphas = [self._solve(self.loss, self.total, r)[0] for r in rows if len(np.unique(self.x[r])) > 1]
        return (float(np.min(alphas)), float(np.max(alphas))) if alphas else NONE

    def _r2(self):
        scatter = np.nansum((self.y - np.nanmean(self.y)) ** 2) if np.isfinite(self.y).any() else 0.0
        return float(1 - np.nansum(self.residuals**2) / scatter) if scatter > 1e-20 else np.nan

    def _misses(self):
        return None if self.k is None else int(self.total - self.curve.hits[:, -1, self.curve.index(self.k)].sum())

    def _deviance(self, fitted):
        """Twice the log-likelihood lost against the observed shares, misses ~ Binomial(total, 1 - RBP_k)."""
        if self.k is None or not np.isfinite(self.params).all():
            return np.nan
        from scipy.special import xlogy

        observed, expected = -np.expm1(-self.loss), -np.expm1(-np.exp(fitted))
        terms = xlogy(observed, observed / expected) + xlogy(1 - observed, (1 - observed) / (1 - expected))
        return float(2 * self.total * terms.sum())

    def _notes(self, enough, undefined, token_intervals):
        """Reasons for doubt, gravest first."""
        misses = self.curve.misses[:, self.curve.index(self.k)] if self.k else None
        settled = np.isfinite(self.params).all()
        at_bound = self.estimator.name == "irreducible" and settled and (
            self.params[2] <= 0 or not EXPONENTS[0] < self.params[0] < EXPONENTS[-1])  # fmt: skip
        doubts = {
            "too few models": not enough,
            "not converged": enough and not settled,
            "saturated": self.k is not None and (misses == 0).any(),
            "no hits": self.k is not None and (misses == self.total).any(),
            "few misses": self.k is not None and 0 < misses.min() < FEW_MISSES,
            "few hits": self.k is not None and 0 < self.total - misses.max() < FEW_MISSES,
            "wrong sign": settled and self.params[0] < 0,
            "at a bound": at_bound,
            "too few documents": self.documents < MIN_DOCUMENTS,
            "no token interval": undefined > 0 and not np.isfinite(token_intervals["alpha"]).all(),
        }
        return tuple(name for name, holds in doubts.items() if holds)


def exponent_difference(curve, low, high, n_bootstrap=10_000, seed=42, level=0.95, resamples=None):
    """alpha at k = high less alpha at k = low, by least squares, with a token interval of the difference itself.

    Both exponents come from the same resampled documents, so what they share cancels.

    Args:
        curve: Curve that counts both k. low, high: values of k, or None for the cross-entropy.
        resamples: from `resampled_losses` with the curve's own ks.
    Returns:
        (difference, (low end, high end)); NaN ends where the documents are too few to resample.
    Raises:
        InputError: fewer than three sizes, or a k not counted.
    """
    _check_models(curve)
    columns = [-1 if k is None else curve.index(k) for k in (low, high)]  # the cross-entropy stands last
    resamples = resamples or resampled_losses(curve, n_bootstrap, seed)
    rbp_loss = _rbp_loss(curve.hits.sum(0), curve.totals.sum())  # (M, K)
    losses = np.column_stack([rbp_loss, curve.cross_entropy])[:, columns].T  # (2, M)
    solve, x = ESTIMATORS["least_squares"].solve, np.log(curve.S)
    alphas = solve(losses, x)[:, 0]
    if resamples is None:
        return float(alphas[1] - alphas[0]), NONE
    draws = solve(np.moveaxis(resamples.loss[:, :, columns], 1, -1), x)[..., 0]  # (B, 2)
    ends = percentile_interval((draws[:, 1] - draws[:, 0])[:, None], level)
    return float(alphas[1] - alphas[0]), (float(ends[0][0]), float(ends[1][0]))
