"""Embedded text: what a document is, how documents are drawn, repeats, digests, and packages apart
from training."""

import json
import re
import warnings
from collections import Counter, defaultdict

import pytest
from commands import ROOT
from tokenizers import Tokenizer

from corpora import make
from rbplib.families import load_corpus
from rbplib.texts import load_documents


def test_text_is_the_same_under_every_python():
    """3.13 counts a form feed before a line as text where older ones count it as space; newer
    syntax is for none."""
    spaced = 'def f():\n    """One.\n\n    \f  two\n      \xa0three\n    """\n'
    assert ("docs", "One.\n\ntwo\nthree") in list(make.python_documents(spaced))
    assert list(make.python_documents("def f[T](x: T) -> T:\n    return x\n")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(make.python_documents('def f():\n    return "\\d"\n'))


kinds = pytest.mark.parametrize("kind", make.KINDS)


@kinds
def test_the_text_is_the_one_on_record(kind, embedded):
    corpus, documents = embedded[kind]
    texts = documents.texts
    assert documents.digest == corpus.digest
    assert len(texts) == len(set(texts)) == corpus.documents
    assert min(map(len, texts)) >= make.LEAST[kind]


@kinds
def test_no_source_gives_more_than_a_few_percent(kind, embedded):
    """Counted in the tokens that are scored: of each document the first 256 less the first one."""
    tokenizer = Tokenizer.from_file(str(ROOT / "models/tokenizer/tokenizer.json"))
    tokens, documents = Counter(), embedded[kind][1]
    for source, text in zip(documents.units, documents.texts, strict=True):
        tokens[source] += min(len(tokenizer.encode(text).ids), 256) - 1
    assert max(tokens.values()) <= 0.04 * tokens.total()


@kinds
def test_no_two_documents_of_a_corpus_repeat_each_other(kind, embedded):
    """Counted over runs of words as they stand, not over their hashes."""
    where, shared, sizes = defaultdict(list), Counter(), []
    for number, text in enumerate(embedded[kind][1].texts):
        words = re.findall(r"\w+", text.lower())
        runs = {tuple(words[i : i + 8]) for i in range(max(len(words) - 7, 1))}
        sizes.append(len(runs))
        for run in runs:
            shared.update((other, number) for other in where[run])
            where[run].append(number)
    assert max((n / min(sizes[a], sizes[b]) for (a, b), n in shared.items()), default=0) <= 0.25


@pytest.fixture
def root(empty_root):
    """A root with one small embedded corpus whose text is not made yet."""
    (empty_root / "corpora/few.yml").write_text(
        "path: text/few.jsonl\nkind: licences\ngroup: '{source}'\n"
        "shuffle: false\ndocuments: 30\nseed: 1\n"
    )
    return empty_root


def test_text_that_is_not_here_is_made_once(root):
    documents = load_documents("few")
    pairs = zip(documents.units, documents.texts, strict=True)
    assert [*pairs] == make.evaluation_documents("licences", 30, 1)
    assert sorted(path.name for path in (root / "text").iterdir()) == ["few.jsonl", "few.made.json"]
    record = json.loads((root / "text/few.made.json").read_text())
    assert list(record["packages"]) == make.evaluation_packages("licences")
    before = (root / "text/few.jsonl").stat().st_mtime_ns
    assert make.make_text(load_corpus("few")).stat().st_mtime_ns == before
    (root / "text/few.jsonl").write_text(json.dumps({"text": "damage", "source": "a"}))
    assert load_documents("few") == documents


def test_every_embedded_model_reads_text_as_it_was_trained():
    """AutoTokenizer gave the Qwen2 ladder another splitting of text than its tokenizer.json; the
    loader must not, for any architecture."""
    from rbplib.families import list_families
    from rbplib.models import load_tokenizer

    text = 'def f(x1234):\n    return x  # don\'t\n\n\n\tif "a":  pass\n'
    trained = Tokenizer.from_file(str(ROOT / "models/tokenizer/tokenizer.json")).encode(text).ids
    models = [family.models[0] for family in list_families() if family.embedded]
    assert models
    for model in models:
        assert load_tokenizer(model.local, model.id)(text)["input_ids"] == trained, model.id
