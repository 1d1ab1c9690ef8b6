"""What claims and open questions are judged by: records of one family on one corpus each, from rank tables alone."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.special import ndtr

from rbplib.distributions import gpt2, lognormal
from rbplib.distributions.candidates import PAPER
from rbplib.distributions.contest import FOLDS, scored_sources, table_contest
from rbplib.distributions.lognormal_fit import predicted_ratio, predicted_ratios
from rbplib.laws import ladders, published
from rbplib.laws.bootstrap import line
from rbplib.laws.curve import KS, k_grid, rbp_curve, with_repeats
from rbplib.laws.difference import exponent_difference
from rbplib.laws.families import bend_weights, contrasts, pooled
from rbplib.laws.forecast import held_out_forecasts, published_losses, tried
from rbplib.laws.law import fit_laws
from rbplib.laws.losses import family_losses
from rbplib.laws.noise import noise_floor
from rbplib.laws.runs import hit_dependence, longest_run, run_gap
from rbplib.pages import appendix
from rbplib.pages.law_tables import form_frame, loss_at
from rbplib.pages.loss_tables import loss_exponents
from rbplib.pages.rank_tables import lognormal_frame
from rbplib.settings import InputError, load_corpus, load_family
from rbplib.text.packages import TRAINED

PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
RUN_K, RUNS = 10, (1, 5, 10, 50, 100)  # k and lengths of the runs of hits
RECURRENT = ("mamba", "rwkv", "xlstm")  # in names of families that are no transformers
KINDS = ("laws", "new_laws", "recurrent", "far", "rises", "runs", "pairs", "contests", "ladders")  # as in claims.yml
BENDS = (1, 10, 100, None)  # k whose lines are asked for a bend; None: the cross-entropy
LATE = 2e10  # training tokens from which a published path is fitted: the start of training is no power law


def large_k(vocab_size, k):
    """The paper's k as the same share of another vocabulary, at least 1."""
    return max(1, round(k * vocab_size / PAPER_V))


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
    return sorted({k for k in (1, 10, 50, 100) if k <= V} | {large_k(V, k) for k in PAPER_FAR})


def shown_ks(V):
    """The ranks that pages count unless asked for others."""
    ks = {*range(1, 21), *KS, *k_grid(V), *claimed_ks(V), round(0.4 * V), round(0.6 * V)}
    return {k for k in ks if 1 <= k <= V}


def gather(tables, curves, n_bootstrap=2000, seed=42, progress=iter):
    """Fit everything once: list of `case`, family by family; families of fewer than three models are left out.

    Args:
        tables: {(family, corpus): rank tables}, see `ranks.table.measured_families`.
        curves: `all_curves` of these at `claimed_ks`. progress: wraps the list of cases, tqdm for a bar.
    """
    every = [place for place, found in tables.items() if len(found) >= 3]
    return [case(tables[place], curves[place], n_bootstrap, seed) for place in progress(every)]


