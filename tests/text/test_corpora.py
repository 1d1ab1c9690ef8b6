"""Corpora of one's own files, and what is wrong with them told in one sentence."""

import json

import pytest

from rbplib.settings import Corpus, InputError, load_corpus
from rbplib.text.corpora import load_documents
from rbplib.text.rows import cut, draw


def corpus(path, **changes):
    return Corpus(**{"name": "mine", "source": "file", "path": str(path), **changes})


def test_long_text_becomes_many_documents():
    text = "\n\n".join(f"paragraph {i} " + "word " * 100 for i in range(50))
    pieces = cut(text)
    assert len(pieces) > 8 and all(len(p) >= 2000 for p in pieces[:-1])
    assert "\n\n".join(pieces).split() == text.split()
    lines = "a line without an end to its paragraph\n" * 2000
    assert len(cut(lines)) > 20 and "".join(cut(lines)).count("line") == 2000
    assert cut("") == [""] and cut("one word") == ["one word"]


def test_a_folder_in_the_order_of_its_paths(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b" / "2.txt").write_text("second")
    (tmp_path / "a.jsonl").write_text('{"text": "first"}\n\n"bare"\n')
    (tmp_path / "c.md").write_text("\ufeffthird")
    (tmp_path / "d.csv").write_text("not read")
    (tmp_path / ".hidden" / "e.txt").write_text("not read")
    found = load_documents(str(tmp_path))
    every = ["first", "bare", "second", "third"]
    assert list(found.texts) == [every[i] for i in draw(4, 1000, 42)] and found.found == 4
    assert load_corpus(str(tmp_path)).name == tmp_path.name


def test_a_digest_names_one_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{"text": ""}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    a, b = (load_documents(str(tmp_path / f"{n}.jsonl")) for n in "ab")
    assert a.digest != b.digest and (a.texts.count(""), b.texts.count("")) == (1, 0)
    assert load_documents(str(tmp_path / "a.jsonl")).digest == a.digest


def test_a_corpus_file_with_relative_path_template_and_filter(tmp_path):
    rows = [{"title": f"t{i}", "body": {"text": "x" * i}, "language": "en" if i % 2 else "de"} for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "mine.yml").write_text(
        'path: rows.jsonl\ntemplate: "{title}\\n{body.text}"\nwhere: {language: en}\ndocuments: 4\nmin_characters: 6\n'
    )
    found = load_documents(str(tmp_path / "mine.yml"))
    assert len(found.texts) == 4 and found.found == 9
    assert all(t.startswith("t") and "\n" in t and len(t) >= 6 for t in found.texts)


@pytest.mark.parametrize(
    "name, data, changes, said",
    [
        ("a.txt", b"\xff\xfe\x00a", {}, "is not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text"', {}, "line 2 of .* not readable JSON"),
        ("a.jsonl", b"7\n", {}, "a row that is no object"),
        ("a.jsonl", b'{"txt": "a"}\n', {}, "no field 'text'"),
        ("a.jsonl", b'{"text": "a"}\n', {"template": "{text"}, "not well formed"),
        ("a.jsonl", b'{"text": "a"}\n', {"template": "{text.__class__}"}, "no field"),
        ("a.jsonl", b'{"text": "a"}\n', {"where": {"text": "b"}}, "holds no document"),
        ("a.parquet", b"PAR1 no", {}, "no readable Parquet"),
        ("a.jsonl", b"", {}, "holds no document"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, name, data, changes, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        load_documents(corpus(tmp_path / name, **changes))
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path):
    for bad, said in [(corpus(tmp_path / "no.txt"), "no file or folder"), (Corpus(name="x"), "has no 'path'")]:
        with pytest.raises(InputError, match=said):
            load_documents(bad)
    with pytest.raises(InputError, match="holds no .txt"):
        load_documents(str(tmp_path))


def test_the_papers_corpora():
    asked = {
        name: load_corpus(name) for name in ("wikipedia", "humaneval", "hotpotqa", "auslegal", "c4", "pile-github")
    }
    assert all(c.source == "hub" and c.documents == 1000 and c.seed == 42 for c in asked.values())
    assert [n for n, c in asked.items() if c.default] == ["wikipedia", "humaneval", "hotpotqa", "auslegal"]
    assert asked["humaneval"].template == "{prompt}\n{canonical_solution}"
    assert asked["hotpotqa"].template == "{question}\n{answer}"
    assert asked["wikipedia"].streaming and not asked["auslegal"].streaming  # lines are fetched whole
