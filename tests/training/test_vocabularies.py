"""Ladders with tokenizers of several sizes: cut vocabularies, the same bytes, counts by hand."""

import json

import numpy as np

from training import data, ladders, train, vocabularies
from training.tokenizer import cut, train_tokenizer

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


def test_a_model_has_the_vocabulary_of_its_plan():
    size = ladders.Size(1, 12, 1)
    plan = train.Plan(tokens=2 * 2048, vocabulary=600)
    stream = (np.arange(2 * 2048 + 1) % 600).astype(np.uint16)
    model, record = train.train("nano-pythia", size, plan, stream)
    assert model.config.vocab_size == 600 == len(model.get_output_embeddings().weight)
    # the size that a law counts does not depend on it
    assert record["nonembedding_params"] == 1908 and record["total_params"] == 1908 + 2 * 12 * 600
