"""The first ids of a long text are those of the whole, had in memory that does not grow with the
text."""

import pytest
from commands import ROOT
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rbplib import InputError, windows
from rbplib.windows import encode

PROSE = 2 * (ROOT / "book/your_models.md").read_text()


def sentence_bpe():
    """As Llama 2: blanks become a sign, nothing is split."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Metaspace()
    return backend, trainers.BpeTrainer(max_token_length=24, **QUIET)


def unigram():
    """The best path through the whole text, which nothing splits."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    backend.decoder = decoders.Metaspace(split=False)  # without one, blanks stand between pieces
    return backend, trainers.UnigramTrainer(unk_token="<unk>", **QUIET)


QUIET = {"vocab_size": 500, "show_progress": False, "special_tokens": ["<unk>"]}
MAKERS = {
    "llama 2": sentence_bpe,
    "unigram of the whole": unigram,
    "embedded": None,
}


def opened(name):
    if name == "embedded":
        return AutoTokenizer.from_pretrained(ROOT / "models" / "tokenizer")
    backend, trainer = MAKERS[name]()
    backend.train_from_iterator([PROSE[i : i + 300] for i in range(0, len(PROSE), 300)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


@pytest.mark.parametrize("name", MAKERS)
def test_the_first_ids_are_those_of_the_whole_text(name, monkeypatch):
    tokenizer, seen = opened(name), []
    texts = [PROSE, PROSE[: len(PROSE) // 2], "short", "", "ab" * 2_000, PROSE[1_000:]]
    whole = [tokenizer(text, verbose=False)["input_ids"] for text in texts]
    monkeypatch.setattr(windows, "AT_ONCE", 1_000)
    real = type(tokenizer).__call__
    monkeypatch.setattr(
        type(tokenizer),
        "__call__",
        lambda s, group, **how: seen.extend(group) or real(s, group, **how),
    )
    for most in (4, 40):
        seen.clear()
        ids, read = encode(tokenizer, texts, most)
        assert max(map(len, seen)) == max(1_000, 128 * most) < len(PROSE) // 2
        for text, row, found, characters in zip(texts, whole, ids, read, strict=True):
            assert found.tolist() == row[:most], f"{text[:40]!r}... of {len(text)}"
            assert characters == len(text) if len(row) <= most else characters < len(text)
    ids, read = encode(tokenizer, texts)
    assert [row.tolist() for row in ids] == whole
    # a leading space is not given back by all
    assert read == pytest.approx([len(text) for text in texts], abs=1)


def test_a_document_that_would_take_gigabytes_is_one_sentence():
    texts = ["short", "word " * 3_355_444]
    with pytest.raises(InputError, match="16,777,220 characters.*cut it into several"):
        encode(opened("embedded"), texts)
    assert len(encode(opened("embedded"), texts, 9)[0][1]) == 9
