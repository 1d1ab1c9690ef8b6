"""The figure of the README and of the book's first page: the law at k = 1 on every embedded family."""

import numpy as np

from rbplib.laws.law import fit_law
from rbplib.pages import figures, style
from rbplib.pages.tables import corpus_title, family_curves
from rbplib.settings import default_corpora, load_family, write_text


def law_figure(families, path, k=1, n_bootstrap=1000, seed=42):
    """Draw -log RBP_k against S, one panel per corpus and one line per family, and write it as SVG.

    Args:
        families: names. path: of the SVG.
    Returns:
        path.
    """
    from matplotlib import pyplot as plt

    style.use()
    corpora = default_corpora(load_family(families[0]))
    rows = -(-len(corpora) // 2)
    fig, axes = plt.subplots(rows, 2, figsize=(style.WIDTH * 1.15, 2.7 * rows), sharex=True, squeeze=False)
    for family in families:
        for name, curve in family_curves(family, corpora, (k,)).items():
            ax = axes.flat[corpora.index(name)]
            law = fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed)
            look = style.family_style(family)
            figures.draw_power_line(ax, law.S, law.alpha, law.log_c, **look)
            figures.draw_points(ax, curve.S, -np.log(curve.rbp[:, 0]), label=family, **look)
    for name, ax in zip(corpora, axes.flat, strict=False):
        figures.law_axes(ax, rf"$-\log\,\mathrm{{RBP}}_{{{k}}}$")
        ax.set(title=corpus_title(name), xlabel="")
    fig.supxlabel("model size $S$ (non-embedding parameters)", fontsize=10.5)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    write_text(path, figures.svg_of(fig))
    plt.close(fig)
    return path
