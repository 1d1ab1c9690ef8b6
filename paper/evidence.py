"""What claims and open questions are judged by: records of one family on one corpus each, from rank tables alone."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from corpora.make import TRAINED
from paper.contest import FOLDS, contains, scored_sources, table_contest
from paper.families import bend_weights, contrasts, exponent_difference, pooled
from paper.lognormal_fit import predicted_ratios
from paper.rank_laws import PAPER
from paper.runs import hit_dependence, longest_run, run_gap, run_laws
from paper.show.law_tables import loss_at
from paper.show.loss_tables import entropy_cases, loss_exponents, with_trainings
from paper.show.rank_tables import lognormal_frame
from paper.show.tables import corpus_title
from rbplib.curve import KS, k_grid, rbp_curve, with_repeats
from rbplib.families import InputError, load_corpus, load_family
from rbplib.forecasting import held_out_forecasts, tried
from rbplib.law import fit_laws
from rbplib.losses import NAMES, family_losses

PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
RUN_K, RUNS = 10, (1, 5, 10, 50, 100)  # k and lengths of the runs of hits
RECURRENT = ("mamba", "rwkv", "xlstm")  # in names of families that are no transformers
KINDS = "laws new_laws recurrent far far_drops rises runs run_laws pairs contests ladders".split()
SOUND = ("ok", "wrong sign")  # status of laws of runs with counts enough
BENDS = (1, 10, 100, None)  # k whose lines are asked for a bend; None: the cross-entropy


def far_ks(V):
    """The paper's large k as the same shares of another vocabulary, at least 1."""
    return sorted({max(1, round(k * V / PAPER_V)) for k in PAPER_FAR})


def all_curves(tables, ks, families=(), corpora=(), protocol="paper"):
    """{(family, corpus): Curve}, each with the models that tell how trainings of one size differ, where they are known.

    Args:
        tables: of `ranks.table.measured_families`; families, corpora, protocol: as given to it.
        ks: the ranks to count, as a function of the size of a vocabulary.
    """
    named, found = {load_family(f).name: f for f in families}, {}
    for family in dict.fromkeys(family for family, _ in tables):
        own = {corpus: t for (name, corpus), t in tables.items() if name == family}
        curves = {corpus: rbp_curve(t, ks(min(int(x.record["vocab_size"]) for x in t))) for corpus, t in own.items()}
        known = with_repeats(curves, named.get(family, family), corpora, protocol)
        found |= {(family, corpus): curve for corpus, curve in known.items()}
    return found


def claimed_ks(V):
    """The ranks that claims are about in a vocabulary of that size, those of `far` included."""
    return sorted({k for k in (1, 10, 50, 100, 1000) if k <= V} | {*far_ks(V)})


def shown_ks(V):
    """The ranks that pages count unless asked for others."""
    ks = {*range(1, 21), *KS, *k_grid(V), *claimed_ks(V)}
    return {k for k in ks if 1 <= k <= V}


def gather(tables, curves, n_bootstrap=10_000, seed=42, progress=iter):
    """Fit everything once: list of `case`, family by family; families of fewer than three models are left out.

    Args:
        tables: {(family, corpus): rank tables}, see `ranks.table.measured_families`.
        curves: `all_curves` of these at `claimed_ks`. progress: wraps the list of cases, tqdm for a bar.
    """
    every = [place for place, found in tables.items() if len(found) >= 3]
    return [case(tables[place], curves[place], n_bootstrap, seed) for place in progress(every)]


def case(tables, curve, n_bootstrap, seed):
    """One family on one corpus: its place as pages name it, its curve, a list for each of KINDS, and more for tables.

    dependence: of the hits of the largest model at RUN_K. predicted: the smallest and largest ratio of exponents that
    the fitted lognormals predict. ridge: models whose lognormal lies on the ridge. bends: {k: list of Contrast}.
    """
    V, largest = curve.vocab_size, tables[-1]
    drawn = {"n_bootstrap": n_bootstrap, "seed": seed}
    far = far_ks(V)
    laws, losses = fit_laws(curve, **drawn), family_losses(tables)
    for name, own in zip(NAMES, (curve.cross_entropy_loss(), None, curve.loss(1)), strict=True):
        losses[name] = replace(losses[name], repeats=own and own.repeats)
    broken = [law for law in laws if law.k in far]
    fit_in = [k for k in (1, 10, 100) if k <= V], [N for N in RUNS if N <= longest_run(tables[0])]
    lognormals = lognormal_frame(tables)
    dependence = hit_dependence(largest, min(RUN_K, V))
    gap = losses["cross-entropy"].values - losses["rank entropy"].values
    return SimpleNamespace(
        place={"family": curve.family, "corpus": corpus_title(curve.corpus)},
        curve=curve,
        laws=laws,
        new_laws=laws if trained_kind(curve.family, curve.corpus) is False else [],
        recurrent=laws if any(word in curve.family for word in RECURRENT) else [],
        far=broken,
        far_drops=[SimpleNamespace(k=b.k, r2_drop=a.r2 - b.r2) for a, b in pairwise(broken)],
        rises=[risen(curve.loss(1), curve.loss(100), **drawn)] if V >= 100 else [],
        runs=[run_gap(largest, dependence.k, N, dependence, **drawn) for N in RUNS if N <= longest_run(largest)],
        run_laws=run_cases(run_laws(tables, *fit_in, n_bootstrap=0)),
        pairs=[exponent_pair(loss_exponents(losses, **drawn), gap)],
        contests=[contested(*table_contest(largest, **drawn))] if scored_sources(largest) >= FOLDS else [],
        ladders=[ladder(lognormals)],
        bends={k: contrasts([curve], bend_weights, loss_at(k), **drawn) for k in BENDS if not k or k in curve.ks},
        dependence=dependence,
        predicted=predicted_ratios(tables),
        ridge=int((lognormals["status"] == "ridge").sum()),
    )


