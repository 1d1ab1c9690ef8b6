"""One look for the whole book: a colour and a marker per family,
a shade and a marker per model or k.

Colours stay apart for colour-blind readers and are three times as dark as white; markers and line
styles repeat the distinction for readers in grey. Figures are SVG on a white plate, so that they
read the same in a dark page.
"""

import html
import re
import zlib
from io import StringIO
from itertools import cycle

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.backend_bases import _get_renderer
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.ticker import (
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from paper.show.describe import parts

COLOURS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#00A572",
    "purple": "#B580B3",
    "wine": "#83010E",
    "plum": "#650561",
    "black": "#000000",
    "grey": "#6B6B6B",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))

# An embedded ladder and the family it is modelled on share their colour.
FAMILIES = {
    "pythia": ("blue", "o"),
    "gpt2": ("vermilion", "s"),
    "opt": ("green", "^"),
    "qwen2.5": ("purple", "D"),
    "mamba": ("wine", "v"),
    "cerebras-gpt": ("plum", "P"),
    "bloom": ("black", "X"),
}
SPARE = tuple(COLOURS)  # of families not known here

# Corpora have hues of their own, and ways to fit, kinds of interval and the like have inks: a
# colour means one thing in the whole book. What is pointed out, such as the true token,
# has the accent.
TEXTS = ("#4B3F9E", "#7F7A14", "#1F7A7A", "#CC5577", "#8C5A2B", "#5A7FA8", "#3E5B2A")
CORPORA = ("docs", "code", "doctests", "licences", "descriptions", "wikipedia", "c4", "hotpotqa")
INKS = ("#2B2F36", "#9C7A3C", "#767B85", "#5C4A32", "#7C8AA5", "#A5562F")
ACCENT = "#D7601E"
GREY = "#888888"
EMPTY = "nothing to show"
# Two fifths of an SVG: when and by what it was drawn, indents, remarks, names of parts, digits
# below a hundredth of a point, what is said twice.
SPARED = {
    r"(?s: <metadata>.*</metadata>\n)": "",
    r'^ +|<!--.*-->\n| id="[A-Za-z.\d]+_\d+"| \n(?:([MLQC]) )?': r"\1",
    r'(?<=[ "MLQC])(\d+\.\d\d)\d+|(?<=translate\()(-?\d+\.\d\d)\d+': r"\1\2",
    r'(<use [^>]*)transform="translate\((\S+) (\S+)\)"/>': r'\1x="\2" y="\3"/>',
    r'(<use xlink:href="#m[^>]*?)(?: style="stroke[^"]*"|; stroke[^"]*(?="))': r"\1",
    r"(<g>\n)?(<g>\n)?<g>\n(<(?:use|path) [^>]*/>\n)</g>\n(?(1)</g>\n)(?(2)</g>\n)": r"\3",
}
FORMULAS = TextToPath()  # what one figure parsed is known to the next
WIDTH = 6.6  # inches; 700 px on a page at the size below
RC = {
    "figure.figsize": (WIDTH, 3.9),
    "figure.dpi": 106,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 10.5,
    "axes.titley": 1.0,  # where it is put anyway, found by measuring all ticks again
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "errorbar.capsize": 2.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "rbp",  # the same figure gives the same bytes
    "axes.prop_cycle": mpl.cycler(color=INKS),
}


def use():
    """Set the look for this process; called once at the top of a notebook."""
    mpl.rcParams.update(RC)


def family_style(name):
    """Colour and marker of a family: {"color", "marker"};
    one not known here has one by its name, and one on another amount of text, as
    nano-pythia-16m, a marker of its own."""
    base, text = re.fullmatch(r"(?:nano-)?(.*?)(?:-deduped|-(\d+)m)?", name).groups()
    number = int(text).bit_length() if text else zlib.crc32(name.encode())
    spare = SPARE[number % len(SPARE)], MARKERS[7 + number % 5]
    colour, marker = FAMILIES.get(base, spare)
    return {"color": COLOURS[colour], "marker": spare[1] if text else marker}


