"""A bundle for a class: rank counts of two families, a reader, a codebook and the lab sheets; no model and no torch.

python book/labs/bundle.py [FAMILY FAMILY ...] makes dist/labs.zip of what was measured, and beside it the teacher's
copies of the sheets, dist/labs-teacher.zip; `make labs` does it in the book's environment, and the book's build puts
both on its pages. The sheets are the lab pages, as Markdown and as HTML: for students without the solutions, for
teachers with them and with what their code prints on these counts. The same tables give the same bytes.
"""

import argparse
import html
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import yaml
from docutils.utils.math.latex2mathml import tex2mathml
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from rbplib.doors import export_family
from rbplib.families import InputError, atomic_path, load_corpus, load_family, root, write_text

HERE = Path(__file__).resolve().parent
FAMILIES = ("nano-pythia", "nano-qwen2.5")
TASK = re.compile(r"^(`{3,})\{(exercise|solution)\} (.+?)\n(.*?)^\1\n", re.M | re.S)
CODE = re.compile(r"^```python\n(.*?)^```\n", re.M | re.S)
STYLE = """body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font-family: sans-serif; line-height: 1.5 }
main { overflow-x: auto }
pre { white-space: pre-wrap; padding: 0.6rem; background: #f4f4f4; font-size: 0.85rem }"""
# runs the blocks of one sheet one after the other, as a class does; prints what each printed, and what was read
RUN = """import contextlib, io, json, sys
said, names = [], {}
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(block, names)
        except Exception as error:
            print(f"The code ends here on these counts: {type(error).__name__}: {error}")
    said.append(out.getvalue())
print(json.dumps([said, f"{names['models'][0].family}, {names['corpus']}"]))
"""

CODEBOOK = """# Codebook

`ranks.py` reads the `.counts` files with NumPy alone: `corpora(path)` names the texts, `read(path, corpus)` gives the
models, smallest first. Nothing in the files is text, and nothing tells in which order tokens came.

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


def exercise_numbers():
    """{label: number} of exercises and tasks as the book counts them: in the order of its contents."""
    parts = yaml.safe_load((HERE.parents[1] / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    pages = [
        HERE.parents[1] / f"{c['file']}.md"
        for part in parts
        for c in part["chapters"]
        if "file" in c
    ]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    return {
        label: n for n, label in enumerate(re.findall(r"\{exercise\} .*\n:label: (\S+)", text), 1)
    }


def printed(text, folder):
    """(what each block of a lab's code prints in a folder with counts and reader, which family and corpus it read)."""
    blocks = json.dumps(CODE.findall(text))
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=blocks, capture_output=True, text=True, cwd=folder
    )
    done.check_returncode()
    return json.loads(done.stdout)


def with_printed(text, folder):
    """A lab page whose code is followed by what it prints."""
    said, read = printed(text, folder)
    said = iter(said)

    def followed(match):
        out = next(said).rstrip()
        return (
            f"{match[0]}\n**What you will see** ({read}):\n\n```text\n{out}\n```\n"
            if out
            else match[0]
        )

    return CODE.sub(followed, text)


def as_html(text):
    """A sheet as a page of its own that needs no script and no network; formulas are MathML."""
    spaced = re.compile(
        r"\\log(?!\()"
    )  # MathML's own space after a function is not drawn everywhere

    def mathml(tex, how):
        return tex2mathml(spaced.sub(r"\\log\\,", tex), as_block=how["display_mode"])

    reader = MarkdownIt().use(dollarmath_plugin, renderer=mathml)
    title = html.escape(text.partition("\n")[0].lstrip("# "))
    head = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">'
    body = re.sub(
        ' class="math (inline|block)"', "", reader.render(text)
    )  # no script has to set them
    return f"{head}\n<title>{title}</title>\n<style>{STYLE}</style>\n<main>\n{body}</main>\n"


