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
GRID = tuple(f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16))  # families that are here as counts, see published/ranks
SIDES = ["corpus", "loss", "law in", "at", "models", "exponent", "low", "high", "R²", "worst residual (%)"]
KINDS = ("docs", "code", "descriptions")  # corpora that they were counted on


def loss_name(k):
    """A loss in a table: its k, or that it is cross-entropy."""
    return CROSS_ENTROPY if k is None else f"k = {k}"


def side_frame(found, losses, n_bootstrap=10_000, seed=42):
    """The law along each side of the whole part of grids {corpus: Grid}, a row per corpus, loss, side and place."""
    rows, drawn = [], {"n_bootstrap": n_bootstrap, "seed": seed}
    for corpus, one in found.items():
        for k in losses:
            sides = {"size": one.whole.along_size(k, **drawn), "tokens": one.whole.along_tokens(k, **drawn)}
            for side, laws in sides.items():
                for at, law in laws.items():
                    place = (corpus_title(corpus), loss_name(k), side, at, law.n_models)
                    rows.append((*place, law.alpha, *law.ci_models, law.r2, 100 * law.worst_residual))
    return pd.DataFrame(rows, columns=SIDES)


def bend_cases(found, losses, n_bootstrap=10_000, seed=42):
    """The last step over those before it, at the least and the most tokens of each grid and loss.

    Fields: corpus, k, D (B,), ratio (B,), band (2, B), first, last, change (last less first), interval (of the change).
    """
    cases = []
    for corpus, one in found.items():
        for k in losses:
            D, ratio, draws = last_steps(one, k, n_bootstrap, seed)
            case = {"corpus": corpus, "k": k, "D": D, "ratio": ratio, "band": percentile_interval(draws)}
            case |= {"first": ratio[0], "last": ratio[-1]}
            ends = percentile_interval(draws[:, -1] - draws[:, 0])
            cases.append(SimpleNamespace(**case, change=ratio[-1] - ratio[0], interval=tuple(ends)))
    return cases


