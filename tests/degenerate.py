"""Families that end where a law begins: planted rank tables for which some of a page's numbers do
not exist.

Tiny models are measured once on short texts; what they got is then written over by planted ranks,
so that a table's place and record are always the library's own.
"""

import json
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from filelock import FileLock, Timeout

from tests.commands import ROOT

SIZES = (1_000, 4_000, 16_000, 64_000)
CORPUS, SECOND = "notes", "proofs"  # the second for a page that shows one text or another
LOSSES = (
    1.5 * np.array(SIZES) ** -0.2 * SIZES[0] ** 0.2
)  # -log RBP_1 of a family that follows the law
FAMILIES = {  # name: the loss of each model, smallest first; no hit at all where it is infinite
    "planted": LOSSES,
    "one-model": LOSSES[:1],
    "two-models": LOSSES[:2],
    "all-equal": np.full(4, 1.0),
    "no-hits": np.full(4, np.inf),
    "backwards": LOSSES[::-1],
}


def ranks(loss, V, n):
    """Ranks of n tokens whose share of hits within k is exp(-loss k^(-2/3)), (n,) int64."""
    if np.isinf(loss):
        return np.full(n, V)
    uniform = np.random.default_rng(7).random(n)
    return np.clip(np.ceil((loss / -np.log(uniform)) ** 1.5), 1, V).astype(int)


def write_degenerate(root, families=FAMILIES, corpora=(CORPUS,)):
    """Models, a corpus, family files and planted rank tables under `root`; RBP_ROOT must name
    it."""
    from rbplib.measuring import measured
    from tests.smallmodels import save_model

    write_text_of_derivations(root)
    for i in range(len(SIZES)):
        save_model(root / "tiny" / f"m{i}", scale=i + 1, seed=i)
    for name, losses in families.items():
        entries = "".join(f"  - {{id: tiny/m{i}, dtype: float32}}\n" for i in range(len(losses)))
        (root / "families" / f"{name}.yml").write_text(f"title: {name}\nmodels:\n{entries}")
        measured_tables = measured(name, list(corpora), progress=False).values()
        for i, tables in enumerate(measured_tables):  # a second text is harder
            tables = sorted(tables, key=lambda table: table.record["model"])
            plant(tables, losses * (1 + 0.3 * i))


def plant(tables, losses):
    """Ranks of a family written over those that its models got, table by table."""
    from rbplib.table import write_table

    for table, loss, size in zip(tables, losses, SIZES, strict=False):
        rank = ranks(loss, int(table.record["vocab_size"]), len(table))
        columns = {c: getattr(table, c) for c in ("document", "position", "token")}
        columns |= {"greater": rank - 1, "ties": np.ones_like(rank)}
        columns["logprob"] = -np.log(rank + (rank > 1)) - 0.05
        sizes = {"nonembedding_params": size, "total_params": size + 1000}
        write_table(table.path, columns, table.record | sizes)


def write_text_of_derivations(root):
    pages = sorted((ROOT / "book" / "derivations").glob("*.md"))
    words = " ".join(p.read_text() for p in pages)
    words = words.encode("ascii", "ignore").decode().split()
    # two texts of other words, forty documents each
    for i, (name, title) in enumerate([(CORPUS, "Text notes"), (SECOND, "Text proofs")]):
        starts = range(1200 * i, 1200 * (i + 1), 30)
        lines = [json.dumps({"text": " ".join(words[at : at + 30])}) for at in starts]
        (root / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        corpus = f"title: {title}\nsource: file\npath: {name}.jsonl\n"
        (root / "corpora" / f"{name}.yml").write_text(corpus)


PARTS = ["claims.yml", "_ext", "_static", "references.bib", "pages.yml"]  # of book/
WHOLE = [path.name for path in (ROOT / "book").iterdir() if path.name != "_executed"]


@contextmanager
def root_of_its_own(root, parts=PARTS):
    """`root` as the root, with the checkout's notebooks and folders of its own for what is
    planted; several processes may share it."""
    shared = ("notebooks", "published", "training", "models", "_config.yml", "_toc.yml")
    with FileLock(f"{root}.lock"):
        if not (root / "book").exists():
            for folder in ("families", "corpora", "book"):
                (root / folder).mkdir(parents=True)
            for name in (*shared, "benchmarks", "CITATION.cff"):
                (root / name).symlink_to(ROOT / name)
            for name in parts:
                (root / "book" / name).symlink_to(ROOT / "book" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        patch.setenv("RBP_RESULTS", str(root / "results"))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield root


STORY = "nano-pythia"  # the family of the contents, and one whose architecture page 18 trains
SHORT = {"corpora": [CORPUS], "n_bootstrap": 100}
PARAMETERS = {  # of single pages, so that each takes seconds; page 02 has two texts to choose from
    "02_top1_law": {**SHORT, "corpora": [CORPUS, SECOND]},
    "09_appendix": {},
    "10_gpt2": {},
    "11_families": {"families": [STORY, "backwards"], **SHORT},
    "12_published": {"families": ["pythia", "rwkv-4"]},
    "13_one_curve": {"families": [STORY, "backwards"], **SHORT},
    "14_text_and_compute": {"corpora": ["docs"], "ks": [1, 10], "n_bootstrap": 100}
    | {"validation": ["c4"], "tasks": ["lambada_openai"]},
    "15_copying": {},
    "16_trust": {"families": [STORY], "runs": 20, "resamples": 100, "documents": 5, **SHORT},
    "17_findings": {"families": [STORY, "backwards"], **SHORT},
    "18_train_your_own": {"family": STORY, "rungs": 3, "tokens": 25_000, "n_bootstrap": 100},
    "real_model": {"families": [STORY], **SHORT},
}


LAST = "17_findings"  # which reads all other pages


def write_book(root):
    """Every notebook run once without a kernel, as the workflow would, and the HTML of all pages:
    by all processes that call this, each of which takes what no other is at."""
    from paper import tokens
    from rbplib import joint
    from tests.pagerunner import read_once, run_page
    from tests.planted import planted_grid
    from workflow import book, pages

    def execute(page):
        return run_page(page.name, **page.parameters)

    def tables():
        write_degenerate(root, {STORY: LOSSES}, (CORPUS, SECOND))
        write_degenerate(root, {"backwards": LOSSES[::-1]})
        for name in ("docs", "code", "doctests"):  # which page 18 trains on
            (root / "corpora" / f"{name}.yml").write_text(f"path: {CORPUS}.jsonl\n")

    def run(name):
        parameters, folder = PARAMETERS.get(name, SHORT), pages.TOGETHER
        if not pages.is_once(name):
            folder, parameters = STORY, parameters | {"family": STORY}
        pages.run(pages.Page(name, folder, parameters), None)

    def once(name, make, *arguments, wait=-1):
        """Call `make`, unless another process has; one that is at it is waited for, or left."""
        made = root / "made" / name
        made.parent.mkdir(exist_ok=True)
        with suppress(Timeout), FileLock(f"{made}.lock", timeout=wait):
            if not made.exists():
                make(*arguments)
                made.touch()

    names = sorted(pages.notebooks().keys() - {LAST})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "execute", execute)
        grid = planted_grid(sizes=4, budgets=3)
        patch.setattr(tokens, "grid", lambda families, corpus, ks: grid)
        patch.setattr(joint, "SEARCHES", 1)
        read_once(patch)
        once("tables", tables)
        for name in names:
            once(name, run, name, wait=0)
        for name in (*names, LAST):
            once(name, run, name)
    once("html", book.build_html)
