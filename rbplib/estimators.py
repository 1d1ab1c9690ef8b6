"""Four ways to put a law through the losses of a family.

The law is log L = log_c - alpha log S; L is -log RBP_k or the cross-entropy. Each way is a small
class whose functions take arrays with the models on the last axis, so that one call fits thousands
of resamples. `law.fit` turns them into a record with intervals.
"""

import numpy as np

from rbplib.bootstrap import BLOCK, line
from rbplib.losses import logarithm

EXPONENTS = np.geomspace(0.005, 3.0, 80)  # searched by the law with a floor; its ends are bounds
ZOOMS = 5  # times that the search narrows around its best exponent
STEPS = 30  # of Fisher scoring, at most


class Line:
    """Least squares of log L on log S: the paper's estimator."""

    parameters = ("alpha", "log_c")

    def solve(self, loss, x, total=None):
        """Parameters (..., P) of losses (..., M) at x = log S (M,), out of total (...) tokens."""
        slope, intercept, _ = line(logarithm(loss), x)
        return np.stack([-slope, intercept], axis=-1)

    def curve(self, params, x, centre=None):
        """log L at x (n,) of parameters (..., P), float64 (..., n). centre: mean x of the fit."""
        return params[..., 1:2] - params[..., :1] * x

    def jacobian(self, params, x, centre=None):
        """Derivatives of `curve` by the parameters (P,), float64 (n, P)."""
        return np.column_stack([-x, np.ones_like(x)])

    def weights(self, params, x, total):
        """How much each model tells, float64 (M,)."""
        return np.ones_like(x)


class Binomial(Line):
    """Maximum likelihood of misses ~ Binomial(total, 1 - exp(-C S^-alpha)), by Fisher scoring.

    A binomial regression with a complementary log-log link. A model without a miss counts here,
    where a logarithm would lose it. NaN where it does not settle.
    """

    def solve(self, loss, x, total):
        missed = -np.expm1(-np.asarray(loss, float))  # share of misses, (..., M)
        total = np.asarray(total, float)[..., None]
        # Start at a straight line through shares moved off 0 and 1.
        inside = np.clip(missed, 0.5 / total, 1 - 0.5 / total)
        start = super().solve(-np.log1p(-inside), x)
        z = x - x.mean()
        slope = -start[..., :1]
        level = start[..., 1:] + slope * x.mean()
        for _ in range(STEPS):
            # Expected shares at the present line, and how fast they change with it.
            eta = np.clip(level + slope * z, -40, 3.5)
            hazard = np.exp(eta)
            expected = -np.expm1(-hazard)
            rate = np.exp(eta - hazard)
            # Fisher's weights of the models, and their scores.
            variance = np.maximum(expected * (1 - expected), 1e-300)
            weight = total * rate**2 / variance
            score = weight * (missed - expected) / np.maximum(rate, 1e-300)
            # Two linear equations give the step, which is kept short.
            w0 = over_models(weight)
            w1 = over_models(weight * z)
            w2 = over_models(weight * z**2)
            g0 = over_models(score)
            g1 = over_models(score * z)
            determinant = w0 * w2 - w1**2
            turn = np.clip((w0 * g1 - w1 * g0) / determinant, -1, 1)
            rise = np.clip((w2 * g0 - w1 * g1) / determinant, -2, 2)
            slope = slope + turn
            level = level + rise
            moved = np.maximum(np.abs(turn), np.abs(rise))[..., 0]
            if np.nanmax(moved, initial=0.0) < 1e-10:
                break
        params = np.concatenate([-slope, level - slope * x.mean()], axis=-1)
        params[~(moved < 1e-6)] = np.nan
        return params

    def weights(self, params, x, total):
        """Fisher information of each count about its log rate."""
        rate = np.exp(self.curve(params, x))
        missed = -np.expm1(-rate)
        return total * rate**2 * np.exp(-rate) / missed


