"""Families that end where a law begins: planted rank tables for which some of a page's numbers do not exist.

Tiny models are measured once on short texts; what they got is then written over by planted ranks, so that a table's
place and record are always the library's own.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIZES = (1_000, 4_000, 16_000, 64_000)
MANY, FEW = "notes", ("one", "two", "three", "four")  # corpora: 40 documents, and so many


@dataclass(frozen=True)
class Planted:
    """A family: its sizes, what gives the ranks of a model (generator, vocabulary, tokens, which of all) -> (n,)."""

    ranks: object
    sizes: tuple = SIZES
    models: str = "tiny"  # whose weights and tokenizer: `tiny` has 320 tokens, `letters` 100
    corpora: tuple = (MANY,)
    ties: object = None  # (ranks, vocabulary) -> (n,); one where not given


def falling(rng, V, n, share):
    """Ranks that get better from share 0, the smallest model, to 1; the others of a family share their luck."""
    loss = 1.5 * 4 ** (-0.3 * share)
    return np.clip(np.ceil((loss / -np.log(rng.random(n))) ** 1.5), 1, V).astype(int)


def worst_at_the_end(rng, V, n, share):
    return falling(rng, V, n, share if share < 1 else -2)


FAMILIES = {
    "all-first": Planted(lambda rng, V, n, share: np.ones(n, int)),
    "never-first": Planted(lambda rng, V, n, share: np.maximum(falling(rng, V, n, share), 2)),
    "never-at-all": Planted(lambda rng, V, n, share: np.full(n, V)),
    "all-tied": Planted(lambda rng, V, n, share: np.full(n, V), ties=lambda rank, V: rank),
    "all-alike": Planted(lambda rng, V, n, share: falling(rng, V, n, 0.5)),
    "all-within-three": Planted(lambda rng, V, n, share: np.minimum(falling(rng, V, n, share), 3)),
    "one-model": Planted(falling, SIZES[:1]),
    "two-models": Planted(falling, SIZES[:2]),
    "three-models": Planted(falling, SIZES[:3]),
    "one-size": Planted(falling, (4_000,) * 4),
    "one-size-twice": Planted(falling, (1_000, 4_000, 4_000, 64_000)),
    "two-sizes": Planted(falling, (1_000, 1_000, 64_000)),
    "largest-worst": Planted(worst_at_the_end),
    "backward": Planted(lambda rng, V, n, share: falling(rng, V, n, 1 - share)),
    "few-documents": Planted(falling, corpora=FEW),
    "letters": Planted(falling, models="letters"),
    "last-perfect": Planted(lambda rng, V, n, share: falling(rng, V, n, share) if share < 1 else np.ones(n, int)),
    "mid-perfect": Planted(lambda rng, V, n, share: np.ones(n, int) if share == 1 / 3 else falling(rng, V, n, share)),
    "up-and-down": Planted(lambda rng, V, n, share: falling(rng, V, n, 0.2 if share in (0, 2 / 3) else 0.8)),
    "first-blind": Planted(lambda rng, V, n, share: falling(rng, V, n, share) if share else np.full(n, V)),
}


def write_degenerate(root, families=FAMILIES):
    """Planted families under `root`: models, corpora, family files and rank tables. RBP_ROOT must name it."""
    from rbplib.stored import write_ranks
    from rbplib.table import measured

    write_texts(root)
    write_models(root)
    for name, planted in families.items():
        entries = [f"  - {{id: models/{planted.models}/m{i}, dtype: float32}}\n" for i in range(len(planted.sizes))]
        (root / "families" / f"{name}.yml").write_text(f"title: {name}\nmodels:\n{''.join(entries)}")
        for tables in measured(name, planted.corpora).values():
            for i, table in enumerate(sorted((t.read() for t in tables), key=lambda t: t.record["model"])):
                V, n = int(table.record["vocab_size"]), len(table)
                rank = planted.ranks(np.random.default_rng(7), V, n, i / max(1, len(planted.sizes) - 1))
                ties = np.ones(n, int) if planted.ties is None else planted.ties(rank, V)
                logprob = np.minimum(-np.log(rank + (rank > 1)) - 0.05, -1e-6 * 0 - 0.01)
                columns = {c: getattr(table, c) for c in ("document", "position", "token")}
                columns |= {"greater": rank - ties, "ties": ties, "logprob": logprob}
                size = {"nonembedding_params": planted.sizes[i], "total_params": planted.sizes[i] + 1000}
                write_ranks(table.path, columns, table.record | size)


def write_texts(root):
    here = Path(__file__).resolve().parents[1]
    words = " ".join(p.read_text(encoding="utf-8") for p in sorted((here / "rbplib" / "laws").glob("*.py")))
    words = words.encode("ascii", "ignore").decode().split()
    for name, documents in ({MANY: 40} | {name: i + 1 for i, name in enumerate(FEW)}).items():
        texts = [" ".join(words[30 * i : 30 * i + 30]) for i in range(documents)]
        (root / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        (root / "corpora" / f"{name}.yml").write_text(f"title: Text {name}\nsource: file\npath: {name}.jsonl\n")


def write_models(root):
    from tests.smallmodels import save_model, tokenizer

    for folder, vocab, alphabet in (("tiny", 320, None), ("letters", 100, [])):
        words = tokenizer(vocab, alphabet)
        for i in range(len(SIZES)):
            save_model(root / "models" / folder / f"m{i}", seed=i, words=words)
