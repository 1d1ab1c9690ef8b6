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
from rbplib.families import list_families, load_corpus
from rbplib.models import load_tokenizer
from rbplib.texts import load_documents

TOKENIZER = Tokenizer.from_file(str(ROOT / "models/tokenizer/tokenizer.json"))


def test_text_is_the_same_under_every_python():
    """3.13 counts a form feed before a line as text where older ones count it as space; newer
    syntax is for none."""
    spaced = 'def f():\n    """One.\n\n    \f  two\n      \xa0three\n    """\n'
    assert ("docs", "One.\n\ntwo\nthree") in list(make.python_documents(spaced))
    assert list(make.python_documents("def f[T](x: T) -> T:\n    return x\n")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(make.python_documents('def f():\n    return "\\d"\n'))


@pytest.mark.parametrize("kind", make.KINDS)
def test_the_text_is_the_one_on_record_of_many_sources_without_repeats(kind, embedded):
    corpus, documents = embedded[kind]
    texts = documents.texts
    assert documents.digest == corpus.digest
    assert len(texts) == len(set(texts)) == corpus.documents
    assert min(map(len, texts)) >= make.LEAST[kind]
    # tokens that are scored of each source: of each document the first 256 less the first one
    tokens = Counter()
    for source, text in zip(documents.units, texts, strict=True):
        tokens[source] += min(len(TOKENIZER.encode(text).ids), 256) - 1
    assert max(tokens.values()) <= 0.04 * tokens.total()
    # runs of words that two documents share, as they stand, not by their hashes
    where, shared, sizes = defaultdict(list), Counter(), []
    for number, text in enumerate(texts):
        words = re.findall(r"\w+", text.lower())
        runs = {tuple(words[i : i + 8]) for i in range(max(len(words) - 7, 1))}
        sizes.append(len(runs))
        for run in runs:
            shared.update((other, number) for other in where[run])
            where[run].append(number)
    assert max((n / min(sizes[a], sizes[b]) for (a, b), n in shared.items()), default=0) <= 0.25


def test_text_that_is_not_here_is_made_once(empty_root):
    lines = ["path: text/few.jsonl", "kind: licences", "group: '{source}'", "shuffle: false"]
    lines += ["documents: 30", "seed: 1"]
    (empty_root / "corpora/few.yml").write_text("\n".join(lines))
    documents, path = load_documents("few"), empty_root / "text/few.jsonl"
    pairs = zip(documents.units, documents.texts, strict=True)
    assert [*pairs] == make.evaluation_documents("licences", 30, 1)
    record = json.loads((empty_root / "text/few.made.json").read_text())
    assert list(record["packages"]) == make.evaluation_packages("licences")
    before = path.stat().st_mtime_ns
    assert make.make_text(load_corpus("few")).stat().st_mtime_ns == before
    path.write_text(json.dumps({"text": "damage", "source": "a"}))
    assert load_documents("few") == documents


def test_every_embedded_model_reads_text_as_it_was_trained():
    """AutoTokenizer gave the Qwen2 ladder another splitting of text than its tokenizer.json; the
    loader must not, for any architecture."""
    text = 'def f(x1234):\n    return x  # don\'t\n\n\n\tif "a":  pass\n'
    models = [family.models[0] for family in list_families() if family.embedded]
    assert models
    for model in models:
        ids = load_tokenizer(model.local, model.id)(text)["input_ids"]
        assert ids == TOKENIZER.encode(text).ids, model.id
