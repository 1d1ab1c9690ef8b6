"""Embedded corpora: what a document is, how they are drawn, repeats, digests, and packages apart from training."""

import functools
import json
import re
import warnings
from collections import Counter, defaultdict

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpora import make as embedded
from corpora.make import TRAINING
from corpora.shingles import SHINGLE, WORD, shingles
from rbplib import families as settings
from rbplib import texts as corpora
from training import data

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


def test_text_is_the_same_under_every_python():
    """3.13 counts a form feed before a line as text where older ones count it as space; newer syntax is for none."""
    spaced = 'def f():\n    """One.\n\n    \f  two\n      \xa0three\n    """\n'
    assert ("docs", "One.\n\ntwo\nthree") in list(embedded.python_documents(spaced))
    assert list(embedded.python_documents("def f[T](x: T) -> T:\n    return x\n")) == []


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
    runs = {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}
    assert len(shingles(" ".join(words))) == len(runs)
    assert shingles("One, TWO three").tolist() == shingles("one two three").tolist()
    assert len(shingles("")) == 1


def test_a_file_is_read_where_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(embedded.python_documents('def f():\n    return "\\d"\n'))


@functools.cache
def drawn(kind):
    """(Corpus, its documents as lists of sources and of texts)."""
    corpus = settings.load_corpus(kind)
    sources, texts = zip(*embedded.evaluation_documents(kind, corpus.documents, corpus.seed), strict=True)
    return corpus, sources, texts


@functools.cache
def scored(kind):
    """Scored tokens of each source, by hand: of each document the first 256 tokens less the first one."""
    _, sources, texts = drawn(kind)
    tokenizer, given = Tokenizer.from_file(str(settings.root() / "models/tokenizer/tokenizer.json")), Counter()
    for source, text in zip(sources, texts, strict=True):
        given[source] += min(len(tokenizer.encode(text).ids), 256) - 1
    return given


kinds = pytest.mark.parametrize("kind", embedded.KINDS)


@kinds
def test_corpus_is_the_one_on_record(kind):
    corpus, sources, texts = drawn(kind)
    assert corpora.texts_digest(texts) == corpus.digest, embedded.changed_packages(kind)
    assert len(texts) == len(set(texts)) == corpus.documents
    assert min(map(len, texts)) >= embedded.LEAST[kind]
    packages = {source.partition(":")[0] for source in sources}
    assert packages <= set(embedded.evaluation_packages(kind)) - set(embedded.BUILT.get(kind, ()))


@kinds
def test_no_source_gives_more_than_a_few_percent(kind):
    given = scored(kind)
    assert max(given.values()) <= 0.04 * given.total()
    if kind in ("docs", "code"):
        assert len(given) >= 60
    if kind in ("docs", "code", "descriptions"):
        assert given.total() >= 120_000 and max(given.values()) < 0.015 * given.total()


@kinds
def test_no_two_documents_of_a_corpus_repeat_each_other(kind):
    """Counted over runs of words as they stand, not over their hashes."""
    _, _, texts = drawn(kind)
    where, shared, sizes = defaultdict(list), Counter(), []
    for number, text in enumerate(texts):
        words = re.findall(r"\w+", text.lower())
        runs = {tuple(words[i : i + 8]) for i in range(max(len(words) - 7, 1))}
        sizes.append(len(runs))
        for run in runs:
            shared.update((other, number) for other in where[run])
            where[run].append(number)
    assert len(sizes) == len(texts) > 50
    assert max((n / min(sizes[a], sizes[b]) for (a, b), n in shared.items()), default=0) <= 0.25


def test_the_source_with_the_least_text_comes_next(monkeypatch):
    """Sources give alike as long as they last, and none beyond its share of the whole."""
    words = iter(range(10**6))
    texts = {name: [" ".join(f"w{next(words)}" for _ in range(60)) for _ in range(n)] for name, n in SIZES.items()}
    monkeypatch.setattr(embedded, "evaluation_sources", lambda kind: texts)
    given = Counter(source for source, _ in embedded.evaluation_documents("docs", 48, 1))
    assert set(given) == set(SIZES) and set(given.values()) == {1, 2}
    every = Counter(source for source, _ in embedded.evaluation_documents("docs", 10**6, 1))
    assert max(every.values()) <= 0.045 * every.total() and every["few"] == 2
    texts["a copy"] = list(texts["few"])
    again = [text for _, text in embedded.evaluation_documents("docs", 10**6, 1)]
    assert len(again) == len(set(again))


SIZES = {"few": 2, **{f"many{i}": 40 for i in range(29)}}


def test_packages_are_disjoint():
    training = {p.lower() for p in TRAINING}
    for kind in embedded.TRAINED:
        assert not training & {p.lower() for p in embedded.evaluation_packages(kind)}
    assert set(embedded.TRAINED) == set(data.SHARE)  # nothing was trained on licences or descriptions


def test_digest_of_cache_and_sources_agree(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    asked = settings.Corpus(name="few", source="embedded", kind="licences", documents=50, seed=1)
    first = corpora.load_documents(asked)
    (path,) = (tmp_path / "corpora").glob("licences-*.json")
    units, texts = zip(*embedded.evaluation_documents("licences", 50, 1), strict=True)
    assert first.units == units and len(set(units)) > 20
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
    path = tmp_path / "others.yml"
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
    texts = drawn("licences")[2]
    runs = set()
    codes = [shingles(t) for t in texts]
    for t in texts:
        words = WORD.findall(t.lower())
        runs |= {tuple(words[i : i + SHINGLE]) for i in range(max(len(words) - SHINGLE + 1, 1))}
    assert len(np.unique(np.concatenate(codes))) == len(runs)


def test_every_embedded_model_reads_text_as_it_was_trained():
    """AutoTokenizer gave the Qwen2 ladder another splitting of text than its tokenizer.json; the loader must not."""
    from tokenizers import Tokenizer

    from rbplib.families import family_names, load_family, root
    from rbplib.models import load_tokenizer

    text = 'def f(x1234):\n    return x  # don\'t\n\n\n\tif "a":  pass\n'
    trained = Tokenizer.from_file(str(root() / "models" / "tokenizer" / "tokenizer.json")).encode(text).ids
    models = [m for name in family_names() if load_family(name).embedded for m in load_family(name).models]
    assert models
    for model in models:
        assert load_tokenizer(model.local, model.id)(text)["input_ids"] == trained, model.id
