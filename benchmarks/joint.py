"""Forecasts in size and tokens: do 95% intervals hold planted laws, and published points?

    python -m benchmarks joint [--rounds 200] [--only "6 curves"]

A round plants a law with noise on a design of sizes and tokens and forecasts a new model at 1, 10
and 100 times the most compute. Beside the interval's width stands that of who knows the form: least
squares of the true one, with Student's t.
"""

import json
import time
from functools import partial
from itertools import product

import numpy as np
from scipy.optimize import approx_fprime

from benchmarks import common
from rbplib import Loss, joint_fit, table_losses
from rbplib.families import held
from rbplib.joint import FLOOR, SUM, fit_form
from rbplib.noise import training_quantile

LAWS = {  # A, a, B, b, E
    "Chinchilla's": (406.4, 0.34, 410.7, 0.28, 1.69),
    "a low floor": (30.0, 0.2, 60.0, 0.2, 0.5),
    "no floor": (30.0, 0.13, 60.0, 0.17, 0.0),
    "no floor, steep in tokens": (12.0, 0.1, 300.0, 0.31, 0.0),
}
ROUNDS = 200  # of which a row is on record
FURTHER = (1, 10, 100)  # times the most compute
HELD_OUT = {"chinchilla": 0.91, "llama-3": 0.915}  # share of compute from which points are left out


def grid(least, most, tokens, side):
    """Sizes and tokens of every size on every amount, (n,) each."""
    sizes = np.geomspace(least, most, side)
    return np.array([*np.broadcast(*np.meshgrid(sizes, tokens))]).T


def curves():
    """Sizes and tokens of six curves, each at one compute."""
    compute, each = np.meshgrid(np.geomspace(6e18, 6e20, 6), np.geomspace(4, 100, 7))
    S = np.sqrt(compute / each / 6).ravel()
    return S, S * each.ravel()


DESIGNS = {  # sizes and tokens, and noise in logs
    "4 x 3": (grid(1e6, 64e6, [1e8, 4e8, 16e8], 4), 0.01),
    "6 x 5": (grid(1e7, 3e9, np.geomspace(1e9, 64e9, 5), 6), 0.005),
    "6 curves of 7": (curves(), 0.003),
}


def loss_at(law, S, D):
    A, a, B, b, E = law
    return E + A * S**-a + B * D**-b


def points(S, D, loss):
    return Loss(loss[None], np.ones(1), S, hits=False, D=D)


def planted(law, design, seed):
    """(Loss of a planted law, sizes and tokens beyond, log of the loss of a new model there)."""
    (S, D), noise = design
    rng = np.random.default_rng(seed)
    best = np.median(D / S)
    size = np.sqrt(np.max(S * D) * np.array(FURTHER) / best)
    loss = loss_at(law, S, D) * np.exp(noise * rng.standard_normal(len(S)))
    new = np.log(loss_at(law, size, size * best)) + noise * rng.standard_normal(len(size))
    return points(S, D, loss), size, size * best, new


def own_width(law, loss, size, tokens):
    """Width of the interval by who knows the form (H,)."""
    form = FLOOR if law[-1] else SUM
    fitted = fit_form(loss.S, loss.D, loss.values, form)

    def slopes(S, D):
        design = form.design(S, D, fitted.centre)
        return approx_fprime(fitted.values, partial(form.log_loss, design=design), 1e-6)

    miss = np.log(fitted.predict(loss.S, loss.D)) - loss.y
    spare = len(miss) - len(fitted.values)
    ahead = slopes(size, tokens) @ np.linalg.pinv(slopes(loss.S, loss.D))
    sd = np.sqrt(miss @ miss / spare * (1 + np.sum(ahead**2, axis=1)))
    return 2 * training_quantile(spare) * sd


def held_share(design, law, count):
    """A row of the table: share inside, and width over its own, at each of FURTHER."""
    inside, wider, start = [], [], time.process_time()
    for seed in range(count):
        loss, size, tokens, new = planted(LAWS[law], DESIGNS[design], seed)
        low, high = joint_fit(loss).forecast(size, tokens).y_interval
        inside.append((low < new) & (new < high))
        wider.append((high - low) / own_width(LAWS[law], loss, size, tokens))
    cells = [f"{share:.1%}" for share in np.mean(inside, axis=0)]
    cells += [f"{ratio:.2f}" for ratio in np.median(wider, axis=0)]
    return [str(count), *cells, f"{(time.process_time() - start) / count:.2f}"]


def published():
    """Rows of published points of most compute, forecast from the rest."""
    for loss in table_losses(held("published", "size_and_tokens.csv")):
        compute = loss.S * loss.D
        out = compute >= np.quantile(compute, HELD_OUT[loss.family])
        fitted = joint_fit(loss.keep(np.flatnonzero(~out)))
        low, high = fitted.forecast(loss.S[out], loss.D[out]).interval
        inside = (low < loss.values[out]) & (loss.values[out] < high)
        width = np.median(np.log(high / low))
        yield [loss.family, f"{inside.sum()} of {len(inside)}", f"{width:.1%}"]


def run(options):
    # rows that are not counted now are those on record; few rounds replace none
    count = 2 if options.quick else options.rounds
    rows = json.loads((common.HERE / "results/joint.json").read_text())["rows"]
    for design, law in product(DESIGNS, LAWS):
        if options.only in (name := f"{design}, {law}"):
            rows[name] = held_share(design, law, count)
    names = [f"{what}, {times}x" for what in ("inside", "width") for times in FURTHER]
    head = ["design, law", "rounds", *names, "CPU seconds"]
    text = common.table(head, [[name, *row] for name, row in rows.items()])
    text += "\n\n" + common.table(["held out", "inside", "median width"], [*published()])
    return text if count < ROUNDS else (text, {"rows": rows})


ONLY = {"default": "", "help": "part of a row's name: count these alone"}
main = common.program("joint", __doc__, run, rounds=ROUNDS, only=ONLY)
