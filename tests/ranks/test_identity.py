"""A rank table is known by its content: one thing is changed at a time, and the table is another one."""

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbplib import measuring as m
from rbplib import model_files as files
from rbplib.cli import main
from rbplib.families import InputError, load_corpus, load_family
from rbplib.identity import asked, expected, ranks_path
from rbplib.inputs import digest
from rbplib.stored import COLUMNS, RECORD_KEY, digests, read_ranks, write_ranks
from rbplib.table import measured, measured_families
from rbplib.texts import sample_path, texts_digest
from tests.smallmodels import save_model

YAML = {"path": "notes.jsonl", "template": "{text}", "documents": 8, "seed": 1}
WORDS = "the quick brown fox jumps over the lazy dog".split()


def rows(start=0, n=12):
    return "".join(
        json.dumps({"text": " ".join(WORDS[(i + j) % 9] for j in range(9)), "who": f"w{i % 3}", "other": f"o {i} " * 5})
        + "\n"
        for i in range(start, start + n)
    )


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder")
    for number in range(3):
        save_model(folder / f"m{number}", scale=2**number, seed=number)
    return folder


@pytest.fixture
def root(ladder, tmp_path, monkeypatch):
    """A root of its own with three small models, one of which is of another family too, and two files of notes."""
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.delenv("RBP_RESULTS", raising=False)
    for folder in ("families", "corpora", "else"):
        (tmp_path / folder).mkdir()
    shutil.copytree(ladder, tmp_path / "models")
    (tmp_path / "families/lad.yml").write_text("context: 32\nmodels: [models/m0, models/m1, models/m2]\n")
    (tmp_path / "corpora/docs.yml").write_text("path: docs.jsonl\n")
    for name, start in (("notes", 0), ("docs", 40), ("else/notes", 20), ("else/docs", 60)):
        (tmp_path / f"{name}.jsonl").write_text(rows(start))
    (tmp_path / "mine.yml").write_text(json.dumps(YAML))
    return tmp_path


def place(corpus, family="lad", model="m0", **options):
    family, models, corpora = asked(family, [model], [str(corpus)])
    return ranks_path(expected(family, models, corpora, **options)[model][0])


def run(capsys, *args):
    try:
        code = main(list(map(str, args)))
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


def edit_notes(root):
    (root / "notes.jsonl").write_text(rows(1))


def edit_yaml(**changes):
    def edit(root):
        (root / "mine.yml").write_text(json.dumps(YAML | changes))

    return edit


def edit_model(root):
    save_model(root / "models/m0", seed=9)


def edit_family(text):
    def edit(root):
        path = root / "families/lad.yml"
        path.write_text(text + path.read_text().replace("context: 32\n", "" if "context" in text else "context: 32\n"))

    return edit


@pytest.mark.parametrize(
    ("corpus", "change"),
    [
        ("notes.jsonl", edit_notes),
        ("mine.yml", edit_notes),
        ("mine.yml", edit_yaml(template="{other}")),
        ("mine.yml", edit_yaml(documents=7)),
        ("mine.yml", edit_yaml(seed=2)),
        ("mine.yml", edit_yaml(group="{who}")),
        ("mine.yml", edit_yaml(where={"who": "w1"})),
        ("mine.yml", edit_yaml(first=9)),
        ("notes.jsonl", edit_model),
        ("notes.jsonl", edit_family("dtype: bfloat16\n")),
        ("notes.jsonl", edit_family("context: 16\n")),
    ],
)
def test_what_decides_the_rows_decides_the_place(root, corpus, change):
    before = place(root / corpus)
    assert place(root / corpus) == before
    kept = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    change(root)
    assert place(root / corpus) != before
    for path, data in kept.items():
        path.write_bytes(data)
    assert place(root / corpus) == before  # what was is found again


def rename_family(root):
    (root / "families/lad.yml").write_text("title: Another\nnote: x\n" + (root / "families/lad.yml").read_text())


def move_models(root):
    shutil.move(root / "models", root / "moved")
    text = (root / "families/lad.yml").read_text().replace("models/", f"{root}/moved/")
    (root / "families/lad.yml").write_text(text)


