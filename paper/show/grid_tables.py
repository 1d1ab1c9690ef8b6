"""What pages show and claims judge of a grid of sizes and tokens: bends, forms, exponents, and all models together."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from paper import tokens as joint
from paper.curves import repeated
from paper.evidence import FORECAST, forecast_rows
from paper.forecasts import tried
from paper.published import exponent_ratio
from paper.show.claims import beyond, cases
from paper.show.tables import corpus_title
from paper.tables_here import measured_families
from paper.tokens import BOTH, grid_ends, held_out_joint, last_steps
from rbplib.bootstrap import percentile_interval
from rbplib.families import load_family

CROSS_ENTROPY = "cross-entropy"
GRID = tuple(
    f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16)
)  # families that are here as counts, see published/ranks
SIDES = [
    "corpus",
    "loss",
    "law in",
    "at",
    "models",
    "exponent",
    "low",
    "high",
    "R²",
    "worst residual (%)",
]
KINDS = ("docs", "code", "descriptions")  # corpora that they were counted on


def loss_name(k):
    """A loss in a table: its k, or that it is cross-entropy."""
    return CROSS_ENTROPY if k is None else f"k = {k}"


def side_frame(grids, losses, n_bootstrap=10_000, seed=42):
    """The law along each side of the whole part of grids {corpus: Grid}, a row per corpus, loss, side and place."""
    rows = []
    for corpus, grid in grids.items():
        for k in losses:
            sides = {
                "size": grid.whole.along_size(k, n_bootstrap=n_bootstrap, seed=seed),
                "tokens": grid.whole.along_tokens(k, n_bootstrap=n_bootstrap, seed=seed),
            }
            for side, laws in sides.items():
                for at, law in laws.items():
                    place = (corpus_title(corpus), loss_name(k), side, at, law.n_models)
                    rows.append(
                        (*place, law.alpha, *law.ci_models, law.r2, 100 * law.worst_residual)
                    )
    return pd.DataFrame(rows, columns=SIDES)


def bend_cases(grids, losses, n_bootstrap=10_000, seed=42):
    """The last step over those before it, at the least and the most tokens of each grid and loss.

    Fields: corpus, k, D (B,), ratio (B,), band (2, B), first, last, change (last less first), interval (of the change).
    """
    cases = []
    for corpus, grid in grids.items():
        for k in losses:
            D, ratio, draws = last_steps(grid, k, n_bootstrap, seed)
            cases.append(
                SimpleNamespace(
                    corpus=corpus,
                    k=k,
                    D=D,
                    ratio=ratio,
                    band=percentile_interval(draws),
                    first=ratio[0],
                    last=ratio[-1],
                    change=ratio[-1] - ratio[0],
                    interval=tuple(percentile_interval(draws[:, -1] - draws[:, 0])),
                )
            )
    return cases


def form_frame(grids, losses):
    """The joint forms compared on what was left out: `tokens.compared` with columns corpus, k and what was left out."""
    parts = []
    for corpus, grid in grids.items():
        for k in losses:
            values = grid.loss(k).values
            if not (np.isfinite(values) & (values > 0)).all():
                continue
            # each way of leaving models out
            points = (grid.curve.S, grid.D, values)
            for kind, left in joint.groupings(grid.curve.S, grid.D).items():
                errors = joint.held_out(*points, left)
                frame = joint.compared(errors).assign(
                    corpus=corpus, loss=loss_name(k), left=kind, k=k or 0
                )
                ahead = leads(errors[["additive", "product"]])
                parts.append(frame.assign(better_beyond_the_spread=ahead))
    columns = ["corpus", "loss", "left", "k", "form", "rmse", "better_beyond_the_spread"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def leads(errors):
    """Of the two columns of `tokens.held_out` errors, is the first smaller by more than its spread over the groups?

    1, or -1 where it is the other one; 0: neither; NaN where one of them has none, or too few groups tell no spread.
    """
    best = joint.compared(errors)
    if len(best) < 2 or best["low"].isna().any():
        return np.nan
    return (best["verdict"][1] == "behind") * (
        1.0 if best["form"][0] == errors.columns[0] else -1.0
    )


def left_out_frame(compared, names):
    """Median error in percent, a row per form of `names` in that order, a column per way of leaving out."""
    errors = 100 * compared.pivot_table("rmse", "form", "left", "median", sort=False)
    return (
        errors.reindex([n for n in names if n in errors.index])
        .rename_axis(columns=None)
        .reset_index()
    )


def exponent_cases(grids, losses, **drawn):
    """{kind: cases} of the laws in size: of each its r2 and worst_residual; of the fewest and the most tokens their
    exponents, first and last, and growth, their quotient; grid_ends: those at the most tokens. drawn: as of `fit`."""
    growths, lines, most = [], [], []
    for corpus, grid in grids.items():
        for k in losses:
            by_tokens = grid.whole.along_size(k, **drawn)
            place = {"corpus": corpus, "k": k or 0}
            for law in by_tokens.values():
                lines.append(SimpleNamespace(**place, r2=law.r2, worst_residual=law.worst_residual))
            if len(by_tokens) < 2:
                continue
            # the fewest tokens beside the most
            first, *_, last = by_tokens.values()
            growths.append(
                SimpleNamespace(
                    **place,
                    first=first.alpha,
                    last=last.alpha,
                    growth=last.alpha / first.alpha,
                    first_around=first.ci_models,
                    last_around=last.ci_models,
                )
            )
            most.append(
                SimpleNamespace(
                    **place,
                    alpha=last.alpha,
                    ci_tokens=last.ci_tokens,
                    ci_trainings=last.ci_trainings,
                    grid_alpha=last.alpha,
                    grid_tokens=max(by_tokens),
                )
            )
    return {"grid_exponents": growths, "grid_lines": lines, "grid_ends": most}


def ratio_cases(grids, k):
    """Exponent in size at k over cross-entropy's: corpus, D, ratio and its band (2, B), first, last, nearer (to 1)."""
    cases = []
    for corpus, grid in grids.items():
        # at each number of tokens with both laws
        laws = grid.whole.along_size(k, n_bootstrap=0)
        entropy = grid.whole.along_size(None, n_bootstrap=0)
        ratios = {D: exponent_ratio(entropy[D], law) for D, law in laws.items() if D in entropy}
        if len(ratios) < 2:
            continue
        ratio = np.array([ratio for ratio, _ in ratios.values()])
        band = np.array([interval for _, interval in ratios.values()]).T
        first, last = float(ratio[0]), float(ratio[-1])
        cases.append(
            SimpleNamespace(
                corpus=corpus,
                D=list(ratios),
                ratio=ratio,
                band=band,
                first=first,
                last=last,
                nearer=abs(first - 1) - abs(last - 1),
                first_around=tuple(band[:, 0]),
                last_around=tuple(band[:, -1]),
            )
        )
    return cases


