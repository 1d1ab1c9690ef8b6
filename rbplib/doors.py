"""Doors: what was measured elsewhere, as the records that laws are made from.

A table of numbers (sizes, and hits, accuracies or losses) is a `Loss` for each family and k. Rank
tables of another machine (`rbp export`) and ranks of another engine become rank tables here, which
need no model, no text and no torch to be read.
"""

import fnmatch
import json
import math
import os
import shutil
import uuid
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from io import BytesIO
from operator import index, itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
import yaml

from rbplib.families import (
    PATH,
    PRECISIONS,
    REPO_ID,
    RESERVED,
    Family,
    InputError,
    argument,
    atomic_path,
    check_choice,
    check_name,
    checked_entries,
    complain,
    family_of,
    from_json,
    load_family,
    one_at_a_time,
    read_yaml,
    results_dir,
    telling,
    write_error,
    write_text,
    yaml_files,
)
from rbplib.losses import Loss, check_models, minus_log
from rbplib.sheets import (
    QUANTITIES,
    UNREAD,
    cell_numbers,
    in_units,
    is_blank,
    our_rows,
    sizes_in_names,
    title,
)
from rbplib.table import (
    COLUMNS,
    checked_columns,
    columns_digest,
    expected,
    family_tables,
    file_columns,
    file_record,
    ranks_path,
    read_record,
    records_of,
    resolve,
    write_table,
)
from rbplib.texts import load_documents
from rbplib.windows import text_windows

BLANK = {"family": "a family", "k": 0, "source": 0, "D": math.nan}
SHARES = ("hits", "accuracy")
LEAST_1 = ("S", "k", "tokens", "questions", "bytes", "characters", "perplexity")
MOST = 1e18  # of sizes and tokens of training
MOST_TOLD = 12  # rows or columns that a sentence names
# what cells of a table of numbers may be
RULES = {
    "S": "S is a number from 1 to 1e18, such as 13e9 or 1.4B",
    "D": "D is a number from 0 to 1e18, such as 300B",
    "k": "k is a whole number from 1 up",
    "hits": "hits are a whole number from 0 up to their tokens",
    "accuracy": "an accuracy is a share above 0 and up to 1, or all are per cent",
    "perplexity": "a perplexity is a number above 1",
    "model": "a model has a name",
    "family": "a family has a name",
}
WHOLE = 2**53  # above it a float is no count
ALSO = {"float": "float32", "half": "float16", "none": None}  # names that engines have
ROUNDING = 1e-3  # nats that a logprob may be off by
HALF_MOVED = 0.05  # of its interval: the most that half precision moves an exponent on page 16
TIE_RULES = ("greater+ties", "greater+1")  # of an engine's ranks
MOST_LETTERS = 50_000  # bytes of a title and a note
ROLES = ("family/", "repeats/")  # of tables in an export
MOST_PACKED = 16  # bytes, or rows, that a byte of an exported table stands for
# what entries of an exported table's record are
RECORD = {
    (str,): "family model corpus protocol model_id",
    (int,): "nonembedding_params vocab_size documents scored_tokens",
    (list,): "units",
    (str, type(None)): "requested_revision revision weights_dtype head_dtype text corpus_digest "
    "definition tokenizer_digest model_digest corpus_revision device platform code_version",
    (int, type(None)): "total_params read_tokens characters read_characters window engine "
    "batch_tokens",
    (dict, type(None)): "sample corpus_source libraries made_by imported",
    (list, type(None)): "lacks",
}
# what the first line of an engine's ranks tells
HEADER = ("model", "revision", "engine", "version", "corpus", "head_dtype", "ties")


# --- A table of numbers


def table_losses(
    table, columns=None, *, size_unit=None, token_unit=None, drop_bad=False, last_row=False
):
    """Losses of a table of numbers, one for each family and k.

    Args:
        table: a frame, a mapping of columns, or the path of a file (CSV, TSV, Excel, Parquet, JSON
            lines, packed or not), of a folder of them, several paths, or "-", standard input.
            It has columns `S` (non-embedding parameters, 1.4B too) and one of `hits` with
            `tokens`, `accuracy` (a share, with `questions` where known), `loss` (nats),
            `loss_bits`, `perplexity`, `bpb`, `bpc` (bits a byte or character). Where known `model`;
            `family`; `k`; `D`, tokens of training text; `seed`, of models trained several times;
            `source`, with a row for each piece of text that is drawn as one (a loss is then a mean
            over `tokens`); `loss_se`, in the unit of a loss without sources. Other columns are
            told, and left alone. In files common names are understood too, as n_params or val_loss.
        columns: {our name: theirs}, with dots into nested JSON.
        size_unit, token_unit: "k", "M", "B" or "T", of sizes and of D without a letter; "1".
        drop_bad: leave models out whose rows cannot be used, in place of refusing the table.
        last_row: whether each file is a run, of which the last row counts.
    Returns:
        list of Loss, smallest model first.
    Raises:
        InputError: the file cannot be read; every family has fewer than three sizes; a column is
            missing, rows are there twice, or hold a value that it cannot be (all are named).
    Cost: a million rows in seconds, by columns.
    """
    losses, _ = read_losses(table, columns, size_unit, token_unit, drop_bad, last_row)
    return losses