def touch(root):
    for path in root.rglob("*"):
        os.utime(path, (1, 1))


@pytest.mark.parametrize("change", [rename_family, move_models, touch, edit_yaml(documents=8, title="Other words")])
def test_what_does_not_decide_the_rows_does_not(root, change):
    before = place(root / "mine.yml")
    change(root)
    assert place(root / "mine.yml") == before


@pytest.mark.parametrize(
    "options",
    [{"protocol": "full"}, {"dtype": "bfloat16"}, {"head_dtype": "bfloat16"}],
)
def test_how_it_is_measured_decides_the_place(root, options):
    assert place(root / "notes.jsonl", **options) != place(root / "notes.jsonl")


def test_the_measuring_code_decides_the_place(root, monkeypatch):
    before = place(root / "notes.jsonl")
    monkeypatch.setattr("rbplib.identity.MEASURING", 0)
    assert place(root / "notes.jsonl") != before


def test_a_tokenizer_beside_the_models_is_part_of_them(root):
    (root / "models/tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (root / "models/m1" / name).rename(root / "models/tokenizer" / name)
        (root / "models/m0" / name).unlink()
    before = place(root / "notes.jsonl")
    file = root / "models/tokenizer/tokenizer.json"
    file.write_text(file.read_text() + "\n")
    assert place(root / "notes.jsonl") != before


def test_code_of_a_model_is_part_of_it_where_its_configuration_names_it(root):
    before, config = place(root / "notes.jsonl"), root / "models/m0/config.json"
    (root / "models/m0/train.py").write_text("x = 1")
    assert place(root / "notes.jsonl") == before
    config.write_text(json.dumps(json.loads(config.read_text()) | {"auto_map": {"AutoConfig": "mine.Config"}}))
    named = place(root / "notes.jsonl")
    (root / "models/m0/mine.py").write_text("x = 1")
    assert len({before, named, place(root / "notes.jsonl")}) == 3


def test_the_digest_of_a_large_file_is_kept_while_the_file_stays(root, monkeypatch):
    monkeypatch.setattr(files, "LARGE", 100_000)
    monkeypatch.setattr(files, "JUST_NOW", -1)  # of what was written just now nothing is kept, but here
    first, read, real = place(root / "notes.jsonl"), [], files.hub.file_digest
    monkeypatch.setattr(files.hub, "file_digest", lambda path: read.append(Path(path).name) or real(path))
    assert place(root / "notes.jsonl") == first and read and "model.safetensors" not in read
    weights = root / "models/m0/model.safetensors"
    data, state = bytearray(weights.read_bytes()), weights.stat()
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))  # the same size and time: its inode's own time differs
    assert place(root / "notes.jsonl") != first and "model.safetensors" in read
    (root / "results/digests.json").write_text("[broken")
    assert place(root / "notes.jsonl") != first


def test_text_of_the_hub_is_known_by_its_request_and_compared_with_the_sample_kept_here(root):
    path = root / "corpora/web.yml"
    path.write_text("source: hub\nid: owner/web\ndocuments: 2\n")
    before = place("web")
    corpus = load_corpus("web")
    kept = sample_path(corpus)
    kept.parent.mkdir(parents=True)
    for text in ("one", "two"):
        kept.write_text(json.dumps({"texts": [text], "digest": texts_digest([text])}))
        entries = expected(*asked("lad", ["m0"], ["web"]))["m0"][0]
        assert ranks_path(entries) == before and entries["corpus_digest"] == texts_digest([text])
    for line in ("revision: v2", "seed: 7", "template: '{a}'", "group: '{a}'", "where: {a: 2020-01-01}", "config: de"):
        path.write_text(f"source: hub\nid: owner/web\ndocuments: 2\n{line}\n")
        assert place("web") != before, line


def test_a_model_of_the_hub_is_known_by_its_id_and_revision(root):
    path, found = root / "families/far.yml", set()
    for entry in ("a/m0", "b/m0", "{id: a/m0, revision: step1}", "{id: a/m0, revision: step2}"):
        path.write_text(f"context: 32\nmodels: [{entry}]\n")
        found.add(place(root / "notes.jsonl", "far"))
    assert len(found) == 4


