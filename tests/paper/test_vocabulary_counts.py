"""The kept counts of ladders with several vocabularies."""

import pandas as pd

from rbplib.families import held


def test_counts_of_vocabularies_are_of_the_same_bytes_and_whole():
    counts = pd.read_csv(held("published", "vocabularies.csv"))
    ladders = counts.groupby(["vocabulary", "seed", "corpus"])
    for (vocabulary, _, _), of in ladders:
        # every power of two below the vocabulary, and more hits the further one looks
        hits = of.dropna(subset="k").pivot(index="size", columns="k", values="value")
        assert list(hits.columns) == [2**i for i in range(int(vocabulary).bit_length() - 1)]
        assert len(hits) == 6 and (hits.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    # tokens that reach over an end are left out: less than one a document and end
    bytes_read = counts.groupby("corpus")["bytes"]
    assert (bytes_read.max() / bytes_read.min() < 1.02).all()
    # fewer, longer tokens of a larger vocabulary
    totals = counts.groupby(["corpus", "vocabulary"])["total"].first().unstack()
    assert (totals.diff(axis=1).iloc[:, 1:] < 0).all(axis=None)
