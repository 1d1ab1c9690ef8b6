"""The kept counts of ladders with several vocabularies."""

import pandas as pd

from rbplib.families import held


def test_counts_of_vocabularies_are_of_the_same_bytes_and_whole():
    counts = pd.read_csv(held("published", "vocabularies.csv"))
    assert counts["size"].nunique() == 6
    place = ["vocabulary", "seed", "corpus"]
    for (vocabulary, _, _), of in counts.groupby(place):
        ranked = of.dropna(subset="k").pivot(index="size", columns="k", values="value")
        # every power of two below the vocabulary, and more hits the further one looks
        assert list(ranked.columns) == [2**i for i in range(int(vocabulary).bit_length() - 1)]
        assert (ranked.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
        assert (ranked.iloc[:, -1] < of["total"].iloc[0]).all() and of["total"].nunique() == 1
        # larger models lose less
        losses = of[of["k"].isna()].set_index("size")["value"].sort_index()
        assert losses.iloc[0] > losses.iloc[2] > losses.iloc[4]
    for _, of in counts.groupby("corpus"):
        # tokens that reach over an end are left out: less than one a document and end
        assert of["bytes"].max() / of["bytes"].min() < 1.02
    # fewer, longer tokens of a larger vocabulary
    totals = counts.groupby(["corpus", "vocabulary"])["total"].first().unstack()
    assert (totals.diff(axis=1).iloc[:, 1:] < 0).all(axis=None)