NAMES = [("a.txt", "a"), ("my text.txt", "my-text"), ("notes (1).txt", "notes-1"), ("v1.2.txt", "v1.2")]


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_an_own_file_has_its_own_name(root, file, name):
    (root / file).write_text("words")
    assert load_corpus(root / file).name == name


def test_names_that_would_be_anothers_are_set_apart(root):
    files = ["文章.txt", "книга.txt", "docs.txt", "é.txt", "e.txt", "---.txt", "...txt"]
    for file in files:
        (root / file).write_text("words")
    names = [load_corpus(root / file).name for file in files]
    assert len(set(names)) == len(files) and "docs" not in names and "e" in names
    assert names[0].startswith("text-") and names[2].startswith("docs-")
    assert load_corpus(root / "文章.txt") == load_corpus(root / "文章.txt")


def test_an_own_file_named_as_a_corpus_neither_shows_nor_overwrites_it(root):
    official = measured("lad", ["docs"])["docs"]
    before = {t.path: t.path.read_bytes() for t in official}
    mine = measured("lad", [str(root / "else/docs.jsonl")])
    (name,) = mine
    assert name != "docs" and mine[name][0].record["corpus_digest"] != official[0].record["corpus_digest"]
    assert {p: p.read_bytes() for p in before} == before


def test_edited_text_is_measured_and_shown_and_the_old_one_is_found_again(root, monkeypatch, capsys):
    def fitted():
        code, out, err = run(capsys, "fit", "--family", "lad", "--corpus", root / "notes.jsonl", "--k", 100, "--json")
        return json.loads(out)["log_c"] if code == 0 else err

    first = measured("lad", [str(root / "notes.jsonl")])["notes"]
    number = fitted()
    edit_notes(root)
    assert "no rank table on notes as it is now" in fitted() and str(root / "notes.jsonl") in fitted()
    others = ("fit", "--family", "lad", "--corpus", root / "else/notes.jsonl", "--k", 100)
    assert "no rank table" in run(capsys, *others)[2]
    again = measured("lad", [str(root / "notes.jsonl")])["notes"]
    assert again[0].record["corpus_digest"] != first[0].record["corpus_digest"] and fitted() != number
    (root / "notes.jsonl").write_text(rows())
    monkeypatch.setattr(m, "measure_model", lambda *a: pytest.fail("measured again"))
    assert [t.path for t in measured("lad", [str(root / "notes.jsonl")])["notes"]] == [t.path for t in first]
    assert fitted() == number


def test_two_texts_of_one_name_in_one_call_are_refused(root):
    both = [str(root / "notes.jsonl"), str(root / "else/notes.jsonl")]
    for call in (lambda: measured("lad", both), lambda: m.measure("lad", corpora=both)):
        with pytest.raises(InputError, match=r"two corpora are named 'notes'.*else/notes.jsonl: rename a file"):
            call()
    (root / "else/mine.yml").write_text(json.dumps(YAML | {"name": "notes"}))
    with pytest.raises(InputError, match="two corpora are named 'notes'"):
        measured("lad", [both[0], str(root / "else/mine.yml")])
    assert len(asked("lad", None, [both[0], both[0]])[2]) == 1  # the same one twice is one


@pytest.mark.parametrize(("folder", "name"), [("corpora", "docs"), ("families", "lad")])
def test_a_file_elsewhere_may_not_take_the_name_of_one_of_the_root(root, folder, name):
    load = {"corpora": load_corpus, "families": load_family}[folder]
    assert load(root / folder / f"{name}.yml") == load(name)
    shutil.copy(root / folder / f"{name}.yml", root / "else" / f"{name}.yml")
    with pytest.raises(InputError, match=f"has the name of .*'{name}': give it another one"):
        load(root / "else" / f"{name}.yml")


