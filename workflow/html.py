"""The HTML book: the page of all families, the figure of the README, jupyter-book, and the check of what was run."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat

from paper.show.prose import shown
from rbplib.families import InputError, load_family, root, write_text
from workflow.notebooks import DEFAULT_FAMILY, TITLE, TOGETHER, cells_digest, definition, page_digest


def executed_pages():
    return sorted((root() / "book" / "_executed").glob("*/[!.]*.ipynb"))


def expected_pages():
    """The file in which the workflow keeps what it makes each page of: {path: hash}."""
    return root() / "logs" / "pages.json"


def changed(page, made_of=None):
    """Why an executed page is not as its run left it, as a sentence, or None; made_of: what it has to say of itself."""
    try:
        record = (said := json.loads(page.read_text(encoding="utf-8")))["metadata"]["rbp"]
        right = record["place"] == [page.parent.name, page.stem] and made_of in (None, record["made_of"])
        if right and record["page"] == page_digest(said):
            return None
        return f"{page} was changed or exchanged after it was made: remove it and run `make book`."
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{page} is not a page of the book ({type(error).__name__}): remove it and run `make book`."


def outdated(page):
    """Why a whole page is not of its notebook and family as they are now, or None."""
    record = nbformat.read(page, 4).metadata["rbp"]
    source = root() / "notebooks" / f"{record['notebook']}.ipynb"
    if not source.is_file():
        return f"{page} comes from a notebook that is gone: remove the page."
    if record["source"] != cells_digest(nbformat.read(source, 4)):
        return f"{page} is older than its notebook: run `make book`."
    with suppress(InputError):
        if record["family"] is None or record["family"] == definition(record["parameters"]["family"]):
            return None
    return f"{page} is of a family that its file says otherwise now: run the book again."


def check_pages():
    """Compare every executed page with its record: (pages looked at, problems as sentences)."""
    pages = executed_pages()
    return len(pages), [why for page in pages if (why := changed(page) or outdated(page))]


def families_page():
    """Write the page that leads to every family's pages, a row each: the contents hold those of one family alone.

    Returns:
        name of that family: the default one, or the first where no page of it was run.
    """
    for old in root().glob("book/_executed/*/*.md"):
        old.unlink()  # only notebooks are kept there: what else there is may be of an earlier run, or of nobody's
    found, titles, told = {}, {}, ""
    for page in executed_pages():
        if (family := page.parent.name) != TOGETHER:
            found.setdefault(family, {})[page.stem] = f"[{page.stem[:2]}](../{family}/{page.name})"
            if page.stem not in titles:
                said = "\n".join(c.source for c in nbformat.read(page, 4).cells if c.cell_type == "markdown")
                titles[page.stem] = re.search(TITLE, said, re.M)[1].removesuffix(f" ({family})")
    rows = [["family", *(s[:2] for s in sorted(titles))], ["---"] * (len(titles) + 1)]
    for family, links in found.items():
        rows.append([f"`{family}`", *(links.get(s, "–") for s in sorted(titles))])
        told += family_words(family, next(iter(links)))
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows) if found else "No page of a family was run.\n"
    key = "".join(f"- {s[:2]}: {titles[s]}\n" for s in sorted(titles))
    tree = "".join(f"/book/_executed/{family}/{s}\n" for family, links in found.items() for s in links)
    text = f"---\norphan: true\n---\n\n# Every family, every page\n\n{table}\n{key}\n{told}"
    text += f"```{{toctree}}\n:hidden:\n\n{tree}```\n" if found else ""
    write_text(root() / "book" / "_executed" / TOGETHER / "families.md", text)
    return DEFAULT_FAMILY if DEFAULT_FAMILY in found else next(iter(found), DEFAULT_FAMILY)


def family_words(name, page):
    """What a family's file says of it, under a heading of its own; that alone where there is no such file now."""
    place, said = root() / "book" / "_executed" / name / f"{page}.ipynb", ()
    record = json.loads(place.read_text(encoding="utf-8"))["metadata"]["rbp"]
    with suppress(InputError):
        family = load_family(record.get("parameters", {}).get("family", name))
        said = [shown(text) for text in (family.title, family.note) if text not in ("", family.name)]
    # the search and the theme's print view take a heading for HTML: a title of people stands below it
    return "\n\n".join([f"## {name}", *said, ""])


def build_html():
    """Build the book from what lies executed, every warning an error; the path of its first page.

    An incremental build would keep stale contents and forget earlier warnings, and save seconds only.
    """
    expected = json.loads(expected_pages().read_text(encoding="utf-8")) if expected_pages().is_file() else {}
    for page in executed_pages():
        if why := changed(page, expected.get(page.relative_to(root()).as_posix())):
            raise InputError(why)
    html = root() / "_build" / "html"
    shutil.rmtree(html.parent, ignore_errors=True)
    contents, story = html.parent / "contents.yml", families_page()
    write_text(contents, (root() / "_toc.yml").read_text(encoding="utf-8").replace(DEFAULT_FAMILY, story))
    command = [Path(sys.executable).with_name("jupyter-book"), "build", root(), "--toc", contents]
    command += ["--path-output", root(), "--all", "-W", "--keep-going", "-n", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root())
    first = html / "index.html"
    if done.returncode or not first.is_file():
        lines = (done.stdout + done.stderr).splitlines()
        marks = [x for x in lines if re.search(r"WARNING|ERROR|[Ee]xception", x)] or lines[-15:]
        shutil.rmtree(html, ignore_errors=True)
        raise RuntimeError("the book has warnings, and each is an error:\n" + "\n".join(dict.fromkeys(marks)))
    return first


def law_figure(path):
    """Write the figure of the README as SVG: the law at k = 1 on every embedded family."""
    from matplotlib import pyplot as plt

    from paper.show import figures, style
    from paper.show.tables import corpus_title
    from rbplib.curve import rbp_curve
    from rbplib.law import fit_law
    from rbplib.table import measured_families

    style.use()
    found = measured_families()
    corpora = list(dict.fromkeys(corpus for _, corpus in found))
    rows = -(-len(corpora) // 2)
    fig, axes = plt.subplots(rows, 2, figsize=(style.WIDTH * 1.15, 2.7 * rows), sharex=True, squeeze=False)
    panels = dict(zip(corpora, axes.flat, strict=False))
    for (family, corpus), tables in found.items():
        law = fit_law(rbp_curve(tables, (1,)), n_bootstrap=0)
        figures.draw_fit(panels[corpus], law, label=family, **style.family_style(family))
    for corpus, ax in panels.items():
        figures.law_axes(ax, r"$-\log\,\mathrm{RBP}_{1}$").set(title=corpus_title(corpus), xlabel="")
    for spare in axes.flat[len(corpora) :]:  # the panel above it then has the numbers of sizes
        axes[-2 if rows > 1 else -1, -1].xaxis.set_tick_params(labelbottom=True)
        spare.remove()
    fig.supxlabel("model size $S$ (non-embedding parameters)", fontsize=10.5)
    fig.legend(*(known := axes.flat[0].get_legend_handles_labels()), loc="outside upper center", ncols=len(known[0]))
    write_text(path, figures.svg_of(fig))
    plt.close(fig)
    return path
