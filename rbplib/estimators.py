"""Four ways to put a law through the losses of a family, each for one set of losses or thousands of resamples at once.

The loss L is -log RBP_k or the cross-entropy, the law is log L = log_c - alpha log S, and each estimator is four
functions on arrays whose last axis is the models: `solve` (parameters from losses), `curve` (log L from parameters),
`jacobian` (of that curve) and `weights` (of the models). NumPy only; `law.py` turns them into records with intervals.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rbplib.bootstrap import CELLS_PER_CHUNK, line
from rbplib.losses import logarithm

EXPONENTS = np.geomspace(0.005, 3.0, 80)  # searched by the law with a floor; an end of this range is a bound
IRLS_STEPS = 30


@dataclass(frozen=True)
class Estimator:
    name: str
    parameters: tuple[str, ...]  # the first two are always alpha and log_c
    solve: Callable  # (loss (..., M), x (M,), total (...,)) -> (..., P)
    curve: Callable  # (params (..., P), x (M,), centre) -> (..., M)
    jacobian: Callable  # (params (P,), x (M,), centre) -> (M, P)
    weights: Callable = lambda params, x, total: np.ones(len(x))  # -> (M,); every model weighs alike


def _solve_line(loss, x, total=None):
    """Least squares of log L on log S; NaN where a loss is 0 or infinite."""
    slope, level, _ = line(logarithm(loss), x)
    return np.stack([-slope, level], axis=-1)


def _curve_line(params, x, centre=None):
    return params[..., 1:2] - params[..., 0:1] * x


def _jacobian_line(params, x, centre=None):
    return np.column_stack([-x, np.ones_like(x)])


def _solve_quadratic(loss, x, total=None):
    """Least squares of log L on log S and its square about the mean log S, so alpha is the exponent there."""
    return logarithm(loss) @ np.linalg.pinv(_jacobian_quadratic(None, x, x.mean())).T


def _jacobian_quadratic(params, x, centre):
    return np.column_stack([_jacobian_line(params, x), (x - centre) ** 2])


def _solve_floor(loss, x, total=None):
    """L = floor + C S^-alpha by relative least squares, floor >= 0.

    For one alpha the best floor and C are a closed form (two unknowns, linear), so the search runs over alpha alone:
    a grid, then zooms around its best value. Resamples are searched many at once; every search ends.
    """
    with np.errstate(divide="ignore"):
        u = np.where((loss > 0) & np.isfinite(loss), 1 / loss, np.nan)  # (..., M)
    chunks = np.array_split(u.reshape(-1, len(x)), 1 + u.size * len(EXPONENTS) // CELLS_PER_CHUNK)
    return np.concatenate([_search_floor(chunk, x) for chunk in chunks]).reshape(*u.shape[:-1], 3)


def _search_floor(u, x):
    """`_solve_floor` of inverse losses, float64 (B, M): parameters, float64 (B, 3)."""
    z, width = x - x.mean(), np.log(EXPONENTS[1] / EXPONENTS[0])
    grid = np.broadcast_to(EXPONENTS, (len(u), len(EXPONENTS)))  # (B, G)
    for _ in range(6):
        floor, scale, misfit = _floor_and_scale(u, grid, z)
        best = np.argmin(np.where(np.isnan(misfit), np.inf, misfit), axis=1)[:, None]
        alpha, floor, scale = (np.take_along_axis(a, best, axis=1) for a in (grid, floor, scale))
        zoom = alpha * np.exp(np.linspace(-width, width, 17))
        grid, width = np.clip(zoom, EXPONENTS[0], EXPONENTS[-1]), width / 8
    found = np.concatenate([alpha, np.log(scale) + alpha * x.mean(), floor], axis=1)
    return np.where(np.isnan(u).any(axis=1)[:, None], np.nan, found)


def _floor_and_scale(u, grid, z):
    """Best floor >= 0 and C > 0 for each alpha of a grid, and the sum of squared relative residuals: all (B, G)."""
    power = np.exp(-grid[:1, :, None] * z) if np.ptp(grid, axis=0).max() == 0 else np.exp(-grid[:, :, None] * z)
    uu, one_u = (u * u).sum(axis=1)[:, None], u.sum(axis=1)[:, None]  # (B, 1)
    v = u[:, None, :] * power  # (B, G, M)
    uv, vv, one_v = (v * u[:, None, :]).sum(axis=2), (v * v).sum(axis=2), v.sum(axis=2)
    determinant = uu * vv - uv**2
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = (vv * one_u - uv * one_v) / determinant
    floor = np.where(np.isfinite(floor), np.maximum(floor, 0.0), 0.0)
    scale = np.maximum((one_v - floor * uv) / vv, 1e-300)
    misfit = u.shape[1] - 2 * (floor * one_u + scale * one_v) + floor**2 * uu + 2 * floor * scale * uv + scale**2 * vv
    return floor, scale, misfit


def _curve_floor(params, x, centre=None):
    return np.log(params[..., 2:3] + np.exp(_curve_line(params, x)))


def _jacobian_floor(params, x, centre=None):
    total = np.exp(_curve_floor(params, x))
    share = np.exp(_curve_line(params, x)) / total
    return np.column_stack([-x * share, share, 1 / total])


def _solve_binomial(loss, x, total):
    """Maximum likelihood of misses ~ Binomial(total, 1 - exp(-C S^-alpha)): a complementary log-log link.

    Fisher scoring. A model without a miss counts here, where a logarithm would lose it. NaN where it does not settle.
    """
    observed = -np.expm1(-np.asarray(loss, dtype=np.float64))  # share of misses, (..., M)
    total = np.asarray(total, dtype=np.float64)[..., None]
    safe = np.clip(observed, 0.5 / total, 1 - 0.5 / total)
    start = _solve_line(-np.log1p(-safe), x)
    z = x - x.mean()
    slope, level = -start[..., 0:1], start[..., 1:2] - start[..., 0:1] * x.mean()
    for _ in range(IRLS_STEPS):
        eta = np.clip(level + slope * z, -40, 3.5)
        expected = -np.expm1(-np.exp(eta))
        rate = np.exp(eta - np.exp(eta))  # d expected / d eta
        weight = total * rate**2 / np.maximum(expected * (1 - expected), 1e-300)
        step = weight * (observed - expected) / np.maximum(rate, 1e-300)
        w0, w1, w2 = (np.sum(weight * z**p, axis=-1, keepdims=True) for p in (0, 1, 2))
        g0, g1 = step.sum(axis=-1, keepdims=True), (step * z).sum(axis=-1, keepdims=True)
        determinant = w0 * w2 - w1**2
        change = np.clip((w0 * g1 - w1 * g0) / determinant, -1, 1)
        rise = np.clip((w2 * g0 - w1 * g1) / determinant, -2, 2)
        slope, level = slope + change, level + rise
        moved = np.maximum(np.abs(change), np.abs(rise))[..., 0]
        if np.nanmax(moved, initial=0.0) < 1e-10:
            break
    params = np.concatenate([-slope, level - slope * x.mean()], axis=-1)
    params[~(moved < 1e-6)] = np.nan
    return params


def _information(params, x, total):
    """Of each binomial count about its log rate."""
    rate = np.exp(_curve_line(params, x))
    return total * rate**2 * np.exp(-rate) / -np.expm1(-rate)


_LINE = {"parameters": ("alpha", "log_c"), "curve": _curve_line, "jacobian": _jacobian_line}
_FLOOR = {"parameters": ("alpha", "log_c", "floor"), "curve": _curve_floor, "jacobian": _jacobian_floor}
_BEND = {"parameters": ("alpha", "log_c", "curvature"), "jacobian": _jacobian_quadratic}
_BEND["curve"] = lambda params, x, centre: params @ _jacobian_quadratic(params, x, centre).T
ESTIMATORS = {
    "least_squares": Estimator(name="least_squares", solve=_solve_line, **_LINE),
    "binomial": Estimator(name="binomial", solve=_solve_binomial, weights=_information, **_LINE),
    "irreducible": Estimator(name="irreducible", solve=_solve_floor, **_FLOOR),
    "quadratic": Estimator(name="quadratic", solve=_solve_quadratic, **_BEND),
}
