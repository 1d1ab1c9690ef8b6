"""A root folder with a synthetic family, its corpora and its rank tables: what pages read, without
a model."""

from pathlib import Path

import numpy as np

from rbplib.table import ENGINE, RankTable, ranks_path, write_table

VOCABULARY = 400
COLUMNS = ("document", "position", "token", "greater", "ties", "logprob")


def rank_table(rank, document, position=None, ties=1, token=0, logprob=-1.0, **about):
    """A RankTable of ranks (n,) in documents (n,); a single number is that of every row."""
    rank, document = np.asarray(rank), np.asarray(document)
    position = np.arange(1, len(rank) + 1) if position is None else position
    rows = (document, position, token, rank - ties, ties, logprob)
    columns = dict(zip(COLUMNS, (np.broadcast_to(of, rank.shape) for of in rows), strict=True))
    record = {"family": "f", "model": "m", "corpus": "c", "vocab_size": 50}
    record |= {"nonembedding_params": 1.0, "documents": int(document.max(initial=0)) + 1}
    return RankTable(columns, record | about)


CORPORA = {"prose": "Synthetic prose", "code": "Synthetic code"}


def write_family(
    root,
    name="synthetic",
    sizes=(2_000, 9_000, 40_000, 180_000, 800_000),
    documents=60,
    models=None,
):
    """Families, corpora and results under `root`; ranks follow a law in S, documents and neighbours
    hang together."""
    root = Path(root)
    for folder in ("families", "corpora"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    models = models or [f"{name}-{s}" for s in sizes]
    entries = "".join(
        f"  - {{id: none/{m}, dtype: float32, nonembedding_params: {s}}}\n"
        for m, s in zip(models, sizes, strict=True)
    )
    (root / "families" / f"{name}.yml").write_text(
        f"title: Synthetic\nembedded: true\ncontext: 256\nmodels:\n{entries}"
    )
    for number, (corpus, title) in enumerate(CORPORA.items()):
        (root / "corpora" / f"{corpus}.yml").write_text(
            f"title: {title}\npath: none.jsonl\nkind: {corpus}\n"
            f"digest: {corpus}\n"  # no such text is installed
        )
        rng = np.random.default_rng(number)
        lengths = rng.integers(40, 200, documents)
        document = np.repeat(np.arange(documents), lengths)
        position = np.concatenate([np.arange(1, n + 1) for n in lengths])
        position[document == 0] += np.where(
            np.arange(lengths[0]) >= 20, 5, 0
        )  # a gap that no window may bridge
        n = len(document)
        token, fresh = rng.integers(0, VOCABULARY, n), rng.normal(size=n)
        shared = fresh + 0.5 * np.concatenate([[0], fresh[:-1]])
        shared = 0.9 * shared / shared.std() + 0.4 * rng.normal(size=documents)[document]
        for model, size in zip(models, sizes, strict=True):
            own = shared + 0.3 * rng.normal(size=n)
            uniform = (np.argsort(np.argsort(own)) + 0.5) / n
            loss = (1.2 + 0.3 * number) * (size / sizes[0]) ** -(0.08 + 0.02 * number)
            rank = np.clip(np.ceil((loss / -np.log(uniform)) ** 2.2), 1, VOCABULARY).astype(int)
            ties = np.where((rank > 1) & (rng.random(n) < 0.05), 2, 1)
            logprob = -np.log(rank) * 1.02 - 0.4 - 0.1 * rng.random(n)
            record = {
                "vocab_size": VOCABULARY,
                "documents": documents,
                "read_tokens": n + documents,
                "family": name,
                "model": model,
                "model_id": f"none/{model}",
                "requested_revision": None,
                "corpus": corpus,
                "corpus_digest": corpus,
                "sample": {"source": "embedded", "group": None},
                "protocol": "paper",
                "window": 256,
                "engine": ENGINE,
                "weights_dtype": "float32",
                "head_dtype": "float32",
                "nonembedding_params": size,
                "total_params": size + 1000,
            }
            rows = (document, position, token, rank - ties, ties, logprob)
            columns = dict(zip(COLUMNS, rows, strict=True))
            write_table(ranks_path(record, root / "results"), columns, record)
    return root