def read_losses(table, columns, size_unit, token_unit, drop_bad, last_row):
    """(`table_losses`, {family: [what is left out of it]})."""
    # rows in our columns
    name, said = title(table), {"S": size_unit, "D": token_unit}
    with telling(UNREAD.format(name)):
        rows, units = our_rows(table, columns or {}, last_row, name)
    units |= {column: unit for column, unit in said.items() if unit}

    # what is measured, as numbers, and the rows that cannot be used
    quantity, total, error = measured = measured_columns(rows, name)
    frame, faults = number_frame(rows, *measured, units, name)
    in_nats(frame, faults, *measured, name)
    frame, left_out = without_faults(rows, frame, faults, drop_bad, name)
    twice = frame[frame.duplicated(["family", "k", "source", "model", "D"])]
    if len(twice):
        raise InputError(
            f"in {name} {twice['model'].iloc[0]!r} is there twice: tell rows of a model apart by "
            "k, source, seed or D, or take the last row of each file by --last-row."
        )
    losses, few = [], []
    for _, part in frame.groupby("family", sort=False):
        laws = family_losses(part, *measured, "seed" in rows, name)
        try:
            check_models(laws[0])
            losses += laws
        except InputError as fault:
            few.append(fault)
    if not losses:
        raise [*few, InputError(f"{name} has no row that can be used: mend its rows.")][0]

    # once it is known to be good
    for fault in few:
        complain(f"left out: {fault}")
    tell_columns(rows, frame, quantity, total, error, name)
    return losses, left_out


def measured_columns(rows, name):
    """(what is measured, the column that it is out of or "", that of its errors or "")."""
    quantity = next(column for column in QUANTITIES if column in rows)
    total, sourced = QUANTITIES[quantity], "source" in rows
    if not (sourced or quantity == "hits" or (quantity == "accuracy" and total in rows)):
        total = ""
    if total and total not in rows:
        raise InputError(f"{name} has no column {total!r} beside {quantity!r}: add it.")
    # counts say what their error is
    errors = [f"{quantity}_se"] * (not total) + ["loss_se"] * (not sourced)
    return quantity, total, next((column for column in errors if column in rows), "")


def number_frame(rows, quantity, total, error, units, name):
    """(the columns that are used, as numbers and words; {column: rows that it makes unusable})."""
    import pandas as pd

    used = [column for column in (*BLANK, "model", "S", quantity, total, error) if column in rows]
    frame = pd.DataFrame(BLANK | dict(rows[used]), index=rows.index)
    words = frame[["family", "model"]]
    faults = {name: (words[name].isna() | (words[name] == "")).to_numpy() for name in words}
    frame = frame.astype({"model": str, "source": str})
    if "seed" in rows:
        frame["model"] += " seed " + rows["seed"].astype(str)

    # numbers that can be: S, D and totals from 1 up, ranks and hits whole, what has a logarithm
    for column in [column for column in used if column not in ("model", "family", "source")]:
        values = cell_numbers(frame[column])
        if column == "S" and np.isnan(values).all():
            values = sizes_in_names(frame[column])
        if column in units:
            values = in_units(frame[column], values, units[column], name)
        fine = (values >= (column in LEAST_1)) & (
            values <= (MOST if column in ("S", "D") else WHOLE)
        )
        if column in ("k", "hits"):
            fine &= values == np.floor(values)
        if column == quantity and not total:
            fine &= values > (quantity == "perplexity")
        if (
            column in (*QUANTITIES, error)
            and column[:8] not in SHARES
            and frame[column].dtype.kind == "O"
        ):
            fine &= ~frame[column].astype(str).str.contains("[kmbt%]$", case=False).to_numpy(bool)
        if column in ("D", error):
            fine |= is_blank(frame[column])
        faults[column] = ~fine
        frame[column] = values
    return frame, faults


def in_nats(frame, faults, quantity, total, error, name):
    """Make the measured column sums of hits, or of nats, and its errors nats: in place."""
    values = frame[quantity]
    fine = values[~faults[quantity]]
    if quantity == "accuracy" and len(fine) and fine.min() > 1 and fine.max() <= 100:
        complain(f"the accuracies of {name} are read as per cent, since all are above 1.")
        values = values / 100
        if error == "accuracy_se":
            frame[error] /= 100
    if quantity in SHARES:
        faults[quantity] |= values > (frame[total] if quantity == "hits" else 1)
    # a step of the loss for one of what was measured
    step = math.log(2) if quantity in ("loss_bits", "bpb", "bpc") else 1.0
    with np.errstate(all="ignore"):
        if quantity == "perplexity" or (quantity == "accuracy" and not total):
            log = np.log if quantity == "perplexity" else minus_log
            values, step = log(values), 1 / values
        else:
            values = values * step
    if error and (error != "loss_se" or quantity == "loss_bits"):
        frame[error] *= step
    frame[quantity] = values * frame[total] if total and quantity != "hits" else values


