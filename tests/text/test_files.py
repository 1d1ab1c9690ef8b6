"""Text of one's own: the same documents in every format, sources, and one sentence for a file that
is none."""

import codecs
import csv
import gzip
import io
import json
import os
import re

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib import InputError, texts
from rbplib.texts import load_documents, pieces

DOCUMENTS = [
    f'{i}: a text, with "quotes",\n\nlines, é, 文 and \t tabs; [{"x" * i}]' for i in range(19)
] + ["\u2028, ü"]
OBJECTS = [{"id": i, "text": text} for i, text in enumerate(DOCUMENTS)]
DIGEST = "a55929803708d32aaf58cbcd9fbb25d5a310754f564cf4b3d4fb134584e934cb"
PROSE = "\n\n".join(f"paragraph {i} " + "word " * (i * 37 % 400) for i in range(60)).encode()
PROSE_DIGEST = "22dfe1210e2d7ea2b41b183e6587187084527df9b215b4fd7a197c8342eeb97d"


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(rows, **how):
    """Rows, mappings, as a CSV with their names."""
    out = io.StringIO()
    csv.writer(out, **how).writerows([list(rows[0]), *(row.values() for row in rows)])
    return out.getvalue().encode()


def zstd(data):
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


def parquet(rows):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


GOOD = {
    "rows.jsonl": lines(OBJECTS),
    "strings.jsonl": lines(DOCUMENTS),
    "pretty.json": b"\n\n" + json.dumps(OBJECTS, indent=2).encode() + b"\n",
    "quoted.csv": table(OBJECTS, quoting=csv.QUOTE_ALL, lineterminator="\n\n"),
    "mark.jsonl": codecs.BOM_UTF8 + lines(OBJECTS),
    "rows.tsv": table(OBJECTS, delimiter="\t"),
    "rows.parquet": parquet(OBJECTS),
    "two-members.jsonl.gz": gzip.compress(lines(OBJECTS[:7])) + gzip.compress(lines(OBJECTS[7:])),
    "rows.JSON.ZST": zstd(json.dumps(OBJECTS, indent=1).encode()),
}
SAME_PROSE = {"A.TXT": PROSE, "crlf.md": PROSE.replace(b"\n", b"\r\n")}


def read(folder, path, **changes):
    """The Documents of a corpus of its own."""
    corpus = folder / "its-name.yml"
    corpus.write_text(json.dumps({"path": str(path), **changes}))
    return load_documents(corpus)


@pytest.mark.parametrize("name", GOOD)
def test_the_same_documents_in_every_format(tmp_path, name):
    (tmp_path / name).write_bytes(GOOD[name])
    documents = load_documents(str(tmp_path / name))
    assert documents.digest == DIGEST and documents.units == []
    assert list(documents.texts) == datasets.Dataset.from_list(OBJECTS).shuffle(seed=42)["text"]


@pytest.mark.parametrize("name", SAME_PROSE)
def test_the_same_prose_in_every_format(tmp_path, name):
    (tmp_path / name).write_bytes(SAME_PROSE[name])
    assert load_documents(str(tmp_path / name)).digest == PROSE_DIGEST


PARTS = st.sampled_from(["\n", "\n\n", "a", "word ", "xxxxx\n", "x" * 12, "\x0c", " "])


@given(st.lists(PARTS, max_size=60))
@settings(max_examples=300, deadline=None)
def test_pieces_are_long_enough_and_lose_nothing(parts):
    """Counted by hand: no piece but the last is short, and a piece without its last unit would
    be."""
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PIECE", 6)
        cut = pieces(text)
    assert "".join("".join(cut).split()) == "".join(text.split())
    # a line's end counts, also where it is at an end of the piece and goes
    assert all(len(piece) >= 4 and piece == piece.strip("\n") for piece in cut[:-1])


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path):
    for folder in ("b", ".hidden"):
        (tmp_path / folder).mkdir()
    parts = [f"word{i} " * 400 for i in range(3)]
    (tmp_path / "a.txt").write_text("\n\n".join(parts))
    (tmp_path / "b/a.txt").write_text("short")
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(b'["one", "two"]'))
    for name in ("c.docx", ".hidden/d.txt", ".e.txt"):
        (tmp_path / name).write_text("not read")
    documents = read(tmp_path, tmp_path, shuffle=False)
    assert documents.texts == [*parts, "short", "one", "two"]
    assert documents.units == [*["a.txt"] * 3, "b/a.txt", "row 4", "row 5"]
    # one file alone: there is nothing else to draw
    assert load_documents(str(tmp_path / "a.txt")).units == []


def test_equal_documents_are_one_source_and_it_says_so(tmp_path, capsys):
    path = tmp_path / "same.jsonl"
    path.write_text('"one"\n"two"\n"one"\n""\n" one"\n""\n')
    documents = read(tmp_path, path, shuffle=False)
    assert documents.units == ["row 0", "row 1", "row 0", "row 3", "row 0", "row 5"]
    assert "2 documents that are equal" in capsys.readouterr().err
    assert read(tmp_path, path, group="{text}").units.count("one") == 2
    assert not capsys.readouterr().err


def test_columns_make_documents_and_sources(tmp_path):
    rows = []
    for i in range(9):
        rows.append({"Review Text": f"text {i}", "by.who": f"w{i % 3}", "stars": str(i % 2)})
    (tmp_path / "rows.csv").write_bytes(table(rows))
    template = {"template": "{stars}: {Review Text}", "group": "{by.who}", "where": {"stars": 1}}
    documents = read(tmp_path, "rows.csv", **template)
    expected = {f"1: text {i}": f"w{i % 3}" for i in (1, 3, 5, 7)}
    assert dict(zip(documents.texts, documents.units, strict=True)) == expected


ZST = zstd(os.urandom(9_000))
BAD = {  # the file, and its bytes
    "blank.jsonl": b'{"text": " "}\n{"text": null}\n{"text": NaN}\n',
    "surrogate.jsonl": b'{"text": "ab \\ud83d"}',
    "deep.jsonl": b"[" * 200_000,
    "utf16.txt": "words".encode("utf-16-le"),
    "cut.jsonl": b'{"text": "a"}\n{"text"',
    "number.jsonl": b'"a"\n7\n',
    "bytes.parquet": parquet([{"text": b"\xff"}]),
    "other.csv": b"title,body\na,b\n",
    "quote.csv": b'id,text\n1,a\n2,"b\n3,c\n',
    "long-row.csv": b'id,text\n1,"a\nb"\n2,b,c\n',
    "key-twice.jsonl": b'{"text": "a"}\n{"text": "a", "text": "b"}',
    "column-twice.csv": b"text,id,text\na,1,b\n",
    "marks.csv": b"id;text\n1;a, b\n",
    "cut.jsonl.zst": ZST[: len(ZST) // 2],
    "a.docx": b"words",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(InputError) as caught:
        read(tmp_path, name)
    assert re.fullmatch(f".*({name}|its-name|template).*", str(caught.value))
    assert name != "marks.csv" or "columns lie between ';'" in str(caught.value)


MAKERS = {
    "link.txt": lambda path: path.symlink_to("nowhere.txt"),
    "pipe.txt": os.mkfifo,
    "nowhere.txt": lambda path: None,
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_no_file_is_one_sentence(tmp_path, name):
    MAKERS[name](tmp_path / name)
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(InputError) as caught:
            read(tmp_path, path)
        assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