def trained_kind(family, corpus):
    """Was a family trained on text of this corpus's kind, from other packages? None where that is not known."""
    try:
        kind = load_corpus(corpus).kind if load_family(family).embedded else None
    except InputError:  # known by the path of a file alone
        return None
    return kind in TRAINED if kind else None


def by_kind(found):
    """{kind: cases} of a list of `case`; the bends of one k are one case, pooled over families and corpora."""
    cases = {kind: [one for c in found for one in getattr(c, kind)] for kind in KINDS}
    parts = {k: [one for c in found for one in c.bends.get(k, [])] for k in BENDS}
    ladders = [loss for c in found for k in BENDS if not k or k in c.curve.ks for loss in loss_at(k)(c.curve)]
    cases["forecasts"] = tried(held_out_forecasts(ladders))
    cases["one_curve"] = entropy_cases([c.curve for c in found], (1, 10, 100))
    return cases | {"bends": [bend for k, part in parts.items() for bend in bent(part, k)]}


def bent(found, k):
    """The one case of all bends at one k, from their Contrasts; none where there are none."""
    below = f"{sum(one.value < 0 for one in found)} of {len(found)}"
    return [SimpleNamespace(k=k, below=below, **vars(pooled(found)))] if found else []


def run_cases(laws):
    """Laws of N > 1 hits in a row of one family on one corpus, from {(k, N): Law} of `runs.run_laws`, for the claims.

    ratio: exponent over that of N = 1. at: N and k in words. All of them NaN where counts are too few for a sound fit.
    """
    cases = []
    for (k, N), law in laws.items():
        case = SimpleNamespace(family=law.family, corpus=law.corpus, k=k, N=N)
        case.r2 = case.alpha = case.ratio = case.at = np.nan
        if law.status in SOUND:
            case.r2, case.alpha, case.at = law.r2, law.alpha, f"N = {N} at k = {k}"
            case.ratio = law.alpha / laws[k, 1].alpha if laws[k, 1].status in SOUND else np.nan
        cases += [case] * (N > 1)
    return cases


def risen(first, second, n_bootstrap=10_000, seed=42):
    """The exponent of the second Loss less that of the first with its intervals, as the claims judge it."""
    change, text = exponent_difference(first, second, n_bootstrap, seed)
    return SimpleNamespace(change=change, ci_tokens=text, ci_trainings=with_trainings(first, second, change, text))


def exponent_pair(frame, gap, **place):
    """Exponents of cross-entropy, rank entropy and -log RBP_1 side by side; more: of the last than of the first.

    frame: of `loss_exponents`. gap: cross-entropy less rank entropy of every model, nats. place: family and corpus.
    """
    alpha, sides = tuple(frame["alpha"]), {"ci_tokens": "difference", "ci_trainings": "difference, and trainings"}
    around = {name: (-frame.loc[0, f"{of}: high"], -frame.loc[0, f"{of}: low"]) for name, of in sides.items()}
    around["around"] = tuple(frame.loc[0, ["ratio over other sizes: low", "ratio over other sizes: high"]])
    found = place | around | {"alpha": alpha, "ratio": frame.loc[0, "ratio"], "largest_gap": np.abs(gap).max()}
    return SimpleNamespace(**found, gap=gap, more=alpha[-1] - alpha[0])


def contested(result, fits):
    """The paper's lognormal in the contest of laws on one rank table; no lead where it is Zipf's law."""
    place, same = result.place(PAPER), contains(fits["zipf"], fits[PAPER])
    return SimpleNamespace(
        result=result,
        place=place + 1,
        laws=len(fits),
        behind=result.loss[place],
        zipf_lead=0.0 if same else result.loss[result.place("zipf")] - result.loss[place],
        interval=np.zeros(2) if same else result.lead(PAPER, "zipf"),
        misfit=fits[PAPER].max_drbp,
        best_misfit=fits[result.best].max_drbp,
        titles=[fits[name].title for name in result.candidates],
        best=fits[result.best].title,
    )


def ladder(frame):
    """How straight mu/sigma runs along size and its logarithm over the models off the ridge, from a lognormal_frame.

    From four sizes: R² of noise alone is above 0.9 in 20% of cases on three, in 5% on four.
    """
    fine = frame[np.isfinite(frame["mu/sigma"]) & (frame["status"] == "ok")]
    sizes = (fine["S"], np.log(fine["S"])) if fine["S"].nunique() > 3 and fine["mu/sigma"].nunique() > 1 else ()
    size_r2, log_size_r2 = [np.corrcoef(x, fine["mu/sigma"])[0, 1] ** 2 for x in sizes] or (np.nan, np.nan)
    told = len(fine) if sizes else np.nan
    return SimpleNamespace(
        size_r2=size_r2, log_size_r2=log_size_r2, lead_of_log_size=log_size_r2 - size_r2, models=told
    )
