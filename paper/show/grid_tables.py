"""What pages show and claims judge of a grid of sizes and tokens: its laws, forms and forecasts."""

from dataclasses import replace

import numpy as np
import pandas as pd

from paper import tokens as joint
from paper.evidence import FORECAST, forecast_rows
from paper.families import mean_over
from paper.forecasts import tried
from paper.laws import fit

CROSS_ENTROPY = "cross-entropy"
SIDES = ["corpus", "k", "side", "at"]
LAW = ["n_models", "alpha", "ci_models", "ci_tokens", "ci_trainings", "r2", "worst_residual"]


def loss_name(k):
    """A loss in a table: its k, or that it is cross-entropy."""
    return CROSS_ENTROPY if k is None else f"k = {k}"


def side_frame(grids, **drawn):
    """The law along each side of the whole part of grids {corpus: {k: Loss}}, where three models
    have a value of the other side: a row per corpus, k, side and place.

    k = 0: cross-entropy. drawn: n_bootstrap, seed, as of `fit`.
    """
    rows = []
    for corpus, losses in grids.items():
        for k, loss in losses.items():
            loss = joint.whole(loss)
            by_text = replace(loss, S=loss.D, repeats=None)  # the law's size is the tokens
            # a law at each place of the other side
            for side, of, groups in (("size", loss, loss.D), ("tokens", by_text, loss.S)):
                values, times = np.unique(groups, return_counts=True)
                for at in values[times > 2]:
                    law = fit(of.keep(np.flatnonzero(groups == at)), **drawn)
                    row = {"corpus": corpus, "k": k or 0, "side": side, "at": at}
                    rows.append(row | {name: getattr(law, name) for name in LAW})
    return pd.DataFrame(rows, columns=[*SIDES, *LAW])


def contest(points, budget, **place):
    """Errors of the joint forms on what was left out: rows, one for each way of leaving points out.

    points: (S, D, loss), float64 (n,) each. budget: (n,), amounts of text by which to leave out.
    place: further columns. Columns: left, {form: root mean square error in logs}, and
    better_beyond_the_spread: 1 where the sum beats the product by more than the groups spread, -1
    the other way round, 0 neither, NaN with fewer than three groups.
    """
    rows = []
    for left, groups in joint.groupings(points[0], budget).items():
        # every form on every group
        errors = joint.held_out(*points, groups)
        each = errors.dropna(axis=1, how="all").dropna()
        # is the sum better than the product by more than groups spread?
        lead = mean_over(errors["product"] - errors["additive"])
        better = np.nan
        if lead.groups > 2:
            better = np.sign(lead.estimate) * (lead.p < 0.05)
        row = place | {"left": left, "better_beyond_the_spread": better}
        rmse = np.sqrt((each**2).mean())
        rows.append(row | rmse.reindex(errors.columns).to_dict())
    return rows


def left_out_frame(contests):
    """Median error in percent of a frame of `contest` rows: a row per form, a column per way."""
    errors = 100 * contests.groupby("left", sort=False)[list(joint.FORMS)].median().T
    errors.index = pd.Index([joint.TITLES[name] for name in errors.index], name="form")
    return errors.reset_index().rename_axis(columns=None)


def ahead_rows(ahead):
    """The one row for claims of forecasts, with those beyond both sizes and tokens apart."""
    rows = forecast_rows(tried(ahead), FORECAST)
    if not len(rows):
        return rows
    both = ahead[ahead["left"] == joint.BOTH]
    inside = f"{both['inside'].sum()} of {len(both)}"
    return rows.assign(both_held=inside, both_error=both["error"].abs().median())
