"""Embedded corpora: what a document is, repeats, digests, and that training saw no evaluation text."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest

from rbplib import settings
from rbplib.text import corpora
from rbplib.text import packages as embedded

SOURCE = '''"""Prose of the module.

>>> 1 + 1
2

More prose."""

class A:
    def f(self, x):
        """Twice x."""
        # a comment
        return 2 * x

    @property
    def g(self):
        def inner():
            return 1
        return inner()
'''


def test_python_documents():
    found = list(embedded.python_documents(SOURCE))
    assert ("docs", "Prose of the module.\n\nMore prose.") in found
    assert ("doctests", ">>> 1 + 1\n2") in found
    code = [text for kind, text in found if kind == "code"]
    assert code[0] == "def f(self, x):\n    # a comment\n    return 2 * x"
    assert code[1].startswith("@property\ndef g(self):") and len(code) == 2  # nothing nested
    assert list(embedded.python_documents("def broken(:")) == []


def test_examples_keep_their_indentation():
    prose, examples = embedded.split_examples("Use it so:\n    >>> for i in x:\n    ...     i\n    0\n\nEnd.")
    assert prose == "Use it so:\n\nEnd."
    assert examples == ">>> for i in x:\n...     i\n0"


def test_passages_hold_all_text():
    text = "\n\n".join(f"clause {i} " + "word " * 40 for i in range(20))
    cut = embedded.passages(text)
    assert "\n\n".join(cut).split() == text.split()
    assert all(len(p) >= embedded.PASSAGE for p in cut[:-1])


def test_shingles_equal_a_plain_count():
    words = [f"w{i % 7}" for i in range(40)]
    runs = {tuple(words[i : i + embedded.SHINGLE]) for i in range(len(words) - embedded.SHINGLE + 1)}
    assert len(embedded.shingles(" ".join(words))) == len(runs)
    assert embedded.shingles("One, TWO three").tolist() == embedded.shingles("one two three").tolist()
    assert len(embedded.shingles("")) == 1


def test_repeats_are_dropped():
    base = " ".join(f"word{i}" for i in range(100))
    near = base.replace("word50", "other")
    half = " ".join(f"word{i}" for i in range(40)) + " " + " ".join(f"new{i}" for i in range(60))
    assert embedded.without_repeats([base, near, base.upper(), half]) == [base, half]


@pytest.mark.parametrize("kind", embedded.KINDS)
def test_corpus_is_the_one_on_record(kind):
    corpus = settings.load_corpus(kind)
    texts = embedded.evaluation_documents(kind, corpus.documents, corpus.seed)
    assert corpora.texts_digest(texts) == corpus.digest, embedded.changed_packages(kind)
    assert len(texts) >= (300 if kind != "licences" else 100)
    assert len(set(texts)) == len(texts)
    assert min(map(len, texts)) >= embedded.LEAST[kind]
    assert largest_resemblance(texts) <= embedded.REPEATED


def largest_resemblance(texts):
    """Largest Jaccard index of the shingles of two documents."""
    where, shared, sizes = defaultdict(list), Counter(), []
    for number, text in enumerate(texts):
        codes = embedded.shingles(text).tolist()
        sizes.append(len(codes))
        for code in codes:
            shared.update((other, number) for other in where[code])
            where[code].append(number)
    return max((n / (sizes[a] + sizes[b] - n) for (a, b), n in shared.items()), default=0.0)


def test_packages_are_disjoint():
    evaluation = {p.lower() for p in embedded.evaluation_packages("licences")}
    training = {p.lower() for p in embedded.training_packages()}
    assert not evaluation & training
    assert {p.lower() for p in embedded.evaluation_packages("docs")} <= evaluation


def test_digest_of_cache_and_sources_agree(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    asked = settings.Corpus(name="few", source="embedded", kind="licences", documents=50, seed=1)
    first = corpora.load_documents(asked)
    (path,) = (tmp_path / "corpora").glob("licences-*.json")
    texts = tuple(embedded.evaluation_documents("licences", 50, 1))
    assert corpora.load_documents(asked).texts == first.texts == texts
    held = json.loads(path.read_text())
    held["texts"][0] += "changed"
    path.write_text(json.dumps(held))  # a cache that does not match its digest is not used
    assert corpora.load_documents(asked).texts == texts
    path.write_text("{")
    assert corpora.load_documents(asked).texts == texts
    assert corpora.texts_digest(texts) == first.digest


def test_other_text_warns(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    monkeypatch.setitem(embedded.EVALUATION, "networkx", "1.0")
    text = (settings.root() / "corpora" / "licences.yml").read_text()
    digest = settings.load_corpus("licences").digest
    path = tmp_path / "licences.yml"
    path.write_text(text.replace(digest, "0" * 64))
    with pytest.warns(UserWarning, match="differs from the one on record.*networkx .*on record: 1.0"):
        corpora.load_documents(str(path))


def test_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(embedded.EVALUATION, "no-such-package", "1")
    with pytest.raises(settings.InputError, match="no-such-package.*install"):
        embedded.evaluation_documents("docs", 10, 1)


def test_unknown_kind():
    with pytest.raises(settings.InputError, match="poems"):
        embedded.evaluation_documents("poems", 10, 1)


def test_rolling_hash_has_no_collisions_to_speak_of():
    texts = embedded.evaluation_documents("licences", 141, 42)
    runs = set()
    codes = [embedded.shingles(t) for t in texts]
    for t in texts:
        words = embedded.WORD.findall(t.lower())
        runs |= {tuple(words[i : i + embedded.SHINGLE]) for i in range(max(len(words) - embedded.SHINGLE + 1, 1))}
    assert len(np.unique(np.concatenate(codes))) == len(runs)


def test_every_embedded_model_reads_text_as_it_was_trained():
    """AutoTokenizer gave the Qwen2 ladder another splitting of text than its tokenizer.json; the loader must not."""
    from tokenizers import Tokenizer

    from rbplib.models.load import load_tokenizer
    from rbplib.settings import family_names, load_family, root

    text = 'def f(x1234):\n    return x  # don\'t\n\n\n\tif "a":  pass\n'
    trained = Tokenizer.from_file(str(root() / "models" / "tokenizer" / "tokenizer.json")).encode(text).ids
    models = [m for name in family_names() if load_family(name).embedded for m in load_family(name).models]
    assert models
    for model in models:
        assert load_tokenizer(model.local, model.id)(text)["input_ids"] == trained, model.id
