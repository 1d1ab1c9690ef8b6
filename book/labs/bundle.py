"""A bundle for a class: rank counts of two families, a reader, a codebook and the lab sheets; no
model and no torch.

python book/labs/bundle.py [FAMILY FAMILY ...] makes dist/labs.zip of what was measured, and beside
it the teacher's copies of the sheets, dist/labs-teacher.zip; `make labs` does it in the book's
environment, and the book's build puts both on its pages. The sheets are the lab pages, as notebooks
and as Markdown: for students with room for an answer, for teachers, named `_solved`, with solutions
and with what their code prints on these counts. Both unpack into one folder, `labs`. The same
tables give the same bytes, and logs/labs keeps both until a table or a sheet changes.
"""

import argparse
import re
import shutil
import sys
import tempfile
import zipfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import jupytext
import nbformat
from nbformat.v4 import new_output

from rbplib.cli import ended
from rbplib.families import atomic_path, digest, file_digest, load_corpus, load_family, root
from rbplib.table import table_paths

HERE = Path(__file__).resolve().parent
sys.path[:0] = str(HERE), str(HERE.parents[1])  # what the sheets' own code imports, and paper
import ranks  # noqa: E402

FAMILIES = ("nano-pythia", "nano-qwen2.5")
TASK = re.compile(r"^(`{3,})\{(exercise|solution)\} (.+?)\n(.*?)^\1\n", re.M | re.S)
CHOICE = re.compile(r"^\{choice\}`(.*)`$", re.M)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CODEBOOK = """# Codebook

`ranks.py` reads the `.counts` files with NumPy alone: `corpora(path)` names the texts,
`read(path, corpus)` gives the models, smallest first. Nothing in the files is text, and nothing
tells in which order tokens came.

| field of a model | shape | is | unit |
|---|---|---|---|
| `model`, `family`, `corpus` | | names | |
| `S` | | parameters outside the embedding tables | parameters |
| `total` | | all parameters | parameters |
| `V` | | size of the vocabulary | tokens |
| `ks` | K | ranks at which hits were counted, rising | |
| `hits` | documents, K | scored tokens of rank at most k | tokens |
| `tokens` | documents | scored tokens | tokens |
| `nll` | documents | summed -log p of the true tokens | nats |
| `source` | documents | number of the source: documents of one were drawn together | |
| `ranks`, `counts` | n | each rank that was seen, and how often in the corpus | tokens |
| `pairs` | 3, n | candidates above, candidates equal (itself included), and how often | tokens |
| `run_ks` | | the k at which runs of hits were counted | |
| `windows(N)` | | places where N scored tokens in a row fit | |
| `successes(k, N)` | | places where all N are of rank at most k | |

The rank counts equal candidates against the true token. Logarithms are natural.

## What is in this bundle

"""
TABLE = """| file | text | models | S | V | documents | sources | tokens scored |
|---|---|---|---|---|---|---|---|
"""


# ---- sheets


def sheet(text, solutions):
    """A lab page as plain Markdown, with its solutions or without."""

    def part(match):
        body = re.sub(r"^:\w+:.*\n", "", match[4], flags=re.M)
        if match[2] == "exercise":
            return f"## Task: {match[3]}\n{body}"
        return f"**Solution.**\n{body}" if solutions else "```python\n```\n"  # room for one

    # a choice as a line, for teachers with the right answer between stars
    stars, text = "*" if solutions else "", TASK.sub(part, text)
    text = CHOICE.sub(lambda match: match[1].replace("|", "·").replace("*", stars), text)
    text = re.sub(r"\s\(\{(?:eq|ref|doc)\}`[^`]*`\)", "", text)  # they lead to pages of the book
    # the book's own macros
    return text.replace(r"\RBP", r"\mathrm{RBP}").replace(r"\E\log", r"\mathbb{E}\log")


def notebook(text, folder):
    """A sheet as a notebook; folder: of counts, on which its code runs, or None."""
    book = jupytext.reads(text, "md")
    # jupytext keeps the two alike from here on
    book.metadata |= {"jupytext": {"formats": "ipynb,md"}, "kernelspec": KERNEL}
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
    if folder:
        run(book, folder)
    return nbformat.writes(book) + "\n"


def run(book, folder):
    """Run a notebook's code in a folder of counts; keep what each cell prints, and where it
    fails."""
    names = {}
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        # as a student would see it
        with chdir(folder), redirect_stdout(StringIO()) as out:
            try:
                exec(cell.source, names)
            except Exception as error:
                print(f"The code ends here on these counts: {error!r}")
        printed = out.getvalue()
        cell.outputs = [new_output("stream", text=printed)] if printed else []


def sheets(folder=None):
    """{file name: text} of all sheets, as Markdown and as notebooks; with solutions where their
    code has a folder to run in."""
    files = {}
    for page in sorted(HERE.glob("[0-9]_*.md")):
        text = sheet(page.read_text(encoding="utf-8"), folder)
        name = f"{page.stem}_solved" if folder else page.stem
        files |= {f"{name}.md": text, f"{name}.ipynb": notebook(text, folder)}
    return files


# ---- the bundle


def contents(path):
    """What the codebook says of one family's file, as rows of its table, read as students read
    it."""
    lines = ""
    for corpus in ranks.corpora(path):
        first, *_, last = models = ranks.read(path, corpus)
        lines += (
            f"| `{path.name}` | `{corpus}` ({load_corpus(corpus).title}) | {len(models)} "
            f"| {first.S:,} to {last.S:,} | {first.V:,} | {len(first.tokens):,} "
            f"| {first.source.max() + 1:,} | {first.tokens.sum():,} |\n"
        )
    return lines


def write_zip(path, files):
    """Write a ZIP file that bears no date, so that it is the same whenever it is made."""
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"labs/{name}")
            entry.external_attr = 0o644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


def make_bundle(families, out):
    """Write the bundle and, beside it, the teacher's sheets, each atomically; their paths.
    InputError: a family was not measured."""
    from paper.counts import write_class  # loads SciPy, which a kept bundle spares

    table, files = TABLE, {}
    with tempfile.TemporaryDirectory() as folder:
        # counts of each family
        for name in families:
            family = load_family(name)
            path = Path(folder) / f"{family.name}.counts"
            write_class(family, path)
            table += contents(path)
            files[path.name] = path.read_bytes()
        teacher = sheets(folder)
    # what reads and explains them
    reader = HERE.joinpath("ranks.py").read_bytes()
    files |= sheets() | {"codebook.md": CODEBOOK + table, "ranks.py": reader}
    return write_zip(out, files), write_zip(out.with_stem(f"{out.stem}-teacher"), teacher)


def kept(families):
    """The folder where the bundle of families is kept, named by all that it follows from."""
    files = {*HERE.glob("*.*"), *HERE.parents[1].glob("[pr]*/*.py"), *root().glob("corpora/*.yml")}
    for family in map(load_family, families):
        files |= {family.path, *table_paths(family.name)}
    return root() / "logs" / "labs" / digest(list(map(file_digest, sorted(files))))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", default=FAMILIES, help="that were measured")
    parser.add_argument("-o", "--output", default=root() / "dist")  # a folder
    options = parser.parse_args(argv)

    def make():
        folder = kept(options.families)
        if not (folder / "labs-teacher.zip").is_file():  # the last that is made
            shutil.rmtree(folder.parent, ignore_errors=True)
            make_bundle(options.families, folder / "labs.zip")
        print(shutil.copytree(folder, options.output, dirs_exist_ok=True))

    return ended(make)


if __name__ == "__main__":
    raise SystemExit(main())
