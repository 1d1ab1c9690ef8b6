"""Windows: every scored token once, with the context promised, against a slow re-count."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smallmodels import tokenizer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from rbplib.windows import added_ids, make_windows, text_windows


@given(st.integers(0, 60), st.integers(2, 17), st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_full_scores_every_token_but_the_first_once(n, length, begin):
    # a text that begins with some special tokens
    before = [99] * begin
    row = np.array(before[:n] + [*range(begin, n)], np.uint8)
    windows = make_windows([row], (), length, "full", around=(before, ())).windows
    begin = min(begin, length - 1)
    scored = [t for window in windows for t in window.start + window.scored]
    assert scored == list(range(1, n))
    for window in windows:
        assert len(window.ids) <= length and window.ids[:begin].tolist() == before[:begin][:n]
        for i in range(begin, len(window.ids)):
            assert window.ids[i] == row[window.start + i]
        if window.start > 0:
            assert window.scored[0] >= length - max(1, length // 2)


@pytest.mark.parametrize("before, after", [("", ""), ("<end> ", ""), ("", " <end>")])
def test_special_tokens_that_are_words_of_the_text_are_counted(before, after):
    words = tokenizer()
    if before or after:
        template = TemplateProcessing(f"{before}$A{after}", special_tokens=[("<end>", 0)])
        words.backend_tokenizer.post_processor = template
    words.add_special_tokens({"pad_token": "the"})
    assert added_ids(words) == ((0,) * bool(before), (0,) * bool(after))
    windows = text_windows(words, ["to the end of the<end>day", "the", "a", ""], 8, "full")
    names = words.convert_ids_to_tokens([*windows.unscored])
    # where nothing stands before it the word of the second text could not be scored anyway
    numbers = {"the": 2 + bool(before), "<end>": 1}
    assert dict(zip(names, windows.unscored.values(), strict=True)) == numbers


UNKNOWN = [("<unk>", 0), ("the", -1.0), ("fox", -2.0), (" ", -3.0)]
UNDECLARED = {  # tokenizers that call nothing special
    "words": models.WordLevel({"<unk>": 0, "the": 1, "fox": 2}, unk_token="<unk>"),
    "pieces": models.Unigram(UNKNOWN, unk_id=0),
}


@pytest.mark.parametrize("kind", UNDECLARED)
def test_what_a_tokenizer_does_not_know_is_not_scored_declared_or_not(kind):
    backend = Tokenizer(UNDECLARED[kind])
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    words = PreTrainedTokenizerFast(tokenizer_object=backend)
    windows = text_windows(words, ["the fox the zebra fox"], 512, "full")
    assert windows.unscored == {0: 1} and len(windows.windows[0].scored) == 3


@pytest.mark.parametrize("protocol", ["paper", "full"])
def test_text_that_a_tokenizer_drops_is_not_read(protocol):
    backend, text = tokenizer().backend_tokenizer, ["3.14 is pi, and 2.72 e"]
    backend.normalizer = normalizers.Replace(Regex("[^a-z ]"), "")
    lossy = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert text_windows(lossy, text, 512, protocol).read == 13
    assert text_windows(tokenizer(), text, 512, protocol).read == 22
