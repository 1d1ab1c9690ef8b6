"""Peak memory of pages and of measuring, as a family's text grows: 1, 10 and 50 times.

    python -m benchmarks memory [--tokens 200000] [--times 1 10 50] [--models 10]

Pages count tables of a synthetic family: ranks that follow a law in size, in documents of 500 tokens. What is measured
is the smallest embedded model on as many tokens of shuffled words, in windows. Each is a process of its own with one
thread; its highest resident size is told above that after its imports.
"""

import argparse
import ast
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.ranks import write_result
from benchmarks.report import fill
from rbplib.families import root

PAGES = ("02_top1_law", "06_emergence")
LENGTH, VOCABULARY, WINDOW = 500, 2000, 255
MEASURED = "from rbplib.models import load_model\nfrom rbplib.measuring import measure\nimport torch, transformers"


def peak():
    """The highest resident size of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def write_family(place, tokens, models):
    """Make a root folder with a family, a corpus, and a rank table of so many tokens for each of its models."""
    from scipy.special import ndtr

    from rbplib.identity import MEASURING, ranks_path
    from rbplib.stored import write_ranks

    place, sizes = Path(place), [2000 * 3**i for i in range(models)]
    entries = "".join(f"  - {{id: none/m{s}, dtype: float32, nonembedding_params: {s}}}\n" for s in sizes)
    for name, text in (
        ("families/synthetic", f"title: Synthetic\nembedded: true\ncontext: 512\nmodels:\n{entries}"),
        ("corpora/prose", "title: Prose\nsource: embedded\nkind: prose\ndigest: prose\n"),
    ):
        (place / name).parent.mkdir()
        (place / f"{name}.yml").write_text(text)
    documents, rng = tokens // LENGTH, np.random.default_rng(0)
    document = np.repeat(np.arange(documents), LENGTH)
    fresh = rng.normal(size=len(document))
    shared = fresh + 0.5 * np.append(0, fresh[:-1]) + 0.5 * rng.normal(size=documents)[document]
    columns = {"document": document, "position": np.tile(np.arange(1, LENGTH + 1), documents)}
    columns |= {"token": rng.integers(0, VOCABULARY, len(document)), "ties": np.ones(len(document), int)}
    for size in sizes:
        own = shared + 0.3 * rng.normal(size=len(document))
        loss = 1.2 * (size / sizes[0]) ** -0.08
        rank = np.ceil((loss / -np.log(np.clip(ndtr(own / own.std()), 1e-9, 1 - 1e-9))) ** 2.2).clip(1, VOCABULARY)
        columns |= {"greater": rank.astype(int) - 1, "logprob": -1.02 * np.log(rank) - 0.4}
        record = {"vocab_size": VOCABULARY, "documents": documents, "family": "synthetic", "model": f"m{size}",
                  "model_id": f"none/m{size}", "requested_revision": None, "corpus": "prose", "corpus_digest": "prose",
                  "sample": {"source": "embedded", "group": None}, "protocol": "paper", "window": 512,
                  "measuring": MEASURING, "requested_dtype": "float32", "head_dtype": "float32",
                  "nonembedding_params": size, "total_params": size + 1000}  # fmt: skip
        write_ranks(ranks_path(record, place / "results"), columns, record)


def write_text(place, tokens):
    """A corpus of shuffled words, each of whose documents fills a window."""
    documents, rng = -(-tokens // WINDOW), np.random.default_rng(0)
    words = np.array(sorted(set((root() / "README.md").read_text(encoding="utf-8").split())))
    place.mkdir(exist_ok=True)
    with open(place / "words.jsonl", "w", encoding="utf-8") as file:
        for _ in range(documents):
            text = " ".join(words[rng.integers(0, len(words), WINDOW + 5)])
            file.write(json.dumps({"text": text}) + "\n")
    entry = f"title: Words\nsource: file\npath: {place / 'words.jsonl'}\ntemplate: '{{text}}'\ndocuments: {documents}\n"
    (place / "words.yml").write_text(entry)
    return place / "words.yml"


def run_page(name):
    """A page for the synthetic family, its imports first: MB after these."""
    import matplotlib
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    matplotlib.use("Agg")
    InteractiveShell.instance()
    cells = [c for c in nbformat.read(Path("notebooks") / f"{name}.ipynb", 4).cells if c.cell_type == "code"]
    names = {"__name__": "__main__"}
    for line in (line for cell in cells for line in ast.parse(cell.source).body):
        if isinstance(line, ast.Import | ast.ImportFrom):
            exec(ast.unparse(line), names)
    imported = peak()
    for cell in cells:
        exec(cell.source, names)
        if "parameters" in cell.metadata.get("tags", []):
            names["family"] = "synthetic"
    return imported


def run_measure(corpus):
    names = {}
    exec(MEASURED, names)
    imported = peak()
    names["measure"]("nano-pythia", models=["1.9k"], corpora=[corpus], progress=False)
    return imported


CHILDREN = {"tables": write_family, "page": run_page, "measure": run_measure}


def child(what, *about, **places):
    """(MB of what a process takes above its imports, seconds)."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.memory", "--child", what, *map(str, about)]
    alone = {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | alone | places)
    return json.loads(done.stdout.splitlines()[-1]), time.perf_counter() - start


def rows_of(times, tokens, models):
    """What each took at so many times the tokens: [(what, MB after imports, MB above them)]."""
    with tempfile.TemporaryDirectory() as folder:
        # tables are made in another process too: what this one held would count as its children's
        child("tables", folder, times * tokens, models)
        family = {"RBP_ROOT": folder, "RBP_RESULTS": f"{folder}/results"}
        for page in PAGES:
            yield page, *child("page", page, **family)
        corpus = write_text(Path(folder) / "text", times * tokens)
        yield "measuring", *child("measure", corpus, RBP_RESULTS=f"{folder}/measured")


def table(found, models, tokens):
    """MB above the imports, a line for each process, a column for each amount of text."""
    columns = list(dict.fromkeys(times for _, times in found))
    said = [f"{models} models of so many tokens each; MB above what the imports take, and those.", ""]
    said.append("| | " + " | ".join(f"{times * tokens:,} tokens" for times in columns) + " | imports |")
    said.append("|" + "---|" * (len(columns) + 2))
    for what in dict.fromkeys(what for what, _ in found):
        cells = [f"{found[what, times]['above']:,.0f}" for times in columns]
        name = f"`{what}`" if what in PAGES else "measuring one small model"
        said.append(f"| {name} | " + " | ".join(cells) + f" | {found[what, columns[0]]['imports']:,.0f} |")
    return "\n".join(said)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--times", type=int, nargs="+", default=(1, 10, 50))
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    args, found = parser.parse_args(argv), {}
    if args.child:
        what, at, *amounts = args.child
        imported = CHILDREN[what](at, *map(int, amounts)) or peak()
        print(json.dumps({"imports": imported, "above": peak() - imported}))
        return 0
    for times in args.times:
        for what, took, seconds in rows_of(times, args.tokens, args.models):
            found[what, times] = took
            print(
                f"{what}, {times}x: {took['above']:,.0f} MB above {took['imports']:,.0f}, {seconds:.0f} s", flush=True
            )
    write_result("memory", table(found, args.models, args.tokens))
    fill("memory", table(found, args.models, args.tokens))
    return 0


if __name__ == "__main__":
    sys.exit(main())
