"""YAML of families and corpora: what is accepted, and one sentence for what is not."""

import pytest

from rbplib import families as settings
from rbplib.families import InputError, load_corpus, load_family


@pytest.fixture
def root(tmp_path, monkeypatch):
    for folder in ("families", "corpora", "models/a"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    (tmp_path / "families" / "tiny.yml").write_text("models:\n  - models/a\n  - {id: owner/b, dtype: float32}\n")
    (tmp_path / "corpora" / "prose.yml").write_text("source: hub\nid: owner/text\ndocuments: 10\n")
    return tmp_path


def test_five_lines_make_a_family(root):
    family = load_family("tiny")
    assert [m.name for m in family.models] == ["a", "b"]
    assert family.models[0].local == root / "models" / "a" and family.models[1].local is None
    mine = root / "mine.yml"
    mine.write_text("name: mine\nmodels:\n  - owner/x\n  - owner/y\n  - owner/z\n")
    assert load_family(mine).name == "mine"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("models:\n  - a/b\nmodel: 3\n", "did you mean 'models'"),
        ("models:\n  - {id: a/b, dtpye: float32}\n", "did you mean 'dtype'"),
        ("models:\n  - {id: a/b, dtype: float23}\n", "did you mean 'float32'"),
        ("models: []\n", "no models"),
        ("models:\n  - a/b\n  - c/b\n", "twice"),
        ("models:\n  - {name: x}\n", "needs an 'id'"),
        ("models:\n  - ../../no-such-folder\n", "id"),
        ("models:\n  - {id: a/b, name: ../x}\n", "usable name"),
        ("models:\n  - {id: a/b, context: 1}\n", "context"),
        ("models:\n  - {id: a/b, tokens: 0}\n", "tokens of b must be at least 1"),
        ("tokens: many\nmodels: [a/b]\n", "must be of type int"),
        ("models: [\n", "YAML"),
        ("- a\n", "mapping"),
        ("models: [a/b]\ntitle: x\nmodels: [c/d]\n", "the key 'models' is there twice"),
        ("models:\n  - {id: a/b, id: c/d}\n", "the key 'id' is there twice"),
        ("title: 2020-13-45\nmodels: [a/b]\n", "YAML"),
        ("title: " + "[" * 5000 + "\nmodels: [a/b]\n", "YAML"),
        ("models:\n  - {name: x, id: a/b}\n  - {name: y, id: a/b}\n", "lists the model 'y' again under another name"),
        ("models:\n  - {name: x, id: a/b}\n  - {name: y, id: a/b, revision: main}\n", "lists the model 'y' again"),
        ("models:\n  - {name: x, id: models/a}\n  - {name: y, id: ./models/a}\n", "lists the model 'y' again"),
    ],
)
def test_bad_family_files(root, text, word):
    path = root / "families" / "bad.yml"
    path.write_text(text)
    with pytest.raises(InputError, match=word) as error:
        load_family("bad")
    assert "\n" not in str(error.value)


def test_tokens_of_text_are_of_a_family_or_of_each_model(root):
    path = root / "families" / "text.yml"
    path.write_text("tokens: 4096\nmodels:\n  - a/b\n  - {id: a/c, tokens: 300000000000}\n")
    assert [m.tokens for m in load_family("text").models] == [4096, 300_000_000_000]
    assert {m.tokens for m in load_family("tiny").models} == {None}


@pytest.mark.parametrize("more", ["revision: step1", "dtype: bfloat16"])
def test_one_id_may_stand_twice_where_something_else_differs(root, more):
    (root / "families/two.yml").write_text(f"models:\n  - {{name: x, id: a/b}}\n  - {{name: y, id: a/b, {more}}}\n")
    assert len(load_family("two").models) == 2


@pytest.mark.parametrize("name", ["", "porse"])
def test_no_corpus_has_an_empty_name(root, monkeypatch, name):
    monkeypatch.chdir(root)  # which is a folder of text, but was not asked for
    with pytest.raises(InputError, match=f"there is no corpus '{name}'"):
        load_corpus(name)


def test_a_file_that_is_none_is_named_once_and_the_others_are_there(root, capsys):
    for folder in ("families", "corpora"):
        (root / folder / "bad.yml").write_text("models: [")
    for _ in range(2):
        assert [f.name for f in settings.known("family")] == ["tiny"]
        assert [c.name for c in settings.known("corpus")] == ["prose"]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.startswith("rbp: ") and "bad.yml is not readable" in line for line in lines)


def test_a_command_is_given_a_name_or_a_whole_path(root, monkeypatch):
    monkeypatch.chdir(root)
    (root / "mine.yml").write_text("models: [a/b]\n")
    (root / "text.yml").write_text("path: a.txt\n")
    (root / "a.txt").write_text("words")
    found = [settings.argument(load_family(f)) for f in ("tiny", "families/tiny.yml", "mine.yml")]
    assert found == ["tiny", "tiny", str(root / "mine.yml")]
    found = [settings.argument(load_corpus(c)) for c in ("prose", "corpora/prose.yml", "text.yml", "a.txt")]
    assert found == ["prose", "prose", str(root / "text.yml"), str(root / "a.txt")]


def test_unknown_names_suggest_the_nearest(root):
    with pytest.raises(InputError, match="did you mean 'tiny'"):
        load_family("tniy")
    with pytest.raises(InputError, match="did you mean 'prose'"):
        load_corpus("porse")
    with pytest.raises(InputError, match="no family file"):
        load_family("absent.yml")
    with pytest.raises(InputError, match="did you mean 'a'"):
        load_family("tiny").model("aa")


def test_files_and_folders_are_corpora(root):
    (root / "my text.txt").write_text("hello")
    corpus = load_corpus(root / "my text.txt")
    assert (corpus.name, corpus.source) == ("my-text", "file")
    assert load_corpus(root / "models").source == "file"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("source: hubb\nid: a/b\n", "did you mean 'hub'"),
        ("source: hub\n", "needs an 'id'"),
        ("source: hub\nid: a/b\ndocuments: 0\n", "at least 1"),
        ("source: hub\nid: a/b\ndocuments: many\n", "type int"),
        ("source: hub\nid: a/b\nsplits: test\n", "did you mean 'split'"),
    ],
)
def test_bad_corpus_files(root, text, word):
    (root / "corpora" / "bad.yml").write_text(text)
    with pytest.raises(InputError, match=word):
        load_corpus("bad")


def test_default_corpora(root):
    assert settings.default_corpora(load_family("tiny")) == ["prose"]
