"""Citations: how this book and the paper are cited, and the list of references by the labels that the text cites."""

from pathlib import Path
from types import SimpleNamespace

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.template import field, join
from sphinxcontrib.bibtex.style.referencing import PersonStyle


class CiteBook(Directive):
    """{cite-book}: BibTeX of the book and of the paper, from CITATION.cff."""

    def run(self):
        env = self.state.document.settings.env
        path = Path(env.srcdir) / "CITATION.cff"
        if not path.is_file():
            return [
                nodes.paragraph(
                    "",
                    "This copy of the book was built without the file CITATION.cff, which says how.",
                )
            ]
        env.note_dependency(str(path))
        book = yaml.safe_load(path.read_text(encoding="utf-8"))
        paper = book["preferred-citation"] | {"key": "yue2025relative"}
        year = {"year": book.get("date-released", env.config.copyright)[:4]}
        texts = [bibtex(paper), bibtex(book | year | {"key": "rbplib"})]
        return [nodes.literal_block(text, text, language="bibtex") for text in texts]


def bibtex(entry):
    """One entry of CITATION.cff as BibTeX."""
    people = (
        f"{{{p['name']}}}" if "name" in p else f"{p['family-names']}, {p['given-names']}"
        for p in entry["authors"]
    )
    fields = {
        "title": f"{{{entry['title']}}}",
        "author": " and\n            ".join(people),
        "year": entry["year"],
    }
    fields |= {key: entry[key] for key in ("journal", "version", "url", "doi") if key in entry}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{entry['type']}{{{entry['key']},\n{lines}}}"


class ByCitation(Style):
    """References with the label that the text cites, in the order of the labels."""

    def __init__(self, **how):
        super().__init__(**how)
        self.format_labels = lambda entries: map(cited, entries)
        self.sort = lambda entries: sorted(entries, key=lambda entry: cited(entry).lower())


def cited(entry):
    """How the text cites an entry by authors and year."""
    person = PersonStyle()
    words = join(sep=", ")[person.author_or_editor_or_title(full=False), field("year")]
    return str(words.format_data({"entry": entry, "style": SimpleNamespace(person=person)}))


def setup(app):
    register_plugin("pybtex.style.formatting", "cited", ByCitation)
    app.add_directive("cite-book", CiteBook)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
