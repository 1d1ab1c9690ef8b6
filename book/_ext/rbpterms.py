"""Words of the glossary: the first use of each on a page becomes a link to it, with its meaning as hover text.

The links are set when the HTML is written, so that they stand on hand-written and on executed pages alike, in sentences
that a run wrote, and where a word of the glossary stands alone, as a status does in a cell and a verdict in bold. The
head of a column is a button that sorts, so it shows the meaning and is no link.
"""

import re
from functools import lru_cache
from html import escape
from itertools import groupby
from operator import itemgetter

from docutils import nodes
from rbpmath import aloud
from sphinx import addnodes
from sphinx.util.nodes import clean_astext

GLOSSARY = "book/glossary"
ALONE = (
    "ok",
    "bound",
    "agrees",
    "differs",
    "mixed",
    "measured",
    "proved",
    "best",
    "behind",
    "tie",
)  # plain words else
ALONE += (
    "documents",
    "sources",
    "trainings",
    "none of these",
    "not sources; trainings unknown",
    "only in this run",
    "only in the book",
)
OTHER_FORMS = (
    {  # how a word stands on pages, where that is not the word with an s or without; it begins as the word
        "hit": "hits",
        "loss": "(?<!training )loss(?:es)?",
        "run of hits": "runs? of hits",
        "status": "(?<!exit )status",
        "few misses": "(?<=: )few misses",  # a status where one is told; elsewhere misses that are few
        "few hits": "(?<=: )few hits",
        "miss": "(?<!would )(?:miss|misses)",
        "family": "(?<!exponential )family|families",  # one of laws is none of models
        "exponent": "(?<!local )(?<!In the )exponents?(?! at the pivot)",  # those are of ranks, not of sizes
        "corpus": "corpus|corpora",
        "source": "sources?(?! (?:code|folder|file))",
        "residual sd": "residual (?:sd|scatter)",
        "ICC": "ICC",
        "KL": "KL",
        "R²": "R²",
    }
    | dict.fromkeys(ALONE, "(?!)")
)
OTHER_WORDS = {"intraclass correlation": "ICC"}
PLAIN = {
    r"\RBP": "RBP",
    r"\log": "log ",
    r"\alpha": "α",
    r"\mu": "μ",
    r"\sigma": "σ",
    r"\sum": "sum of ",
    r"\,": " ",
}
CELL = re.compile(
    r'(<td class="text[^"]*">(?:<span[^>]*>[^<]*</span> )?|<span class="rbp-basis">)([^<]+)(?=</)'
)
HEAD = re.compile(r'(<th scope="col")>([^<]+)(?=</th>)')
UNTOUCHED = (
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.title,
    nodes.math,
    nodes.math_block,
    nodes.raw,
)
UNTOUCHED += (
    nodes.caption,
    nodes.image,
    nodes.comment,
    nodes.citation,
    addnodes.pending_xref,
    addnodes.toctree,
)


def plain(text):
    """Text in which TeX is spelt for people who cannot see it typeset."""
    for tex, word in PLAIN.items():
        text = text.replace(tex, word)
    return aloud(" ".join(re.sub(r"\\mathrm|[{}$]", "", text).split()))


@lru_cache(maxsize=1)
def meanings(env):
    """{word: (anchor, meaning)} of the glossary."""
    found = {}
    for item in env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        definition = next(item.findall(nodes.definition))
        for term in item.findall(nodes.term):
            found[clean_astext(term)] = (
                term["ids"][0],
                plain(next(definition.findall(nodes.paragraph)).astext()),
            )
    return found


def forms(words):
    """(pattern that finds any of the words, the words in the order of its groups); longer words come first.

    Only those that begin with the letter at a place are tried there: to try all takes fifteen times as long.
    """
    each = [
        (w[0], w, OTHER_FORMS.get(w, re.escape(w) + ("" if w.endswith("s") else "s?")))
        for w in words
    ]
    each += [(other[0], w, other) for other, w in OTHER_WORDS.items() if w in words]
    each.sort(key=lambda found: (found[0], -len(found[1])))
    tried = "|".join(
        f"(?={letter})(?:{'|'.join(f'({form})' for *_, form in found)})"
        for letter, found in groupby(each, key=itemgetter(0))
    )
    return re.compile(rf"(?<![\w-])(?=[^\W\d_])(?:{tried})(?![\w-])"), [word for _, word, _ in each]


def link(word, shown, known, place):
    anchor, meaning = known[word]
    inner = nodes.inline("", shown, classes=["xref", "std", "std-term"])
    return nodes.reference(
        "", "", inner, internal=True, refuri=f"{place}#{anchor}", reftitle=meaning
    )


def linked(text, pattern, words, known, place, seen):
    """A string as Text and links: a word is linked where it stands for the first time."""
    found, end = [], 0
    for match in pattern.finditer(text):
        word = words[match.lastindex - 1]
        if word not in seen:
            seen.add(word)
            found += [nodes.Text(text[end : match.start()]), link(word, match[0], known, place)]
            end = match.end()
    return [*found, nodes.Text(text[end:])]


def link_first_uses(app, doctree, docname):
    if GLOSSARY not in app.env.found_docs or app.builder.format != "html":
        return
    known = meanings(app.env)
    by_anchor = dict(known.values())
    for reference in doctree.findall(nodes.reference):  # those that a page sets itself
        target = reference.get("refid") or reference.get("refuri", "").rpartition("#")[2]
        if target in by_anchor:
            reference["reftitle"] = by_anchor[target]
    if docname == GLOSSARY:
        return
    (pattern, words), seen, place = (
        forms(known),
        set(),
        app.builder.get_relative_uri(docname, GLOSSARY),
    )
    for node in list(doctree.findall(lambda n: isinstance(n, nodes.Text | nodes.raw))):
        if isinstance(node, nodes.raw):
            link_cells(node, known, place, (pattern, words))
        elif (
            isinstance(node.parent, nodes.strong) and (word := node.rstrip(".")) in {*ALONE} - seen
        ):
            seen.add(word)
            node.parent.replace(
                node, [link(word, word, known, place), nodes.Text(node[len(word) :])]
            )
        elif not any(isinstance(a, UNTOUCHED) for a in ancestors(node)) and pattern.search(node):
            node.parent.replace(node, linked(str(node), pattern, words, known, place, seen))


def ancestors(node):
    while node := node.parent:
        yield node


def link_cells(node, known, place, found):
    """Link what holds a word of the glossary alone, each word once: a cell of a table, behind its mark if it has one,
    or what a claim rests on. A head that is such a word, in any form, gets its meaning; found: as of forms()."""
    html, seen = node.astext(), set()
    pattern, words = found

    def alone(match):
        before, word = match.groups()
        if word not in known or word in seen:
            return match[0]
        seen.add(word)
        return f'{before}<a class="rbp-term" href="{place}#{known[word][0]}" title="{escape(known[word][1])}">{word}</a>'

    def headed(match):
        before, shown = match.groups()
        word = pattern.fullmatch(shown)
        return (
            f'{before} title="{escape(known[words[word.lastindex - 1]][1])}">{shown}'
            if word
            else match[0]
        )

    text = HEAD.sub(headed, CELL.sub(alone, html))
    node.children, node.rawsource = [nodes.Text(text)], text


def depend(app, doctree):
    """A page follows from the glossary."""
    if GLOSSARY in app.env.found_docs:
        app.env.note_dependency(app.env.doc2path(GLOSSARY))


def setup(app):
    app.connect("doctree-read", depend)
    app.connect("doctree-resolved", link_first_uses, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
