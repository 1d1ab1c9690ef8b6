"""Words of the glossary: the first use of each on a page becomes a link to it, with its meaning as
hover text.

The links are set when all pages are read, so that they stand on hand-written and on executed pages
alike, in sentences that a run wrote, and where a word of the glossary stands alone in a cell, as a
status or a verdict.
"""

import html
import re
from functools import lru_cache

from docutils import nodes
from rbplinks import replace_words, set_raw
from rbpmath import aloud, spelt
from sphinx.util.nodes import clean_astext, make_refnode

GLOSSARY = "book/glossary"
ALONE = {  # plain words else
    *"ok bound agrees differs mixed measured proved best behind tie".split(),
    *"documents sources trainings".split(),
    "none of these",
    "not sources; trainings unknown",
    "only in this run",
    "only in the book",
}
OTHER_FORMS = {  # how a word stands on pages, where that is not the word with an s or without
    "hit": "hits",
    "loss": "(?<!training )loss(?:es)?",
    "run of hits": "runs? of hits",
    "few misses": "(?<=: )few misses",  # the status; elsewhere misses that are few
    "few hits": "(?<=: )few hits",
    # a forecast that misses, or a line that points miss, is no token
    "miss": "(?<!forecast )(?<!ranks )(?<!It )misses|(?<=[Aa] )miss|(?<=[Nn]o )miss|miss(?= more)",
    "cut": "(?<=[Aa] )cut|(?<=can be )cut|(?<!tokenizer )cuts",  # text and laws are cut too
    "open": "open(?! (?:mark|the))",
    "protocol": "(?<!hub's )protocols?",
    "window": "(?<!Slide a )windows?",
    "family": "(?<!exponential )(?:family|families)",  # one of laws is none of models
    # those are of ranks, not of sizes
    "exponent": "(?<!local )(?<!In the )exponents?(?! at the pivot)",
    "corpus": "corpus|corpora",
    "source": "sources?(?! (?:code|folder|file))",
    "residual sd": "residual (?:sd|scatter)",
    "ICC": "ICC|intraclass correlation",
}
CELL = re.compile(r'(<td class="text[^"]*">(?:<span[^>]*>[^<]*</span> )?)([^<]+)(?=</td>)')


@lru_cache(maxsize=1)
def meanings(env):
    """{word: (anchor, meaning)} of the glossary."""
    words = {}
    for item in env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        definition = next(item[-1].findall(nodes.paragraph))
        for term in item.findall(nodes.term):
            words[clean_astext(term)] = term["ids"][0], aloud(spelt(definition.astext()))
    return words


def forms(words):
    """(pattern that finds any of the words, the words in the order of its groups); longer words
    come first."""
    words = sorted(set(words) - ALONE, key=len, reverse=True)
    each = [OTHER_FORMS.get(w, re.escape(w) + ("" if w.endswith("s") else "s?")) for w in words]
    tried = "|".join(f"({form})" for form in each)
    return re.compile(rf"(?<![\w-])(?:{tried})(?![\w-])"), words


def link_first_uses(app, doctree, docname):
    if GLOSSARY not in app.env.found_docs or app.builder.format != "html":
        return
    names = meanings(app.env)
    by_anchor = dict(names.values())
    for reference in doctree.findall(nodes.reference):  # those that a page sets itself
        target = reference.get("refid") or reference.get("refuri", "").rpartition("#")[2]
        if target in by_anchor:
            reference["reftitle"] = by_anchor[target]
    if docname == GLOSSARY:
        return
    (pattern, words), seen = forms(names), set()

    def link(word, shown):
        anchor, meaning = names[word]
        inner = nodes.inline("", shown, classes=["xref", "std", "std-term"])
        seen.add(word)
        return make_refnode(app.builder, docname, GLOSSARY, anchor, inner, meaning)

    def first_use(match):
        word = words[match.lastindex - 1]
        return [link(word, match[0])] if word not in seen else []

    def in_cell(match):
        before, word = match.groups()
        if word not in names or word in seen:
            return match[0]
        reference = link(word, word)
        about = f'href="{reference["refuri"]}" title="{html.escape(reference["reftitle"])}"'
        return f'{before}<a class="rbp-term" {about}>{word}</a>'

    # tables, then sentences
    for raw in doctree.findall(nodes.raw):
        if '<table class="rbp-table"' in raw.astext():
            set_raw(raw, CELL.sub(in_cell, raw.astext()))
    replace_words(doctree, pattern, first_use)


def setup(app):
    app.connect("doctree-resolved", link_first_uses, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