class Floor(Line):
    """L = floor + C S^-alpha by relative least squares, with floor >= 0.

    For one alpha the best floor and C solve two linear equations, so the search runs over alpha
    alone: a grid, then zooms around its best value. Every search ends.
    """

    parameters = ("alpha", "log_c", "floor")

    def solve(self, loss, x, total=None):
        known = (loss > 0) & np.isfinite(loss)
        inverse = 1 / np.where(known, loss, np.nan)
        # Some rows at a time, since each is held once for every exponent of the grid.
        rows = inverse.reshape(-1, len(x))
        blocks = np.array_split(rows, 1 + rows.size * len(EXPONENTS) // BLOCK)
        params = [self.search(block, x) for block in blocks]
        return np.concatenate(params).reshape(*inverse.shape[:-1], 3)

    def search(self, u, x):
        """Parameters (B, 3) of inverse losses (B, M)."""
        z = x - x.mean()
        width = np.log(EXPONENTS[1] / EXPONENTS[0])
        grid = EXPONENTS[None]  # (1 or B, G): the first grid is the same for all
        for _ in range(1 + ZOOMS):
            floor, scale, misfit = self.floor_and_scale(u, grid, z)
            # Take the best of the grid for each row.
            grid = np.broadcast_to(grid, misfit.shape)
            misfit = np.where(np.isnan(misfit), np.inf, misfit)
            best = np.argmin(misfit, axis=1)[:, None]
            alpha = np.take_along_axis(grid, best, axis=1)
            floor = np.take_along_axis(floor, best, axis=1)
            scale = np.take_along_axis(scale, best, axis=1)
            # Zoom: a finer grid about it.
            grid = alpha * np.exp(np.linspace(-width, width, 17))
            grid = np.clip(grid, EXPONENTS[0], EXPONENTS[-1])
            width = width / 8
        log_c = np.log(scale) + alpha * x.mean()
        params = np.concatenate([alpha, log_c, floor], axis=1)
        unknown = np.isnan(u).any(axis=1, keepdims=True)
        return np.where(unknown, np.nan, params)

    def floor_and_scale(self, u, grid, z):
        """Best floor and C for each alpha of a grid, and the sum of squares: float64 (B, G).

        That sum is of (1 - floor u - C v)^2 over the models, u = 1 / L and v = S^-alpha / L.
        """
        power = np.exp(-grid[..., None] * z)
        v = u[:, None] * power  # (B, G, M)
        # Sums over the models.
        u_v = (v * u[:, None]).sum(axis=2)
        v_v = (v * v).sum(axis=2)
        one_v = v.sum(axis=2)
        u_u = (u * u).sum(axis=1)[:, None]
        one_u = u.sum(axis=1)[:, None]
        # Two linear equations. A floor lies at 0 or above, C above 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = (v_v * one_u - u_v * one_v) / (u_u * v_v - u_v**2)
        floor = np.where(np.isfinite(floor), np.maximum(floor, 0.0), 0.0)
        scale = np.maximum((one_v - floor * u_v) / v_v, 1e-300)
        # The sum of squares, multiplied out.
        linear = floor * one_u + scale * one_v
        both = 2 * floor * scale * u_v
        misfit = u.shape[1] - 2 * linear + floor**2 * u_u + both + scale**2 * v_v
        return floor, scale, misfit

    def curve(self, params, x, centre=None):
        power = np.exp(super().curve(params, x))
        return np.log(params[..., 2:3] + power)

    def jacobian(self, params, x, centre=None):
        power = np.exp(super().curve(params, x))
        total = np.exp(self.curve(params, x))
        share = power / total
        return np.column_stack([-x * share, share, 1 / total])


class Quadratic(Line):
    """Least squares of log L on log S and its square about the middle; alpha is as there."""

    parameters = ("alpha", "log_c", "curvature")

    def solve(self, loss, x, total=None):
        design = self.jacobian(None, x, x.mean())
        return logarithm(loss) @ np.linalg.pinv(design).T

    def curve(self, params, x, centre):
        return params @ self.jacobian(None, x, centre).T

    def jacobian(self, params, x, centre):
        return np.column_stack([-x, np.ones_like(x), (x - centre) ** 2])


ESTIMATORS = {
    "least_squares": Line(),
    "binomial": Binomial(),
    "irreducible": Floor(),
    "quadratic": Quadratic(),
}


def over_models(values):
    """Sums over the last axis, which stays with length 1."""
    return values.sum(axis=-1, keepdims=True)
