"""Pages run in this process, cell after cell, what they display caught: a kernel takes seconds to
start."""

import html
import re
from contextlib import contextmanager
from functools import cache

import nbformat

from paper import book, probes, published
from rbplib import counts
from tests.commands import ROOT
from workflow.pages import for_family


def read_once(patch):
    """Let pages of this process read what all of them read one time."""
    for module, name in ((published, "losses"), (counts, "read_counts"), (probes, "runs")):
        patch.setattr(module, name, cache(getattr(module, name)))


@contextmanager
def caught():
    """Whatever is displayed meanwhile, as outputs of cells."""
    from IPython import display as module
    from IPython.core.formatters import DisplayFormatter

    shown, formatter, before = [], DisplayFormatter(), module.display

    def display(*things, raw=False, metadata=None, **_):
        for thing in things:
            data, about = (thing, {}) if raw else formatter.format(thing)
            shown.append(
                nbformat.v4.new_output("display_data", data, metadata=about | (metadata or {}))
            )

    module.display = display
    try:
        yield shown
    finally:
        module.display = before


def run_page(name, **parameters):
    """A notebook executed with these parameters."""
    page = for_family(ROOT / "notebooks" / f"{name}.ipynb", parameters.get("family"))
    names = {"__name__": "__main__"}
    for i, cell in enumerate(c for c in page.cells if c.cell_type == "code"):
        magic = book.MAGIC.match(cell.source)
        with caught() as cell.outputs:
            if magic:
                book.say(magic[1], cell.source[magic.end() :], names)
                continue
            exec(compile(cell.source, f"<{name}, code cell {i}>", "exec"), names)
        if "parameters" in cell.metadata.get("tags", []):
            names.update(parameters)
    return page


def records(page):
    """{name: record} of the claims and numbers that an executed notebook keeps."""
    kept = {}
    for output in (o for c in page.cells for o in c.get("outputs", ())):
        kept |= output.get("metadata", {}).get("rbp_numbers", {})
    return kept


NO_NUMBER = r".{0,40}(?:\bnan\b|\binf\b|∞ ?%|\bNone\b(?! of)|Traceback|\b[A-Z]\w+Error\b).{0,40}"


def words(page):
    """What the code of an executed notebook showed, as plain text."""
    texts = []
    for output in (o for c in page.cells if c.cell_type == "code" for o in c.outputs):
        data = output.get("data", {})
        text = data.get("text/markdown") or data.get("text/html") or output.get("text", "")
        text = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", text, flags=re.S)
        texts += [
            html.unescape(text),
            output.get("metadata", {}).get("image/svg+xml", {}).get("alt", ""),
        ]
    assert len("\n".join(texts)) > 100
    return "\n".join(texts)
