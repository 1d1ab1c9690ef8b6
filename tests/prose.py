"""How the prose of a built book reads: a line of measures a page.

python -m tests.prose _build/html
"""

import re
import sys
from pathlib import Path

import pandas as pd
from bs4 import BeautifulSoup

MOST_WORDS = 25  # of a sentence
ASIDE = (  # what is no prose in sight
    "details, table, pre, noscript, nav, .dropdown, .rbp-from, .headerlink, .rbp-families, "
    ".rbp-answer, .rbp-scope, .rbp-csv, .admonition-title"
)
NUMBER = re.compile(r"(?<![\w^_.{-])[−-]?\d[\d.,]*")
RULE = re.compile(r"\b(?:claim|keep|judge)\(")
LABEL = re.compile(r"^Fig\. [\d.]+")
END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*“−])")
TURNS = re.compile(  # turns of phrase that a reader stops at
    r"in (?:the )?place of|\b(?:by|of|from) which\b|\bis no [a-z]+|cannot be told|"
    r"neither holds nor fails|counts among all|is enough for|beyond (?:this |the )?noise|"
    r"leaves? (?:0|1) out|leaves? out (?:0|1)|holds (?:0|1)\b|in as many\b|"
    r"\bwhat \w+ makes? of\b|in the median|lies? off\b|goes as\b|says? more of|asks? for\b"
)


def prose(soup):
    """Texts of the paragraphs and items in sight, as one reads them."""
    article = soup.find("article")
    for node in article.select(ASIDE):
        node.decompose()
    items = article.find_all(["p", "li", "figcaption"])
    items = [item for item in items if not item.find(["p", "li"])]
    texts = (" ".join(item.get_text(" ").split()) for item in items)
    return [re.sub(r" ([.,;:?!)])", r"\1", text) for text in texts if text]


def sentences(text):
    """Its sentences that have words, formulas one word each."""
    return [s for s in END.split(re.sub(r"\\\(.*?\\\)", "X", text)) if re.search("[a-z]", s)]


def folds(soup):
    """How many folds of code show nothing, and how many headings are followed by one: those of the
    rules of verdicts apart."""
    silent = headed = 0
    for cell in soup.select(".cell:has(> details.hide:first-child)"):
        if not RULE.search(cell.get_text()):
            silent += not cell.select_one(".cell_output")
            before = cell.find_previous_sibling()
            headed += bool(before) and before.name in ("h2", "h3")
    return silent, headed


def measures(path):
    """{measure: value} of a built page."""
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    silent, headed = folds(soup)
    answer = " ".join(p.get_text(" ") for p in soup.select(".rbp-answer > p")[1:])
    texts = prose(soup)
    numbers = [len(NUMBER.findall(LABEL.sub("", text))) for text in texts]
    parts = [part for text in texts for part in sentences(text)]
    return {
        "words": sum(len(text.split()) for text in texts),
        "most": max(numbers, default=0),
        "long": sum(len(part.split()) > MOST_WORDS for part in parts),
        "of": sum(len(re.findall(r"\bof\b", part)) > 2 for part in parts),
        "turns": sum(len(TURNS.findall(text)) for text in texts),
        "headed": headed,
        "silent": silent,
        "short": len(answer.split()),
        "facts": len(NUMBER.findall(answer)),
    }


def frame(html, family="nano-pythia"):
    """A row of `measures` for each built page of results, of one family and of several, by its
    name."""
    pages = [
        path
        for name in (family, "all")
        for path in Path(html, "book/_executed", name).glob("*.html")
    ]
    rows = {path.stem: measures(path) for path in pages if path.stem != "families"}
    return pd.DataFrame(rows).T.sort_index()


if __name__ == "__main__":
    print(frame(sys.argv[1]).to_string())
