"""The first ids of a long text are those of the whole, had in memory that does not grow with the
text."""

import pytest
from commands import ROOT
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rbplib import InputError, windows
from rbplib.windows import encode

PROSE = 2 * (ROOT / "book/your_models.md").read_text()
QUIET = {"vocab_size": 500, "show_progress": False, "special_tokens": ["<unk>"]}


def sentence_bpe():
    """As Llama 2: blanks become a sign, nothing is split."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    blanks = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence(blanks)
    backend.decoder = decoders.Metaspace()
    return trained(backend, trainers.BpeTrainer(max_token_length=24, **QUIET))


def unigram():
    """The best path through the whole text, which nothing splits."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    backend.decoder = decoders.Metaspace(split=False)  # without one, blanks stand between pieces
    return trained(backend, trainers.UnigramTrainer(unk_token="<unk>", **QUIET))


def trained(backend, trainer):
    backend.train_from_iterator([PROSE[i : i + 300] for i in range(0, len(PROSE), 300)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def embedded():
    return AutoTokenizer.from_pretrained(ROOT / "models/tokenizer")


@pytest.mark.parametrize("make", [sentence_bpe, unigram, embedded])
def test_the_first_ids_are_those_of_the_whole_text(make, monkeypatch):
    tokenizer, read_at_once = make(), []
    texts = [PROSE, PROSE[: len(PROSE) // 2], "short", "", "ab" * 2_000, PROSE[1_000:]]
    whole = [tokenizer(text, verbose=False)["input_ids"] for text in texts]
    real = type(tokenizer).__call__

    def watched(self, texts, **how):
        read_at_once.extend(map(len, texts))
        return real(self, texts, **how)

    monkeypatch.setattr(type(tokenizer), "__call__", watched)
    monkeypatch.setattr(windows, "AT_ONCE", 1_000)
    for most in (4, 40):
        read_at_once.clear()
        ids, read = encode(tokenizer, texts, most)
        assert max(read_at_once) == max(1_000, 128 * most) < len(PROSE) // 2
        assert [row.tolist() for row in ids] == [row[:most] for row in whole]
        for text, row, characters in zip(texts, whole, read, strict=True):
            assert characters == len(text) if len(row) <= most else characters < len(text)
    ids, read = encode(tokenizer, texts)
    assert [row.tolist() for row in ids] == whole
    # a leading space is not given back by all
    assert read == pytest.approx([len(text) for text in texts], abs=1)


def test_a_document_that_would_take_gigabytes_is_one_sentence():
    texts = ["short", "word " * 3_355_444]
    with pytest.raises(InputError, match="16,777,220 characters.*cut it into several"):
        encode(embedded(), texts)
    assert len(encode(embedded(), texts, 9)[0][1]) == 9
