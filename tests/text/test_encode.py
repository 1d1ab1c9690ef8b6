"""What a protocol scores is tokenised as the whole text is, in memory that does not grow with the text."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rbplib.text import windows
from rbplib.text.windows import encode

ROOT = Path(__file__).resolve().parents[2]
# The patterns of GPT-2, of Llama 3 and Qwen, of o200k, and one that groups digits from the right.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
LLAMA += r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t)?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RIGHT = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|[^\p{N}]+"

PIECES = [
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "A",
    "中",
    "文中",
    "e\u0301",
    "\u0301",
    "\u0323",
    "\u0345",
    "🙂",
    "👩\u200d👩",
    " ",
    "  ",
]
PIECES += [
    "\n",
    "\r\n",
    "\n  ",
    "\t",
    "\u3000",
    "1",
    "123",
    "!",
    "...",
    "'s",
    "<end>",
    "word ",
    " The",
    "ﬁ",
    "한",
    "\u1112\u1161",
    "\x1c",
]


def hostile(rng, size):
    """A text of runs: of a character or a piece of text, short or as long as the whole."""
    out = ""
    while len(out) < size:
        piece = rng.choice(PIECES) if rng.random() < 0.7 else "".join(rng.choices(PIECES, k=rng.randrange(2, 9)))
        out += piece * rng.choice([1, 1, 1, 2, 3, 7, 40, 400, size])
        out = out[: size + rng.randrange(3)]
    return out


CORPUS = [hostile(random.Random(i), 400) for i in range(60)] + ["".join(PIECES) * 3, "the words of a text " * 20]
CORPUS += [" ".join(f"文B{c}" for c in "acdefghijklmnopqrstuvwxyz") * 40] + [
    "\n      \n" * 9,
    "文A" * 9,
    "文AAAAa" * 9,
    "aaa" * 30,
    "aa " * 30,
]


def trained(backend, kind, **how):
    trainer = {"bpe": trainers.BpeTrainer, "unigram": trainers.UnigramTrainer, "wordpiece": trainers.WordPieceTrainer}
    texts = [text[:80] for text in CORPUS] if kind == "wordpiece" else CORPUS
    backend.train_from_iterator(texts, trainer[kind](show_progress=False, **how))
    return backend


def byte_level(pattern, normalizer=None):
    backend = Tokenizer(models.BPE(ignore_merges=pattern == LLAMA))
    backend.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained(
        backend, "bpe", vocab_size=700, max_token_length=24, special_tokens=["<end>"], initial_alphabet=alphabet
    )


def sentence_bpe():
    """As Llama 2: blanks become a sign, nothing is split, what is unknown falls back to bytes."""
    backend = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<end>", *(f"<0x{i:02X}>" for i in range(256))]
    return trained(backend, "bpe", vocab_size=700, special_tokens=special, limit_alphabet=40, max_token_length=24)


def unigram(split):
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=split)
    return trained(backend, "unigram", vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "<end>"])


def runs_unigram():
    """Pieces of two and three letters of one kind: how a run is divided hangs on its whole length."""
    pieces = [("<unk>", 0.0), ("▁", -3.0), ("a", -9.0), ("aa", -2.0), ("aaa", -2.0), ("b", -2.0), ("ab", -3.5)]
    backend = Tokenizer(models.Unigram(pieces, 0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return backend


def wordpiece():
    backend = Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=50))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return trained(backend, "wordpiece", vocab_size=400, special_tokens=["<unk>", "<end>"])


def opened(name):
    if name == "embedded":
        return AutoTokenizer.from_pretrained(ROOT / "models" / "tokenizer")
    backend = MAKERS[name]()
    backend.add_special_tokens([AddedToken("<end>", rstrip=name == "llama 3", lstrip=name == "wordpiece")])
    ends = [("<end>", backend.token_to_id("<end>"))]
    if name in ("llama 2", "wordpiece"):  # what stands before and after every text
        backend.post_processor = processors.TemplateProcessing(single="<end> $A <end>", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", unk_token=None)


MAKERS = {
    "gpt2": lambda: byte_level(GPT2),
    "llama 3": lambda: byte_level(LLAMA),
    "qwen": lambda: byte_level(LLAMA, normalizers.NFC()),
    "o200k": lambda: byte_level(O200K),
    "digits from the right": lambda: byte_level(RIGHT, normalizers.NFD()),
    "llama 2": sentence_bpe,
    "unigram": lambda: unigram(True),
    "unigram of the whole": lambda: unigram(False),
    "runs": runs_unigram,
    "wordpiece": wordpiece,
    "embedded": None,
}
TEXTS = {
    "no spaces": lambda rng: "".join(rng.choices("abAB文中1", k=2_000)),
    "one character": lambda rng: "a" * 2_000,
    "one character, not for ever": lambda rng: "b" + "a" * 1_500 + "b",
    "capitals, then a small letter": lambda rng: "a 文" + "BC" * 700 + "b",
    "blanks, then a line end": lambda rng: "ab\n" + " " * 1_500 + "\n  ab",
    "marks, then one that goes before them": lambda rng: "e" + "\u0301" * 1_500 + "\u0323e",
    "digits": lambda rng: "1" * 1_501 + " 2",
    "half an added token": lambda rng: "<end" * 400,
    "an added token and blanks": lambda rng: ("<end>" + " " * 300) * 20,
    "words": lambda rng: " ".join("".join(rng.choices("abcde", k=rng.randrange(1, 9))) for _ in range(500)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_first_ids_are_those_of_the_whole_text(name, monkeypatch):
    tokenizer, rng, most = opened(name), random.Random(7), 8
    texts = [make(rng) for make in TEXTS.values()] + [hostile(rng, size) for size in (300, 700, 2_000) * 12]
    whole = [tokenizer(text, verbose=False)["input_ids"] for text in texts]
    monkeypatch.setattr(windows, "AT_ONCE", 100)
    for length in (most, 40):
        ids, read = encode(tokenizer, texts, length)
        for text, row, found, characters in zip(texts, whole, ids, read, strict=True):
            assert found.tolist() == row[:length], f"{text[:40]!r}... of {len(text)}"
            assert characters == len(text) if len(row) <= length else characters <= len(text)
    ids, read = encode(tokenizer, texts)
    assert [row.tolist() for row in ids] == whole and read.tolist() == [len(text) for text in texts]
    part = windows.beginning(tokenizer, texts[-1 + len(TEXTS)], most)
    assert len(part) < 1_000  # words are not read to their end


@pytest.mark.parametrize("name", ["gpt2", "llama 3", "qwen", "o200k", "llama 2", "embedded"])
def test_text_without_spaces_is_not_read_to_its_end(name):
    tokenizer = opened(name)
    for text in ("a" * 200_000, "文中" * 100_000, "ACGT" * 50_000):
        assert len(windows.beginning(tokenizer, text, 64)) < 20_000


def test_characters_read_are_where_the_last_id_ends(monkeypatch):
    tokenizer = opened("gpt2")
    texts = ["words in a text " * 400, "short", "", "é文🙂" * 500]
    _, read = encode(tokenizer, texts, 30)
    for text, n in zip(texts, read.tolist(), strict=True):
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"][:30]
        assert n == (offsets[-1][1] if len(offsets) == 30 else len(text))
    slow = type("Slow", (), {"get_vocab": lambda s: {"a": 0}})
    slow.__call__ = lambda s, group, verbose: SlowRows({"input_ids": [list(text.encode()) for text in group]})
    monkeypatch.setattr(windows, "AT_ONCE", 100)
    ids, read = encode(slow(), ["a" * 1000, "b" * 10], 5)  # no places are kept: a share of the ids
    assert [row.tolist() for row in ids] == [[97] * 5, [98] * 5] and read.tolist() == [5, 5]


class SlowRows(dict):
    is_fast = False


MEMORY = """
import resource, sys
from transformers import AutoTokenizer
from rbplib.text.windows import encode
tokenizer = AutoTokenizer.from_pretrained("models/tokenizer")
text = open("book/your_models.md").read() * 2000
text = text[: int(sys.argv[1])]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ids, read = encode(tokenizer, [text], 512)
print(len(ids[0]), int(read[0]), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_long_line_takes_little_memory():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, "8000000"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    tokens, read, megabytes = map(int, done.stdout.split())
    assert tokens == 512 and 1_000 < read < 4_000
    assert megabytes < 400  # 1,400 where the whole line is tokenised
