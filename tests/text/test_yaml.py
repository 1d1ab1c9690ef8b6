"""YAML of families and corpora: what is accepted, and one sentence that names the file or the name
for what is not."""

import re

import pytest

from rbplib.cli import main
from rbplib.families import InputError, list_corpora, list_families, load_corpus, load_family


@pytest.fixture
def root(empty_root):
    (empty_root / "models/a").mkdir(parents=True)
    lines = "models:\n  - models/a\n  - {id: owner/b, dtype: float32}\n"
    (empty_root / "families/tiny.yml").write_text(lines)
    (empty_root / "corpora/prose.yml").write_text("source: hub\nid: owner/text\ndocuments: 10\n")
    return empty_root


def test_some_lines_make_a_family(root):
    models = load_family("tiny").models
    assert [model.name for model in models] == ["a", "b"]
    assert models[0].local == root / "models/a" and models[1].local is None
    lines = ["name: mine", "tokens: 300B", "models:", "- owner/x", "- {id: owner/y, tokens: 1.5e9}"]
    lines += ["- {name: z, id: owner/y, revision: step1}"]
    lines += ["- {name: w, id: owner/y, dtype: bfloat16}"]
    (root / "own.yml").write_text("\n".join(lines))
    family = load_family(root / "own.yml")
    assert family.name == "mine" and [m.tokens for m in family.models] == [3e11, 1.5e9, 3e11, 3e11]


BAD_FAMILIES = [
    # keys and values that are none
    "models: [a/b]\nmodel: 3\n",
    "models: [{id: a/b, dtpye: float32}]\n",
    "models: [{id: a/b, dtype: float23}]\n",
    "models: [{id: a/b, tokens: 300X}]\n",
    "tokens: true\nmodels: [a/b]\n",
    # models that are none, or there twice
    "models: [{name: x}]\n",
    "models: [{id: 7}]\n",
    "models: [{id: models/a, revision: x}]\n",
    "models: [../../no-such-folder]\n",
    "models: [~nobody-here/x]\n",
    "models: [a/b, c/b]\n",
    "models: [{name: x, id: a/b}, {name: y, id: a/b, revision: main}]\n",
    "models: [{name: x, id: models/a}, {name: y, id: ./models/a}]\n",
    # names
    "models: [{id: a/b, name: ../x}]\n",
    "models: [{id: a/b, name: 2020-01-01}]\n",
    "name: ../x\nmodels: [a/b]\n",
    "name: tiny\nmodels: [a/b]\n",
    "name: " + "x" * 230 + "\nmodels: [a/b]\n",
    # no YAML, or too much of it
    "models: [\n",
    "models: [a/b]\ntitle: x\nmodels: [c/d]\n",
    "title: 2020-13-45\nmodels: [a/b]\n",
    "models: [a/b]\npublished: {a: &a [x, x], b: [*a, *a]}\n",
    "? [a]\n: b\nmodels: [a/b]\n",
    "models: [a/b]\nnote: " + "a" * 100_000,
    "title: " + "[" * 5000 + "\nmodels: [a/b]\n",
]
BAD_CORPORA = [
    "source: hubb\nid: a/b\n",
    "source: embedded\nkind: docs\n",
    "source: hub\n",
    "source: hub\nid: a/../b\n",
    "source: hub\nid: a/b\ndocuments: 0\n",
    "source: hub\nid: a/b\nconfig: 20231101\n",
    "source: hub\nid: a/b\nsplits: test\n",
    "path: a.txt\nwhere: [a]\n",
    "name: prose\npath: a.txt\n",
    "\xff",
]
BAD = [("families", text) for text in BAD_FAMILIES] + [("corpora", text) for text in BAD_CORPORA]


@pytest.mark.parametrize("kind, text", BAD, ids=lambda value: value[:50])
def test_a_bad_file_is_one_sentence_that_names_it(root, kind, text):
    (root / kind / "bad.yml").write_text(text, encoding="latin1")
    with pytest.raises(InputError) as caught:
        load_family("bad") if kind == "families" else load_corpus("bad")
    said = str(caught.value)
    assert "\n" not in said and "bad.yml" in said and len(said) < 500


MENDS = {  # of a line of a corpus
    "revision: 20231101": "'revision' cannot be 20231101: put it in quotes",
    "revision: 2023-11-01": "'revision' cannot be \"2023-11-01\": put it in quotes",
    "seed: 3.5": "'seed' cannot be 3.5: write a whole number",
    "shuffle: 1": "'shuffle' cannot be 1: write true or false.$",
    "where: [a]": "write lines of 'name: value'",
    "file: a.txt": "unknown key 'file': did you mean 'path'",
    "tokenizer: a/b": "read with its own",
}


@pytest.mark.parametrize("line", MENDS)
def test_a_value_of_another_type_is_told_what_to_write(root, line):
    (root / "own.yml").write_text(f"source: hub\nid: a/b\n{line}\n")
    with pytest.raises(InputError, match=MENDS[line]):
        load_corpus(root / "own.yml")


def test_a_file_that_is_none_stops_all_but_a_list(root, capsys):
    for listed, folder in ((list_families, "families"), (list_corpora, "corpora")):
        (root / folder / "bad.yml").write_text("models: [")
        with pytest.raises(InputError, match="bad.yml"):
            listed()
    assert main(["corpora"]) == 2
    out, err = capsys.readouterr()
    assert "prose" in out and "bad.yml" in err and err.count("rbp: ") == 1


def test_what_lies_in_the_current_folder_alone_is_told(root, monkeypatch, capsys):
    (root / "elsewhere/owner/b").mkdir(parents=True)
    monkeypatch.chdir(root / "elsewhere")
    assert load_family("tiny").models[1].local == root / "elsewhere/owner/b"
    assert "in the current folder alone, and nothing of the hub" in capsys.readouterr().err


def test_files_and_folders_are_corpora_of_names_that_a_path_may_have(root):
    files = "my text.txt", "prose.txt", "日記.txt", "..txt"
    for name in files:
        (root / name).write_text("hello")
    names = [load_corpus(root / name).name for name in (*files, "models")]
    assert names[0] == "my-text" and names[-1] == "models"
    assert len(set(names)) == 5 and "prose" not in names
    assert all(re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.A) for name in names)
