"""Doors: what was measured elsewhere, as records that curves and laws are made from.

A table of numbers (sizes, and hits, accuracies or losses) is a `Loss` for each family and k.

`rbp export` writes what pages need of a measured family to one file, NAME.counts: counts, no text
and no order of tokens. `rbp import` makes it a family, which needs no model, no text and no torch.
The file is a zip of NumPy arrays, each named by its SHA-256, and of `record.json`; the checksum
that a zip has of each part finds damage, a forger can lie anyway. book/data describes the format.
"""

import hashlib
import io
import json
import lzma
import math
import zipfile
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import yaml

from rbplib.families import (
    REPO_ID,
    InputError,
    as_number,
    atomic_path,
    check_name,
    complain,
    first_line,
    results_dir,
    write_text,
    yaml_files,
)
from rbplib.losses import Loss, check_models, measured_tables, paired, vocabulary
from rbplib.table import (
    DEFINITIONS,
    Documents,
    RankTable,
    asked,
    by_size,
    checked_columns,
    columns_digest,
)

FORMAT = {"format": "rbp counts", "version": 1}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show
PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
# what a row of a table of numbers measures, with the column that it is out of
QUANTITIES = {"hits": "tokens", "accuracy": "questions", "loss": "tokens", "loss_bits": "tokens"}
KEYS = ["family", "k", "source", "model"]
BLANK = {"family": "a family", "k": 0, "source": 0, "loss_se": 0, "": 1}
# what readers of zip, JSON and .npy make of damage
DAMAGE = (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError)
DAMAGE += (zipfile.BadZipFile, lzma.LZMAError)


@dataclass(frozen=True)
class Counts(Documents):
    """Counts of one model on one corpus, which answer as the RankTable of which they were made.

    Attributes, int64 all but the float64 `sums`:
        ks: (K,), where hits were counted, rising.
        cells: (K + 1, D), tokens of each document with ranks between neighbouring ks.
        sums: (3, D), nll and rank_sums.
        pairs, scored: (3, R), as of the table.
        sourced: (3, R), `by_source`, empty but for the largest model.
        hit_runs: (4, R), `runs` under their k.
        lags: (6, R), `lagged` under k and lag.
    """

    record: dict
    ks: np.ndarray
    cells: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray
    scored: np.ndarray
    sourced: np.ndarray
    hit_runs: np.ndarray
    lags: np.ndarray

    text = property(lambda self: self.record["text"])
    totals = property(lambda self: self.cells.sum(axis=0))
    nll = property(lambda self: self.sums[0])
    by_source = property(lambda self: self.sourced)

    def __len__(self):
        return int(self.cells.sum())

    def rank_sums(self):
        return self.sums[1:]

    def hits(self, ks, definition=DEFINITIONS[0]):
        if definition != DEFINITIONS[0]:
            raise self.unknown(f"by the rank {definition!r}")
        return self.cells.cumsum(axis=0)[self.columns_of(ks, self.ks)].T

    def runs(self, k):
        self.columns_of([k], self.lags[0])  # a model may have no hit at a k that was counted
        return self.hit_runs[1:, self.hit_runs[0] == k]

    def lagged(self, k):
        return self.lags[2:, self.columns_of([k], self.lags[0])]

    def columns_of(self, ks, counted):
        """Where the k counted, int (n,), are among ks; InputError for one that was not counted."""
        if missing := sorted(set(ks) - set(counted.tolist())):
            raise self.unknown(f"at k = {missing[0]}")
        return np.flatnonzero(np.isin(counted, ks))

    def unknown(self, what):
        message = "{family} is imported, without counts on {corpus}".format(**self.record)
        return InputError(f"{message} {what}: choose another.")


# --- A table of numbers