def case(tables, curve, n_bootstrap, seed):
    """One family on one corpus: its curve, a list for each of KINDS, and what the tables of open questions add.

    dependence: of the hits of the largest model at RUN_K. predicted: the smallest and largest ratio of exponents that
    the fitted lognormals predict. ridge: models whose lognormal lies on the ridge. bends: {k: list of Contrast}.
    """
    V, largest = curve.vocab_size, tables[-1]
    drawn = {"n_bootstrap": n_bootstrap, "seed": seed}
    far = {large_k(V, k) for k in PAPER_FAR}
    laws, losses = fit_laws(curve, **drawn), family_losses(tables)
    lognormals = lognormal_frame(tables)
    dependence = hit_dependence(largest, min(RUN_K, V))
    rise = [exponent_difference(curve.loss(1), curve.loss(100), **drawn)] if V >= 100 else []
    gap = losses["cross-entropy"].values - losses["rank entropy"].values
    return SimpleNamespace(
        place={"family": curve.family, "corpus": curve.corpus},
        curve=curve,
        laws=laws,
        new_laws=laws if trained_kind(curve.family, curve.corpus) is False else [],
        recurrent=laws if any(word in curve.family for word in RECURRENT) else [],
        far=[far_case(law, noise_floor(law.loss, **drawn)) for law in laws if law.k in far],
        rises=[risen(*found) for found in rise],
        runs=[run_gap(largest, dependence.k, N, dependence, **drawn) for N in RUNS if N <= longest_run(largest)],
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
    return cases | {"bends": [bend for k, part in parts.items() for bend in bent(part, k)]}


def bent(found, k):
    """The one case of all bends at one k, from their Contrasts; none where there are none."""
    below = f"{sum(one.value < 0 for one in found)} of {len(found)}"
    return [SimpleNamespace(k=k, below=below, **vars(pooled(found)))] if found else []


def far_case(law, floor=None):
    """A law at large k beside its noise floor, where the documents allow one."""
    interval = law.ci_tokens if np.isnan(law.ci_trainings[1]) else law.ci_trainings
    return SimpleNamespace(
        law=law,
        floor=floor,
        k=law.k,
        r2=law.r2,
        alpha=law.alpha,
        high=interval[1],  # over the widest noise that is known
        noise_p=law.noise_p,
        explained_by=law.explained_by,
        worst_residual=law.worst_residual,
    )


def risen(change, interval):
    """A difference of exponents with its interval, as the claims judge it."""
    return SimpleNamespace(change=change, interval=interval)


def exponent_pair(frame, gap):
    """Exponents of cross-entropy, rank entropy and -log RBP_1 side by side.

    Args:
        frame: from `law_tables.loss_exponents`. gap: cross-entropy less rank entropy of every model, nats.
    """
    alpha = tuple(frame["alpha"])
    ends = tuple(frame.loc[0, ["difference: low", "difference: high"]])  # of the first exponent less the last
    return SimpleNamespace(
        alpha=alpha, ratio=frame.loc[0, "ratio"], interval=ends, gap=gap, largest_gap=np.abs(gap).max()
    )


def contested(result, fits):
    """The paper's lognormal in the contest of laws on one rank table."""
    place = result.place(PAPER)
    return SimpleNamespace(
        result=result,
        place=place + 1,
        laws=len(fits),
        behind=result.loss[place],
        zipf_lead=result.loss[result.place("zipf")] - result.loss[place],
        misfit=fits[PAPER].max_drbp,
        titles=[fits[name].title for name in result.candidates],
        best=fits[result.best].title,
    )


def ladder(frame):
    """How straight mu/sigma runs along size and its logarithm over the models off the ridge, from a lognormal_frame."""
    fine = frame[np.isfinite(frame["mu/sigma"]) & (frame["status"] == "ok")]
    sizes = (fine["S"], np.log(fine["S"])) if len(fine) > 2 else ()
    size_r2, log_size_r2 = [np.corrcoef(x, fine["mu/sigma"])[0, 1] ** 2 for x in sizes] or (np.nan, np.nan)
    return SimpleNamespace(size_r2=size_r2, log_size_r2=log_size_r2, log_size_lead=log_size_r2 - size_r2)


def reversed_slope(figure):
    """Both things that noise must explain in a figure of the authors' whose line rises: the scatter and the slope."""
    tests = {"the scatter": figure.lack_of_fit_p, "the slope": 2 * ndtr(-abs(figure.standard_errors))}
    shared = {"k": figure.k, "standard_errors": figure.standard_errors}
    return [SimpleNamespace(of=of, noise_p=float(p), **shared) for of, p in tests.items() if figure.alpha < 0]


def published_numbers(n_tokens=gpt2.N_TOKENS):
    """{kind: cases} of what the authors and others published; nothing of it was measured here.

    n_tokens: behind the authors' GPT-2 histogram.
    """
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    slope, _, r2 = line(np.log(loss), np.log(S))
    names = {"p": "lack_of_fit_p", "slope in standard errors": "standard_errors"}
    _, _, rounded, _, cut = np.round(gpt2.ratio_parts().ratios, 6) + 0.0  # both sides rounded; on one support as well
    along = ladders.training_laws("pythia")
    first, last = next(p for p in along if p.law.r2 > 0.9), along[-1]
    exact = appendix.approximation_frame().iloc[0]
    lam, beta = lognormal.natural(*gpt2.PRINTED)
    local = lognormal.local_exponents(lam, beta)
    kinds = {
        "refit": {"slope": slope, "r2": r2},
        "appendix": {
            "error_20": 100 * (exact["Eqs. 16, 20"] / exact["-log p_1, exact"] - 1),
            "error_21": 100 * (exact["Eq. 21"] / exact["H, exact"] - 1),
            "local_ratio": float(local.neg_log_p1 / local.entropy),
            "cut_ratio": predicted_ratio(1 + lam, beta, gpt2.VOCABULARY),
        },
    }
    in_size = {"first_step": first.step, "first_exponent": first.law.alpha, "last_exponent": last.law.alpha}
    paths = [
        line(np.log(loss[T > LATE]), np.log(T[T > LATE])) for T, loss, _ in published.size_paths("pythia").values()
    ]
    figures = list(pd.DataFrame(gpt2.figure_lack_of_fit(n_tokens)).rename(columns=names).itertuples())
    by_size = [ladders.published_law(name) for name in published.families() if "shots" not in name]
    forms = form_frame(by_size)  # a line says too little of a larger model under whose loss there is a floor: below 0
    words = [
        (p, ladders.published_law(p.law.family, "log ppl").law)
        for p in by_size
        if p.law.family in published.families("log ppl")
    ]
    for name, text in (("fixed", ladders.FIXED), ("grows", ladders.GROWS)):
        forms[name] = forms["line, 1 out"].where(forms["text"] == text)
    return {kind: [SimpleNamespace(**numbers)] for kind, numbers in kinds.items()} | {
        "word_pairs": [SimpleNamespace(family=w.family, ratio=p.law.alpha / w.alpha) for p, w in words],
        "others": [p.law for p in by_size if (p.rows["architecture"] != "transformer").all()],
        "leans": list(forms.assign(lean=forms["grows"].fillna(-forms["fixed"])).itertuples()),
        "published_forecasts": tried(held_out_forecasts(published_losses())),
        "figures": figures,
        "training": [SimpleNamespace(r2=float(r2), in_tokens=float(-slope), **in_size) for slope, _, r2 in paths],
        "reversal": [reversal for figure in figures for reversal in reversed_slope(figure)],
        "ratios": [
            SimpleNamespace(lead_kept=ratio / gpt2.PRINTED_RATIO, rounded=rounded, cut=cut) for ratio in (rounded, cut)
        ],
    }