def without_faults(rows, frame, faults, drop_bad, name):
    """(the rows of models without one that cannot be used, {family: [what is left out]}).

    Raises InputError: there is one, and it is not to be left out; all of them are named.
    """
    names, broken = np.array(list(faults)), np.column_stack(list(faults.values()))
    bad = np.flatnonzero(broken.any(axis=1))
    if not len(bad):
        return frame, {}
    # each row with its model and the cells that cannot be
    left_out, texts = {}, []
    for i in bad if drop_bad else bad[:MOST_TOLD]:
        wrong = names[broken[i]]
        cells = [f"{column} {str(rows[column].iloc[i])[:40]!r}" for column in wrong]
        model = "" if "model" in wrong else f" ({frame['model'].iloc[i][:40]!r})"
        texts.append(f"row {i + 1}{model} has {' and '.join(cells)}")
        left_out.setdefault(str(frame["family"].iloc[i]), []).append(texts[-1])
    shown = some(texts, len(bad))
    if not drop_bad:
        wrong = names[broken.any(axis=0)]
        rules = [RULES.get(column, f"{column} is a number above 0") for column in wrong]
        raise InputError(
            f"{name} cannot be used as it is, {shown}: {', '.join(rules)}; mend "
            "these cells, or leave the models out by --drop-bad (in Python `drop_bad` of "
            "rbp.table_losses)."
        )

    # the models of those rows, whose other rows say too little
    complain(f"left out of {name}: {shown}.")
    models = frame.assign(bad=broken.any(axis=1)).groupby(["family", "model", "D"], dropna=False)
    return frame[~models["bad"].transform("any")], left_out


def some(texts, number):
    """So many texts in a sentence, of very many the first."""
    more = f", and {number - MOST_TOLD} more" if number > MOST_TOLD else ""
    return ", ".join(texts[:MOST_TOLD]) + more


def family_losses(part, quantity, total, error, seeded, name):
    """The Loss of each k of one family of a table of numbers."""
    family, is_share = part["family"].iloc[0], bool(total) and quantity in SHARES
    trained = (part["D"] > 0).all()  # untrained models have no logarithm of D
    part = part.assign(D=part["D"].fillna(0), se=part[error] if error else 0.0)
    part["out of"] = part[total] if total else 1.0
    # a column of each training, smallest first; a row of each k and source
    columns = ["S", "D", "model"]
    wide = part.set_index(["k", "source", *columns])[[quantity, "out of", "se"]]
    wide = wide.unstack(columns).sort_index().sort_index(axis=1)
    values, totals, errors = (
        np.ascontiguousarray(wide[column]) for column in (quantity, "out of", "se")
    )
    # NaN where a row is missing
    if np.isnan(values).any() or not (totals == totals[:, :1]).all():
        raise InputError(
            f"each model of {family} in {name} needs one S, and a row at every k and source, "
            f"of the same {total or 'text'}."
        )
    ks, sources = (wide.index.get_level_values(column) for column in ("k", "source"))
    sizes, tokens, models = (wide["se"].columns.get_level_values(level) for level in columns)
    if not models.is_unique:
        models = [f"{model} on {D:g} tokens" for model, D in zip(models, tokens, strict=True)]

    # fewer are not among the first k of a larger k; a share of no number came as its -log
    shares = wide[quantity] if is_share else -wide[quantity]
    falls = np.argwhere(shares.groupby("source").diff().to_numpy() < 0)
    if len(falls):
        raise InputError(
            f"{models[falls[0, 1]]!r} of {family} in {name} is worse in {quantity} at k = "
            f"{ks[falls[0, 0]]:g} than at a smaller k: what is among the first few is among more; "
            "check both."
        )

    # the rows of each k
    losses, unknown = [], False
    for k in ks.unique():
        rows = ks == k
        # an error of 0, or none, is not known
        positive = error and (errors[rows][0] > 0).all()
        unknown |= bool(error) and not positive
        loss = Loss(
            sums=values[rows],
            totals=totals[rows, 0],
            S=sizes.to_numpy(float),
            D=tokens.to_numpy(float) if trained else None,
            hits=is_share,
            k=int(k) or None,
            name=f"-log {quantity}" if quantity in SHARES else "loss",
            family=str(family),
            corpus=name,
            models=tuple(np.asarray(models, object)),
            labels=tuple(sources[rows]),
            se=errors[rows][0] if positive else None,
        )
        losses.append(replace(loss, repeats=loss) if seeded else loss)
    if unknown:
        complain(
            f"{error} of {family} in {name} is 0 or blank for some models: their errors are not "
            "known, so there is no interval of them."
        )
    return losses


def tell_columns(rows, frame, quantity, total, error, name):
    """Say what the columns of a table of numbers do not tell, or were not used for."""
    blank = frame.index[~(frame["D"] > 0)] + 1
    used = [quantity, total, error, "model", "S", *BLANK, "seed"]
    # a loss has no use for the tokens of its text
    used += {QUANTITIES[quantity]} - {"tokens"}
    others = [str(column)[:60] for column in rows if column not in used]
    unread = "tokens" in others and "D" not in rows
    hint = unread * " (say --columns D=tokens if they are those of training)"
    reasons = {
        f"D of {name} is blank or 0 in row(s) {', '.join(map(str, blank[:MOST_TOLD]))}: only "
        "forecasts in tokens need it.": len(blank) and "D" in rows,
        f"models of {name} saw several amounts of text (D): a law in size mixes them, "
        "and `rbp predict --tokens` does not.": frame["D"].nunique() > 1,
        f"columns of {name} that are not used: {some(others, len(others))}{hint}.": others,
        f"{quantity} of {name} is a loss by {QUANTITIES[quantity]}: its exponent is that of the "
        "loss, its level is in nats for each of them.": quantity in ("bpb", "bpc"),
        f"there are no sources or errors in {name}: intervals are of other sizes alone.": not error
        and "source" not in rows,
    }
    for message, holds in reasons.items():
        if holds:
            complain(message)


