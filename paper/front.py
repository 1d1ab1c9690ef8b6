"""The figure of the README: the law at k = 1 on every embedded family.

`python -m paper.front` draws it from the tables that are here.
"""

from matplotlib import pyplot as plt

from paper.curves import rbp_curve
from paper.laws import fit_law
from paper.show import figures, style
from paper.show.tables import corpus_title
from paper.tables_here import measured_families
from rbplib.families import root, write_text


def law_figure(path):
    """Write the figure as SVG: a panel per corpus, a line per family. Returns its path."""
    style.use()
    families = measured_families()
    corpora = list(dict.fromkeys(corpus for _, corpus in families))
    rows = -(-len(corpora) // 2)
    size = style.WIDTH * 1.15, 2.7 * rows
    fig, axes = plt.subplots(rows, 2, figsize=size, sharex=True, squeeze=False)
    panels = dict(zip(corpora, axes.flat, strict=False))

    # a line per family, in the panel of its corpus
    for (family, corpus), tables in families.items():
        law = fit_law(rbp_curve(tables, (1,)), n_bootstrap=0)
        figures.draw_fit(panels[corpus], law, label=family, **style.family_style(family))
    for corpus, ax in panels.items():
        figures.law_axes(ax, r"$-\log\,\mathrm{RBP}_{1}$").set(
            title=corpus_title(corpus), xlabel=""
        )

    # a spare panel leaves its numbers of sizes to the one above it
    for spare in axes.flat[len(corpora) :]:
        axes[-2 if rows > 1 else -1, -1].xaxis.set_tick_params(labelbottom=True)
        spare.remove()
    fig.supxlabel("model size $S$ (non-embedding parameters)", fontsize=10.5)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    write_text(path, figures.svg_of(fig))
    plt.close(fig)
    return path


if __name__ == "__main__":
    print(law_figure(root() / "book" / "_static" / "law.svg"))
