"""A root folder with a synthetic family, its corpora and its rank tables: what pages read, without
a model."""

from pathlib import Path

import numpy as np

from rbplib.table import COLUMNS, ENGINE, RankTable, ranks_path, write_table

VOCABULARY = 400
CORPORA = {"prose": "Synthetic prose", "code": "Synthetic code"}


def rank_table(rank, document, position=None, ties=1, token=0, logprob=-1.0, **about):
    """A RankTable of ranks (n,) in documents (n,); a single number is that of every row."""
    rank, document = np.asarray(rank), np.asarray(document)
    position = np.arange(1, len(rank) + 1) if position is None else position
    values = document, position, token, rank - ties, ties, logprob
    values = [np.broadcast_to(value, rank.shape) for value in values]
    record = {"family": "f", "model": "m", "corpus": "c", "vocab_size": 50}
    record |= {"nonembedding_params": 1.0, "documents": int(document.max(initial=0)) + 1}
    return RankTable(dict(zip(COLUMNS, values, strict=True)), record | about)


def write_family(
    root,
    name="synthetic",
    sizes=(2_000, 9_000, 40_000, 180_000, 800_000),
    documents=60,
    models=None,
    units=(),
):
    """Families, corpora and results under `root`; ranks follow a law in S, documents and neighbours
    hang together. units: what each document is from."""
    root = Path(root)
    for folder in ("families", "corpora"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    models = models or [f"{name}-{size}" for size in sizes]
    lines = ["title: Synthetic", "embedded: true", "context: 256", "models:"]
    for model, size in zip(models, sizes, strict=True):
        lines.append(f"  - {{id: none/{model}, dtype: float32, nonembedding_params: {size}}}")
    (root / f"families/{name}.yml").write_text("\n".join(lines))

    for number, (corpus, title) in enumerate(CORPORA.items()):
        # a digest that no installed text has
        lines = [f"title: {title}", "path: none.jsonl", f"kind: {corpus}", f"digest: {corpus}"]
        (root / f"corpora/{corpus}.yml").write_text("\n".join(lines))
        rng = np.random.default_rng(number)
        lengths = rng.integers(40, 200, documents)
        document = np.repeat(np.arange(documents), lengths)
        position = np.concatenate([np.arange(1, n + 1) for n in lengths])
        # a gap that no window may bridge
        position[20 : lengths[0]] += 5
        n = len(document)
        token, fresh = rng.integers(0, VOCABULARY, n), rng.normal(size=n)
        shared = fresh + 0.5 * np.r_[0, fresh[:-1]]
        shared = 0.9 * shared / shared.std() + 0.4 * rng.normal(size=documents)[document]
        about = {
            "vocab_size": VOCABULARY,
            "documents": documents,
            "units": list(units),
            "read_tokens": n + documents,
            "family": name,
            "requested_revision": None,
            "corpus": corpus,
            "corpus_digest": corpus,
            "sample": {"source": "embedded", "group": None},
            "protocol": "paper",
            "window": 256,
            "engine": ENGINE,
            "weights_dtype": "float32",
            "head_dtype": "float32",
        }
        for model, size in zip(models, sizes, strict=True):
            # quantiles of the difficulty, as ranks of the model's loss
            difficulty = shared + 0.3 * rng.normal(size=n)
            uniform = (np.argsort(np.argsort(difficulty)) + 0.5) / n
            loss = (1.2 + 0.3 * number) * (size / sizes[0]) ** -(0.08 + 0.02 * number)
            rank = np.clip(np.ceil((loss / -np.log(uniform)) ** 2.2), 1, VOCABULARY).astype(int)
            ties = np.where((rank > 1) & (rng.random(n) < 0.05), 2, 1)
            logprob = -np.log(rank) * 1.02 - 0.4 - 0.1 * rng.random(n)
            values = document, position, token, rank - ties, ties, logprob
            record = about | {"model": model, "model_id": f"none/{model}"}
            record |= {"nonembedding_params": size, "total_params": size + 1000}
            columns = dict(zip(COLUMNS, values, strict=True))
            write_table(ranks_path(record, root / "results"), columns, record)
    return root