def number_rows(S, loss, hits, totals):
    """Plain numbers as a table of models on one text; see `law.fit`. Raises InputError: they are
    not as many, or not those of one law."""
    import pandas as pd

    columns = {"S": S, "loss": loss, "hits": hits, "tokens": totals}
    with telling("S, hits and loss do not fit together, give one number a model"):
        # by their places: a Series has an index of its own
        columns = {
            name: np.asarray(values)[()] for name, values in columns.items() if values is not None
        }
        if isinstance(loss, Loss) or list(columns) not in (["S", "loss"], ["S", "hits", "tokens"]):
            raise InputError("give S= and loss=, or S=, hits= and totals=, or a Loss without them.")
        rows = pd.DataFrame({"tokens": 1} | columns)
    return rows.assign(model=[f"model {i + 1}" for i in range(len(rows))], source="all")


# --- Rank tables from one machine to another


def export_family(family, out, corpora=None, protocol="paper", results=None, ordered=True):
    """Write the rank tables of a measured family, and of its repeats, without tokens to one file.

    A zip of ROLE/MODEL/CORPUS.parquet, where a role is "family" or "repeats", and of `family.json`.
    The same tables on one day give the same bytes. Ranks in order tell the text to whoever has the
    model, as a compressor's do: they choose the next token at each place.

    Args:
        family, corpora, protocol, results: as of `measuring.measured`. out: path of the file.
        ordered: without, each document's rows come in the order of their ranks, and runs are lost.
    Raises:
        InputError: a model without a table, a family that may not be shared, a file of that name,
            or the file cannot be written.
    """
    family, _, corpora = resolve(family, None, corpora, protocol, results)
    refuse_existing(out)
    # what the file says of itself
    about = {
        "name": family.name,
        "title": family.title,
        "note": family.note,
        "format": "rbp ranks",
        "exported": date.today().isoformat(),
        "tables": [],
    }
    with (
        TemporaryDirectory() as folder,
        atomic_path(out) as temporary,
        zipfile.ZipFile(temporary, "w") as file,
    ):
        # its tables, in a file that bears no date
        path = Path(folder, "table.parquet")
        for corpus in corpora:
            tables, _ = family_tables(family, corpus, protocol, results, counts=False)
            for role, ladder in zip(ROLES, (tables, tables.repeats), strict=True):
                for table in ladder:
                    write_table(path, *shared(table, ordered))
                    name = f"{role}{table.record['model']}/{corpus.name}.parquet"
                    file.writestr(zipfile.ZipInfo(name), path.read_bytes())
                    about["tables"].append(name)
        file.writestr(zipfile.ZipInfo("family.json"), json.dumps(about))
    return out


def refuse_existing(path):
    """Refuse to write over a file, whatever it is."""
    if os.path.lexists(path):
        raise InputError(f"{path} is there and is not written over: give another name.")


def shared(table, ordered=True):
    """(columns, record) of a rank table as others may have it."""
    if "withheld" in table.record:
        raise InputError("{family} is not exported: {withheld}.".format(**table.record))
    columns, record = dict(table.columns), public(table)
    record["lacks"] = ["token", *record.get("lacks", ())]
    columns["token"] = np.zeros_like(columns["token"])
    if not ordered:
        # rows of a document by rank, at new positions from 1
        order = np.lexsort([columns[name] for name in ("logprob", "ties", "greater", "document")])
        columns = {name: values[order] for name, values in columns.items()}
        starts = np.searchsorted(columns["document"], columns["document"])
        columns["position"] = np.arange(len(starts)) - starts + 1
        record["lacks"] = ["order", *record["lacks"]]
    return columns, record


def public(table):
    """The record of a table without folders of this machine; sources are numbered in order."""
    record = table.record | {"units": table.source.tolist(), "text": table.text}
    if not REPO_ID.match(record["model_id"]):
        record["model_id"] = record["model"]
    return record


