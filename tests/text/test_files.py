"""Own text in every format gives the same documents, and every bad file is one sentence that names it and the mend."""

import codecs
import csv
import gzip
import io
import json
import os
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib import text_files as files
from rbplib import texts as corpora
from rbplib.families import Corpus, InputError, load_corpus
from rbplib.network import first_line
from rbplib.texts import load_documents, standard_input, texts_digest

DOCUMENTS = [f'{i}: a text, with "quotes",\n\nlines, é, 文 and \t tabs; [{"x" * i}]' for i in range(19)] + ["\u2028, ü"]


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(rows, delimiter=",", **how):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **how).writerows(rows)
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


OBJECTS = [{"id": i, "text": text} for i, text in enumerate(DOCUMENTS)]
ROWS = [["id", "text"], *([i, text] for i, text in enumerate(DOCUMENTS))]
GOOD = {
    "rows.jsonl": lines(OBJECTS),
    "strings.jsonl": lines(DOCUMENTS),
    "NOTES.JSONL": lines(OBJECTS),
    "mark.jsonl": codecs.BOM_UTF8 + lines(OBJECTS),
    "crlf.jsonl": lines(OBJECTS).replace(b"\n", b"\r\n"),
    "rows.ndjson": lines(OBJECTS),
    "lines.json": lines(OBJECTS),
    "one-line.json": json.dumps(OBJECTS).encode(),
    "pretty.json": b"\n\n" + json.dumps(OBJECTS, indent=2).encode() + b"\n",
    "strings.json": json.dumps(DOCUMENTS, indent=0).encode(),
    "rows.csv": table(ROWS),
    "all-quoted.csv": table(ROWS, quoting=csv.QUOTE_ALL, lineterminator="\n\n"),
    "mark.CSV": codecs.BOM_UTF8 + table(ROWS),
    "only.csv": table([["review"], *([text] for text in DOCUMENTS)]),
    "rows.tsv": table(ROWS, "\t"),
    "rows.parquet": parquet(OBJECTS),
    "ROWS.Parquet": parquet(OBJECTS),
    "rows.jsonl.gz": gzip.compress(lines(OBJECTS)),
    "two-members.jsonl.gz": gzip.compress(lines(OBJECTS[:7])) + gzip.compress(lines(OBJECTS[7:])),
    "rows.JSONL.GZ": gzip.compress(lines(OBJECTS)),
    "rows.jsonl.zst": zstd(lines(OBJECTS)),
    "rows.JSON.ZST": zstd(json.dumps(OBJECTS, indent=1).encode()),
    "rows.csv.gz": gzip.compress(table(ROWS)),
    "rows.tsv.zst": zstd(table(ROWS, "\t")),
}


@pytest.mark.parametrize("name", GOOD)
def test_the_same_documents_in_every_format(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(GOOD[name])
    found = load_documents(str(path))
    assert sorted(found.texts) == sorted(DOCUMENTS) and found.units == ()
    (tmp_path / "plain.jsonl").write_bytes(lines(OBJECTS))
    assert found.digest == load_documents(str(tmp_path / "plain.jsonl")).digest
    assert len(load_documents(Corpus(name="few", path=str(path), documents=3)).texts) == 3


PROSE = "\n\n".join(f"paragraph {i} " + "word " * (i * 37 % 400) for i in range(60)).encode()


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.md", PROSE),
        ("A.TXT", PROSE),
        ("a.txt.gz", gzip.compress(PROSE, mtime=0)),
        ("a.md.zst", zstd(PROSE)),
        ("a.TXT.ZST", zstd(PROSE)),
        ("mark.txt", codecs.BOM_UTF8 + PROSE),
        ("crlf.txt", PROSE.replace(b"\n", b"\r\n")),
    ],
)
def test_the_same_prose_in_every_format(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "plain.txt").write_bytes(PROSE)
    found = load_documents(str(tmp_path / name))
    assert found.digest == load_documents(str(tmp_path / "plain.txt")).digest and len(found.texts) > 3


def whole_cut(text):
    """The pieces of a text that is all at hand."""
    pieces, held, size = [], [], 0
    for paragraph in text.split("\n\n"):
        parts = [paragraph] if len(paragraph) <= 4 * files.LEAST else paragraph.splitlines(keepends=True)
        for i, part in enumerate(parts):
            held.append(part + ("\n\n" if i == len(parts) - 1 else ""))
            size += len(part)
            if size >= files.LEAST:
                pieces.append("".join(held).strip("\n"))
                held, size = [], 0
    rest = "".join(held).strip("\n")
    return pieces + [rest] if rest.strip() or not pieces else pieces


