"""Golden numbers: laws of small rank tables are those of book/reference.csv, to rounding.

`python -m tests.test_golden` writes them anew, where numbers are meant to change. The tables are
fixed: of measured ones of nano-pythia on `docs`, 60 documents evenly spread, the first 50 scored
tokens of each, without the tokens themselves.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import rbplib as rbp
from paper.verify import TOLERANCE
from rbplib.estimators import ESTIMATORS
from tests.ranktables import rank_table

PAGE = "tests/golden"  # as book/reference.csv names these numbers
FILE = Path(__file__).resolve().parents[1] / "book" / "reference.csv"
LADDER = ("6.6k", "22k", "79k", "656k")
REPEATS = ("6.6k", "6.6k-43", "6.6k-44", "656k", "656k-43", "656k-44")


def tables(names):
    """RankTables of the models of those names in tests/golden/tables.npz."""
    arrays = np.load(Path(__file__).with_name("golden") / "tables.npz")
    document, position, source = (arrays[n].astype(int) for n in ("document", "position", "source"))
    tables = []
    for name in names:
        i = list(arrays["model"]).index(name)
        greater, ties, logprob = (arrays[n][i] for n in ("greater", "ties", "logprob"))
        ties = ties.astype(np.int32)
        about = {"family": "nano-pythia", "model": name, "corpus": "docs", "protocol": "paper"}
        about |= {"documents": len(source), "units": source.tolist()}
        about |= {"vocab_size": 4096, "nonembedding_params": int(arrays["S"][i])}
        tables.append(rank_table(greater + ties, document, position, ties, 0, logprob, **about))
    return tables


def losses():
    """{name: Loss} with the trainings that tell how models of one size differ."""
    ladder, repeats = tables(LADDER), tables(REPEATS)
    losses = {f"-log RBP_{k}": rbp.rbp_loss(ladder, k, repeats=repeats) for k in (1, 10, 100)}
    losses["cross-entropy"] = rbp.cross_entropy(ladder, repeats)
    losses["rank entropy"] = rbp.rank_entropy(ladder, repeats)
    return losses | {f"-log p_{N}": rbp.run_loss(ladder, 100, N, repeats) for N in (2, 5)}


def numbers():
    """(case, number, value, low, high) of every fit, and of the line's forecast."""
    for name, loss in losses().items():
        for model, value in zip(loss.models, loss.values, strict=True):
            yield name, f"loss of {model}", value
        for estimator in ESTIMATORS if loss.k else ("least_squares",):
            law, case = rbp.fit(loss, estimator), f"{name}, {estimator}"
            # the exponent with each of its intervals, then the other parameters
            yield case, "alpha, text", law.alpha, *law.ci_tokens
            yield case, "alpha, trainings", law.alpha, *law.ci_trainings
            yield case, "alpha, sizes", law.alpha, *law.ci_models
            for parameter in list(law.parameters)[1:]:
                interval = law.intervals["text"][parameter]
                yield case, parameter, law.parameters[parameter], *interval
            # how well it fits
            yield case, "r2", law.r2
            yield case, "residual sd", law.residual_sd
            yield case, "p, text", law.p["sources"]
            yield case, "p, trainings", law.p["trainings"]
            yield case, "worst residual", law.worst_residual
            if law.band is not None:
                yield case, "y of the largest", law.y[-1], *law.band[:, -1]
        # a size that nobody trained
        ahead = rbp.forecast(loss, [5e6])
        yield name, "forecast of log loss at 5e6", ahead.y[0], *ahead.y_interval[:, 0]


def beside_book():
    """(numbers here, those of the book as text, which rows are equal but for rounding)."""
    keys = ["page", "case", "number"]
    rows = [(PAGE, *row, *[np.nan] * (5 - len(row))) for row in numbers()]
    here = pd.DataFrame(rows, columns=[*keys, "value", "low", "high"]).set_index(keys)
    book = pd.read_csv(FILE, dtype=str).query("page == @PAGE").set_index(keys)
    there = book.reindex(here.index).astype(float)
    return here, book, np.isclose(here, there, equal_nan=True, **TOLERANCE).all(axis=1)


def test_laws_of_small_tables_are_the_golden_ones():
    here, book, same = beside_book()
    assert sorted(here.index) == sorted(book.index)
    assert same.all(), here[~same].join(book, rsuffix=" in the book").to_string()


if __name__ == "__main__":
    here, book, same = beside_book()
    here = here.astype(object)
    here[same] = book.reindex(here.index)[same]
    rest = pd.read_csv(FILE, dtype=str).query("page != @PAGE")
    pd.concat([rest, here.reset_index()]).to_csv(FILE, index=False)
