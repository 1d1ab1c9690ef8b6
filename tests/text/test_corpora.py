"""Corpora of one's own files, and what is wrong with them told in one sentence."""

import io
import json

import pytest

from rbplib import text_files as files
from rbplib.families import Corpus, InputError, load_corpus, load_family
from rbplib.identity import expected
from rbplib.text_rows import draw
from rbplib.texts import load_documents


def corpus(path, **changes):
    return Corpus(**{"name": "mine", "source": "file", "path": str(path), **changes})


def cut(text):
    return list(files.cut(io.StringIO(text)))


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
    (tmp_path / "d.docx").write_text("not read")
    (tmp_path / ".hidden" / "e.txt").write_text("not read")
    found = load_documents(str(tmp_path))
    every = ["first", "bare", "second", "third"]
    assert list(found.texts) == [every[i] for i in draw(4, 1000, 42)]
    assert load_corpus(str(tmp_path)).name == tmp_path.name


def test_pieces_of_one_file_among_several_have_it_as_their_source(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("\n\n".join(["word " * 500] * 3))
    (tmp_path / "b" / "a.txt").write_text("short")
    (tmp_path / "rows.jsonl").write_text('"one"\n"two"\n')
    found = load_documents(str(tmp_path))
    from_ = dict(zip(found.units, found.texts, strict=True))
    assert found.units.count("a.txt") == 3 and from_["b/a.txt"] == "short"
    assert len(set(found.units)) == 4 and len(found.texts) == 6  # two files, and each row its own
    assert load_documents(str(tmp_path / "a.txt")).units == ()  # one file alone: there is nothing else to draw
    assert load_documents(str(tmp_path / "rows.jsonl")).units == ()


@pytest.mark.parametrize("changes", [{}, {"min_characters": 1}])
def test_rows_of_one_group_are_one_source(tmp_path, changes):
    rows = [{"text": f"text {i}", "meta": {"book": f"b{i % 3}" if i else None}} for i in range(9)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = load_documents(corpus(path, group="{meta.book}", **changes))
    for text, unit in zip(found.texts, found.units, strict=True):
        i = int(text.split()[1])
        assert unit == f"b{i % 3}" if i else unit not in ("b0", "b1", "b2")  # a row that names no group is its own
    assert load_documents(corpus(path, **changes)).units == ()
    with pytest.raises(InputError, match="no field 'author'"):
        load_documents(corpus(path, group="{author}"))


def test_the_group_of_parquet_rows(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": list("abcd"), "who": [1, 1, 2, 2]}), tmp_path / "rows.parquet")
    found = load_documents(corpus(tmp_path / "rows.parquet", group="{who}"))
    assert dict(zip(found.texts, found.units, strict=True)) == {"a": "1", "b": "1", "c": "2", "d": "2"}


def test_another_group_is_measured_again(tmp_path):
    family, path = load_family("nano-pythia"), tmp_path / "x.jsonl"
    path.write_text('{"text": "a", "book": 1, "author": 1}\n')
    asked = [corpus(path), corpus(path, group="{book}"), corpus(path, group="{author}")]
    found = [expected(family, family.models[:1], [one]) for one in asked]
    assert found[0] != found[1] != found[2] != found[0]


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
    assert len(found.texts) == 4
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
    with pytest.raises(InputError, match="holds no text file"):
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