def import_family(path, name=None):
    """Make an exported file a family, its rank tables among the results: path of the family's file.

    All of it is checked, a table at a time, before anything is kept.
    name: of the family, by default as it was where it was measured. Its repeats are the family
    NAME.repeats. Raises InputError: the file is damaged, or the name is in use.
    """
    with telling(f"{path} could not be read, check the path"):
        open(path, "rb").close()
    with (
        telling(
            f"{path} is damaged, or no export of a family, get it again, or, for ranks of windows, "
            "name their family by --family"
        ),
        zipfile.ZipFile(path) as file,
    ):
        # nothing in it is packed, so it holds no more than it has bytes
        members = file.infolist()
        size = sum(member.file_size for member in members)
        if size > os.path.getsize(path) or any(member.compress_type for member in members):
            raise ValueError("it is packed")
        about = dict(json.loads(file.read("family.json")))
        own, repeats = (fnmatch.filter(about["tables"], f"{role}*") for role in ROLES)
        names = ["family.json", *own, *repeats]
        if sorted(names) != sorted(member.filename for member in members):
            raise ValueError("a table is missing, or there twice")
        texts = {type(about[key]) for key in ("title", "note", "exported", "name")}
        if texts != {str} or not own or about["format"] != "rbp ranks":
            raise ValueError("another format")
        # as long as a family's file may be, and of letters that it can hold
        if sum(len(about[key].encode()) for key in ("title", "note")) > MOST_LETTERS:
            raise ValueError("its title and note are too long")

        # the record of each table says where it came from
        origin = {"was": about["name"], "exported": about["exported"], "file": Path(path).name}
        entry = {key: about[key] for key in ("title", "note")}
        tables = [exported_tables(file, ladder, origin) for ladder in (own, repeats) if ladder]
        return keep_family(name or about["name"], entry, *tables)


def exported_tables(file, names, origin):
    """(columns, record) of each rank table of an export. Raises errors of whatever kind: damage."""
    for name in names:
        data = file.read(name)
        record = file_record(BytesIO(data))
        check_record(record)
        # bounded before it is unpacked
        groups = pq.read_metadata(BytesIO(data))
        sizes = [groups.row_group(i).total_byte_size for i in range(groups.num_row_groups)]
        if max(sum(sizes), record["scored_tokens"]) > MOST_PACKED * len(data):
            raise ValueError("it unpacks to more than a table of its size holds")
        columns = file_columns(data, record)
        if columns["document"].max(initial=0) >= record["documents"]:
            raise ValueError("it has more documents than its record says")
        if name.split("/")[1:] != [record["model"], f"{record['corpus']}.parquet"]:
            raise ValueError("a table is another's")
        del data
        yield columns, record | {"imported": origin}
        del columns  # before the next is read


def check_record(record):
    """ValueError for a record that no table of models and documents can have."""
    for kinds, names in RECORD.items():
        for name in names.split():
            if type(value := record.get(name)) not in kinds:
                raise ValueError(f"the record of a table has {name} {str(value)[:40]!r}")
    S, units = record["nonembedding_params"], record["units"]
    # what must hold
    rules = (
        0 < S < 1e18,
        0 < record["vocab_size"] < 2**31,
        REPO_ID.match(record["model_id"]),
        record.get("definition", TIE_RULES[0]) in TIE_RULES,
        record.get("weights_dtype") in (None, *PRECISIONS),
        record["documents"] == len(units),
        {*map(type, units)} == {int},
        {*map(type, record.get("lacks", ()))} <= {str},
    )
    if not all(rules):
        raise ValueError(f"the record of {record['model']!r} is none that a table has")


def told_ranks(rows, rank, logprob, record):
    """Columns of a rank table of ranks (n,) alone: ties are not told, and stand as 1."""
    rank = np.asarray(rank, np.int64)
    columns = {**rows, "greater": rank - 1, "ties": np.ones_like(rank), "logprob": logprob}
    with telling(f"the ranks of {record['model']} cannot be taken"):
        return checked_columns(columns, record["vocab_size"])


def keep_family(name, entry, tables, repeats=(), engine=None):
    """Keep (columns, record) of rank tables as a family of this name, and those of its repeats as
    NAME.repeats: path of its file.

    All is written and read back aside before the first of it takes its name. engine: whose ranks
    they are; its tables may lie under the name already.
    Raises InputError: a name is reserved or another family's, other tables lie under it, or a table
    holds other ranks. Nothing is kept. Or errors of the tables, which may be made one by one.
    """
    check_name(name, "family name")
    if name.lower() in RESERVED:
        raise InputError(f"the name {name!r} is that of a folder of the book: choose another.")
    ladders = {f"{name}.repeats": repeats, name: tables} if repeats else {name: tables}
    files = {part: (results_dir() / "imported" / f"{part}.yml").resolve() for part in ladders}
    for part, path in files.items():
        if yaml_files("family").get(part, path) != path:
            refuse_name(part, "another family")

    with staging(name) as stage:
        # the tables, each beside its place
        staged, records = {}, {}
        for part, ladder in ladders.items():
            for columns, record in ladder:
                record = record | {"family": part}
                path = ranks_path(record)
                if path in staged:
                    raise ValueError("a table is there twice")
                staged[path] = stage / f"{len(staged)}.parquet"
                # of a table that was read it is known, and was compared
                checksum = record.get("imported") and record.get("columns_sha256")
                write_table(staged[path], columns, record, checksum)
                del columns
                records[path] = file_record(staged[path])
        # what lies there already
        for part in ladders:
            for path, record in records_of(part):
                new = records.get(path)
                if new and not same_ranks(record, new):
                    refuse_ranks(path)
                # of this import, or of this engine
                is_kept = new and came_from(record) == came_from(new)
                by_engine = (record.get("made_by") or {}).get("engine", "") == engine
                if not (is_kept or by_engine):
                    refuse_name(part, f"tables that lie in {path.parents[1]}")
                records.setdefault(path, record)
        # the files of the families, read back
        for part, path in files.items():
            of_part = [record for record in records.values() if record["family"] == part]
            of_part.sort(key=itemgetter("nonembedding_params"))
            corpora = sorted({record["corpus"] for record in of_part})
            models = {record["model"]: model_entry(record) for record in of_part}
            about = entry | {"imported": True, "corpora": corpora, "models": [*models.values()]}
            staged[path] = stage / path.name
            write_text(staged[path], yaml.safe_dump(about, sort_keys=False, allow_unicode=True))
            entries = read_yaml(staged[path], aliases=False)
            family_of({"name": part} | checked_entries(entries, Family, path), path)
            entry = entry | {"repeats": part}

        # the family's file, which names its repeats', last
        for path, temporary in staged.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(temporary, path)
            except OSError as error:
                raise write_error(path, error) from None
    return files[name]


