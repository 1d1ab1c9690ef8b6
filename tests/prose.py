"""How the prose of a built book reads: a line of measures a page.

python -m tests.prose _build/html
"""

import re
import sys
from pathlib import Path

import pandas as pd
from bs4 import BeautifulSoup

MOST_NUMBERS, MOST_WORDS = 4, 25  # of a paragraph, of a sentence
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
    items = [n for n in article.find_all(["p", "li", "figcaption"])]
    items = [n for n in items if not n.find(["p", "li"])]
    texts = (" ".join(item.get_text(" ").split()) for item in items)
    return [re.sub(r" ([.,;:?!)])", r"\1", text) for text in texts if text]


def sentences(text):
    """Its sentences that have words, formulas one word each."""
    return [s for s in END.split(re.sub(r"\\\(.*?\\\)", "X", text)) if re.search("[a-z]", s)]


def folds(soup):
    """How many folds of code show nothing, and how many headings are followed by one: those of the
    rules of verdicts apart."""
    silent = headed = 0
    for code in soup.select(".cell"):
        if RULE.search(code.get_text()):
            continue
        fold = code.select_one("details.hide")
        silent += bool(fold and not code.select_one(".cell_output"))
        before = code.find_previous_sibling()
        first = next(code.find_all(recursive=False).__iter__(), None)
        headed += bool(before and before.name in ("h2", "h3") and first is fold and fold)
    return silent, headed


def measures(path):
    """{measure: value} of a built page, and its longest paragraph in numbers."""
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    silent, headed = folds(soup)
    short = " ".join(p.get_text(" ") for p in soup.select(".rbp-answer > p")[1:])
    texts = prose(soup)
    numbers = {text: len(NUMBER.findall(LABEL.sub("", text))) for text in texts}
    parts = [part for text in texts for part in sentences(text)]
    lengths = [len(part.split()) for part in parts]
    return {
        "words": sum(len(text.split()) for text in texts),
        "numbers": sum(numbers.values()),
        "most": max(numbers.values(), default=0),
        "dense": sum(n > MOST_NUMBERS for n in numbers.values()),
        "sentences": len(parts),
        "mean": round(sum(lengths) / max(len(lengths), 1), 1),
        "long": sum(n > MOST_WORDS for n in lengths),
        "of": sum(len(re.findall(r"\bof\b", part)) > 2 for part in parts),
        "turns": sum(len(TURNS.findall(text)) for text in texts),
        "headed": headed,
        "silent": silent,
        "short": len(short.split()),
        "facts": len(NUMBER.findall(short)),
    }


def pages(html, family="nano-pythia"):
    """Built pages of results: of one family, and of several."""
    executed = Path(html, "book/_executed")
    paths = [p for name in (family, "all") for p in (executed / name).glob("*.html")]
    return sorted((p for p in paths if p.stem != "families"), key=lambda path: path.stem)


def frame(html, family="nano-pythia"):
    """A row of `measures` a page, by its name."""
    return pd.DataFrame({path.stem: measures(path) for path in pages(html, family)}).T


if __name__ == "__main__":
    rows = frame(sys.argv[1])
    rows.loc["all pages"] = rows.sum().where(~rows.columns.isin(["most", "mean"]))
    print(rows.to_string(float_format="{:g}".format))