def table_losses(table):
    """Losses of a table of numbers, one for each family and k.

    Args:
        table: a pandas frame, or the path of a CSV, TSV, Parquet or JSON-lines file. It has columns
            `model`, `S` (non-embedding parameters, 1.4B too) and one of `hits` with `tokens`,
            `accuracy` (a share) with `questions`, `loss` (nats), `loss_bits`. Where known it has
            `family`; `k`; `seed`, of models trained several times; `source`, with a row for each
            piece of text that is drawn as one (a loss is then a mean over `tokens`); `loss_se`, in
            the unit of a loss without sources. Other columns are told, and left alone.
    Returns:
        list of Loss, smallest model first.
    Raises:
        InputError: the file cannot be read; fewer than three sizes; a column or row is missing, a
            row is there twice, or a value is none that it can be.
    """
    import pandas as pd

    rows, name = table, "the table"
    if not hasattr(table, "columns"):
        rows, name = read_rows(Path(table)), Path(table).name
    # what was measured, and what it is out of
    quantities = [column for column in QUANTITIES if column in rows]
    if len(quantities) != 1 or rows.empty:
        columns = " and ".join(quantities) or "nothing measured"
        choice = ", ".join(QUANTITIES)
        raise InputError(f"{name} has {columns} in {len(rows)} rows: give rows of one of {choice}.")
    (quantity,) = quantities
    share, sourced = quantity in ("hits", "accuracy"), "source" in rows
    total = QUANTITIES[quantity] if share or sourced else ""
    for column in ("model", "S", total):
        if column and column not in rows:
            raise InputError(f"{name} has no column {column!r} beside {quantity!r}: add it.")
    errors = "loss_se" in rows and not sourced

    # the columns that are used, as numbers and words
    others = rows.columns.difference(["model", "S", "seed", quantity, total, *BLANK], sort=False)
    frame = pd.DataFrame(BLANK | dict(rows.drop(columns=others)), index=rows.index)
    frame["model"] = frame["model"].astype(str)
    if "seed" in rows:
        frame["model"] += " seed " + rows["seed"].astype(str)
    frame["source"] = pd.factorize(frame["source"])[0]
    for column in ("S", "k", quantity, total, "loss_se"):
        frame[column] = numbers(frame[column], name)
    if quantity == "loss_bits":
        frame[[quantity, "loss_se"]] *= math.log(2)
    if quantity != "hits":
        frame[quantity] *= frame[total]

    # what a row may not be
    rules = {
        "there twice: tell rows of a model apart by k, source or seed": frame.duplicated(KEYS),
        "at a k that is no whole number": frame["k"] % 1 > 0,
        f"above its {total}: give a share of at most 1": share & (frame[quantity] > frame[total]),
    }
    for rule, broken in rules.items():
        if broken.any():
            model = frame["model"][broken].iloc[0]
            raise InputError(f"in {name} {model!r} is {rule}.")

    losses = []
    for family, part in frame.groupby("family", sort=False):
        # a column of each training, smallest first; a row of each k and source
        values = [quantity, total, "loss_se"]
        wide = part.pivot(index=["k", "source"], columns=["S", "model"], values=values)
        wide = wide.sort_index().sort_index(axis=1)
        of_all = wide[total]
        if wide.isna().any(axis=None) or (of_all.nunique(axis=1) > 1).any():
            need = f"one S, and a row at every k and source, of the same {total or 'text'}"
            raise InputError(f"each model of {family} in {name} needs {need}.")
        sizes, models = zip(*of_all.columns, strict=True)
        for k, rows_of_k in wide.groupby(level="k"):
            loss = Loss(
                sums=rows_of_k[quantity].to_numpy(),
                totals=rows_of_k[total].to_numpy()[:, 0],
                S=np.array(sizes),
                hits=share,
                k=int(k) or None,
                name=f"-log {quantity}" if share else "loss",
                family=str(family),
                corpus=name,
                models=models,
                se=rows_of_k["loss_se"].to_numpy()[0] if errors else None,
            )
            check_models(loss)
            losses.append(replace(loss, repeats=loss) if "seed" in rows else loss)
    # once it is known to be good
    if len(others):
        complain(f"columns of {name} that are not used: {', '.join(map(str, others))}.")
    if not (sourced or errors):
        complain(f"{name} has no sources or errors: its intervals are of other sizes alone.")
    return losses


def read_rows(path):
    """The rows of a file as a data frame; what a CSV or TSV holds stays text."""
    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix in (".jsonl", ".ndjson"):
            return pd.read_json(path, lines=True, dtype=False, precise_float=True)
        how = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
        return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", **how)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a table: {first_line(error)}.") from None


def numbers(column, name):
    """The numbers of a column of the table of this name, float64 (R,)."""
    values = np.array([as_number(value) for value in column])
    # a size, or what something is out of, is above 0
    least = int(column.name in ("S", *QUANTITIES.values()))
    wrong = np.flatnonzero(~((values >= least) & (values < np.inf)))
    if len(wrong):
        where = f"row {wrong[0] + 1} of {name} has {column.name} '{column.iloc[wrong[0]]}'"
        raise InputError(f"{where}: give a number from {least} up, such as 13e9 or 1.4B.")
    return values


# --- The file


