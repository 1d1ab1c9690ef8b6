"""A bundle for a class: rank counts of two families, a reader, a codebook and the lab sheets; no model and no torch.

python book/labs/bundle.py [FAMILY FAMILY ...] makes dist/labs.zip of what was measured; `make labs` does it in the
book's environment. The sheets are the lab pages: for students without the solutions, for teachers with them.
"""

import argparse
import importlib.util
import re
import sys
import tempfile
import zipfile
from pathlib import Path

from rbplib.pages.evidence import shown_ks
from rbplib.ranks.sharing import export_family
from rbplib.settings import InputError, atomic_path, load_corpus, load_family, root

HERE = Path(__file__).resolve().parent
FAMILIES = ("nano-pythia", "nano-qwen2.5")
TASK = re.compile(r"^(`{3,})\{(exercise|solution)\} (.+?)\n(.*?)^\1\n", re.M | re.S)

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


def sheet(text, solutions):
    """A lab page as plain Markdown, with its solutions or without."""

    def part(match):
        kind, name, body = match[2], match[3], re.sub(r"^:\w+:.*\n", "", match[4], flags=re.M)
        if kind == "exercise":
            return f"## Task: {name}\n{body}"
        return f"**Solution.**\n{body}" if solutions else ""

    text = re.sub(r"\s\(\{(?:eq|ref|doc)\}`[^`]*`\)", "", TASK.sub(part, text))  # they lead to pages of the book
    text = text.replace(r"\RBP", r"\mathrm{RBP}").replace(r"\E\log", r"\mathbb{E}\log")  # the book's own macros
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
        cells = [f"`{path.name}`", f"`{corpus}` ({load_corpus(corpus).title})", len(models), sizes, f"{first.V:,}"]
        cells += [f"{n:,}" for n in (len(first.tokens), first.source.max() + 1, first.tokens.sum())]
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


def make_bundle(families, out):
    """Write the bundle atomically; its path. InputError: a family was not measured."""
    table = (
        "| file | text | models | S | V | documents | sources | tokens scored |\n|---|---|---|---|---|---|---|---|\n"
    )
    pages = sorted(HERE.glob("[0-9]_*.md"))
    with atomic_path(out) as temporary, tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(temporary, "w") as z:
        for family in families:
            path = Path(folder) / f"{load_family(family).name}.counts"
            export_family(family, path, shown_ks)
            table += contents(path)
            z.write(path, f"labs/{path.name}")
        texts = {"codebook.md": CODEBOOK + table, "ranks.py": (HERE / "ranks.py").read_text(encoding="utf-8")}
        for page in pages:
            text = page.read_text(encoding="utf-8")
            texts |= {f"student/{page.name}": sheet(text, False), f"teacher/{page.name}": sheet(text, True)}
        for name, text in texts.items():
            (entry := zipfile.ZipInfo(f"labs/{name}")).external_attr = 0o644 << 16
            z.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return out


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", default=FAMILIES, help="measured families (default: two embedded ones)")
    parser.add_argument("-o", "--output", type=Path, default=root() / "dist" / "labs.zip")
    asked = parser.parse_args(argv)
    try:
        print(make_bundle(asked.families, asked.output))
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
