"""What a page is written with: figures and tables on the page, the lines that judge claims,
and Markdown that the run fills with its numbers.

    book.start()                     # checks the page's parameters, sets the look, teaches %%words
    ladders = rbp.ladders(family, corpora, protocol)
    book.scope(ladders)              # what the page rests on, under its title
    book.show(fig, "fits", laws)     # a figure, titled and described by what is drawn in it

A cell that begins with `%%words` is Markdown with {{ expressions }} and {% if %} of the page's
variables (Jinja): `{{ x | range }}` is from the smallest to the largest, `{{ x | digits(2) }}` in
two digits. Papermill, Jupyter and Colab fill it at its place; `as_words` makes it a Markdown cell
of the book. Sentences that several pages say are macros in notebooks/words.md.
"""

import html
import re
import textwrap

from paper.show import describe, figures, parameters, prose, style
from paper.show.claims import (
    NAME,
    RANKS,
    beyond,
    cases,
    claim,
    inside,
    judge,
    keep,
    lows_and_highs,
    near_one,
)
from paper.show.figures import name_groups, panels
from paper.show.numbers import digits, short
from paper.show.plain import corpora_of, corpus_title, shown
from paper.show.prose import fill, imported_words, in_words, table, token, within
from paper.show.style import corpus_styles, kinds, series
from paper.tables_here import ladders
from paper.tables_here import scope as rests_on
from rbplib.law import LOOKS

title, plain = corpus_title, shown  # of a corpus; text of people made harmless
looks = corpus_styles  # {corpus: colour and marker}, the same on every page

# its line may name what other pages show too: answer, front, slide
MAGIC = re.compile(r"%%words *(\w*)\n")
CAPTION = re.compile(r"\*(See|Try):\*\s+(.+?)\s*(?:\n\s*\n|\Z)", re.S)  # of the figure above it


# ---- the start of a page


def start():
    """Check the parameters of a page, set the look of its figures and texts, teach its kernel
    %%words."""
    from IPython import get_ipython
    from matplotlib import pyplot as plt

    # a figure is shown by `show`, not half drawn at the end of its first cell; a backend
    # that came later would turn that on again
    plt.switch_backend(plt.get_backend())
    plt.ioff()
    parameters.check()
    style.use()
    shell = get_ipython()
    if shell:
        magic = lambda line, cell: say(line, cell, shell.user_ns)  # noqa: E731
        shell.register_magic_function(magic, "cell", "words")
        # a text has one look wherever its law is drawn
        for name, look in looks(corpora_of(shell.user_ns)).items():
            LOOKS[name] = look | {"label": title(name)}


def say(line, text, names):
    """What the cell magic %%words does: show a filled template, under the name on its line."""
    prose.say(fill(text, names), name=line.strip() or None)


def scope(tables):
    """Say in a line what a page rests on, which the book shows under its title.

    tables: {corpus, or (family, corpus): rank tables}.
    """
    say("scope", "{{ words.scope(scope) }}", {"scope": rests_on(tables)})


# ---- the executed page


def as_words(page):
    """Make filled templates Markdown cells, and a paragraph *See:* or *Try:* its figure's caption.

    In place, after a run. A template with a name stays an output, which carries the name; a caption
    goes where nothing was drawn.
    """
    kept = []
    for cell in page.cells:
        # words without a name are Markdown
        magic = cell.cell_type == "code" and MAGIC.match(cell.source)
        if magic and magic[1]:
            cell.metadata["tags"] = ["remove-input"]
        elif magic:
            text = "\n".join(o.data["text/markdown"] for o in cell.outputs if "data" in o)
            cell = type(cell)(cell_type="markdown", id=cell.id, metadata={}, source=text)
        # a caption goes to its figure
        caption = cell.cell_type == "markdown" and CAPTION.match(cell.source)
        if caption and kept:
            assert "show(" in kept[-1].source, f"not below a figure: {caption[0]}"
            outputs = kept[-1].get("outputs", [])
            drawn = [output for output in outputs if is_figure(output)]
            unfolded = [output for output in drawn if "fold" not in output.metadata]
            if drawn:
                set_caption(outputs, (unfolded or drawn)[-1], caption[2])
            cell.source = cell.source[caption.end() :]
        if cell.source.strip():
            kept.append(cell)
    page.cells = kept


def is_figure(output):
    """Does an output draw something?"""
    data = output.get("data", {})
    empty = "Nothing could be drawn." in data.get("text/plain", "")
    moves = 'class="rbp-move"' in data.get("text/html", "")
    return moves or ("image/svg+xml" in data and not empty)


def set_caption(outputs, figure, caption):
    """A figure that moves has a place for its caption; one that stands still is followed by it."""
    if "text/html" in figure.data:
        text = html.escape(re.sub(r"[*$]", "", caption.replace("\n", " ")))
        opened = f"<figcaption>{text}"
        figure.data["text/html"] = figure.data["text/html"].replace("<figcaption>", opened, 1)
        return
    output = {"output_type": "display_data", "data": {"text/markdown": caption}}
    output["metadata"] = {"see": True}
    outputs.insert(outputs.index(figure) + 1, type(figure)(output))


# ---- figures


def family_looks(families):
    """{family: colour and marker} of its points, the same on every page."""
    return {family: style.family_style(family) for family in families}


def show(figure, shows="", facts=(), corpus=None, fold=None):
    """Put a figure on the page and close it: its finding as the title, lines named where they end
    or by a legend, described from what is drawn for readers who cannot see it.

    shows, facts: its title is the macro shows_SHOWS of words.md on these. corpus: title of that
    which it is of alone. fold: what stands in its place until a click.
    """
    from IPython.display import display
    from matplotlib import pyplot as plt

    if shows:
        set_title(figure, fill(f"{{{{ words.shows_{shows}(facts) }}}}", {"facts": [*facts]}))
    # named in the figure, in its last panel, or by one legend below it
    axes, handles = describe.seen_axes(figure), {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    named = handles if any(ax.get_legend() for ax in axes) else figures.label_ends(axes[-1])
    handles = {label: handle for label, handle in handles.items() if label not in named}
    if handles:
        columns = max(1, min(3, 100 // (6 + max(map(len, handles)))))
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns)
    # drawing says of empty axes that they are
    alt, svg = html.unescape(describe.describe(figure)), style.svg_of(figure)
    if all(ax.get_gid() == style.EMPTY for ax in axes):
        alt += " Nothing could be drawn."
    # what the page's own script reads
    metadata = {"image/svg+xml": {"alt": alt}, "data": describe.drawn_data(figure)}
    metadata |= {"of": [html.unescape(corpus)]} if corpus else {}
    metadata |= {"fold": fold} if fold else {}
    display({"image/svg+xml": svg, "text/plain": alt}, raw=True, metadata=metadata)
    plt.close(figure)


def set_title(figure, words):
    """Words as the title of a figure, behind what it has, in lines of like length."""
    before = figure.get_suptitle()
    words = f"{before}: {words}" if before else words
    lines = 1 + len(words) // int(10.7 * figure.get_figwidth())
    words = "\n".join(textwrap.wrap(words, len(words) // lines + 9))
    figure.suptitle(words, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