@contextmanager
def staging(name):
    """A folder for what is not kept yet, of one import of this name at a time; those that killed
    ones left go."""
    folder = results_dir() / "imported"
    try:
        with one_at_a_time(folder / name):
            for left in folder.glob(f".{name}.*.tmp"):
                shutil.rmtree(left, ignore_errors=True)
            stage = folder / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
            try:
                yield stage
            finally:
                shutil.rmtree(stage, ignore_errors=True)
    finally:
        # without folders in which nothing came to lie
        with suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def came_from(record):
    """What tells whether two tables are of one import."""
    return record.get("made_by"), (record.get("imported") or {}).get("was")


def same_ranks(*records):
    """Whether tables hold the same ranks, by one rule."""
    return len({(record["columns_sha256"], record.get("definition")) for record in records}) == 1


def refuse_name(name, whose):
    raise InputError(f"the name {name!r} is in use for {whose}: choose one, as in --as {name}-2.")


def refuse_ranks(path):
    raise InputError(f"{path} holds other ranks: move it away, or give another name, by --as.")


def model_entry(record):
    """How a family's file names a model that is not here."""
    return {
        "name": record["model"],
        "id": record["model_id"],
        "nonembedding_params": record["nonembedding_params"],
        "revision": record.get("requested_revision"),
    }


# --- Windows to another engine, and its ranks back


def family_windows(family, corpus, protocol="paper"):
    """(Corpus, its Documents, Windows, what these are of: {"family", "protocol", "text",
    "tokenizer" (their digests), "window" (W), "windows" (how many)}) of a text as a family reads
    it."""
    from rbplib.models import load_tokenizer, model_folder, tokenizer_digest, window_length

    # text and tokenizer, which are here or fetched
    family, models, (corpus,) = resolve(family, None, [corpus], protocol)
    family.need_models()
    documents, (folder, _) = load_documents(corpus), model_folder(models[0], weights=False)
    tokenizer = load_tokenizer(folder, models[0].id)
    # the windows, and what they are of
    length = window_length(family)
    windows = text_windows(tokenizer, documents.texts, length, protocol)
    about = {
        "family": family.name,
        "protocol": protocol,
        "text": documents.digest,
        "tokenizer": tokenizer_digest(tokenizer),
        "window": length,
        "windows": len(windows.windows),
    }
    return corpus, documents, windows, about


def write_windows(family, corpus, out, protocol="paper"):
    """Write the token ids of each window of a text, as another engine is to read them.

    JSON lines: first what they are of, with the digests of text and tokenizer; then of each window
    "document", "source", "start" (the position of its first token), "ids", and "scored", the
    indices of the ids that are.
    """
    refuse_existing(out)
    corpus, documents, windows, about = family_windows(family, corpus, protocol)
    lines = [about | {"corpus": argument(corpus)}]
    # what each window holds, and what of it is scored
    for window in windows.windows:
        line = {
            "document": window.document,
            "start": window.start,
            "ids": window.ids.tolist(),
            "scored": window.scored.tolist(),
            "source": (documents.units or range(windows.documents))[window.document],
        }
        lines.append(line)
    write_text(out, "".join(f"{json.dumps(line)}\n" for line in lines))
    return out


