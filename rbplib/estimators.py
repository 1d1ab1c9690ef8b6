"""Four ways to put a law through the losses of a family.

The law is log L = log_c - alpha log S; L is -log RBP_k or the cross-entropy. Each way is a small
class whose functions take arrays with the models on the last axis, so that one call fits thousands
of resamples. `law.fit` turns them into a record with intervals.
"""

import numpy as np

from rbplib.bootstrap import BLOCK, pinv
from rbplib.losses import logarithm

EXPONENTS = np.geomspace(0.005, 3.0, 80)  # searched by the law with a floor; its ends are bounds
ZOOMS = 5  # times that the search narrows around its best exponent
STEPS = 30  # of Fisher scoring, at most
TINY = 1e-12  # weight that each share has at least in a step


class Line:
    """Least squares of log L on log S: the paper's estimator."""

    parameters = ("alpha", "log_c")

    def design(self, x, centre):
        """What the parameters of a line are multiplied with at x (n,), float64 (n, P)."""
        return np.column_stack([-x, np.ones_like(x)])

    def solve(self, loss, x):
        """Parameters (..., P) of losses (..., M) at x = log S (M,)."""
        return logarithm(loss) @ pinv(self.design(x, x.mean())).T

    def curve(self, params, x, centre=None):
        """log L at x (n,) of parameters (..., P), float64 (..., n). centre: mean x of the fit."""
        return params @ self.design(x, centre).T

    def jacobian(self, params, x, centre=None):
        """Derivatives of `curve` by the parameters (P,), float64 (n, P)."""
        return self.design(x, centre)

    def weights(self, params, x):
        """How much each model tells, float64 (M,)."""
        return np.ones_like(x)


class Binomial(Line):
    """Maximum likelihood of misses ~ Binomial(n, 1 - exp(-C S^-alpha)), by Fisher scoring.

    A binomial regression with a complementary log-log link. A model without a miss counts here,
    where a logarithm would lose it. NaN where it does not settle.
    """

    def solve(self, loss, x):
        missed = -np.expm1(-np.asarray(loss, float))  # share of misses, (..., M)
        design = self.design(x, None)
        # Start at a straight line through shares moved off 0 and 1.
        params = super().solve(-np.log1p(-np.clip(missed, 1e-7, 1 - 1e-7)), x)
        for _ in range(STEPS):
            # How far the shares are from the present line, and how much each tells.
            hazard = np.exp(np.clip(self.curve(params, x), -40, 3.5))
            weight = hazard**2 / np.expm1(hazard)
            away = (missed + np.expm1(-hazard)) * np.exp(hazard) / hazard
            # A weighted line through that is the step, which is kept short.
            gram = np.einsum("...m,mp,mq->...pq", weight + TINY, design, design)
            aim = (weight * away) @ design
            step = np.linalg.solve(gram, aim[..., None])[..., 0]
            moved = np.abs(step @ design.T).max(axis=-1, keepdims=True)
            params = params + step / np.maximum(moved / 2, 1)
            if np.nanmax(moved, initial=0.0) < 1e-10:
                break
        return np.where(moved < 1e-6, params, np.nan)

    def weights(self, params, x):
        """Fisher information of each share about its log rate."""
        hazard = np.exp(self.curve(params, x))
        return hazard**2 / np.expm1(hazard)


class Floor(Line):
    """L = floor + C S^-alpha by relative least squares, with floor >= 0.

    For one alpha the best floor and C solve two linear equations, so the search runs over alpha
    alone: a grid, then zooms around its best value. Every search ends.
    """

    parameters = ("alpha", "log_c", "floor")

    def solve(self, loss, x):
        inverse = 1 / np.where((loss > 0) & np.isfinite(loss), loss, np.nan)
        # Some rows at a time, since each is held once for every exponent of the grid.
        n_blocks = 1 + inverse.size * len(EXPONENTS) // BLOCK
        blocks = np.array_split(inverse.reshape(-1, len(x)), n_blocks)
        params = np.concatenate([self.search(block, x) for block in blocks])
        return params.reshape(*inverse.shape[:-1], 3)

    def search(self, u, x):
        """Parameters (B, 3) of inverse losses (B, M)."""
        width = np.log(EXPONENTS[1] / EXPONENTS[0])
        grid = EXPONENTS[None]  # of all rows
        for _ in range(1 + ZOOMS):
            floor, scale, misfit = self.floor_and_scale(u, grid, x - x.mean())
            # Take the best of the grid for each row.
            misfit = np.where(np.isnan(misfit), np.inf, misfit)
            best = np.arange(len(u)), np.argmin(misfit, axis=1)
            alpha = np.broadcast_to(grid, misfit.shape)[best]
            # Zoom: a finer grid about it.
            grid = alpha[:, None] * np.exp(np.linspace(-width, width, 17))
            grid = np.clip(grid, EXPONENTS[0], EXPONENTS[-1])
            width = width / 8
        log_c = np.log(scale[best]) + alpha * x.mean()
        params = np.column_stack([alpha, log_c, floor[best]])
        params[np.isnan(u).any(axis=1)] = np.nan
        return params

    def floor_and_scale(self, u, grid, z):
        """Best floor and C for each alpha of a grid (B or 1, G), and the sum of squares: (B, G).

        That sum is of (1 - floor u - C v)^2 over the models, u = 1 / L and v = S^-alpha / L.
        """
        u = u.T[..., None]  # (M, B, 1)
        v = u * np.exp(-grid * z[:, None, None])  # (M, B, G)
        # Sums over the models.
        one_u, one_v, u_u, u_v, v_v = (part.sum(axis=0) for part in (u, v, u * u, v * u, v * v))
        # Two linear equations. A floor lies at 0 or above, C above 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = (v_v * one_u - u_v * one_v) / (u_u * v_v - u_v**2)
        floor = np.where(np.isfinite(floor) & (floor > 0), floor, 0.0)
        scale = np.maximum((one_v - floor * u_v) / v_v, 1e-300)
        # The sum of squares, multiplied out.
        misfit = len(z) - 2 * (floor * one_u + scale * one_v)
        misfit += floor**2 * u_u
        misfit += 2 * floor * scale * u_v
        misfit += scale**2 * v_v
        return floor, scale, misfit

    def curve(self, params, x, centre=None):
        return np.log(params[..., 2:] + np.exp(super().curve(params[..., :2], x)))

    def jacobian(self, params, x, centre=None):
        power = np.exp(super().curve(params[:2], x))
        total = params[2] + power
        share = power / total
        return np.column_stack([-x * share, share, 1 / total])


class Quadratic(Line):
    """Least squares of log L on log S and its square about the middle; alpha is as there."""

    parameters = ("alpha", "log_c", "curvature")

    def design(self, x, centre):
        return np.column_stack([-x, np.ones_like(x), (x - centre) ** 2])


ESTIMATORS = {
    "least_squares": Line(),
    "binomial": Binomial(),
    "irreducible": Floor(),
    "quadratic": Quadratic(),
}
