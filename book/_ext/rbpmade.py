"""The footer of a page of results: the line that makes it again, and what it was made of, where and
when."""

import html
import json
import shlex
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

import nbformat
from docutils import nodes
from rbplinks import raw

from paper.verify import embedded_names, page_sentence
from rbplib.families import InputError

PARAMETERS = {"parameters", "injected-parameters"}
RUN = ("date", "seconds", "commit", "platform", "versions")  # kept beside the page
DIGITS = 12
embedded = cache(embedded_names)  # of one build


@lru_cache(maxsize=1)
def read(text):
    """A notebook, read once for MyST-NB and for the parts of its page."""
    return nbformat.v4.reads(text)


def made(env, notebook, folder):
    """How an executed notebook, FAMILY/PAGE, was made: the line that makes it again, its
    parameters, where, of what."""
    record = notebook["metadata"].get("rbp", {})
    if "notebook" not in record:
        return []
    name = record["notebook"]
    line = ["papermill", f"notebooks/{name}.ipynb", f"{name}.ipynb"]
    line += ["-y", json.dumps(record["parameters"])] if record["parameters"] else []
    cells = (c for c in notebook["cells"] if PARAMETERS & set(c["metadata"].get("tags", ())))
    wanted = "\n".join(c["source"] for c in cells).strip()

    # when and where, if its run is the one on record here
    root, run_of = Path(env.srcdir), f"logs/runs/{folder.replace('/', '-')}.json"
    env.note_dependency(run_of)
    page = sha256((root / f"book/_executed/{folder}.ipynb").read_bytes()).hexdigest()
    rows = {}
    with suppress(OSError, ValueError, LookupError, TypeError):
        run = json.loads((root / run_of).read_bytes())
        if run["page"] == page:
            rows = {key.capitalize(): run.get(key) for key in RUN}

    # beside the book's
    with suppress(InputError):
        rows["Reproduced"] = page_sentence(root / f"book/_executed/{folder}.ipynb", embedded())

    # of what
    tables = (f"{label} {digest[:DIGITS]}" for label, digest in record.get("tables", {}).items())
    rows |= {
        "Page, SHA-256": page,
        "Notebook, SHA-256": record.get("source"),
        "Made of, SHA-256": record.get("made_of"),
        "Rank tables, SHA-256 of their columns": ", ".join(tables) or "none",
    }
    words = "".join(f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in rows.items() if v)
    return [
        literal(shlex.join(line), "bash"),
        literal(wanted, "python"),
        raw(f'<dl class="rbp-made">{words}</dl>'),
    ]


def literal(text, language):
    return nodes.literal_block(text, text, language=language)
