"""Counts files: the same numbers from a file as from the tables, without torch; and none believed that is not whole."""

import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from ranktables import CORPORA, write_family

from paper.contest import table_contest, vuong
from paper.evidence import case, shown_ks
from paper.runs import hit_dependence, longest_run, run_gap, run_laws
from paper.show.rank_tables import lognormal_frame
from rbplib.cli import main
from rbplib.curve import rbp_curves, repeated, with_repeats
from rbplib.exchange import counted, read_counts, write_counts
from rbplib.families import InputError, load_family
from rbplib.identity import ranks_path
from rbplib.law import fit_laws
from rbplib.losses import family_losses, gap
from rbplib.sharing import export_family, import_counts
from rbplib.stored import COLUMNS, RankTable, read_ranks, write_ranks
from rbplib.table import family_tables, measured, measured_families

ROOT = Path(__file__).resolve().parents[2]
DRAWN = {"n_bootstrap": 200, "seed": 7}


def with_record(root, entries, of="*"):
    """Write tables of the synthetic family again, each with other entries in its record: entries(record)."""
    for path in sorted((root / "results" / "ranks" / "synthetic").glob(f"{of}/*.parquet")):
        table = read_ranks(path)
        record = table.record | entries(table.record)
        write_ranks(ranks_path(record, root / "results"), {name: getattr(table, name) for name in COLUMNS}, record)


