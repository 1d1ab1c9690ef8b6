"""Rank tables: what is written is read, and nothing damaged or foreign is ever used."""

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbplib import model_files as files
from rbplib import stored
from rbplib.families import InputError
from rbplib.identity import ranks_path
from rbplib.stored import COLUMNS, join_ranks, open_ranks, read_ranks, write_ranks


def columns(n=50, seed=0, vocab=100):
    rng = np.random.default_rng(seed)
    ties = rng.integers(1, 3, n)
    return {
        "document": np.repeat(np.arange((n + 9) // 10), 10)[:n],
        "position": np.tile(np.arange(1, 11), (n + 9) // 10)[:n],
        "token": rng.integers(0, vocab, n),
        "greater": rng.integers(0, vocab - 3, n),
        "ties": ties,
        "logprob": -rng.random(n),
    }


RECORD = {"vocab_size": 100, "documents": 5, "model": "m", "family": "f", "corpus": "c", "protocol": "paper",
          "sample": {"source": "file"}, "corpus_digest": "d", "nonembedding_params": 7}  # fmt: skip


def test_round_trip_keeps_dtypes_and_record(tmp_path):
    path = tmp_path / "a" / "t.parquet"
    write_ranks(path, columns(), RECORD)
    table = read_ranks(path)
    for name, dtype in COLUMNS.items():
        assert getattr(table, name).dtype == dtype
        np.testing.assert_array_equal(getattr(table, name), columns()[name].astype(dtype))
    assert table.record["scored_tokens"] == 50 and table.record["model"] == "m"
    assert pq.read_schema(path).names == list(COLUMNS)
    assert [p.name for p in path.parent.iterdir()] == ["t.parquet"]


def test_rank_definitions():
    t = stored.RankTable(*(np.array([v]) for v in (0, 1, 5, 3, 2, -1.0)), record={})
    assert t.rank()[0] == 5 and t.rank("greater+1")[0] == 4 and t.rank("random")[0] == 4.5
    with pytest.raises(InputError, match="greater"):
        t.rank("greater-1")


@pytest.mark.parametrize(
    ("column", "row", "value", "word"),
    [
        ("position", 0, 0, "position"),
        ("token", 3, 100, "token"),
        ("greater", 3, -1, "greater"),
        ("ties", 3, 0, "ties"),
        ("greater", 3, 100, "rank"),
        ("logprob", 3, np.nan, "logprob"),
        ("document", 3, 4, "sorted"),
    ],
)
def test_a_broken_contract_is_refused(tmp_path, column, row, value, word):
    bad = columns()
    bad[column] = bad[column].copy()
    bad[column][row] = value
    with pytest.raises(ValueError, match=word):
        write_ranks(tmp_path / "t.parquet", bad, RECORD)
    assert not list(tmp_path.iterdir())


def test_missing_truncated_and_altered_tables_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(InputError, match="there is no rank table .*: run `rbp measure`"):
        read_ranks(path)
    write_ranks(path, columns(), RECORD)
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="delete it"):
            read_ranks(path)
    path.write_bytes(whole)
    altered = pq.read_table(path)
    ranks = altered.column("greater").to_numpy().copy()
    ranks[0] += 1
    pq.write_table(altered.set_column(3, "greater", [ranks]), path)
    with pytest.raises(InputError, match="checksum"):
        read_ranks(path)


def test_another_record_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write_ranks(path, columns(), {**RECORD, "corpus_digest": "abc"})
    read_ranks(path, {"corpus_digest": "abc"})
    with pytest.raises(InputError, match="corpus_digest"):
        read_ranks(path, {"corpus_digest": "xyz"})


def test_a_failed_write_leaves_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_ranks(path, columns(), RECORD)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(InputError, match="No space left"):
        write_ranks(path, columns(seed=1), RECORD)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_disk_full_for_real(tmp_path):
    """A file size limit is the closest to a full disk that needs no privilege: the writer process gets EFBIG."""
    code = f"""
import resource, signal, numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from rbplib.stored import write_ranks
from rbplib.families import InputError
import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_table import columns, RECORD
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    write_ranks({str(tmp_path / "t.parquet")!r}, columns(5000), {{**RECORD, "documents": 500}})
except InputError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "could not be written" in out.stdout, out.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_write_permission(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(InputError, match="could not be written"):
        write_ranks(folder / "t.parquet", columns(), RECORD)


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "ranks").write_text("in the way")
    with pytest.raises(InputError, match="could not be written"):
        write_ranks(tmp_path / "ranks" / "t.parquet", columns(), RECORD)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a..b", "-x", "x\n"])
def test_names_that_would_leave_the_folder(name):
    with pytest.raises(InputError):
        ranks_path(RECORD | {"model": name})


def test_record_is_plain_json(tmp_path):
    write_ranks(tmp_path / "t.parquet", columns(), RECORD)
    raw = pq.read_schema(tmp_path / "t.parquet").metadata[b"rbplib"]
    assert json.loads(raw)["vocab_size"] == 100


def long_columns(lengths, seed=0, vocab=100):
    """Rows of documents of these lengths; every 13th position is no scored one."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    rank = np.minimum(rng.geometric(0.2, n), vocab)
    ties = np.where((rank > 1) & (rng.random(n) < 0.1), 2, 1)
    position = np.concatenate([np.arange(1, m + 1) + np.arange(m) // 12 for m in lengths])
    return {"document": np.repeat(np.arange(len(lengths)), lengths), "position": position, "greater": rank - ties,
            "token": rng.integers(0, vocab, n), "ties": ties, "logprob": -np.log(rank) - rng.random(n)}  # fmt: skip


@pytest.mark.parametrize("lengths", [[30, 0, 7, 200, 1, 64, 65, 3], [500], [64] * 8, [0, 0], [1] * 200])
def test_counts_of_a_file_read_in_batches_are_those_of_the_table_in_memory(tmp_path, monkeypatch, lengths):
    monkeypatch.setattr(stored, "BATCH", 64)
    units = [f"u{i * 7 % 5}" for i in range(len(lengths))]
    write_ranks(tmp_path / "t.parquet", long_columns(lengths), RECORD | {"documents": len(lengths), "units": units})
    light, table = open_ranks(tmp_path / "t.parquet"), read_ranks(tmp_path / "t.parquet")
    assert len(list(light.parts())) > 1 or sum(lengths) <= 64 or len(lengths) == 1
    assert len(light) == len(table) == sum(lengths) and light.text == table.text and light.documents == table.documents
    for name in ("totals", "nll", "pairs", "by_source", "scored"):
        np.testing.assert_array_equal(getattr(light, name), getattr(table, name), name, strict=True)
    calls = {"hits": ([1, 3, 100], "greater+1"), "runs": (2,), "lagged": (2,), "rank_sums": ()}
    for name, given in calls.items() if sum(lengths) else ():
        found = (getattr(t, name)(*given) for t in (light, table))
        np.testing.assert_array_equal(*found, name, strict=True)
    if sum(lengths):
        np.testing.assert_array_equal(light.hits([1, 3]), table.hits([1, 3]), strict=True)


def test_opening_and_counting_tables_holds_a_batch_and_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BATCH", 1 << 12)
    lengths, columns_bytes = [400] * 500, 6 * 4 * 200_000
    for name in "abc":
        write_ranks(tmp_path / name, long_columns(lengths), RECORD | {"documents": 500, "model": name})
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    tables = [open_ranks(tmp_path / name) for name in "abc"]
    for t in tables:
        found = t.hits([1, 10]), t.nll, t.runs(3), t.lagged(3), t.pairs, t.scored, t.rank_sums()
        assert all(counts.any() for counts in found)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < columns_bytes / 2 and kept < columns_bytes / 20 and pa.total_allocated_bytes() - before < 1e5


def test_a_table_joined_of_parts_is_the_one_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "GROUP", 100)
    columns = long_columns([90, 41, 8, 200, 1, 6])
    write_ranks(tmp_path / "whole", columns, RECORD)
    for number, (a, b) in enumerate([(0, 90), (90, 91), (91, 91), (91, 300), (300, 346)]):
        write_ranks(tmp_path / str(number), {n: c[a:b] for n, c in columns.items()}, RECORD | {"batch_tokens": number})
    join_ranks(tmp_path / "joined", [tmp_path / str(number) for number in range(5)], RECORD)
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    assert [pq.ParquetFile(tmp_path / "joined").metadata.row_group(i).num_rows for i in range(4)] == [100, 100, 100, 46]
    join_ranks(tmp_path / "none", [], RECORD)
    assert len(read_ranks(tmp_path / "none")) == 0


def test_a_checksum_is_computed_once_and_again_when_the_file_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    monkeypatch.setattr(files, "JUST_NOW", -1)
    path, real, computed = tmp_path / "t.parquet", stored.digests, []
    write_ranks(path, columns(), RECORD)
    monkeypatch.setattr(stored, "digests", lambda pieces: computed.append(1) or real(pieces))
    assert [open_ranks(path).text for _ in range(3)] == [read_ranks(path).text] * 3
    assert len(computed) == 3  # once to open, once to read, once for the text of what was read
    open_ranks(path, again=True)
    assert len(computed) == 4
    data, state = bytearray(path.read_bytes()), path.stat()
    data[60] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(InputError, match="delete it"):
        open_ranks(path)


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_that_do_not_fit_the_checksum_are_not_counted(tmp_path, monkeypatch, name):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    path = tmp_path / "t.parquet"
    write_ranks(path, columns(), RECORD)
    table = pq.read_table(path)
    values = table[name].to_numpy().copy()
    values[-1] -= 1
    pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(values)), path)
    for again in (False, True):
        with pytest.raises(InputError, match="fails its checksum"):
            open_ranks(path, again=again)
