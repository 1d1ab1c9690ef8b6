"""Formulas that a run or book/claims.yml writes as plain text, RBP_1 or -log p_N, set as mathematics are."""

import html
import re

from docutils import nodes

MATH = re.compile(
    r"(?<![\w^_])-(?=log\b)|\b(?:(?P<of>RBP|p|log)(?:(?P<how>[_^])|(?<=log)(?=10\b))(?P<what>\w+))"
    r"|(?<![\w-])(?P<greek>mu/sigma|alpha|mu|sigma)(?![\w-])"
)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # TeX puts a space behind any other comma
GREEK = {"mu/sigma": "μ/σ", "mu": "μ", "sigma": "σ", "alpha": "α"}
# what is ours in a table; other cells may say what people named
PARTS = re.compile(r"<(th|caption|summary|p)\b.*?</\1>|(?<=>)-log [\w@]+(?=</td>)", re.S)
SIGN = re.compile(r"(?<=\^)-|(?<![\w_])-(?=log\b|\.?\d)")
LOW = str.maketrans("0123456789k", "₀₁₂₃₄₅₆₇₈₉ₖ")
KINDS = {"_": nodes.subscript, "^": nodes.superscript}
LEFT = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def set_thousands(doctree):
    """Set the comma of 2,445 in the formulas of a page as part of the number."""
    for formula in doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block)):
        formula[:] = [nodes.Text(THOUSANDS.sub("{,}", formula.astext()))]


def pieces(text):
    """A text as nodes."""
    found, end = [], 0
    for match in MATH.finditer(text):
        found.append(nodes.Text(text[end : match.start()]))
        found += (
            [nodes.Text(match["of"]), KINDS[match["how"] or "_"]("", match["what"])]
            if match["of"]
            else [nodes.Text(GREEK.get(match["greek"], "−"))]
        )
        end = match.end()
    return [*found, nodes.Text(text[end:])]


def math_html(text):
    """The same as HTML."""
    tags = {nodes.subscript: "sub", nodes.superscript: "sup"}
    found = ((tags.get(type(n)), html.escape(n.astext())) for n in pieces(text))
    return "".join(f"<{tag}>{said}</{tag}>" if tag else said for tag, said in found)


def aloud(text):
    """The same as letters alone, for descriptions of figures and hover texts; Greek letters keep their names."""
    return re.sub(r"\b(RBP|p)_(\d+|k)\b", lambda x: x[1] + x[2].translate(LOW), SIGN.sub("−", text))


def set_html(text):
    """What stands between the tags of HTML, set."""
    return "".join(
        part if part.startswith("<") else math_html(html.unescape(part))
        for part in re.split("(<[^>]*>)", text)
    )


def set_table(text):
    """The heads, captions and names of losses of a table in HTML, set."""
    return PARTS.sub(lambda part: set_html(part[0]), text)


def set_math(node):
    """Set what stands in a node, in place."""
    for text in list(node.findall(nodes.Text)):
        if MATH.search(text) and not isinstance(text.parent, LEFT):
            text.parent.replace(text, pieces(str(text)))
    return node