def counted(table, ks, run_ks, sourced):
    """{name: array} of one rank table, as `Counts` names them; sourced: whether with `sourced`."""
    # tokens that reach each k, and all: the differences are those between neighbouring ks
    reached = np.column_stack([table.hits(ks), table.totals])
    # runs under their k, and pairs of tokens under k and lag
    hit_runs, lags = [], []
    for k in run_ks:
        runs, lagged = table.runs(k), table.lagged(k)
        lag = np.arange(lagged.shape[1]) + 1
        hit_runs.append(np.vstack([np.full_like(runs[0], k), runs]))
        lags.append(np.vstack([np.full_like(lag, k), lag, lagged]))
    return {
        "ks": np.array(ks),
        "cells": np.diff(reached, axis=1, prepend=0).T,
        "sums": np.vstack([table.nll, table.rank_sums()]),
        "pairs": table.pairs,
        "scored": table.scored,
        "hit_runs": np.hstack(hit_runs),
        "lags": np.hstack(lags),
        "sourced": table.by_source if sourced else np.zeros((3, 0), int),
    }


def packed(array):
    """An array as the bytes of a .npy file, whole numbers in the smallest type that holds them."""
    if array.dtype.kind != "f":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def unpacked(data):
    """The array of `packed`; whole numbers are int64 again."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array if array.dtype.kind == "f" else array.astype(np.int64)


def write_counts(path, record, tables):
    """Write a counts file atomically; the same counts and record give the same bytes.

    Args:
        record: "family", "exported".
        tables: (role, record, arrays) each; the role is "family", or "repeats" for models trained
            again.
    """
    # arrays under their digests: what tables share is there once
    members, entries = {}, []
    for role, about, arrays in tables:
        digests = {}
        for name, array in arrays.items():
            data = packed(array)
            digests[name] = hashlib.sha256(data).hexdigest()
            members[f"{digests[name]}.npy"] = data
        entries.append({"role": role, "record": about, "arrays": digests})
    record = FORMAT | record | {"tables": entries}
    members["record.json"] = json.dumps(record, sort_keys=True, allow_nan=False)
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)  # bears no date


def read_counts(path):
    """(record, {(role, corpus): list of Counts, smallest model first}) of a counts file.

    Raises InputError: no such file, or it is damaged.
    """
    # the arrays, each under its digest
    tables = {}
    try:
        with zipfile.ZipFile(path) as file:
            names = [name for name in file.namelist() if name.endswith(".npy")]
            arrays = {name: unpacked(file.read(name)) for name in names}
            record = json.loads(file.read("record.json"))
        if record | FORMAT != record:
            raise ValueError("another format")
        # those of each table
        for entry in record["tables"]:
            columns = {name: arrays[f"{digest}.npy"] for name, digest in entry["arrays"].items()}
            place = entry["role"], entry["record"]["corpus"]
            tables.setdefault(place, []).append(Counts(entry["record"], **columns))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except DAMAGE:
        message = f"{path} is damaged, or no counts file of version {FORMAT['version']}"
        raise InputError(f"{message}: get it again.") from None
    return record, {place: by_size(counts) for place, counts in tables.items()}


# --- Export


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k, with 1, 10, 50, 100 and 1000."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    marks = {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size}
    return sorted(marks.union(grid.round().astype(int).tolist()))


def exported_ks(V):
    """The ranks at which hits are counted for pages, in a vocabulary of V tokens."""
    far = [max(1, round(k * V / PAPER_V)) for k in PAPER_FAR]  # as the same shares of V
    return sorted(k for k in {*range(1, 21), *KS, *k_grid(V), *far} if k <= V)


def export_family(
    family, out, corpora=None, protocol="paper", results=None, exported="", grid=exported_ks
):
    """Write the counts file of a measured family, with the models that it names as its repeats.

    Args:
        family, corpora, protocol, results: as of `measuring.measured`. out: path of the file.
        exported: when; today.
        grid: the ks at which hits are counted, as a function of the size of the vocabulary.
    Raises:
        InputError: a model without a table, or the file cannot be written.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    if Path(out).is_file():
        try:
            read_counts(out)
        except InputError:
            raise InputError(f"{out} is there, and no counts file: give another name.") from None
    ladders = []
    for corpus in corpora:
        tables, repeats, _ = measured_tables(family, corpus, protocol, results)
        ladders += [("family", paired(tables)), ("repeats", repeats)]
    withheld = ladders[0][1][0].record.get("withheld")
    if withheld:
        raise InputError(f"{family.name} is not exported: {withheld}.")

    # count at the same k in every table
    V = min(vocabulary(tables) for _, tables in ladders if tables)
    run_ks = [k for k in RUN_KS if k <= V]
    entries = []
    for role, tables in ladders:
        for table in tables:
            arrays = counted(table, grid(V), run_ks, sourced=table is tables[-1])
            entries.append((role, public(table), arrays))
    about = {"name": family.name, "title": family.title, "note": family.note}
    exported = exported or date.today().isoformat()
    write_counts(out, {"family": about, "exported": exported}, entries)
    return out


def public(table):
    """The record of a table without folders of this machine; sources are numbered in order."""
    record = table.record | {"units": table.source.tolist(), "text": table.text}
    if not REPO_ID.match(record["model_id"]):
        record["model_id"] = record["model"]
    return record


