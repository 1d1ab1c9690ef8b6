"""What a page is written with: fits side by side,
and Markdown that the run fills with their numbers.

    book.start()                     # checks the page's parameters, sets the look, teaches %%words
    tables, curves = book.measure(family, corpora, ks, protocol)
    laws = curves.each(fit_law, k=1) # Cases: {corpus: Law}
    book.show(fig)                   # a figure, described from what is drawn in it

A cell that begins with `%%words` is Markdown with {{ expressions }} and {% if %} of the page's
variables (Jinja): `{{ laws.alpha }}` is a range, `{{ laws.having("r2") | length }}` a count.
Papermill, Jupyter and Colab fill it at its place; `as_words` makes it a Markdown cell of the book.
Sentences that several pages say are macros in notebooks/words.md.
"""

import html
import re
import textwrap
from collections import Counter
from functools import cache

import numpy as np

from paper.show.claims import beyond as beyond
from paper.show.claims import cases as cases
from paper.show.claims import claim as claim
from paper.show.claims import inside as inside
from paper.show.claims import keep as keep
from paper.show.claims import near_one as near_one
from paper.show.numbers import Values, interval, number, p_value, short
from paper.show.plain import corpus_title as title
from paper.show.plain import shown as plain
from paper.show.prose import imported_words as imported_words
from paper.show.prose import table as table
from paper.show.prose import token as token
from paper.show.prose import within as within
from paper.tables_here import ladders as ladders
from rbplib.families import held as held

MAGIC = re.compile(
    r"%%words *(\w*)\n"
)  # its line may name what other pages show too: answer, front, slide
CAPTION = re.compile(r"\*(See|Try):\*\s+(.+?)\s*(?:\n\s*\n|\Z)", re.S)  # of the figure above it