def series(n):
    """n styles in order (models by size, or k): [{"color", "marker"}], none too pale for white."""
    shades = colormaps["inferno"](np.linspace(0.05, 0.67, n))
    return [
        {"color": tuple(shade), "marker": marker}
        for shade, marker in zip(shades, cycle(MARKERS), strict=False)
    ]


def corpus_styles(names):
    """{corpus: {"color", "linestyle", "marker"}}: a known corpus looks the same on every page."""
    looks = kinds(dict.fromkeys([*CORPORA, *names]), TEXTS)
    return {name: looks[name] for name in names}


def kinds(names, colours=INKS):
    """{name: {"color", "linestyle", "marker"}} of ways to fit and the like, in the order given."""
    looks = {}
    for name, *look in zip(names, cycle(colours), cycle(LINES), cycle(MARKERS), strict=False):
        looks[name] = dict(zip(("color", "linestyle", "marker"), look, strict=True))
    return looks


def darker(colour):
    """A colour dark enough for words."""
    return tuple(0.7 * part for part in mpl.colors.to_rgb(colour))


def svg_of(figure):
    """The figure as SVG text, so that a rerun gives the same bytes; empty axes say so."""
    for ax in figure.axes:
        name_empty(ax)
        for axis in (ax.xaxis, ax.yaxis):
            log_numbers(axis)
    for text in figure.findobj(Text):
        text.set_text(drawn(text.get_text()))
    # not by `savefig`, which draws twice: what draws the figure measures it for its layout too
    out, canvas = StringIO(), FigureCanvasSVG(figure)
    pen = _get_renderer(figure, lambda _: canvas.print_svg(out))
    pen._vector_renderer._text2path = FORMULAS
    canvas.get_renderer = lambda: pen
    figure.draw(pen)
    pen.finalize()
    svg = out.getvalue()
    for pattern, kept in SPARED.items():
        svg = re.sub(pattern, kept, svg, flags=re.M)
    return svg


def drawn(text):
    """Text from `plain` as matplotlib draws it: each dollar, the name RBP_1,
    the comma of $2,445$."""
    text = html.unescape(text.replace("&#36;", r"\$"))
    text = text if "$" in text else re.sub(r"\bRBP_(\d+)", r"RBP$_{\1}$", text)
    comma = r"(?<=\d),(?=\d{3}(?!\d))"
    return re.sub(r"(?<!\\)\$[^$]+\$", lambda formula: re.sub(comma, "{,}", formula[0]), text)


def name_empty(ax):
    """Say so on an axis on which nothing could be drawn."""
    points = [np.full((1, 2), np.nan), *(points for _, _, points in parts(ax))]
    if ax.axison and not np.isfinite(np.vstack(points)).all(axis=1).any():
        ax.set_gid(EMPTY)
        ax.text(0.5, 0.5, EMPTY, color=GREY, ha="center", va="center", transform=ax.transAxes)


def log_numbers(axis):
    """Ends that a logarithmic axis can have, and without numbers of its own some that do not meet:
    decades, parts if few."""
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() != "log":
        return
    if not low > 0:
        low, high = 0.1, 1
        axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})
    if not axis.isDefault_majloc:
        return
    plain, (first, last) = 1e-4 < low and high < 1e4, np.log10([low, high])
    if last - first < 1.3 or np.floor(last) - np.ceil(first) < 1:
        # too short for two decades, or for simple parts of them
        parts_shown = (1, 2, 5) if plain else (1, 3)
        short = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        axis.set_major_locator(short if high / low < 4 else LogLocator(subs=parts_shown))
        wide = LogFormatterSciNotation(10, False, (np.inf, np.inf))
        axis.set_major_formatter("{x:g}" if plain else wide)
        axis.set_minor_locator(NullLocator())  # the last mark of an axis has its number
    axis.set_minor_formatter(NullFormatter())