def import_answers(path, family, name=None):
    """Make the ranks that another engine told of `write_windows` a rank table of a family's model.

    path: of a file of JSON lines, or what they hold, one after the other. First "model" (a name or
    id of the family), "revision", "engine", "version", "corpus", "head_dtype", and "ties":
    "greater+ties", or "greater+1" where equal candidates are not counted; where they are known
    "weights_dtype" (null in the record without; as "head_dtype" one of PRECISIONS), "protocol",
    "served", the server's name of the model, and "family" as the windows have it. Then the
    windows, in any order, each as `answered` reads it.

    name: of a family of its own to put the table in. By default the model's own, or, where the
    precision is not what its family asks for, FAMILY-ENGINE.
    Returns:
        path of the table, or of the file of the family of its own.
    Raises:
        InputError: a header that lacks something, or is of another model, revision or family; ids
            that are not ours; a window missing or there twice; an answer that is cut; what no rank
            or logprob can be.
    """
    from rbplib.models import model_folder, sizes_of

    # what was made, and of which model
    if isinstance(path, PATH):
        lines = read_lines(path)
    else:
        lines, path = iter(path), "the list"
    header = next(lines, {})
    header = header if isinstance(header, dict) else {}
    for key in HEADER:
        if not isinstance(header.get(key) or 0, str):
            raise InputError(f"the first line of {path} does not tell {key!r}: add it.")
    check_choice(header["ties"], TIE_RULES, "tie rule")
    family, protocol = load_family(family), header.get("protocol", "paper")
    model = family.model(header["model"])
    _, source = model_folder(model, weights=False)
    names = {model.name, Path(model.id).name}  # on whatever hub, or in whatever folder
    served = str(header.get("served", model.name))
    if Path(served).name not in names:
        raise InputError(
            f"{path} holds ranks of what its server calls {served!r}: if that is {model.name}, "
            "serve it with --served-model-name."
        )

    # its record: as of one measured here, but for the precision
    corpus, documents, windows, about = family_windows(family, header["corpus"], protocol)
    allowed = {key: [here] for key, here in about.items()}
    allowed["revision"] = [model.revision or "main", source["revision"]]
    for key, here in allowed.items():
        if header.get(key, here[0]) not in here:
            raise InputError(
                f"{path} is of another {key}, {header[key]}, where {here[0]} is asked for: name "
                "its family by --family, or have it read the windows made here."
            )
    ((wanted,),) = expected(family, [model], [corpus], protocol, [documents]).values()
    precision = {}
    for key in ("weights_dtype", "head_dtype"):
        dtype = str(header.get(key)).lower().removeprefix("torch.")
        dtype = ALSO.get(dtype, dtype)
        precision[key] = dtype and check_choice(dtype, PRECISIONS, key)
    record = {
        **(wanted | source | sizes_of(model) | precision),
        "definition": header["ties"],
        "lacks": ["ties"],
        "tokenizer_digest": about["tokenizer"],
        "documents": windows.documents,
        "read_tokens": windows.tokens,
        "made_by": {key: header[key] for key in ("engine", "version", "revision")},
    }
    if "served" in header:  # without folders of the server's machine
        record["made_by"]["served"] = served if REPO_ID.match(served) else Path(served).name
    # the name that its answers bear
    is_ours = served.__eq__ if "served" in header else lambda name: Path(name).name in names
    columns = engine_columns(path, lines, is_ours, windows, record)
    if precision["head_dtype"] not in ("float32", "float64"):
        complain(
            f"{path} is of a head in {precision['head_dtype']}, which makes ties and moves ranks: "
            f"on page 16 of the book exponents move by up to {HALF_MOVED:.0%} of their "
            "95% interval over other text."
        )
    for key, dtype in precision.items():
        if wanted.get(key, dtype) != dtype:
            name = name or f"{family.name}-{header['engine']}"
            complain(
                f"{family.name} is measured with {key} {wanted[key]}, not {dtype or 'unknown'}: "
                f"the table of {path} is of the family {name}."
            )
    if name:
        about = {"title": f"{family.title or family.name}, by {header['engine']}"}
        return keep_family(name, about, [(columns, record)], engine=header["engine"])
    # to its place, not over other ranks
    path = ranks_path(record)
    digest = {"columns_sha256": columns_digest(columns)}
    if path.is_file() and not same_ranks(read_record(path), record | digest):
        refuse_ranks(path)
    write_table(path, columns, record)
    return path


def engine_columns(path, lines, is_ours, windows, record):
    """Columns of the rank table that lines of answers make, each set to its window by the ids."""
    # numbers of the windows of the same ids, last first; an answer may not tell the first id
    places = {}
    for number in reversed(range(len(windows.windows))):
        first, *ids = windows.windows[number].ids.tolist()
        for begin in (first, None):
            places.setdefault((begin, *ids), []).append(number)

    parts = {}
    for line_number, line in enumerate(lines, 2):
        for ids, rank, logprob in answered(line, is_ours, f"line {line_number} of {path}"):
            # which window it is of, that was not told yet
            numbers = places.get(ids, [])
            while numbers and numbers[-1] in parts:
                numbers.pop()
            if not numbers:
                fault = "a window twice" if ids in places else f"no window of {record['corpus']}"
                raise InputError(
                    f"line {line_number} of {path} holds {fault}, ids {ids[1:5]} ...: "
                    "have the windows of `rbp windows` read, each once."
                )
            # what is told of its scored tokens
            number = numbers.pop()
            window = windows.windows[number]
            rows = window.scored
            parts[number] = (
                np.full_like(rows, window.document),
                window.start + rows,
                window.ids[rows].astype(int),
                rank[rows],
                logprob[rows],
            )
    if missing := len(windows.windows) - len(parts):
        raise InputError(f"{path} lacks {missing} of {len(windows.windows)} windows: add them.")

    ordered = (parts[number] for number in sorted(parts))
    *rows, rank, logprob = map(np.concatenate, zip(*ordered, strict=True))
    rows = dict(zip(COLUMNS, rows, strict=False))
    check_possible(path, rows, rank, logprob, record["vocab_size"])
    return told_ranks(rows, rank, logprob, record)