def sheets(solutions, folder=None):
    """{file name: text} of all sheets, as Markdown and as HTML; folder: of counts and reader, for what code prints."""
    found, numbers = {}, exercise_numbers()
    for page in sorted(HERE.glob("[0-9]_*.md")):
        text = page.read_text(encoding="utf-8")
        text = sheet(with_printed(text, folder) if folder else text, solutions, numbers)
        found |= {page.name: text, f"{page.stem}.html": as_html(text)}
    return found


def sheet(text, solutions, numbers):
    """A lab page as plain Markdown, with its solutions or without; numbers: {label: number in the book}."""

    def part(match):
        kind, name, body = match[2], match[3], re.sub(r"^:\w+:.*\n", "", match[4], flags=re.M)
        if kind == "exercise":
            return f"## Task: {name} (exercise {numbers[re.search(r':label: (.+)', match[4])[1]]} of the book)\n{body}"
        return f"**Solution.**\n{body}" if solutions else ""

    text = re.sub(
        r"\s\(\{(?:eq|ref|doc)\}`[^`]*`\)", "", TASK.sub(part, text)
    )  # they lead to pages of the book
    text = text.replace(r"\RBP", r"\mathrm{RBP}").replace(
        r"\E\log", r"\mathbb{E}\log"
    )  # the book's own macros
    return text if solutions else re.sub(r"\n{3,}", "\n\n", text)


def reader():
    """The module that students read the files with."""
    spec = importlib.util.spec_from_file_location("labs_ranks", HERE / "ranks.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


def contents(path):
    """What the codebook says of one family's file, as rows of its table, read as students read it."""
    lines, ranks = [], reader()
    for corpus in ranks.corpora(path):
        models = ranks.read(path, corpus)
        first, sizes = models[0], f"{models[0].S:,} to {models[-1].S:,}"
        cells = [
            f"`{path.name}`",
            f"`{corpus}` ({load_corpus(corpus).title})",
            len(models),
            sizes,
            f"{first.V:,}",
        ]
        cells += [f"{n:,}" for n in (len(first.tokens), first.source.max() + 1, first.tokens.sum())]
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


def entry(name):
    """A file of the bundle that bears no date, so that it is the same whenever it is made."""
    (found := zipfile.ZipInfo(f"labs/{name}")).external_attr = 0o644 << 16
    return found


def make_bundle(families, out):
    """Write the bundle and, beside it, the teacher's sheets, each atomically; their paths. InputError: a family was not
    measured."""
    table = "| file | text | models | S | V | documents | sources | tokens scored |\n|---|---|---|---|---|---|---|---|\n"
    with tempfile.TemporaryDirectory() as folder:
        for family in families:
            family = replace(
                load_family(family), repeats=""
            )  # models trained again have no part in the labs
            path = Path(folder) / f"{family.name}.counts"
            export_family(family, path, exported="a day not told")
            table += contents(path)
        counts = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
        reads = (HERE / "ranks.py").read_text(encoding="utf-8")
        write_text(Path(folder) / "ranks.py", reads)
        student, teacher = sheets(False), sheets(True, folder)
    texts = {"codebook.md": CODEBOOK + table, "ranks.py": reads, **student}
    apart = out.with_stem(f"{out.stem}-teacher")
    both = {out: counts | texts, apart: {f"teacher/{name}": text for name, text in teacher.items()}}
    for place, files in both.items():
        with atomic_path(place) as temporary, zipfile.ZipFile(temporary, "w") as z:
            for name, said in files.items():  # counts are packed already
                z.writestr(
                    entry(name),
                    said,
                    zipfile.ZIP_STORED if name in counts else zipfile.ZIP_DEFLATED,
                )
    return [*both]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "families",
        nargs="*",
        default=FAMILIES,
        help="measured families (default: two embedded ones)",
    )
    parser.add_argument("-o", "--output", type=Path, default=root() / "dist" / "labs.zip")
    parser.add_argument(
        "--sheets",
        type=Path,
        help="a folder for the students' sheets as HTML, whatever was measured",
    )
    asked = parser.parse_args(argv)
    try:
        for name, text in sheets(False).items() if asked.sheets else ():
            write_text(asked.sheets / name, text) if name.endswith(".html") else None
        print(*make_bundle(asked.families, asked.output), sep="\n")
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
