"""What a page asks for first: the measured curves of its family, measuring what is missing.

The notebooks start here. torch is imported only when something has to be measured.
"""

from rbplib.laws.curve import family_tables, rbp_curve
from rbplib.models.model_files import folder_digest
from rbplib.models.sizes import window_length
from rbplib.ranks.table import MEASURING, mismatches, ranks_path, read_record
from rbplib.settings import InputError, default_corpora, family_names, load_corpus, load_family

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
QUICK = 1 << 30  # bytes of a model's folder whose digest is made in a few seconds


def ensure_measured(family, corpora=None, protocol="paper"):
    """Names of the corpora, once every model of the family has its rank table on each of them.

    A table whose record says another model, window, seed or sample is measured again, and so is one of a local model
    whose files have changed, up to a gigabyte; `rbp measure` compares the digests of all texts and weights.
    """
    family = load_family(family)
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]
    window = window_length(family)
    digests = {m.name: {"model_digest": folder_digest(m.local)} for m in family.models if m.local and is_quick(m.local)}
    for corpus in corpora:
        for model in family.models:
            expect = {"model_id": model.id, "window": window, "seed": corpus.seed, "protocol": protocol}
            expect |= {"measuring": MEASURING, **digests.get(model.name, {})}
            if corpus.digest:
                expect["corpus_digest"] = corpus.digest
            try:
                fine = not mismatches(read_record(ranks_path(family.name, model.name, corpus.name, protocol)), expect)
            except InputError:  # missing or damaged
                fine = False
            if not fine:
                from rbplib.ranks.measure import measure

                measure(family, corpora=corpora, protocol=protocol)
                return [c.name for c in corpora]
    return [c.name for c in corpora]


def is_quick(folder):
    return sum(p.stat().st_size for p in folder.iterdir() if p.is_file()) <= QUICK


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k; 1, 10, 50, 100 and 1000 are always among them."""
    import numpy as np

    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    return sorted({int(k) for k in grid.round()} | {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size})


def family_curves(family, corpora=None, ks=KS, protocol="paper", definition="greater+ties"):
    """{corpus name: Curve} of a family, measured where missing; ks above the vocabulary are an error.

    Empty ks stand for a grid over the whole vocabulary, see k_grid.
    """
    family = load_family(family)
    curves = {}
    for name in ensure_measured(family, corpora, protocol):
        tables, missing = family_tables(family, name, protocol)
        grid = list(ks) or k_grid(min(int(t.record["vocab_size"]) for t in tables))
        curves[name] = rbp_curve(tables, grid, definition, missing)
    return curves


def family_rank_tables(family, corpus, protocol="paper"):
    """The rank tables of a family on one corpus, smallest model first, measured where missing."""
    (name,) = ensure_measured(family, [corpus], protocol)
    tables, _ = family_tables(family, name, protocol)
    return sorted(tables, key=lambda t: t.record["nonembedding_params"])


def corpus_title(name):
    """A corpus name as pages show it; a corpus given by its path is known by its name alone."""
    try:
        return load_corpus(name).title or name
    except InputError:
        return name


def size_frame(curves, ks=(1,)):
    """One row per corpus and model: size, tokens scored, RBP_k per k, cross-entropy. For tables on pages."""
    import pandas as pd

    rows = []
    for name, c in curves.items():
        for i, model in enumerate(c.models):
            row = {"corpus": corpus_title(name), "model": model, "S": int(c.S[i]), "tokens scored": c.scored_tokens}
            row |= {f"RBP_{k}": c.rbp[i, c.index(k)] for k in ks}
            rows.append(row | {"cross-entropy (nats)": c.cross_entropy[i]})
    return pd.DataFrame(rows)


def law_frame(laws):
    """One row per fitted law: exponent, both 95% intervals, R^2, scatter, lack of fit, status. For tables on pages."""
    import pandas as pd

    return pd.DataFrame(
        {
            "corpus": corpus_title(w.corpus),
            "k": w.k if w.k else "–",
            "alpha": w.alpha,
            "tokens: low": w.ci_tokens[0],
            "tokens: high": w.ci_tokens[1],
            "models: low": w.ci_models[0],
            "models: high": w.ci_models[1],
            "R²": w.r2,
            "residual sd": w.residual_sd,
            "noise sd": w.noise_sd,
            "lack of fit p": w.lack_of_fit_p,
            "models": w.n_models,
            "misses at the largest": w.misses,
            "status": w.status,
        }
        for w in laws
    )


def extrapolation_frame(tests):
    """One row per held-out model: predicted and measured loss, the error, and whether the interval held."""
    import numpy as np
    import pandas as pd

    rows = []
    for t in tests:
        for i, model in enumerate(t.models):
            rows.append(
                {
                    "corpus": corpus_title(t.law.corpus),
                    "k": t.law.k or "–",
                    "models fitted": t.law.n_models,
                    "held out": model,
                    "S": int(t.S[i]),
                    "predicted": np.exp(t.predicted[i]),
                    "interval: low": np.exp(t.interval[0, i]),
                    "interval: high": np.exp(t.interval[1, i]),
                    "measured": np.exp(t.observed[i]),
                    "error": t.error[i],
                    "inside": "yes" if t.inside[i] else "no",
                }
            )
    return pd.DataFrame(rows)


def every_curve(families=(), corpora=(), ks=KS, protocol="paper"):
    """Curves of several families on their corpora, each with those of `ks` that its vocabulary allows.

    Args:
        families: names or YAML paths; empty: the embedded families.
        corpora: names or paths; empty: each family's own.
    Returns:
        list of Curve, family by family.
    """
    families = list(families) or [name for name in family_names() if load_family(name).embedded]
    found = []
    for family in families:
        for curve in family_curves(family, corpora, [1], protocol).values():
            allowed = [k for k in ks if k <= curve.vocab_size] or [1]
            tables, missing = family_tables(family, curve.corpus, protocol)
            found.append(rbp_curve(tables, allowed, missing=missing))
    return found