def check_possible(path, rows, rank, logprob, V):
    """Refuse ranks and logprobs (n,) that no softmax over V candidates has.

    As many candidates as its rank are as likely at least, and all together at most 1; the first of
    V has what the others leave over, 1 / V at least. vLLM tells minus infinity as -9999.
    """
    ranked = (rank >= 1) & (rank <= V) & (rank == np.floor(rank))
    # of the largest there are few, or no more than of the next
    ranks, times = np.unique(rank, return_counts=True)
    faults = {
        f"which is a rank outside 1 to {V}": ~ranked,
        "which is no logprob of a token": ~(logprob > -9999),
        "which is more than its rank allows": logprob > ROUNDING - np.log(np.maximum(rank, 1)),
        f"which is less than the first of {V} has": (rank == 1) & (logprob < -np.log(V) - ROUNDING),
        "the largest of all, where ranks are cut": (rank == ranks[-1])
        & (times[-1] > max([9, *times[-2:-1]])),
    }
    for fault, wrong in faults.items():
        if wrong.any():
            i = wrong.argmax()
            raise InputError(
                f"{path} has rank {rank[i]:g} and logprob {logprob[i]:.6g} in document "
                f"{rows['document'][i]} at position {rows['position'][i]} (token "
                f"{rows['token'][i]}), {fault}, in {wrong.sum()} of {len(rank)} tokens: "
                "measure it again, with an engine that tells the rank of each prompt token."
            )


def read_lines(path):
    """What each line of a file of JSON lines holds."""
    with telling(f"{path} cannot be read, check the path"):
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                with telling(
                    f"line {number} of {path} is cut short or damaged, have its window read again"
                ):
                    if line.strip():
                        yield from_json(line)


# answers that cannot be read, by an entry that they alone have
OTHER_ANSWERS = {
    "message": "a chat's answer, whose template adds tokens: ask /v1/completions with the ids",
    "meta_info": "an answer of SGLang, which tells no ranks: ask a vLLM server",
    "token_logprobs": "an answer without ranks: ask with prompt_logprobs 0",
}


def answered(answer, is_ours, where):
    """(ids, ranks, logprobs) of each window of an answer; the first id may be None.

    That is {"ids", "rank", "logprob"}, lists of one length that begin with an id, None and None; or
    what vLLM gives when asked with `prompt_logprobs` 0 or more: the answer of its server, or a
    result of `LLM.generate`, whose entries map the id of the token to "rank" and "logprob". Of
    several in an entry the one of `prompt_token_ids` is taken.

    is_ours: whether a name is the server's of the model. where: of the answer, for messages.
    """
    tokens = []
    try:
        answer = answer if isinstance(answer, dict) else vars(answer)
        if answer.get("error") or answer.get("object") == "error":
            raise InputError(f"{where} is an error of its server: have its window read again.")
        # is it of this model?
        if answer.get("model") and not is_ours(str(answer["model"])):
            raise InputError(
                f"{where} holds ranks of {answer['model']!r} under another model's name: "
                "give each model a file of its own."
            )
        for choice in answer.get("choices", [answer]):
            tokens = []
            for key, what in OTHER_ANSWERS.items():
                if key in choice or key in (choice.get("logprobs") or ()):
                    raise InputError(f"{where} is {what}.")
            if "prompt_logprobs" in choice:
                rows = vllm_tokens(choice, where)
            else:
                rows = zip(*(choice[key] for key in ("ids", "rank", "logprob")), strict=True)
            # the first has no rank, and its id may not be known
            first, *_ = next(rows)
            tokens = [(index(first or 0), math.nan, math.nan)]
            for row in rows:
                if bool in map(type, row):
                    raise TypeError
                token, rank, logprob = row
                tokens.append((index(token), 0.0 + rank, 0.0 + logprob))
            ids, rank, logprob = zip(*tokens, strict=True)
            yield (first, *ids[1:]), np.array(rank), np.array(logprob)
    except InputError:
        raise
    except Exception:  # lists, numbers, words and nothing, wherever something else was expected
        raise InputError(
            f"{where} cannot be read at token {len(tokens)} of its window, of which id, rank and "
            "logprob were expected: have it read again, with prompt_logprobs 0."
        ) from None


def vllm_tokens(choice, where):
    """(id, rank, logprob) of each token of the prompt of one choice of vLLM, the first without the
    last two."""
    ids, entries = choice.get("prompt_token_ids"), choice["prompt_logprobs"]
    if not entries or ids and len(ids) != len(entries):
        raise InputError(
            f"{where} has prompt_logprobs of {len(entries or ())} tokens, where "
            f"{len(ids or ()) or 'each token'} were expected: have its window read again."
        )
    yield ids and ids[0], None, None
    for position, entry in enumerate(entries[1:], 1):
        # the true token's own
        entry = {int(token): about for token, about in entry.items()}
        if not ids and len(entry) > 1:
            raise InputError(
                f"{where} has {len(entry)} candidates at position {position} and does not say "
                "which is the text's: ask with prompt_logprobs 0, or with return_token_ids."
            )
        token = ids[position] if ids else next(iter(entry))
        about = entry[token]
        about = about if isinstance(about, dict) else vars(about)
        yield token, about["rank"], about["logprob"]