@given(st.lists(st.sampled_from(["\n", "\n\n", "a", "word ", "xxxxx\n", "x" * 12, "\x0c", "\u2028", " "]), max_size=60))
@settings(max_examples=600, deadline=None)
def test_lines_are_cut_as_the_whole_text_is(parts):
    text, least = "".join(parts), files.LEAST
    files.LEAST = 6
    try:
        assert list(files.cut(io.StringIO(text))) == whole_cut(text)
    finally:
        files.LEAST = least


def test_standard_input_is_read_once_and_kept(tmp_path, monkeypatch):
    class Input:
        def __init__(self, data):
            self.buffer = io.BytesIO(data)

        def isatty(self):
            return False

    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    (tmp_path / "rows.jsonl").write_bytes(lines(OBJECTS))
    (tmp_path / "prose.txt").write_bytes(b'"Quotes," she said.\n' + PROSE)
    for file in ("rows.jsonl", "prose.txt"):
        monkeypatch.setattr("sys.stdin", Input((tmp_path / file).read_bytes()))
        standard_input.cache_clear()
        found = load_documents("-")
        assert found == load_documents(load_corpus("-"))  # a second reader of one run finds it kept
        (kept,) = (tmp_path / "results" / "corpora").glob(f"stdin-*{file[-4:]}")
        assert kept.read_bytes() == (tmp_path / file).read_bytes()
        assert found.digest == load_documents(str(tmp_path / file)).digest == load_documents(str(kept)).digest
        assert found.source["file"] == kept.name
    standard_input.cache_clear()
    monkeypatch.setattr("sys.stdin", Input(b""))
    with pytest.raises(InputError, match="standard input holds no text: pipe some"):
        load_documents("-")


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "hello")
    return out.getvalue()


