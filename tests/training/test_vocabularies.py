"""Ladders with tokenizers of several sizes: cut vocabularies, the same bytes, counts by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from training import data, ladders, train, vocabularies  # noqa: E402
from training.tokenizer import cut, train_tokenizer  # noqa: E402

TEXTS = ["def f(x):\n    return x + 12\n" * 3, "words and words, naïve words ≤ 40 "] * 5


def test_a_cut_tokenizer_is_the_one_trained_to_that_size():
    large, small = train_tokenizer(TEXTS, 289), train_tokenizer(TEXTS, 270)
    by_size = [json.loads(each.to_str()) for each in (cut(large, 270), small, large)]
    assert by_size[0] == by_size[1] != by_size[2]
    assert len(cut(large, 270).get_vocab()) == 270


def test_another_tokenizer_reads_the_same_bytes():
    stream = np.load(data.root() / "training" / "first_tokens.npz")["training"][:9000]
    embedded, small = data.load_tokenizer(), cut(data.load_tokenizer(), 512)
    assert (vocabularies.stream_in(embedded, stream)[: len(stream)] == stream).all()
    other = vocabularies.stream_in(small, stream)
    assert len(other) > 1.3 * len(stream) and other.max() < 512
    assert small.decode(other.tolist()) == embedded.decode(stream.tolist())


def table(document, first, end, rank, vocabulary):
    """What `counted` needs of a rank table, and where its rows stand."""
    record = {"vocab_size": vocabulary}
    columns = {"document": np.array(document), "logprob": -np.array(rank, float)}
    return SimpleNamespace(record=record, rank=lambda: np.array(rank), **columns), np.array(
        [first, end]
    )


def test_counts_are_of_tokens_within_the_shared_bytes():
    one, places = table([0, 0, 0, 1, 1], [2, 4, 7, 1, 5], [4, 7, 9, 5, 9], [1, 2, 3, 4, 1], 8)
    span = np.array([[2, 3], [8, 9]])
    rows = list(vocabularies.counted(one, places, span))
    # the third row ends after byte 8 of its document, the fourth begins before byte 3 of the second
    assert rows == [("", 4.0, 3, 9), (1, 2, 3, 9), (2, 3, 3, 9), (4, 3, 3, 9)]


def test_a_model_has_the_vocabulary_of_its_plan():
    size = ladders.Size(1, 12, 1)
    plan = train.Plan(tokens=2 * 2048, vocabulary=600)
    stream = (np.arange(2 * 2048 + 1) % 600).astype(np.uint16)
    model, record = train.train("nano-pythia", size, plan, stream)
    assert model.config.vocab_size == 600 == len(model.get_output_embeddings().weight)
    # the size that a law counts does not depend on it
    assert record["nonembedding_params"] == 1908 and record["total_params"] == 1908 + 2 * 12 * 600