# --- Import


def import_counts(path, name=None):
    """Keep a counts file under results/imported/, make it a family, and return the family's file.

    name: of the family, by default as it was where it was measured. Its repeats are the family
    NAME.repeats. Raises InputError: the file is damaged, or the name is in use.
    """
    record, tables = read_counts(path)
    name = check_name(name or record["family"]["name"], "family name")
    folder, data = results_dir() / "imported", Path(path).read_bytes()
    counts, own = folder / f"{name}.counts", (folder / f"{name}.yml").resolve()

    # the same file may come again
    other = counts.is_file() and counts.read_bytes() != data
    if other or yaml_files("family").get(name, own) != own or role_of(name) != "family":
        message = f"the name {name!r} is in use for another family"
        raise InputError(f"{message}: choose one, as in --as {name}-2.")
    with atomic_path(counts) as temporary:
        temporary.write_bytes(data)

    # the repeats first: the family names them
    entry = {key: record["family"].get(key) for key in ("title", "note")}
    entry["counts"] = counts.name
    for role in sorted({role for role, _ in tables}, reverse=True):
        ladders = {corpus: ladder for (of, corpus), ladder in tables.items() if of == role}
        entry["corpora"] = [check_name(corpus, "corpus name") for corpus in ladders]
        entry["models"] = [model_entry(table.record) for table in next(iter(ladders.values()))]
        file = own if role == "family" else own.with_stem(f"{name}.{role}")
        write_text(file, yaml.safe_dump(entry, sort_keys=False, allow_unicode=True))
        entry["repeats"] = file.stem
    return own


def model_entry(record):
    """How a family's file names a model that is not here."""
    return {
        "name": record["model"],
        "id": record["model_id"],
        "nonembedding_params": record["nonembedding_params"],
        "revision": record.get("requested_revision"),
    }


def role_of(name):
    """The part of a counts file that an imported family of that name shows, see `import_counts`."""
    return "repeats" if name.endswith(".repeats") else "family"


def imported_tables(family, corpora, protocol=None):
    """{corpus name: list of Counts, smallest model first} of an imported family.

    Their records name that family. protocol: None for whichever there is.
    """
    # where they are from
    path = family.path.parent / family.counts
    record, ladders = read_counts(path)
    origin = {"exported": record["exported"], "was": record["family"]["name"], "file": path.name}
    origin["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    # those asked for, under the name that they have here
    tables = {}
    for corpus in corpora:
        counts = ladders.get((role_of(family.name), corpus.name))
        if not counts or protocol not in (None, counts[0].record["protocol"]):
            missing = f"{corpus.name} by the protocol {protocol!r}"
            raise InputError(f"{family.name} is imported, without counts on {missing}.")
        here = {"family": family.name, "imported": origin}
        tables[corpus.name] = [replace(table, record=table.record | here) for table in counts]
    return tables


def import_ranks(family, models, vocab_size, document, position, exported, **about):
    """Make raw ranks of one text an imported family, and return the family's file.

    The ranks are one more than the candidates scored strictly above: ties are not known, and are
    counted as if there were none.

    Args:
        family: {"name", "title", "note"}.
        models: {Model: (rank, nats)}, smallest first: int and float (n,) of every scored token.
        vocab_size: int, the same for all. document, position: int (n,), as of a rank table.
        exported: when. about: what else a record says: "corpus", "sample"; and "withheld", why
            `rbp export` refuses the family, where it has to.
    Raises:
        InputError: ranks that no rank table may hold, or the name is in use.
    """
    rows = {"document": document, "position": position, "token": np.zeros_like(document)}
    about |= {"family": family["name"], "protocol": "paper", "definition": "greater+1"}
    about |= {"documents": int(document[-1]) + 1, "vocab_size": vocab_size}
    entries, run_ks = [], [k for k in RUN_KS if k <= vocab_size]
    for model, (rank, nats) in models.items():
        rows |= {"greater": rank - 1, "ties": np.ones_like(rank), "logprob": -nats}
        try:
            columns = checked_columns(rows, vocab_size)
        except ValueError as error:
            raise InputError(f"the ranks of {model.name} cannot be taken ({error}).") from None
        record = about | {"model": model.name, "model_id": model.id}
        record["nonembedding_params"] = model.nonembedding_params
        record |= {"scored_tokens": len(rank), "columns_sha256": columns_digest(columns)}
        table, last = RankTable(columns, record), model is list(models)[-1]
        arrays = counted(table, exported_ks(vocab_size), run_ks, sourced=last)
        entries.append(("family", public(table), arrays))
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{family['name']}.counts")
        write_counts(path, {"family": family, "exported": exported}, entries)
        return import_counts(path)