def test_two_families_of_one_name(root, capsys):
    """Their tables lie apart, `rbp fit` gives each its own, and one call takes one of them."""
    exponents = {}
    (root / "families/lad.yml").unlink()
    for place_, models in (("a", "m0, ../models/m1, ../models/m2"), ("b", "m0b, ../models/m1, ../models/m2")):
        (root / place_).mkdir()
        (root / place_ / "lad.yml").write_text(f"context: 32\nmodels: [../models/{models}]\n")
    save_model(root / "models/m0b", seed=5)
    for place_ in "ab":
        text = (root / place_ / "lad.yml").read_text().replace("../models/m0", "{name: m0, id: ../models/m0")
        (root / place_ / "lad.yml").write_text(text.replace(", ../models/m1", "}, ../models/m1", 1))
    options = ("--corpus", root / "notes.jsonl", "--k", 100, "--json")
    assert run(capsys, "fit", "--family", root / "a/lad.yml", *options)[0] == 2
    for place_ in "ab":
        m.measure(str(root / place_ / "lad.yml"), corpora=[str(root / "notes.jsonl")], progress=False)
    for place_ in "ab":
        code, out, err = run(capsys, "fit", "--family", root / place_ / "lad.yml", *options)
        assert code == 0, err
        exponents[place_] = json.loads(out)["alpha"]
    assert exponents["a"] != exponents["b"]
    with pytest.raises(InputError, match="two families are named 'lad'"):
        measured_families([str(root / "a/lad.yml"), str(root / "b/lad.yml")], [str(root / "notes.jsonl")])


# --- What was changed after it was written


@pytest.fixture
def tables(root):
    return {t.record["model"]: t for t in measured("lad", [str(root / "notes.jsonl")])["notes"]}


def rewrite(path, change, mend=True, to=None):
    """The table with its record changed; `mend`: with a checksum that fits."""
    table = pq.read_table(path)
    record = json.loads(table.schema.metadata[RECORD_KEY])
    change(record)
    if mend:
        record["sha256"] = digest({k: v for k, v in record.items() if k != "sha256"})
    pq.write_table(table.replace_schema_metadata({RECORD_KEY: json.dumps(record).encode()}), to or path)


def seen(capsys, root):
    """(code and error of `rbp fit`, code and problems of `rbp check`) on the notes."""
    code, out, err = run(capsys, "fit", "--family", "lad", "--corpus", root / "notes.jsonl", "--k", 100)
    checked, found, _ = run(capsys, "check", "--json")
    assert not (code and out) and "Traceback" not in err
    return code, err, checked, json.loads(found)["problems"]


def test_untouched_tables_pass(root, tables, capsys):
    assert seen(capsys, root)[0::2] == (0, 0)


@pytest.mark.parametrize("mend", [False, True])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda r: r.update(nonembedding_params=12_345), "12,345"),
        (lambda r: r.update(model="m1"), "model"),
        (lambda r: r.update(family="other"), "family"),
        (lambda r: r.update(corpus="other"), "corpus"),
        (lambda r: r.update(model_digest="0" * 64), "model_digest"),
        (lambda r: r.update(corpus_digest="0" * 64), "corpus_digest"),
        (lambda r: r.update(window=16), "window"),
        (lambda r: r.update(measuring=1), "measuring"),
        (lambda r: r.update(vocab_size=400), "400"),
        (lambda r: r.pop("vocab_size"), "has no 'vocab_size'"),
        (lambda r: r.pop("documents"), "has no 'documents'"),
        (lambda r: r.pop("nonembedding_params"), "has no 'nonembedding_params'"),
        (lambda r: r.pop("sample"), "has no 'sample'"),
        (lambda r: r.pop("model"), "has no 'model'"),
        (lambda r: r.update(documents="many"), "has no 'documents'"),
        (lambda r: r.update(documents=999), "other tokens or sources|not measured on the same tokens"),
        (lambda r: r.update(documents=-1, units=[]), "contradicts itself"),
        (lambda r: r.update(total_params=1), "contradicts itself"),
        (lambda r: r.update(total_params="many"), "contradicts itself"),
        (lambda r: r.update(units=5), "contradicts itself"),
        (lambda r: r.update(nonembedding_params=-5), "contradicts itself"),
        (lambda r: r.clear(), "has no"),
    ],
)
def test_a_changed_record_is_found(root, tables, capsys, change, word, mend):
    path = tables["m0"].path
    rewrite(path, change, mend)
    code, err, checked, problems = seen(capsys, root)
    alone = "same tokens" not in err  # what one record cannot tell is seen beside the others
    assert (
        code == 2
        and checked == 1
        and len(problems) == (1 if alone else 2)
        and path.name in (err if alone else problems[1])
    )
    assert path.name in problems[0] and len(err.strip().splitlines()) == 1
    assert re.search(word if mend or word.startswith("has no") else "checksum", err)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda columns, r: columns.update(logprob=columns["logprob"] * 0 - 1e-3), "more probability than 1/R"),
        (lambda columns, r: columns.update(document=columns["document"] + 50), "documents that its record does not"),
        (lambda columns, r: r.update(documents=3), "documents that its record does not"),
        (lambda columns, r: columns.update({k: v[::2] for k, v in columns.items()}), "other tokens or sources"),
        (lambda columns, r: columns.update(token=columns["token"][::-1]), "other tokens or sources"),
        (lambda columns, r: r.update(units=["one"] * r["documents"]), "other tokens or sources"),
    ],
)
def test_rows_that_cannot_be_are_found_though_every_checksum_fits(root, tables, capsys, change, word):
    table = tables["m1"].read()
    columns, record = {name: getattr(table, name) for name in COLUMNS}, dict(table.record)
    change(columns, record)
    write_ranks(table.path, columns, record)
    _, _, checked, problems = seen(capsys, root)
    assert checked == 1 and any(word in p for p in problems) and all(p.count("delete it") == 1 for p in problems)


