"""Read a counts file with NumPy alone, for a class: see codebook.md in the bundle, or book/data in
the book."""

import json
from types import SimpleNamespace

import numpy as np


def corpora(path):
    """Names of the corpora in a counts file, sorted."""
    with np.load(path) as file:
        return sorted({about["corpus"] for about in json.loads(str(file["records"]))})


def read(path, corpus):
    """The models of a counts file on one corpus, smallest first.

    Each has: model, family, corpus (names); S, total (parameters); V (tokens); ks (K,); hits
    (documents, K): tokens of rank at most k; tokens and nll (documents,): scored tokens, and their
    summed -log p in nats; source (documents,): number of the source; ranks and counts (n,): each
    rank that was seen, and how often; pairs (3, n): candidates above, equal, and how often;
    windows(N) and successes(k, N): places where N scored tokens in a row fit, and those where all
    are hits; run_ks: the k of successes.
    """
    models = []
    with np.load(path) as file:
        for number, about in enumerate(json.loads(str(file["records"]))):
            if about["corpus"] == corpus:
                names = [name for name in file.files if name.startswith(f"{number}/")]
                models.append(_model({name.split("/")[1]: file[name] for name in names}, about))
    return sorted(models, key=lambda m: (m.S, m.model))


def _model(array, about):
    # whole numbers are int64 again
    array = {n: a if a.dtype.kind == "f" else a.astype(np.int64) for n, a in array.items()}
    greater, ties, number = array["pairs"]
    ranks, where = np.unique(greater + ties, return_inverse=True)
    source = np.unique(np.array(about["units"]), return_inverse=True)[1]

    # places where N in a row fit into runs of these lengths
    def fitting(lengths, number, N):
        return int((np.maximum(lengths - N + 1, 0) * number).sum())

    def successes(k, N):
        runs = array["hit_runs"][:, array["hit_runs"][0] == k]
        return fitting(runs[2], runs[3], N)

    # by names
    return SimpleNamespace(
        family=about["family"],
        model=about["model"],
        corpus=about["corpus"],
        V=about["vocab_size"],
        S=about["nonembedding_params"],
        total=about["total_params"],
        ks=array["ks"],
        hits=array["cells"].cumsum(axis=0)[:-1].T,
        tokens=array["cells"].sum(axis=0),
        nll=array["nll"],
        source=source,
        ranks=ranks,
        counts=np.bincount(where.ravel(), number).astype(np.int64),
        pairs=array["pairs"],
        run_ks=np.unique(array["hit_runs"][0]),
        windows=lambda N: fitting(*array["scored"][1:], N),
        successes=successes,
    )