def form_frame(found, losses):
    """The joint forms compared on what was left out: `tokens.compared` with columns corpus, k and what was left out."""
    parts = []
    for corpus, one in found.items():
        for k in losses:
            place = (one.curve.S, one.D, one.loss(k).values)
            if not (np.isfinite(place[2]) & (place[2] > 0)).all():
                continue
            for kind, left in joint.groupings(*place[:2]).items():
                own = joint.compared(errors := joint.held_out(*place, left))
                ahead = leads(errors[["additive", "product"]])
                parts.append(
                    own.assign(corpus=corpus, loss=loss_name(k), left=kind, k=k or 0, better_beyond_the_spread=ahead)
                )
    columns = ["corpus", "loss", "left", "k", "form", "rmse", "better_beyond_the_spread"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def leads(errors):
    """Of the two columns of `tokens.held_out` errors, is the first smaller by more than its spread over the groups?

    1, or -1 where it is the other one; 0: neither; NaN where one of them has none, or too few groups tell no spread.
    """
    best = joint.compared(errors)
    if len(best) < 2 or best["low"].isna().any():
        return np.nan
    return (best["verdict"][1] == "behind") * (1.0 if best["form"][0] == errors.columns[0] else -1.0)


def left_out_frame(compared, names):
    """Median error in percent, a row per form of `names` in that order, a column per way of leaving out."""
    errors = 100 * compared.pivot_table("rmse", "form", "left", "median", sort=False)
    return errors.reindex([n for n in names if n in errors.index]).rename_axis(columns=None).reset_index()


def exponent_cases(found, losses, **drawn):
    """{kind: cases} of the laws in size: of each its r2 and worst_residual; of the fewest and the most tokens their
    exponents, first and last, and growth, their quotient; grid_ends: those at the most tokens. drawn: as of `fit`."""
    cases, lines, most = [], [], []
    for corpus, one in found.items():
        for k in losses:
            laws, place = one.whole.along_size(k, **drawn), {"corpus": corpus, "k": k or 0}
            tokens, laws = max(laws, default=0), list(laws.values())
            lines += [SimpleNamespace(**place, r2=law.r2, worst_residual=law.worst_residual) for law in laws]
            if len(laws) > 1:
                ends = {"first": laws[0].alpha, "last": laws[-1].alpha, "growth": laws[-1].alpha / laws[0].alpha}
                last = {name: getattr(laws[-1], name) for name in ("alpha", "ci_tokens", "ci_trainings")}
                most.append(SimpleNamespace(**place, **last, grid_alpha=last["alpha"], grid_tokens=tokens))
                around = {"first_around": laws[0].ci_models, "last_around": laws[-1].ci_models}
                cases.append(SimpleNamespace(**place, **ends, **around))
    return {"grid_exponents": cases, "grid_lines": lines, "grid_ends": most}


def ratio_cases(found, k):
    """Exponent in size at k over cross-entropy's: corpus, D, ratio and its band (2, B), first, last, nearer (to 1)."""
    cases = []
    for corpus, one in found.items():
        laws = {loss: one.whole.along_size(loss, n_bootstrap=0) for loss in (k, None)}
        told = {d: exponent_ratio(laws[None][d], law) for d, law in laws[k].items() if d in laws[None]}
        ratio, band = np.array([r for r, _ in told.values()]), np.array([ends for _, ends in told.values()]).T
        if len(ratio) > 1:
            first, last = float(ratio[0]), float(ratio[-1])
            ends = {"first": first, "last": last, "nearer": abs(first - 1) - abs(last - 1)}
            ends |= {"first_around": tuple(band[:, 0]), "last_around": tuple(band[:, -1])}
            cases.append(SimpleNamespace(corpus=corpus, D=list(told), ratio=ratio, band=band, **ends))
    return cases


def grid_forecasts(found, losses):
    """`held_out_joint` of the largest models of grids {corpus: Grid}, of those on the most text, and of both."""
    parts = []
    for corpus, one in found.items():
        for k in losses:
            points, place = (one.curve.S, one.D, one.loss(k).values), {"corpus": corpus, "loss": loss_name(k)}
            if (np.isfinite(points[2]) & (points[2] > 0)).all():
                parts.append(held_out_joint(points, grid_ends(*points[:2]), place))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def left_row(rows):
    """What forecasts of models left out come to, as a row of a table."""
    errors = 100 * rows["error"].abs()
    told = {"inside 95% interval": f"{rows['inside'].sum()} of {len(rows)}", "median error (%)": errors.median()}
    return pd.Series(told | {"worst (%)": errors.max(), "forecast too low (%)": 100 * (rows["error"] < 0).mean()})


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
    given = {f.name: f for f in map(load_family, families)}
    own = [given.get(name) or load_family(name) for name in dict.fromkeys(name for name, _ in tables)]
    again = {(f.repeats, c): t for f in own if f.repeats for c, t in repeated(f, corpora, protocol).items()}
    own += map(load_family, dict.fromkeys([*(name for name, _ in again), *GRID]))
    tokens, found = {(f.name, m.name): m.tokens for f in own for m in f.models}, {}
    places = {"ladder": tables, "repeat": again, "grid": measured_families(GRID, KINDS)}
    records = [(part, t.record) for part, where in places.items() for some in where.values() for t in some]
    alike = {r["columns_sha256"] for part, r in records if part == "ladder"}  # one training may have two names
    once_more = {(r["family"], r["model"]) for part, r in records if part != "ladder" and r["columns_sha256"] in alike}
    for part, r in records:
        if part == "ladder" or (r["family"], r["model"]) not in once_more:
            found.setdefault((part, r["family"], r["model"]), r)
    return [(part, r, tokens.get((family, model))) for (part, family, model), r in found.items()]