def test_a_table_at_the_place_of_another_is_found(root, tables, capsys):
    first, second = tables["m0"].path, tables["m1"].path
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    code, err, checked, problems = seen(capsys, root)
    assert code == 2 and "another model" in err and checked == 1 and len(problems) == 2
    assert "is not the table of that place, but one of lad/m1 on notes" in problems[0]
    again = measured("lad", [str(root / "notes.jsonl")])["notes"]
    assert {t.record["model"]: len(t) for t in again} == {n: len(t) for n, t in tables.items()}


def test_a_table_of_another_text_or_family_at_the_place_is_found(root, tables, capsys):
    path = tables["m0"].path
    (root / "families/else.yml").write_text((root / "families/lad.yml").read_text())
    for family, corpus in (("lad", "else/notes.jsonl"), ("else", "notes.jsonl")):
        other = m.measure(family, ["m0"], [str(root / corpus)], progress=False)[0]
        path.write_bytes(other.read_bytes())
        code, err, checked, problems = seen(capsys, root)
        assert code == 2 and "another" in err and checked == 1 and len(problems) == 1, corpus
        assert "of that place" in problems[0]


def test_results_that_are_not_there_are_found(root, capsys):
    code, err, checked, problems = seen(capsys, root)
    assert code == 2 and "rbp measure" in err and checked == 1 and "there is no folder" in problems[0]
    assert run(capsys, "check", "--results", root / "nowhere")[0] == 1


def test_the_checksum_is_over_columns_and_record(root, tables):
    table = tables["m0"].read()
    columns = {name: getattr(table, name) for name in table.__dataclass_fields__ if name not in ("record", "path")}
    assert table.record["columns_sha256"] == digests(lambda _: [columns])[1]
    write_ranks(root / "again.parquet", columns, table.record)
    assert read_ranks(root / "again.parquet").record == table.record
    write_ranks(root / "again.parquet", columns, table.record | {"threads": 99})
    other = read_ranks(root / "again.parquet").record
    assert other["sha256"] != table.record["sha256"] and other["columns_sha256"] == table.record["columns_sha256"]
    assert pa.Table.equals(pq.read_table(root / "again.parquet"), pq.read_table(table.path))


def test_a_model_that_changes_while_it_is_measured(root, monkeypatch):
    real = m.loading.load_model

    def late(model, **options):
        save_model(model.local, seed=77)
        return real(model, **options)

    monkeypatch.setattr(m.loading, "load_model", late)
    with pytest.raises(InputError, match="were changed while"):
        m.measure("lad", ["m0"], [str(root / "notes.jsonl")], progress=False)
    assert not list((root / "results/ranks").glob("*/*/*.parquet"))
