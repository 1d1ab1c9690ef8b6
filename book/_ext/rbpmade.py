"""The footer of a page of results: the line that makes it again, and what it was made of, where and when."""

import html
import json
import re
import shlex
from functools import cache, lru_cache
from hashlib import sha256

import nbformat
from docutils import nodes
from rbprules import link_to

PAGE = re.compile(r"book/_executed/(?P<family>[^/]+)/(?P<page>[0-9][^/]*)")
PARAMETERS = {"parameters", "injected-parameters"}
DIGITS = 12


def raw(text):
    return nodes.raw("", text, format="html")


def literal(text, language):
    return nodes.literal_block(text, text, language=language)


@cache
def kept(path):
    """What a run kept in a file of logs/, read once in a build; nothing where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@lru_cache(maxsize=1)
def read(text):
    """A notebook, read once for MyST-NB and for the parts of its page."""
    return nbformat.v4.reads(text)


@lru_cache(maxsize=1)
def executed_pages(env):
    """{page: {family: document}} of all that were executed: looked through once, not once more on every page."""
    found = {}
    for match in filter(None, map(PAGE.fullmatch, sorted(env.found_docs))):
        found.setdefault(match["page"], {})[match["family"]] = match[0]
    return found


def made(root, notebook, place):
    """How an executed notebook, FAMILY/PAGE, was made: the line that makes it again, its parameters, where, of what."""
    record = notebook["metadata"].get("rbp")
    if not record or "notebook" not in record:
        return []
    line = f"papermill notebooks/{record['notebook']}.ipynb {record['notebook']}.ipynb"
    for name, value in record["parameters"].items():
        kind, text = (
            ("-p", str(value))
            if isinstance(value, str | int | float)
            else ("-y", f"{name}: {json.dumps(value)}")
        )
        line += (
            f" {kind} {name} {shlex.quote(text)}"
            if kind == "-p"
            else f" {kind} {shlex.quote(text)}"
        )
    cells = (c for c in notebook["cells"] if PARAMETERS & set(c["metadata"].get("tags", ())))
    asked = "\n".join("".join(c["source"]) for c in cells).strip()
    run = kept(root / "logs" / "runs" / f"{place.replace('/', '-')}.json")
    run = run if run.get("page") == record["page"] else {}
    rows = {"Date": run.get("date"), "Seconds": run.get("seconds"), "Commit": run.get("commit")}
    rows |= {"Platform": run.get("platform"), "Versions": run.get("versions")}
    rows |= {"Notebook, SHA-256": record.get("source"), "Made of, SHA-256": record.get("made_of")}
    rows |= {"Page, SHA-256": record.get("page")}
    told = "".join(
        f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in rows.items() if v is not None
    )
    told += f"<dt>Rank tables given to it</dt><dd>{tables(root, place)}</dd>"
    code = [literal(asked, "python")] if asked else []
    return [literal(line, "bash"), *code, raw(f'<dl class="rbp-made">{told}</dl>')]


def tables(root, place):
    """HTML of the digests of the rank tables that the workflow gave to a page."""
    given = kept(root / "logs" / "tables.json").get(f"book/_executed/{place}.ipynb")
    if given is None:
        return f"The page was run by itself; {link_to('22_reproduced')} compares all tables that are here with the book's."
    if not given:
        return "None of the book's: the workflow gives this page none."
    lines, found = {}, [digest(root / path) for path in given if (root / path).is_file()]
    for whose, what, said in found:
        lines.setdefault(whose, []).append(f"{html.escape(what)} <code>{said}</code>")
    told = "".join(f"<br>{html.escape(whose)}: {', '.join(each)}" for whose, each in lines.items())
    gone = f"<br>{len(given) - len(found)} more are no longer here." * (len(found) < len(given))
    return f"The first {DIGITS} digits of the SHA-256 of their columns.{told}{gone}"


@cache
def digest(path):
    """(family and model, corpus, digest) of a rank table by its record; of a file of counts, of its bytes."""
    if path.suffix != ".parquet":
        return path.stem, "counts, the whole file", sha256(path.read_bytes()).hexdigest()[:DIGITS]
    from pyarrow.parquet import read_metadata

    record = json.loads(read_metadata(path).metadata[b"rbplib"])
    return (
        f"{record['family']} {record['model']}",
        record["corpus"],
        record["columns_sha256"][:DIGITS],
    )
