"""Formulas that a run or book/claims.yml writes as plain text, RBP_1 or -log p_N, set as
mathematics are."""

import html
import re

from docutils import nodes
from rbplinks import replace_words, split

MATH = re.compile(
    r"(?<![\w^_])-(?=log\b)|\b(?:(?P<of>RBP|p|log)(?:(?P<how>[_^])|(?<=log)(?=10\b))(?P<what>\w+))"
    r"|(?<![\w-])(?P<greek>mu/sigma|alpha|mu|sigma)(?![\w-])"
)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # TeX puts a space behind any other comma
GREEK = {"mu/sigma": "μ/σ", "mu": "μ", "sigma": "σ", "alpha": "α"}
# what is ours in a table; other cells may say what people named
PARTS = re.compile(r"<(th|caption|summary|p)\b.*?</\1>|(?<=>)-log [\w@]+(?=</td>)", re.S)
SIGN = re.compile(r"(?<=\^)-|(?<![\w_])-(?=log\b|\.?\d)")
PLAIN = {
    r"\RBP": "RBP",
    r"\log": "log ",
    r"\alpha": "α",
    r"\lambda": "λ",
    r"\mu": "μ",
    r"\sigma": "σ",
    r"\sum": "sum of ",
    r"\,": " ",
    "^2": "²",
}
LOW = str.maketrans("0123456789k", "₀₁₂₃₄₅₆₇₈₉ₖ")


def set_thousands(doctree):
    """Set the comma of 2,445 in the formulas of a page as part of the number."""
    for formula in doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block)):
        formula[:] = [nodes.Text(THOUSANDS.sub("{,}", formula.astext()))]


def formula(match):
    """A match of MATH as nodes."""
    if not match["of"]:
        return [nodes.Text(GREEK.get(match["greek"], "−"))]
    kind = nodes.superscript if match["how"] == "^" else nodes.subscript
    return [nodes.Text(match["of"]), kind("", match["what"])]


def pieces(text):
    """A text as nodes."""
    return split(text, MATH, formula)


def set_math(node):
    """Set what stands in a node, in place."""
    replace_words(node, MATH, formula)
    return node


def math_html(text):
    """The same as HTML."""
    tags = {nodes.subscript: "sub", nodes.superscript: "sup"}
    parts = []
    for node in pieces(text):
        words, tag = html.escape(node.astext()), tags.get(type(node))
        parts.append(f"<{tag}>{words}</{tag}>" if tag else words)
    return "".join(parts)


def set_html(text):
    """What stands between the tags of HTML, set."""
    parts = re.split("(<[^>]*>)", text)
    parts[::2] = [math_html(html.unescape(part)) for part in parts[::2]]
    return "".join(parts)


def set_table(text):
    """The heads, captions and names of losses of a table in HTML, set."""
    return PARTS.sub(lambda part: set_html(part[0]), text)


def spelt(tex):
    """TeX as words, for people who cannot see it typeset."""
    for name, word in PLAIN.items():
        tex = tex.replace(name, word)
    return " ".join(re.sub(r"\\mathrm|[{}$]", "", tex).split())


def aloud(text):
    """The same as letters alone, and TeX between dollar signs, for descriptions of figures and
    hover texts; Greek letters of plain text keep their names."""
    text = SIGN.sub("−", re.sub(r"\$[^$]+\$", lambda tex: spelt(tex[0]), text))
    return re.sub(r"\b(RBP|p)_(\d+|k)\b", lambda x: x[1] + x[2].translate(LOW), text)