class Cases(dict):
    """Fits, or anything, by corpus: `laws.alpha` is the exponent of each,
    as sentences show them."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Values([getattr(case, name) for case in self.values()])

    @property
    def first(self):
        return next(iter(self.values()))

    @property
    def made(self):
        """Those that could be made: a sentence stands where one could not."""
        return Cases({name: case for name, case in self.items() if not isinstance(case, str)})

    def each(self, function, *args, **options):
        """`function` of each case: `curves.each(fit_law, k=1)`."""
        return Cases({name: function(case, *args, **options) for name, case in self.items()})

    def having(self, *names):
        """Cases that have all of these: finite numbers, anything else that is not empty."""
        lacking = self.lacking(*names)
        return Cases({name: case for name, case in self.items() if name not in lacking})

    def lacking(self, *names):
        """The others."""
        others = Cases()
        for key, case in self.items():
            for values in (np.asarray(getattr(case, name)) for name in names):
                if not values.size or (values.dtype.kind == "f" and not np.isfinite(values).all()):
                    others[key] = case
        return others

    def by(self, name):
        """[(value, Cases that have it)] of a field."""
        groups = {}
        for key, case in self.items():
            groups.setdefault(getattr(case, name), Cases())[key] = case
        return list(groups.items())

    def apart(self, parameter):
        """[(what varies, intervals above 0, below 0, intervals)] of a parameter of laws."""
        intervals = {}
        for law in self.values():
            for name, ends in law.sides(parameter).items():
                if np.isfinite(ends).all():
                    intervals.setdefault(name, []).append(np.sign(ends).sum())
        rows = []
        for name, signs in intervals.items():
            rows.append((name, signs.count(2), signs.count(-2), len(signs)))
        return rows

    @classmethod
    def of(cls, cases):
        """Cases of a list, by their number."""
        return cls(enumerate(cases))


# ---- words filled with numbers


def in_words(value):
    """How a sentence shows a value: three digits, an interval, the range of many, text as it is."""
    if isinstance(value, Values):
        return value.range
    if isinstance(value, str):
        return value.strip()  # of a macro
    if isinstance(value, tuple) and len(value) == 2:
        return interval(value)
    return number(value)


def digits(value, count=2):
    return value.between(str(count)) if isinstance(value, Values) else number(value, count)


def percent(value):
    return value.percent if isinstance(value, Values) else f"{number(100 * value, 2)}%"


def middle(values, how=""):
    """The median of Values."""
    return format(values.middle, str(how))


def tally(names):
    """How often each name is there: "2 × *too few sizes*"."""
    return ", ".join(f"{count} × *{name}*" for name, count in Counter(names).most_common())


def finite(values):
    return [value for value in values if np.isfinite(value)]


FILTERS = {
    "digits": digits,
    "pct": percent,
    "p": p_value,
    "middle": middle,
    "median": np.median,
    "finite": finite,
    "tally": tally,
    "short": short,
    "plain": plain,
    "title": title,
}


@cache
def templates():
    """Jinja as pages use it, with the macros of notebooks/words.md as `words`."""
    import jinja2

    from rbplib.families import held

    options = {"trim_blocks": True, "lstrip_blocks": True, "finalize": in_words}
    # Markdown has its own {#name}
    options |= {"comment_start_string": "{##", "comment_end_string": "##}"}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, **options)
    environment.filters |= FILTERS
    environment.globals["Cases"] = Cases
    macros = held("notebooks", "words.md").read_text(encoding="utf-8")
    environment.globals["words"] = environment.from_string(macros).module
    return environment


def fill(text, names):
    """Markdown with its numbers, from {variable: value}; an unknown variable is an error."""
    filled = templates().from_string(text).render(names)
    return re.sub(r"\n{3,}", "\n\n", filled).strip()


def say(line, text, names):
    """What the cell magic %%words does: show a filled template, under the name on its line."""
    from paper.show.prose import say as display

    display(fill(text, names), name=line.strip() or None)


# ---- the start of a page


def start():
    """Check the parameters of a page, set the look of its figures, teach its kernel %%words."""
    from IPython import get_ipython
    from matplotlib import pyplot as plt

    from paper.show import parameters, style

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


def measure(family, corpora, ks, protocol, grid=False):
    """({corpus: rank tables}, {corpus: Curve}) of a family as Cases, measured where not there yet.

    ks: ranks to count, or a function that gives them for a size of vocabulary. grid: also some
    thirty ranks over the whole vocabulary.
    """
    from paper.counts import k_grid
    from paper.curves import rbp_curves, with_repeats
    from rbplib.losses import vocabulary
    from rbplib.measuring import measured

    # tables, and what the page rests on
    tables = Cases(measured(family, corpora, protocol))
    scope(tables)
    # counts at those k, with the trainings of one size
    V = vocabulary(tables.first)
    counted = set(within(ks(V) if callable(ks) else ks, tables))
    curves = rbp_curves(tables, sorted(counted.union(k_grid(V) if grid else ())))
    return tables, Cases(with_repeats(curves, family, corpora, protocol))


def scope(tables):
    """Say in a line what a page rests on, which the book shows under its title.

    tables: {corpus, or (family, corpus): rank tables}.
    """
    from paper import tables_here

    say("scope", "{{ words.scope(scope) }}", {"scope": tables_here.scope(tables)})


# ---- the executed page


def as_words(page):
    """Make filled templates Markdown cells, and a paragraph *See:* or *Try:* its figure's caption.

    In place, after a run. A template with a name stays an output, which carries the name; a caption
    goes where nothing was drawn.
    """
    kept = []
    for cell in page.cells:
        # words without a name are Markdown
        magic = MAGIC.match(cell.source) if cell.cell_type == "code" else None
        if magic and magic[1]:
            cell.metadata["tags"] = ["remove-input"]
        elif magic:
            text = "\n".join(o.data["text/markdown"] for o in cell.outputs if "data" in o)
            cell = type(cell)(cell_type="markdown", id=cell.id, metadata={}, source=text)
        # a caption goes to its figure
        caption = CAPTION.match(cell.source) if cell.cell_type == "markdown" else None
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


def looks(corpora):
    """{corpus: colour and marker} of its points, the same on every page."""
    from paper.show import style

    return style.corpus_styles(corpora)


def family_looks(families):
    """{family: colour and marker} of its points, the same on every page."""
    from paper.show import style

    return {family: style.family_style(family) for family in families}


def kinds(names):
    """{name: colour, marker and line} of ways, losses or values that one axis shows."""
    from paper.show import style

    return style.kinds(names)


def panels(n, height=2.5, columns=3):
    """(figure, n axes) side by side in columns with common scales."""
    from paper.show import figures

    return figures.panels(n, height, columns)


def show(figure, shows="", facts=(), of=(), fold=None):
    """Put a figure on the page: its finding as the title, lines named where they end or by a
    legend, described from what is drawn.

    shows, facts: its title is the macro shows_SHOWS of words.md on these. of, fold: as of
    `figures.show`.
    """
    from paper.show import figures
    from paper.show.describe import describe

    if shows:
        figure.shows = {shows: list(facts)}

    set_title(figure)
    axes = [ax for ax in figure.axes if ax.get_visible()]
    # named in the figure, in its last panel, or by one legend below it
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    named = handles if any(ax.get_legend() for ax in axes) else figures.label_ends(axes[-1])
    handles = {label: handle for label, handle in handles.items() if label not in named}
    if handles:
        columns = max(1, min(3, 100 // (6 + max(map(len, handles)))))
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns)
    figures.show(figure, describe(figure), fold, of=of)


def set_title(figure):
    """Title a figure by what it shows, of the facts that its drawing functions noted."""
    shown, before = getattr(figure, "shows", {}), figure.get_suptitle()
    if not shown:
        return
    kind, facts = shown.popitem()  # the last is what the figure is for
    words = fill(f"{{{{ words.shows_{kind}(of) }}}}", {"of": Cases.of(facts), "facts": facts})
    title = f"{before}: {words}" if before else words
    # lines of like length
    lines = 1 + len(title) // int(10.7 * figure.get_figwidth())
    title = "\n".join(textwrap.wrap(title, len(title) // lines + 9))
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