def grid_forecasts(grids, losses):
    """`held_out_joint` of the largest models of grids {corpus: Grid}, of those on the most text, and of both."""
    parts = []
    for corpus, grid in grids.items():
        for k in losses:
            values = grid.loss(k).values
            if (np.isfinite(values) & (values > 0)).all():
                ends = grid_ends(grid.curve.S, grid.D)
                place = {"corpus": corpus, "loss": loss_name(k)}
                parts.append(held_out_joint((grid.curve.S, grid.D, values), ends, place))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def left_row(rows):
    """What forecasts of models left out come to, as a row of a table."""
    errors = 100 * rows["error"].abs()
    told = {
        "inside 95% interval": f"{rows['inside'].sum()} of {len(rows)}",
        "median error (%)": errors.median(),
    }
    return pd.Series(
        told | {"worst (%)": errors.max(), "forecast too low (%)": 100 * (rows["error"] < 0).mean()}
    )


def grid_rows(bends, ratios, ends, lines, most):
    """Rows for claims of `bend_cases`, `ratio_cases` and the three kinds of `exponent_cases`."""
    place = ["corpus", "k"]
    columns = (
        [*place, "first", "last", "change", "interval"],
        ["corpus", "first", "last", "nearer", "first_around", "last_around"],
        [*place, "first", "last", "growth", "first_around", "last_around"],
        [*place, "r2", "worst_residual"],
        [*place, "alpha", "ci_tokens", "ci_trainings", "grid_alpha", "grid_tokens"],
    )
    parts = zip((bends, ratios, ends, lines, most), columns, strict=True)
    bends, *rows = [cases(map(vars, part), names) for part, names in parts]
    return bends.assign(beyond_noise=beyond(bends["interval"])), *rows


def form_rows(forms):
    """Rows for claims of `form_frame`: the error of the sum over that of the product, and whether it is better."""
    rows = []
    for (corpus, k, left), part in forms.groupby(["corpus", "k", "left"], sort=False):
        rmse = part.set_index("form")["rmse"].reindex(list(joint.FORMS))
        lead, better = rmse["additive"] / rmse["product"], part["better_beyond_the_spread"].iloc[0]
        row = {"corpus": corpus, "k": k, "left": left, "lead": lead}
        rows.append(row | {"better_beyond_the_spread": better})
    return cases(rows, ["corpus", "k", "left", "lead", "better_beyond_the_spread"])


def ahead_rows(ahead):
    """The one row for claims of `grid_forecasts`, with those beyond both sizes and tokens apart."""
    rows = forecast_rows(tried(ahead), FORECAST)
    if not len(rows):
        return rows
    both = ahead[ahead["left"] == BOTH]
    inside = f"{both['inside'].sum()} of {len(both)}"
    return rows.assign(both_held=inside, both_error=both["error"].abs().median())


def models_behind(tables, families=(), corpora=(), protocol="paper"):
    """Every model once: list of ("ladder", "repeat" or "grid"; record of a rank table; tokens it saw, or None).

    Args:
        tables: {(family, corpus): rank tables}, of `measured_families`. families, corpora, protocol: as given to it.
    """
    # the families of the ladders, of what repeats them, and of the grid
    given = {family.name: family for family in map(load_family, families)}
    ladders = [
        given.get(name) or load_family(name) for name in dict.fromkeys(name for name, _ in tables)
    ]
    repeats = {}
    for family in ladders:
        if family.repeats:
            for corpus, repeated_tables in repeated(family, corpora, protocol).items():
                repeats[family.repeats, corpus] = repeated_tables
    others = map(load_family, dict.fromkeys([*(name for name, _ in repeats), *GRID]))
    tokens = {}
    for family in [*ladders, *others]:
        for model in family.models:
            tokens[family.name, model.name] = model.tokens
    # a record of every rank table
    parts = {"ladder": tables, "repeat": repeats, "grid": measured_families(GRID, KINDS)}
    records = []
    for part, tables_of in parts.items():
        for some in tables_of.values():
            records += [(part, table.record) for table in some]
    # one training may have two names: it counts with its ladder
    alike = {record["columns_sha256"] for part, record in records if part == "ladder"}
    once_more = set()
    for part, record in records:
        if part != "ladder" and record["columns_sha256"] in alike:
            once_more.add((record["family"], record["model"]))
    models = {}
    for part, record in records:
        model = (record["family"], record["model"])
        if part == "ladder" or model not in once_more:
            models.setdefault((part, *model), record)
    return [
        (part, record, tokens.get((family, model)))
        for (part, family, model), record in models.items()
    ]