def write_again(root):
    """The family `again`, two trainings of one size, as repeats of `synthetic`; documents of both from 25 sources."""
    units = [f"package{(7 * i) % 25}" for i in range(60)]
    with_record(root, lambda record: {"units": units})
    for name, of in (("a", "synthetic-9000"), ("b", "synthetic-40000")):
        named = {"family": "again", "model": name, "model_id": f"none/{name}", "nonembedding_params": 9000}
        with_record(root, lambda record, named=named: named, of)
    models = "".join(f"  - {{id: none/{name}, dtype: float32, nonembedding_params: 9000}}\n" for name in "ab")
    (root / "families" / "again.yml").write_text(f"embedded: true\ncontext: 256\nmodels:\n{models}")
    with (root / "families" / "synthetic.yml").open("a") as file:
        file.write("repeats: again\n")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(root of the family that was measured, its counts file)."""
    root = write_family(tmp_path_factory.mktemp("measured"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        patch.delenv("RBP_RESULTS", raising=False)
        write_again(root)
        yield root, export_family("synthetic", root / "synthetic.counts", shown_ks, by="A. <b>Person</b>")


@pytest.fixture
def elsewhere(shared, tmp_path, monkeypatch):
    """A root with nothing in it but the imported family `theirs`."""
    for folder in ("families", "corpora"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    import_counts(shared[1], "theirs")
    return tmp_path


def numbers(family):
    """What the pages compute of a family, as one nested structure of plain values."""
    tables, again = measured(family), repeated(family)
    corpora = {}
    for name, curve in with_repeats(rbp_curves(tables, []), family).items():
        found, laws = tables[name], fit_laws(curve, **DRAWN)
        runs = run_laws(found, [1, 10], [5, 10], 200, 7, repeats=again[name])
        losses = family_losses(found, repeats=again[name])
        contest, fits = table_contest(found[-1], ("zipf", "lognormal", "yule"), **DRAWN)
        corpora[name] = [
            curve.S, curve.hits, curve.nll, curve.totals, curve.source, curve.repeats.hits, curve.repeats.nll,
            [(w.alpha, w.log_c, w.ci_tokens, w.ci_models, w.noise_p, w.over_documents.ci_tokens) for w in laws],
            [(w.alpha, w.r2, w.ci_tokens, w.ci_trainings, w.lack_of_fit_p) for w in runs.values()],
            [vars(hit_dependence(t, k)) for t in found for k in (1, 10)],
            [vars(run_gap(found[-1], k, 5, **DRAWN)) for k in (1, 10)],
            [(n, x.sums, x.totals, x.training_noise()) for n, x in losses.items()],
            gap(*list(losses.values())[:2], **DRAWN),
            vars(contest), vars(vuong(fits["zipf"], fits["yule"], found[-1])), longest_run(found[0]),
            [lognormal_frame(found).to_dict(), fits["zipf"].max_drbp],
        ]  # fmt: skip
        judged = case(found, curve, **DRAWN) if name == "code" else None
        corpora[name] += [judged and (judged.contests[0].behind, judged.pairs[0].ratio, judged.predicted, judged.ridge)]
    return corpora


def assert_same(first, second, where=""):
    if isinstance(first, dict):
        assert list(first) == list(second), where
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list | tuple):
        assert len(first) == len(second), where
        for i, pair in enumerate(zip(first, second, strict=True)):
            assert_same(*pair, f"{where}[{i}]")
    else:
        numeric = not isinstance(first, str) and first is not None and np.asarray(first).dtype.kind == "f"
        assert np.array_equal(first, second, equal_nan=numeric), where


def test_all_numbers_are_those_of_the_tables(shared, elsewhere, monkeypatch):
    theirs = numbers("theirs")
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    assert_same(numbers("synthetic"), theirs)


def test_fit_says_the_same_of_both(shared, elsewhere, monkeypatch, capsys):
    asked = ["--corpus", "code", "--k", "10", "--n-bootstrap", "300", "--json"]
    assert main(["fit", "--family", "theirs", *asked]) == 0
    theirs = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    assert main(["fit", "--family", "synthetic", *asked]) == 0
    ours = json.loads(capsys.readouterr().out)
    assert theirs | {"family": "synthetic"} == ours and ours["ci_trainings"] is not None


def test_neither_torch_nor_transformers_is_needed(elsewhere):
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('torch', 'transformers', 'datasets'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from rbplib.cli import main\n"
        "assert main(['fit', '--family', 'theirs', '--corpus', 'code', '--k', '1']) == 0\n"
        "assert main(['families', 'theirs', '--json']) == 0\n"
        "from rbplib.table import measured_families\n"
        "from paper.evidence import all_curves, claimed_ks\n"
        "print(len(all_curves(measured_families(['theirs']), claimed_ks, ['theirs'])))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("2\n") and '"imported": true' in ran.stdout


def test_a_file_holds_no_text_no_order_and_no_folder_of_the_machine(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(write_family(tmp_path / "root")))
    secret = {
        "corpus_source": {"path": "/home/me/x.txt", "note": "/home/me/of mine/y.txt"},
        "units": ["/home/me/z"] * 60,
    }
    with_record(tmp_path / "root", lambda record: secret)
    out = export_family("synthetic", tmp_path / "s.counts", shown_ks)
    said = parts(out)["record.json"].decode()
    assert "/home" not in said and "x.txt" not in said and '"y.txt"' in said and '"source 0000000"' in said
    members = parts(shared[1])
    arrays = [np.load(io.BytesIO(data)) for name, data in members.items() if name.endswith(".npy")]
    tokens = {len(t) for corpus in CORPORA for t in measured("synthetic")[corpus]}
    assert arrays and not any(tokens & set(array.shape) for array in arrays)
    assert shared[1].stat().st_size < 150_000


def test_sources_are_numbered_where_names_may_not_be_told(shared, tmp_path):
    named, numbered = shared[1], export_family("synthetic", tmp_path / "s.counts", shown_ks, anonymous=True)
    first, second = (read_counts(path)[1]["family", "code", "paper"][-1] for path in (named, numbered))
    assert "package3" in first.record["units"] and not any("package" in u for u in second.record["units"])
    assert np.array_equal(first.source, second.source)  # the same resamples


def test_a_name_in_use_is_refused_with_the_mend(shared, elsewhere):
    assert import_counts(shared[1], "theirs").stem == "theirs"  # the same file again
    (elsewhere / "families" / "ours.yml").write_text("models: [none/a]\n")
    for name in ("ours", "theirs.repeats", "new.repeats"):
        with pytest.raises(InputError, match="in use for another family"):
            import_counts(shared[1], name)
    with pytest.raises(InputError, match="not a usable name"):
        import_counts(shared[1], "../theirs")


def test_families_are_listed_as_imported(elsewhere, capsys):
    assert main(["families"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("theirs ") and line.endswith("none/synthetic-2000  (imported)")]


def test_what_was_not_counted_is_refused_in_one_sentence(elsewhere):
    (table, *_), largest = measured("theirs")["code"], measured("theirs")["code"][-1]
    refusals = {
        "hits at k = 133 are not known: export with --k 133": lambda: largest.hits([1, 133]),
        "runs of hits at k = 5 are not known": lambda: largest.runs(5),
        "paper's rank alone": lambda: largest.hits([1], "random"),
        "largest model alone": lambda: table.by_source,
        "without counts on code by the protocol 'full'": lambda: measured("theirs", ["code"], "full"),
        "has no models to measure 'notes'": lambda: measured("theirs", ["notes"]),
    }
    for said, ask in refusals.items():
        with pytest.raises(InputError, match=said):
            ask()
    assert main(["measure", "--family", "theirs"]) == main(["plan", "--family", "theirs"]) == 2


def test_further_ks_are_counted_when_asked(shared, tmp_path):
    path = export_family("synthetic", tmp_path / "s.counts", shown_ks, ks=[133, 9999])
    table = read_counts(path)[1]["family", "code", "paper"][0]
    own = family_tables("synthetic", "code")[0][0]
    assert np.array_equal(table.hits([133]), own.hits([133])) and np.array_equal(table.runs(133), own.runs(133))


def test_families_with_another_text_under_one_name_are_not_mixed(shared, tmp_path, monkeypatch):
    """An imported corpus has a name like one that was measured here, and is another text."""

    def of_another_text(record, arrays):
        for entry in record["tables"]:
            entry["record"]["corpus_digest"] = "of another text"

    root = write_family(tmp_path / "root")
    monkeypatch.setenv("RBP_ROOT", str(root))
    rewritten(shared[1], tmp_path / "x.counts", of_another_text)
    import_counts(shared[1], "same")
    import_counts(tmp_path / "x.counts", "theirs")
    assert len(measured_families(["synthetic", "same"])) == 4
    with pytest.raises(InputError, match="of theirs is another text than that of synthetic"):
        measured_families(["synthetic", "theirs"])


def parts(path):
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def rewritten(path, out, edit):
    """A file made up from another with its checksums right: edit(record, arrays) changes {digest: array} in place."""
    members = parts(path)
    record = json.loads(members["record.json"])
    arrays = {n[:-4]: np.load(io.BytesIO(x)) for n, x in members.items() if n.endswith(".npy")}
    edit(record, arrays)
    renamed, data = {}, {}
    for digest, array in arrays.items():
        np.save(file := io.BytesIO(), array)
        renamed[digest] = hashlib.sha256(file.getvalue()).hexdigest()
        data[f"{renamed[digest]}.npy"] = file.getvalue()
    for entry in record["tables"] if isinstance(record.get("tables"), list) else ():
        if isinstance(entry, dict):
            entry["arrays"] = {n: renamed.get(d, d) for n, d in entry["arrays"].items()}
    said = json.dumps(record).encode()
    packed(out, data | {"record.json": said, "sha256": hashlib.sha256(said).hexdigest().encode()})


def packed(out, members, how=zipfile.ZIP_LZMA):
    with zipfile.ZipFile(out, "w", how) as z:
        for name, data in members.items():
            z.writestr(name, data)


def first(record, corpus="code", role="family"):
    return next(t for t in record["tables"] if t["role"] == role and t["record"]["corpus"] == corpus)


def array_of(name, change, corpus="code"):
    """An edit of one array of the first table: change(array) gives the new one, or changes it in place."""

    def edit(record, arrays):
        digest = first(record, corpus)["arrays"][name]
        new = arrays[digest].astype(float if name == "sums" else np.int64)
        given = change(new)
        arrays[digest] = new if given is None else given

    return edit


def set_at(*place, to):
    def change(array):
        array[place] = to

    return change


def add_at(*place, of):
    def change(array):
        array[place] += of

    return change


def recorded(**entries):
    return lambda record, arrays: first(record)["record"].update(entries)


def without(key):
    return lambda record, arrays: first(record)["record"].pop(key)


HOSTILE = {
    "another version": (lambda r, a: r.update(version=2), "of version 2, and this code reads 1"),
    "another kind of file": (lambda r, a: r.update(format="x"), "no counts file"),
    "no tables": (lambda r, a: r.update(tables=[]), "holds no table"),
    "tables of another type": (lambda r, a: r.update(tables={}), "has no 'tables' of type list"),
    "a table that is none": (lambda r, a: r["tables"].append(3), "has no 'role' of type str"),
    "a role that leaves the folder": (lambda r, a: first(r).update(role="../x"), "role '../x' is not known"),
    "no model of the family's list": (lambda r, a: r["models"]["family"].pop(), "not those of the family, once each"),
    "a table twice": (lambda r, a: r["tables"].append(first(r)), "not those of the family, once each"),
    "a model's table missing": (lambda r, a: r["tables"].remove(first(r)), "not those of the family, once each"),
    "no size": (without("nonembedding_params"), "no 'nonembedding_params' of type int"),
    "a size that is text": (recorded(nonembedding_params="2000"), "no 'nonembedding_params' of type int"),
    "a size above the whole": (recorded(nonembedding_params=10**9), "fewer in all than in part"),
    "a corpus that leaves the folder": (recorded(corpus="../../x"), "corpus name '../../x' is not a usable name"),
    "other code": (recorded(measuring=2), "measured by other code than this"),
    "no list of a role's models": (lambda r, a: r["models"].pop("repeats"), "not those of the family, once each"),
    "repeats on another text": (
        lambda r, a: [t["record"].update(corpus_digest="x") for t in r["tables"] if t["role"] == "repeats"],
        "measured on different texts",
    ),
    "a vocabulary beyond all": (recorded(vocab_size=10**12), "vocabulary is of no possible size"),
    "a smaller vocabulary": (recorded(vocab_size=100), "above the vocabulary"),
    "more tokens in the record": (recorded(scored_tokens=10**6), "not as many as its record says"),
    "more documents": (recorded(documents=61), "not one source a document"),
    "sources of another number": (recorded(units=["a"]), "not one source a document"),
    "sources that are no text": (recorded(units=[1] * 60), "not named by text"),
    "sources of one model alone": (recorded(units=["a"] * 60), "models differ in 'units'"),
    "another text": (recorded(text="0" * 64), "models differ in 'text'"),
    "another text's digest": (recorded(corpus_digest="x"), "models differ in 'corpus_digest'"),
    "an array that is not there": (lambda r, a: first(r)["arrays"].update(ks="0" * 64), "it lacks '0000"),
    "an array unnamed": (lambda r, a: first(r)["arrays"].pop("runs", first(r)["arrays"].pop("lags")), "lags"),
    "a count below 0": (array_of("cells", set_at(0, 0, to=-1)), "cells holds what is no count"),
    "a count that is a fraction": (array_of("cells", lambda x: x + 0.5), "cells holds what is no count"),
    "a count beyond all": (array_of("pairs", set_at(2, 0, to=1 << 50)), "pairs holds what is no count"),
    "a shape": (array_of("cells", lambda x: x[:, :-1]), r"cells is of shape"),
    "no dimension": (array_of("ks", lambda x: np.int64(3)), r"is of shape"),
    "no k at all": (array_of("ks", lambda x: x[:0]), "is of shape"),
    "k that falls": (array_of("ks", lambda x: x[::-1]), "ks do not rise"),
    "a k above the vocabulary": (array_of("ks", set_at(-1, to=401)), "above the vocabulary"),
    "a sum that is not a number": (array_of("sums", set_at(0, 0, to=np.nan)), "a sum is not a number"),
    "sums in another type": (array_of("sums", lambda x: x.astype(np.float32)), "a sum is not a number"),
    "more hits than ranks": (array_of("cells", add_at(0, 0, of=1)), "not as many as its record says"),
    "hits at another k": (array_of("cells", lambda x: np.roll(x, 1, axis=0)), "hits are not those of its ranks"),
    "ranks of another": (array_of("pairs", add_at(0, 3, of=1)), "hits are not those of its ranks|log-ranks are not"),
    "a token not tied with itself": (array_of("pairs", set_at(1, 0, to=0)), "not tied with itself"),
    "log-probabilities too good": (array_of("sums", add_at(0, 0, of=-500)), "more probability than 1/R"),
    "log-ranks of another": (array_of("sums", add_at(2, 0, of=400)), "log-ranks are not what its hits allow"),
    "log-ranks moved": (array_of("sums", add_at(2, slice(None), of=1e-3)), "log-ranks are not those of its ranks"),
    "an entropy of another": (array_of("sums", add_at(1, 0, of=0.1)), "entropy is not that of its ranks"),
    "a run too long": (array_of("scored", add_at(1, 0, of=1)), "runs of scored tokens are not its tokens"),
    "a run of no document": (array_of("scored", set_at(0, 0, to=1 << 30)), "runs of scored tokens are not its tokens"),
    "runs of hits of another": (array_of("hit_runs", add_at(2, 0, of=1)), "runs at k = 1 are not its hits"),
    "runs at a k not counted": (array_of("lags", set_at(0, slice(None), to=399)), "runs at k = 399 are not its hits"),
    "pairs of another": (array_of("lags", add_at(2, 0, of=1)), "pairs at k = 1 are not those of its runs"),
    "hits of pairs beyond them": (array_of("lags", add_at(3, 4, of=10**6)), "pairs of hits at k = 1 do not fit"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_made_up_file_is_not_believed(name, shared, tmp_path):
    edit, said = HOSTILE[name]
    rewritten(shared[1], tmp_path / "x.counts", edit)
    with pytest.raises(InputError, match="not to be believed") as refused:
        read_counts(tmp_path / "x.counts")
    assert re.search(said, str(refused.value)), refused.value
    assert "\n" not in str(refused.value) and main(["check", str(tmp_path / "x.counts")]) == 2


def largest_source(record, arrays):
    digest = next(t for t in record["tables"] if t["record"]["model"] == "synthetic-800000")["arrays"]["sourced"]
    arrays[digest] = arrays[digest].astype(np.int64)
    return arrays[digest]


def known_size(root):
    (root / "families" / "known.yml").write_text("models: [{id: none/synthetic-2000, nonembedding_params: 2001}]\n")


def test_the_size_of_a_known_model_and_the_ranks_of_sources_are_compared(shared, tmp_path, monkeypatch):
    root, out = tmp_path / "root", tmp_path / "x.counts"
    (root / "families").mkdir(parents=True)
    monkeypatch.setenv("RBP_ROOT", str(root))
    known_size(root)
    with pytest.raises(InputError, match="none/synthetic-2000 has 2,001 parameters outside its embeddings, not 2,000"):
        read_counts(shared[1])
    (root / "families" / "known.yml").unlink()

    def moved(record, arrays):
        rows = largest_source(record, arrays)
        rows[2, 0] += 1
        rows[2, 1] -= 1

    def elsewhere(record, arrays):
        largest_source(record, arrays)[0, 0] = 1 << 30

    for edit, said in ((moved, "ranks by source are not its ranks"), (elsewhere, "a source is not there")):
        rewritten(shared[1], out, edit)
        with pytest.raises(InputError, match=said):
            read_counts(out)


def damaged(path, out, how):
    members = parts(path)
    data = bytearray(Path(path).read_bytes())
    array = next(n for n in members if n.endswith(".npy"))
    if how == "cut":
        out.write_bytes(data[: len(data) // 2])
    elif how == "a byte":
        data[len(data) // 3] ^= 1
        out.write_bytes(data)
    elif how == "empty":
        out.write_bytes(b"")
    elif how == "text":
        out.write_text("model,k\n")
    elif how == "a folder":
        out.mkdir()
    elif how == "a bomb":
        packed(out, members | {"0" * 64 + ".npy": bytes(300 << 20)})
    elif how == "a path":
        packed(out, members | {"../../evil": b"x"})
    elif how == "another compression":
        packed(out, members, zipfile.ZIP_BZIP2)
    elif how == "no record":
        packed(out, {n: x for n, x in members.items() if n != "record.json"})
    elif how == "a size forged":
        packed(out, members | {"record.json": members["record.json"].replace(b": 2000,", b": 2500,")})
    elif how == "an array swapped":
        packed(out, members | {array: next(x for n, x in members.items() if n.endswith(".npy") and n != array)})
    elif how == "a pickle":
        np.save(file := io.BytesIO(), np.array([{}]), allow_pickle=True)
        packed(out, members | {hashlib.sha256(file.getvalue()).hexdigest() + ".npy": file.getvalue()})
    elif how == "a shape beyond memory":
        header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 60,)}
        np.lib.format.write_array_header_1_0(file := io.BytesIO(), header)
        packed(out, members | {hashlib.sha256(file.getvalue()).hexdigest() + ".npy": file.getvalue()})
    elif how == "deep":
        said = b"[" * 200_000
        packed(out, members | {"record.json": said, "sha256": hashlib.sha256(said).hexdigest().encode()})


DAMAGE = {
    "cut": "not a zip file", "a byte": "believed", "empty": "not a zip file", "text": "not a zip file",
    "a folder": "directory", "a bomb": "would unpack to", "a path": "'../../evil' fails its checksum, or is no part",
    "another compression": "compressed in another way", "no record": "missing, or there twice",
    "a size forged": "record fails the checksum", "an array swapped": "fails its checksum, or is no part",
    "a pickle": "allow_pickle=False", "a shape beyond memory": "believed", "deep": "believed",
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_not_believed(how, shared, tmp_path, capsys):
    damaged(shared[1], tmp_path / "x.counts", how)
    assert main(["import", str(tmp_path / "x.counts"), "--as", "x"]) == 2
    said = capsys.readouterr().err
    assert "not to be believed" in said and DAMAGE[how] in said and said.count("\n") == 1
    assert not list((shared[0] / "results").glob("imported/x*")) and not list(tmp_path.parent.glob("evil"))


def test_a_file_that_is_not_there():
    with pytest.raises(InputError, match="there is no file gone.counts"):
        read_counts("gone.counts")


def test_check_looks_at_imported_files_and_at_one(shared, elsewhere, capsys):
    assert main(["check", str(shared[1])]) == 0
    assert "5 models" in capsys.readouterr().out
    assert not (elsewhere / "results" / "ranks").exists() and main(["check"]) == 0  # nothing was measured there
    assert "0 problems" in capsys.readouterr().out
    kept = elsewhere / "results" / "imported" / "theirs.counts"
    kept.write_bytes(kept.read_bytes()[:-40])
    assert main(["check"]) == 1 and "theirs.counts is not to be believed" in capsys.readouterr().out
    with pytest.raises(InputError, match="not to be believed"):
        measured("theirs")


def test_a_published_family_is_there_without_being_imported(shared, elsewhere):
    place = elsewhere / "published" / "ranks"
    place.mkdir(parents=True)
    for path in (elsewhere / "results" / "imported").iterdir():
        path.rename(place / path.name)
    assert load_family("theirs").counts and set(measured("theirs")) == set(CORPORA)
    assert len(repeated("theirs")["code"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("law", [(1.3, 0.0), (0.9, 0.06)])
def test_ten_models_on_four_corpora_of_the_papers_size_take_five_megabytes(law, tmp_path):
    """Lognormal ranks in (s, beta) among 50,257 candidates; 1000 documents of 512 tokens that differ in difficulty."""
    V, D, n, rng = 50_257, 1000, 512, np.random.default_rng(0)
    t = np.log(np.arange(1, V + 1.0))
    mass = np.exp(-law[0] * t - law[1] * t**2).cumsum()
    hard = np.exp(rng.normal(0, 0.3, (D, 1)))
    rank = 1 + np.searchsorted(mass / mass[-1], rng.random((D, n)) ** hard).clip(0, V - 1).ravel().astype(np.int32)
    document, position = np.repeat(np.arange(D), n), np.tile(np.arange(1, n + 1), D)
    logprob = -1.1 * np.log(rank) - rng.random(D * n)
    record = {"documents": D, "vocab_size": V, "units": [f"a title, number {i}" for i in range(D)]}
    table = RankTable(document, position, rank, rank - 1, np.ones_like(rank), logprob.astype(np.float32), record)
    sizes = []
    for largest in (True, False):
        arrays = counted(table, sorted(shown_ks(V)), (1, 10, 100), largest)
        write_counts(tmp_path / "x.counts", {}, [("family", record, arrays)])
        sizes.append((tmp_path / "x.counts").stat().st_size)
    assert 4 * sizes[0] + 36 * sizes[1] < 5e6
