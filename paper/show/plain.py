"""Words of people and titles of corpora as text that is safe on a page;
apart from what knows of laws."""

import html
import unicodedata
from contextlib import suppress
from functools import cache
from itertools import chain

from rbplib.families import FORMULA as FORMULA
from rbplib.families import (
    InputError,
    default_corpora,
    list_families,
    load_corpus,
    load_family,
    root,
)


def plain(text):
    """Any text as inline text that means nothing in Markdown or HTML: character references but for
    letters and digits, and for control and direction characters their code points."""
    return "".join(ch if ch.isascii() and ch.isalnum() else _reference(ch) for ch in str(text))


def shown(text):
    """Words of people, such as a title or a note, as `plain` text on one line."""
    return " ".join(map(plain, str(text).split()))


def _reference(ch):
    hidden = unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Cn")
    return f"&#60;U+{ord(ch):04X}&#62;" if hidden else f"&#{ord(ch)};"


def corpus_title(name):
    """A corpus as pages show it, made `plain`; one given by its path is known by its name alone."""
    return title_there(name, root())


@cache
def title_there(name, _):
    with suppress(InputError):
        name = load_corpus(name).title or name
    return shown(name)


def texts(parameters):
    """Titles of `corpora_of` a page, for its switch between them."""
    titles = (html.unescape(corpus_title(name)) for name in corpora_of(parameters))
    return list(dict.fromkeys(titles))


def corpora_of(parameters):
    """Names of the corpora that a page may show: those asked for, or of its families."""
    names = [parameters["family"]] if "family" in parameters else parameters.get("families")
    families = [] if names else [f for f in list_families() if f.embedded]
    for name in names or []:
        with suppress(InputError):  # a family of published numbers has no file
            families.append(load_family(name))
    corpora = parameters.get("corpora") or chain(*map(default_corpora, families))
    return list(map(corpus_name, dict.fromkeys(corpora)))


def corpus_name(corpus):
    """The name of a corpus that may be given by its path."""
    with suppress(InputError):
        return load_corpus(corpus).name
    return corpus
