"""The curves and fits of a family as two CSV files, for people who want the numbers without the pages."""

from rbplib.laws.curve import family_curve
from rbplib.laws.law import fit_laws
from rbplib.pages.tables import KS, family_curves, law_frame, size_frame
from rbplib.settings import load_family, results_dir, write_text


def write_fits(family, corpora=None, protocol="paper", n_bootstrap=10_000, seed=42):
    """Write results/curves/FAMILY.csv and results/fits/FAMILY.csv.

    Args:
        family: name or YAML path. corpora: names; the family's own when empty.
    Returns:
        paths of the two files: RBP_k per corpus, model and k; the law per corpus and k, both intervals.
    Raises:
        InputError: fewer than three models, which no fit can use.
    """
    import pandas as pd

    family = load_family(family)
    laws, sizes = [], []
    for name, curve in family_curves(family, corpora, (1,), protocol).items():
        ks = [k for k in KS if k <= curve.vocab_size]
        curve = family_curve(family, name, ks, protocol)
        frame = size_frame({name: curve}, ks)
        columns = [f"RBP_{k}" for k in ks]
        long = frame.melt([c for c in frame if c not in columns], columns, var_name="k", value_name="RBP_k")
        sizes.append(long.assign(k=long.k.str.removeprefix("RBP_").astype(int), corpus=name))
        laws.append(law_frame(fit_laws(curve, ks, n_bootstrap=n_bootstrap, seed=seed)).assign(corpus=name))
    written = []
    for kind, frames in (("curves", sizes), ("fits", laws)):
        path = results_dir() / kind / f"{family.name}.csv"
        write_text(path, pd.concat(frames).to_csv(index=False))
        written.append(path)
    return written