GZ, ZST = gzip.compress(os.urandom(9_000)), zstd(os.urandom(9_000))
BAD = [  # file, its bytes, changes of the corpus, what the sentence says
    ("empty.txt", b"", {}, "holds no text"),
    ("empty.jsonl", b"", {}, "holds no document"),
    ("empty.csv", b"", {}, "holds no document"),
    ("empty.json", b"", {}, "holds no document"),
    ("empty.parquet", b"", {}, "no readable Parquet"),
    ("empty.txt.gz", b"", {}, "holds no text"),
    ("blank.txt", b" \n\n \n", {}, "holds no text"),
    ("blank.jsonl", b'{"text": " "}\n{"text": null}\n', {}, "holds no text"),
    ("header.csv", b"id,text\n", {}, "holds no document"),
    ("surrogate.jsonl", b'{"text": "ab \\ud83d"}', {}, r"half a character \('\\ud83d' after 'ab '\)"),
    ("surrogate.json", b'["fine", "\\udc00"]', {}, "half a character"),
    ("surrogate.jsonl", b'{"text": "a", "by": "\\ud83d"}', {"group": "{by}", "template": "{by}"}, "half a character"),
    ("deep.jsonl", b"[" * 200_000, {}, "line 1 .*nested too deeply"),
    ("deep.json", b'\n[{"text": ' + b'{"a":' * 200_000, {}, "line 2 .*nested too deeply"),
    ("digits.jsonl", b'{"text": ' + b"1" * 5000 + b"}", {}, "line 1 .*not readable JSON"),
    ("nul.txt", b"ab\ncd\0ef", {}, "line 2 .*holds a NUL byte: .*UTF-16"),
    ("nul.csv", b"text\nab\0", {}, "line 2 .*holds a NUL byte"),
    ("no-mark.txt", "words".encode("utf-16-le"), {}, "holds a NUL byte: it is no text, or UTF-16"),
    ("marked.txt", "words".encode("utf-16"), {}, "is not UTF-8 text but UTF-16: .*iconv -f UTF-16 -t UTF-8"),
    ("marked.csv", codecs.BOM_UTF16_BE + "text\nwords".encode("utf-16-be"), {}, "but UTF-16"),
    ("marked.jsonl.gz", gzip.compress('{"text": "a"}'.encode("utf-16")), {}, "but UTF-16"),
    ("latin.txt", "one\n\ntwo é".encode("latin1"), {}, r"is not UTF-8 text \(byte 0xe9 after line \d\): .*iconv"),
    ("latin.jsonl", '{"text": "é"}'.encode("latin1"), {}, "is not UTF-8 text"),
    ("cut.jsonl", b'{"text": "a"}\n{"text"', {}, "line 2 of .*cut.jsonl is not readable JSON"),
    ("object.json", b'{\n  "text": "a"\n}', {}, "not readable JSON .*array of objects"),
    ("whole.json", b'{"data": [{"text": "a"}]}', {}, "no field 'text': choose one of data. .*`template`"),
    ("comma.json", b'[\n{"text": "a"},\n]', {}, "line [23] .*not readable JSON"),  # Pythons count it to either
    ("two.json", b'[{"text": "a"}]\n[{"text": "b"}]', {}, "line 2 .*not readable JSON"),
    ("number.jsonl", b'"a"\n7\n', {}, "line 2 .*no object but 7: write each as"),
    ("null.jsonl", b'"a"\n\nnull\n', {}, "line 3 .*no object but null"),
    ("inner.json", b'[[{"text": "a"}]]', {}, "no object but"),
    ("nan.jsonl", b"NaN\n", {}, "no object but NaN"),
    ("list.jsonl", b'{"text": ["a", "b"]}', {}, "field 'text' of x holds a list, not text"),
    ("dict.jsonl", b'{"text": {"a": "b"}}', {}, "field 'text' of x holds a dict, not text"),
    ("bytes.parquet", parquet([{"text": b"\xff"}]), {}, "field 'text' of x holds a bytes, not text"),
    ("other.jsonl", b'{"txt": "a"}', {}, "no field 'text': did you mean 'txt'. .*`template`"),
    ("other.csv", b"title,body\na,b\n", {}, "no field 'text': choose one of title, body. .*`template`"),
    ("other.parquet", parquet([{"body": "a"}]), {}, "no field 'text': .*`template`"),
    ("rows.csv", b"title,body\na,b\n", {"template": "{titel}"}, "no field 'titel': did you mean 'title'"),
    ("rows.csv", b"title,body\na,b\n", {"template": "{body}", "group": "{who}"}, "no field 'who'"),
    ("rows.csv", b"text,by\na,b\n", {"where": {"language": "en"}}, "no field 'language'"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{text:>9}"}, "'text' with a format"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{text!r}"}, "'text' with a format"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{}"}, "without a name: use plain names, as in {text}.$"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{text"}, "not well formed"),
    ("rows.csv", b"text,by\na,b\n", {"template": "text"}, "uses no field"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{text[0]}"}, "no field"),
    ("rows.csv", b"text,by\na,b\n", {"template": "{text.__class__}"}, "no field"),
    ("open.csv", b'id,text\n1,a\n2,"b\n3,c\n', {}, "row at line 3 .*unexpected end of data.*close its quotes"),
    ("quote.csv", b'id,text\n1,"a"b\n', {}, "row at line 2 .*quote inside a field"),
    ("long-row.csv", b'id,text\n1,"a\nb"\n2,b,c\n', {}, "row at line 4 .*has 3 fields where the first line names 2"),
    ("short-row.tsv", b"id\ttext\n1\n", {}, "row at line 2 .*has 1 fields where the first line names 2"),
    ("twice.csv", b"text,id,text\na,1,b\n", {}, "two columns 'text'"),
    ("semicolon.csv", b"id;text\n1;a\n", {}, "parted by ';'"),
    ("tabs.csv", b"id\ttext\n1\ta\n", {}, r"parted by '\\t'"),
    ("commas.tsv", b"id,text\n1,a\n", {}, r"parted by ',': save it with '\\t'"),
    ("cut.txt.gz", GZ[: len(GZ) // 2], {}, "cannot be read as gzip .Truncated.*: fetch or write it again"),
    ("cut.jsonl.zst", ZST[: len(ZST) // 2], {}, "cannot be read as zstd .Truncated"),
    ("zip.txt.gz", zipped(), {}, "cannot be read as gzip .*incorrect header"),
    ("plain.txt.gz", b"hello", {}, "cannot be read as gzip"),
    ("plain.csv.zst", b"hello", {}, "cannot be read as zstd"),
    ("sum.txt.gz", GZ[:-8] + b"12345678", {}, "cannot be read as gzip .*incorrect data check"),
    ("no.parquet", b"PAR1 no", {}, "no readable Parquet"),
    ("a.parquet.gz", gzip.compress(parquet(OBJECTS)), {}, "no readable Parquet"),
    ("a.docx", b"words", {}, r"no ending that says how to read it: name it as one of \.txt, .*\.tsv, .*\.gz or \.zst"),
    ("README", b"words", {}, "no ending that says"),
    ("a.gz", gzip.compress(b"words"), {}, "no ending that says"),
    ("a.txt.xz", b"words", {}, "no ending that says"),
    ("a.jsonl", b'{"text": "a"}', {"min_characters": 2}, "holds no document"),
    ("a.jsonl", b'{"text": "a"}', {"where": {"text": "b"}}, "holds no document"),
]


@pytest.mark.parametrize("name, data, changes, said", BAD, ids=[f"{i}-{row[0]}" for i, row in enumerate(BAD)])
def test_a_bad_file_is_one_sentence(tmp_path, name, data, changes, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        load_documents(Corpus(name="x", path=str(tmp_path / name), **changes))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    if not changes:  # the same by its path alone: what is there is never called no corpus
        with pytest.raises(InputError) as caught:
            load_documents(str(tmp_path / name))
        assert "there is no corpus" not in str(caught.value)


def broken_link(path):
    path.symlink_to("nowhere.txt")


def folder_with(name, make):
    def build(path):
        path.mkdir()
        make(path / name)

    return build


@pytest.mark.parametrize(
    "name, make, said",
    [
        ("a.txt", broken_link, "is a link to nowhere.txt, which is not there"),
        ("a.txt", os.mkfifo, "is a pipe or device, no file: .*--corpus -"),
        ("folder", folder_with("b.jsonl", broken_link), "b.jsonl is a link to nowhere.txt"),
        ("folder", folder_with("b.csv", os.mkfifo), "b.csv is a pipe or device"),
        ("folder", folder_with("b.docx", lambda p: p.write_text("a")), r"holds no text file: .*\.txt, .*\.csv"),
        ("folder", folder_with(".b.txt", lambda p: p.write_text("a")), "holds no text file"),
        ("folder", folder_with(".git", folder_with("b.txt", lambda p: p.write_text("a"))), "holds no text file"),
        ("x.jsonl", lambda p: p.mkdir(), "holds no text file"),
        ("folder", folder_with("b.jsonl", lambda p: p.mkdir()), "holds no text file"),
    ],
)
def test_what_is_no_readable_file_is_one_sentence(tmp_path, name, make, said):
    make(tmp_path / name)
    with pytest.raises(InputError, match=said) as caught:
        load_documents(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_device_and_what_may_not_be_read_are_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="pipe or device"):
        load_documents("/dev/null")
    (tmp_path / "a.txt").write_text("words")

    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(pa, "input_stream", forbidden)  # as root reads everything
    with pytest.raises(InputError, match=r"a\.txt cannot be read \(.*Permission denied.*\): change its permissions"):
        load_documents(str(tmp_path / "a.txt"))
    monkeypatch.setattr(os, "scandir", forbidden)
    with pytest.raises(InputError, match="cannot be read .*Permission denied.*: change its permissions"):
        load_documents(str(tmp_path))


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.txt", b"x" * 2000),
        ("a.txt.gz", gzip.compress(b"x" * 2000, mtime=0)),
        ("a.jsonl.zst", zstd(b'{"text": "' + b"x" * 2000 + b'"}')),
        ("a.json", b'[{"text":\n"' + b"x" * 2000 + b'"}]'),
        ("a.csv", b"text\n" + b"x" * 2000),
        ("a.csv", b'text\n"' + b"x\n" * 2000 + b'"\n'),
    ],
)
def test_a_line_or_field_without_end_is_refused(tmp_path, monkeypatch, name, data):
    monkeypatch.setattr(files, "LONGEST", 1000)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match="longer than 1,000 characters: break|field larger than field limit .1000."):
        load_documents(str(tmp_path / name))


def test_a_field_above_the_csv_modules_limit_is_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(table([["id", "text"], [1, "x" * 1_000_000]]))
    assert load_documents(str(tmp_path / "a.csv")).digest == texts_digest(["x" * 1_000_000])


def test_columns_make_documents_and_sources(tmp_path):
    rows = [["Review Text", "by.who", "stars"], *([f"text {i}", f"w{i % 3}", i % 2] for i in range(9))]
    (tmp_path / "r.tsv").write_bytes(table(rows, "\t"))
    asked = Corpus(
        name="x", path=str(tmp_path / "r.tsv"), template="{stars}: {Review Text}", group="{by.who}", where={"stars": 1}
    )
    found = load_documents(asked)
    assert sorted(found.texts) == [f"1: text {i}" for i in (1, 3, 5, 7)] and set(found.units) == {"w0", "w1", "w2"}


def test_hidden_files_and_other_endings_in_a_folder_are_left_out(tmp_path):
    for name in ("a.csv", ".b.csv", "c.JSON.gz", "d.pdf"):
        (tmp_path / name).write_bytes(gzip.compress(b'["two"]') if name.endswith("gz") else b"text\none\n")
    assert sorted(load_documents(str(tmp_path)).texts) == ["one", "two"]
    assert corpora.text_suffix("A.Jsonl.Zst") == ".jsonl" and corpora.text_suffix("a.gz") == ""


def test_what_a_library_says_is_cut_between_words():
    assert first_line("one\ntwo") == "one" and first_line(OSError()) == "OSError"
    long = first_line("word " * 200)
    assert 380 < len(long) <= 400 and long.endswith("word ...")
    assert first_line("x" * 390) == "x" * 390
