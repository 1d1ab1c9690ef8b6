"""Doors: what was measured elsewhere, as the records that laws are made from.

A table of numbers (sizes, and hits, accuracies or losses) is a `Loss` for each family and k. Rank
tables of another machine (`rbp export`) and ranks of another engine become rank tables here, which
need no model, no text and no torch to be read.
"""

import json
import math
import os
import zipfile
from dataclasses import replace
from datetime import date
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import yaml

from rbplib.families import (
    PRECISIONS,
    REPO_ID,
    InputError,
    argument,
    as_number,
    atomic_path,
    check_choice,
    check_name,
    complain,
    first_line,
    load_family,
    results_dir,
    telling,
    write_text,
    yaml_files,
)
from rbplib.losses import Loss, check_models, measured_tables
from rbplib.table import (
    asked,
    by_size,
    checked_columns,
    columns_digest,
    expected,
    ranks_path,
    read_record,
    read_table,
    table_paths,
    write_table,
)
from rbplib.texts import JSON, file_rows, file_text, load_documents, table_rows, text_kind
from rbplib.windows import text_windows

# what a row of a table of numbers measures, with the column that it is out of
QUANTITIES = {"hits": "tokens", "accuracy": "questions", "loss": "tokens", "loss_bits": "tokens"}
PATH = (str, os.PathLike)  # of a file
BLANK = {"family": "a family", "k": 0, "source": 0, "loss_se": 0, "D": 0, "": 1}
NUMBER = "number, such as 13e9 or 1.4B,"
WHOLE = 2**53  # above it a float is no count
ALSO = {"float": "float32", "half": "float16", "none": None}  # names that engines have
ROUNDING = 1e-3  # nats that a logprob may be off by
HALF_MOVED = 0.05  # of its interval: the most that half precision moves an exponent on page 11
TIE_RULES = ("greater+ties", "greater+1")  # of an engine's ranks
# what readers of zip and JSON make of damage
DAMAGE = (ValueError, LookupError, TypeError, RuntimeError, EOFError, zipfile.BadZipFile)


# --- A table of numbers


def table_losses(table):
    """Losses of a table of numbers, one for each family and k.

    Args:
        table: a frame, a mapping of columns, or the path of a CSV, TSV, Parquet or JSON-lines file.
            It has columns `model`, `S` (non-embedding parameters, 1.4B too) and one of `hits` with
            `tokens`, `accuracy` (a share) with `questions`, `loss` (nats), `loss_bits`. Where known
            `family`; `k`; `D`, tokens of training text; `seed`, of models trained several times;
            `source`, with a row for each piece of text that is drawn as one (a loss is then a mean
            over `tokens`); `loss_se`, in the unit of a loss without sources. Other columns are
            told, and left alone.
    Returns:
        list of Loss, smallest model first.
    Raises:
        InputError: the file cannot be read; a family has fewer than three sizes; a column or row is
            missing, a row is there twice, or a value is none that it can be.
    """
    import pandas as pd

    name = Path(table).name if isinstance(table, PATH) else "the table"
    with telling(f"{name} cannot be read as a table, check it and its path"):
        rows = read_rows(table)
    if not rows.columns.is_unique:
        raise InputError(f"a column of {name} is there twice: leave one.")
    # what was measured, and what it is out of
    quantities = [column for column in QUANTITIES if column in rows]
    if len(quantities) != 1 or rows.empty:
        columns = " and ".join(quantities) or "nothing measured"
        raise InputError(
            f"{name} has {columns} in {len(rows)} rows: "
            f"give rows of one of {', '.join(QUANTITIES)}."
        )
    (quantity,) = quantities
    share = quantity in ("hits", "accuracy")
    sourced = "source" in rows
    total = QUANTITIES[quantity] if share or sourced else ""
    for column in ("model", "S", total):
        if column and column not in rows:
            raise InputError(f"{name} has no column {column!r} beside {quantity!r}: add it.")
    errors = "loss_se" in rows and not sourced

    # the columns that are used, as numbers and words
    known = ["model", "S", "seed", quantity, total, *BLANK]
    if sourced:
        known.remove("loss_se")
    others = rows.columns.difference(known, sort=False)
    frame = pd.DataFrame(BLANK | dict(rows.drop(columns=others)), index=rows.index)
    frame = frame.astype({"model": str, "source": str})
    if "seed" in rows:
        frame["model"] += " seed " + rows["seed"].astype(str)
    for column in ("S", quantity, total, "loss_se", *rows.columns.intersection(["D", "k"])):
        frame[column] = numbers(frame[column], name)
    if quantity == "loss_bits":
        frame[[quantity, "loss_se"]] *= math.log(2)
    if quantity != "hits":
        frame[quantity] *= frame[total]

    # what a row may not be
    again = frame.duplicated(["family", "k", "source", "model", "D"])
    rules = {
        "of no family: name one in each row": frame["family"].isna() | (frame["family"] == ""),
        "there twice: tell rows of a model apart by k, source or seed": again,
    }
    for rule, broken in rules.items():
        if broken.any():
            model = frame["model"][broken].iloc[0]
            raise InputError(f"in {name} {model!r} is {rule}.")

    losses = []
    for family, part in frame.groupby("family", sort=False):
        # a column of each training, smallest first; a row of each k and source
        values = [quantity, total, "loss_se"]
        wide = part.pivot(index=["k", "source"], columns=["S", "D", "model"], values=values)
        wide = wide.sort_index().sort_index(axis=1)
        of_all = wide[total]
        if wide.isna().any(axis=None) or (of_all.nunique(axis=1) > 1).any():
            raise InputError(
                f"each model of {family} in {name} needs one S, and a row at every k and source, "
                f"of the same {total or 'text'}."
            )
        sizes, trained, models = zip(*of_all.columns, strict=True)
        if len(set(models)) < len(models):
            models = [f"{model} on {D:g} tokens" for _, D, model in of_all.columns]
        for k, rows_of_k in wide.groupby(level="k"):
            if len(rows_of_k) > len(rows_of_k.drop_duplicates()) == 1:
                complain(
                    f"all sources of {family} in {name} are equal: "
                    "intervals over them have no width."
                )
            loss = Loss(
                sums=rows_of_k[quantity],
                totals=rows_of_k[total].iloc[:, 0],
                S=sizes,
                D=trained if "D" in rows else None,
                hits=share,
                k=int(k) or None,
                name=f"-log {quantity}" if share else "loss",
                family=str(family),
                corpus=name,
                models=tuple(models),
                labels=tuple(rows_of_k.index.get_level_values("source")),
                se=rows_of_k["loss_se"].iloc[0] if errors else None,
            )
            check_models(loss)
            losses.append(replace(loss, repeats=loss) if "seed" in rows else loss)
    # once it is known to be good
    if frame["D"].nunique() > 1:
        complain(
            f"models of {name} saw several amounts of text (D): a law in size mixes them, "
            "and `rbp predict --tokens` does not."
        )
    if others.size:
        complain(f"columns of {name} that are not used: {', '.join(map(str, others))}.")
    if not (sourced or errors):
        complain(f"{name} has no sources or errors: its intervals are of other sizes alone.")
    return losses


def number_rows(S, loss, hits, totals):
    """Plain numbers as a table of models on one text; see `law.fit`. Raises InputError: they are
    not as many, or not those of one law."""
    import pandas as pd

    columns = {"S": S, "loss": loss, "hits": hits, "tokens": totals}
    with telling("S, hits and loss do not fit together, give one number a model"):
        # by their places: a Series has an index of its own
        columns = {name: np.asarray(of)[()] for name, of in columns.items() if of is not None}
        if isinstance(loss, Loss) or list(columns) not in (["S", "loss"], ["S", "hits", "tokens"]):
            raise InputError("give S= and loss=, or S=, hits= and totals=, or a Loss without them.")
        rows = pd.DataFrame({"tokens": 1} | columns)
    return rows.assign(model=[f"model {i + 1}" for i in range(len(rows))], source="all")


def read_rows(table):
    """The rows of a table, or of its file, as a data frame; what a CSV or TSV holds stays text."""
    import pandas as pd

    if not isinstance(table, PATH):
        return pd.DataFrame(table)
    if text_kind(table)[0] in (".parquet", *JSON):
        return pd.DataFrame(file_rows(table))
    # fields between what the first line holds, without spaces about them
    text = file_text(table)
    first = next(filter(str.strip, text.splitlines()), "")
    between = next((mark for mark in "\t;" if mark in first), ",")
    rows = pd.DataFrame(table_rows(text, between, skipinitialspace=True))
    if rows.empty:
        raise ValueError("no row stands below its first line")
    return rows.rename(columns=str.strip).map(str.strip, na_action="ignore")


def numbers(column, name):
    """The numbers of a column of the table of this name, float64 (R,)."""
    values = np.array([as_number(value) for value in column])
    # a size, a rank, or what something is out of, is above 0; ranks and hits are counts
    least = int(column.name in ("S", "D", "k", *QUANTITIES.values()))
    most = np.inf
    of = NUMBER
    if column.name in ("k", "hits"):
        most, of = WHOLE, "whole number"
        values = np.where(values == np.floor(values), values, np.nan)
    wrong = np.flatnonzero(~((values >= least) & (values < most)))
    if len(wrong):
        raise InputError(
            f"row {wrong[0] + 1} of {name} has {column.name} '{column.iloc[wrong[0]]}': "
            f"give a {of} from {least} up."
        )
    return values


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
    family, _, corpora = asked(family, None, corpora, protocol, results)
    refuse_existing(out)
    # what the file says of itself
    about = {"name": family.name, "title": family.title, "note": family.note}
    about |= {"format": "rbp ranks", "exported": date.today().isoformat(), "tables": []}
    with (
        TemporaryDirectory() as folder,
        atomic_path(out) as temporary,
        zipfile.ZipFile(temporary, "w") as file,
    ):
        # its tables, in a file that bears no date
        path = Path(folder, "table.parquet")
        for corpus in corpora:
            tables, repeats, _ = measured_tables(family, corpus, protocol, results)
            for role, ladder in (("family", tables), ("repeats", repeats)):
                for table in ladder:
                    write_table(path, *shared(table, ordered))
                    name = f"{role}/{table.record['model']}/{corpus.name}.parquet"
                    file.writestr(zipfile.ZipInfo(name), path.read_bytes())
                    about["tables"].append(name)
        file.writestr(zipfile.ZipInfo("family.json"), json.dumps(about))
    return out


def refuse_existing(path):
    """Refuse to write over a file, whatever it is."""
    if os.path.lexists(path):
        raise InputError(f"{path} is there: give another name, or remove it first.")


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

    name: of the family, by default as it was where it was measured. Its repeats are the family
    NAME.repeats. Raises InputError: the file is damaged, or the name is in use.
    """
    with TemporaryDirectory() as folder:
        # read all of the file before anything is kept
        try:
            with zipfile.ZipFile(path) as file:
                # nothing in it is packed, so it holds no more than it has bytes
                members = file.infolist()
                size = sum(m.file_size for m in members)
                if size > os.path.getsize(path) or any(m.compress_type for m in members):
                    raise ValueError("it is packed")
                if len({m.filename for m in members}) < len(members):
                    raise ValueError("a table is there twice")
                file.extractall(folder)
            about = json.loads(Path(folder, "family.json").read_bytes())
            check_name(about["name"], "family name")
            entry = {key: about[key] for key in ("title", "note")}
            # the record of each table says where it came from
            origin = {"was": about["name"], "exported": about["exported"], "file": Path(path).name}
            roles = {"repeats": [], "family": []}
            places = sorted(Path(folder).glob("*/*/*.parquet"))
            names = [place.relative_to(folder).as_posix() for place in places]
            if sorted(names) != sorted(about["tables"]):
                raise ValueError("a table is missing")
            for place in places:
                table = read_table(place)
                check_record(table)
                record = table.record | {"imported": origin}
                if place.parts[-2:] != (record["model"], f"{record['corpus']}.parquet"):
                    raise ValueError("a table is another's")
                roles[place.parts[-3]].append((table.columns, record))
            texts = {type(text) for text in (*entry.values(), about["exported"])}
            if texts != {str} or not roles["family"] or about["format"] != "rbp ranks":
                raise ValueError("another format")
        except OSError as error:
            raise InputError(
                f"{path} could not be read or unpacked ({first_line(error)}): "
                f"check the path, and the space in {folder}."
            ) from None
        except DAMAGE as error:
            raise InputError(
                f"{path} is damaged, or no export of a family ({first_line(error)}): "
                "get it again, or, for ranks of windows, name their family by --family."
            ) from None
        return keep_family(name or about["name"], entry, roles["family"], roles["repeats"])


def check_record(table):
    """ValueError for a record that no table of models and documents can have."""
    record = table.record
    S, units = record["nonembedding_params"], record["units"]
    texts = {type(record.get(name)) for name in ("requested_revision", "weights_dtype")}
    # what must hold
    rules = (
        type(S) is int and 0 < S < 1e18,  # to isinstance true is a number
        REPO_ID.match(record["model_id"]),
        texts <= {str, type(None)},
        record.get("definition", TIE_RULES[0]) in TIE_RULES,
        table.document.max() < table.documents == len(units),
        {*map(type, units)} == {int},
    )
    if not all(rules):
        raise ValueError(f"the record of {record['model']!r} is none that a table has")


def told_ranks(rows, rank, logprob, record):
    """Columns of a rank table of ranks (n,) alone: ties are not told, and stand as 1."""
    rank = np.asarray(rank, np.int64)
    columns = {**rows, "greater": rank - 1, "ties": np.ones_like(rank), "logprob": logprob}
    with telling(f"the ranks of {record['model']} cannot be taken"):
        return checked_columns(columns, record["vocab_size"])


def keep_family(name, entry, tables, repeats=()):
    """Keep (columns, record) of rank tables as a family of this name, and those of its repeats as
    NAME.repeats: path of its file.

    Raises InputError: a name is another family's, or a table holds other ranks. Nothing is written.
    """
    check_name(name, "family name")
    ladders = {f"{name}.repeats": repeats, name: tables} if repeats else {name: tables}
    # may all of it be kept?
    paths, named = {}, []
    for part, ladder in ladders.items():
        paths[part] = (results_dir() / "imported" / f"{part}.yml").resolve()
        if yaml_files("family").get(part, paths[part]) != paths[part]:
            raise InputError(
                f"the name {part!r} is in use for another family: choose one, as in --as {name}-2."
            )
        named += [(columns, record | {"family": part}) for columns, record in ladder]
    keep_tables(named)

    # the files of what is there by now; the family's, which names the repeats', last
    for part, path in paths.items():
        records = [table.record for table in by_size(map(read_table, table_paths(part)))]
        corpora = sorted({record["corpus"] for record in records})
        models = list({record["model"]: model_entry(record) for record in records}.values())
        about = entry | {"imported": True, "corpora": corpora, "models": models}
        write_text(path, yaml.safe_dump(about, sort_keys=False, allow_unicode=True))
        entry = entry | {"repeats": part}
    return path


def keep_tables(tables):
    """Write (columns, record) of rank tables to their places, none over one of other ranks."""
    for columns, record in tables:
        path = ranks_path(record)
        ranks = (columns_digest(columns), record.get("definition"))
        there = read_record(path) if path.is_file() else None
        if there and (there["columns_sha256"], there.get("definition")) != ranks:
            raise InputError(
                f"{path} holds other ranks: move it away, or give `rbp import` another name."
            )
    for columns, record in tables:
        write_table(ranks_path(record), columns, record)


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
    family, models, (corpus,) = asked(family, None, [corpus], protocol)
    family.need_models()
    documents, (folder, _) = load_documents(corpus), model_folder(models[0], weights=False)
    tokenizer = load_tokenizer(folder, models[0].id)
    # the windows, and what they are of
    length = window_length(family)
    windows = text_windows(tokenizer, documents.texts, length, protocol)
    about = {"family": family.name, "protocol": protocol, "text": documents.digest}
    about |= {"tokenizer": tokenizer_digest(tokenizer), "window": length}
    return corpus, documents, windows, about | {"windows": len(windows.windows)}


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
        line = {"document": window.document, "start": window.start, "ids": window.ids.tolist()}
        line["scored"] = window.scored.tolist()
        line["source"] = (documents.units or range(windows.documents))[window.document]
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
    with telling(f"the first line of {path} is no mapping"):
        header = dict(next(lines, {}))
    for key in ("model", "revision", "engine", "version", "corpus", "head_dtype", "ties"):
        if not header.get(key) or not isinstance(header[key], str):
            raise InputError(f"the first line of {path} does not tell {key!r}: add it.")
    check_choice(header["ties"], TIE_RULES, "tie rule")
    family = load_family(family)
    protocol = header.get("protocol", "paper")
    model = family.model(header["model"])
    asked_for, (_, source) = model.revision or "main", model_folder(model, weights=False)
    if header["revision"] not in (asked_for, source["revision"]):
        raise InputError(
            f"{path} holds ranks of {model.name} at revision {header['revision']}: "
            f"rank {asked_for}."
        )
    names = {model.name, Path(model.id).name}  # on whatever hub, or in whatever folder
    served = str(header.get("served", model.name))
    if Path(served).name not in names:
        raise InputError(
            f"{path} holds ranks of what its server calls {served!r}: if that is {model.name}, "
            "serve it with --served-model-name."
        )

    # its record: as of one measured here, but for the precision
    corpus, documents, windows, about = family_windows(family, header["corpus"], protocol)
    for key, here in about.items():
        if header.get(key, here) != here:
            raise InputError(
                f"{path} is of another {key}, {header[key]}: "
                "name its family by --family, or have it read the windows made here."
            )
    ((wanted,),) = expected(family, [model], [corpus], protocol, [documents]).values()
    precision = {}
    for key in ("weights_dtype", "head_dtype"):
        told = str(header.get(key)).lower().removeprefix("torch.")
        told = ALSO.get(told, told)
        precision[key] = told and check_choice(told, PRECISIONS, key)
    record = wanted | source | sizes_of(model) | precision
    record |= {"definition": header["ties"], "lacks": ["ties"]}
    record["tokenizer_digest"] = about["tokenizer"]
    record |= {"documents": windows.documents, "read_tokens": windows.tokens}
    record["made_by"] = {key: header[key] for key in ("engine", "version", "revision")}
    if "served" in header:  # without folders of the server's machine
        record["made_by"]["served"] = served if REPO_ID.match(served) else Path(served).name
    columns = engine_columns(path, lines, names, windows, record)
    if precision["head_dtype"] not in ("float32", "float64"):
        complain(
            f"{path} is of a head in {precision['head_dtype']}, which makes ties and moves ranks: "
            f"on page 11_precision of the book exponents move by up to {HALF_MOVED:.0%} of their "
            "95% interval over other text."
        )
    for key, told in precision.items():
        if wanted.get(key, told) != told:
            name = name or f"{family.name}-{header['engine']}"
            complain(
                f"{family.name} is measured with {key} {wanted[key]}, not {told or 'unknown'}: "
                f"the table of {path} is of the family {name}."
            )
    if name:
        title = f"{family.title or family.name}, by {header['engine']}"
        return keep_family(name, {"title": title}, [(columns, record)])
    keep_tables([(columns, record)])
    return ranks_path(record)


def engine_columns(path, lines, names, windows, record):
    """Columns of the rank table that lines of answers make, each set to its window by the ids."""
    # an answer may not tell the first id
    places = {}
    for number, window in enumerate(windows.windows):
        first, *ids = window.ids.tolist()
        for begin in (first, None):
            places.setdefault((begin, *ids), []).append(number)

    parts = {}
    for line in lines:
        for ids, rank, logprob in answered(line, names, path):
            # which window it is of, that was not told yet
            numbers = places.get(ids, ())
            number = next((number for number in numbers if number not in parts), None)
            if number is None:
                fault = "a window twice" if numbers else f"no window of {record['corpus']}"
                raise InputError(
                    f"{path} holds {fault}, ids {ids[1:5]} ...: "
                    "have the windows of `rbp windows` read, each once."
                )
            # what is told of its scored tokens
            window = windows.windows[number]
            rows = window.scored
            place = np.full_like(rows, window.document), window.start + rows
            parts[number] = *place, window.ids[rows].astype(int), rank[rows], logprob[rows]
    if missing := len(windows.windows) - len(parts):
        raise InputError(f"{path} lacks {missing} of {len(windows.windows)} windows: add them.")

    told = (parts[number] for number in sorted(parts))
    document, position, token, rank, logprob = map(np.concatenate, zip(*told, strict=True))
    # as many candidates are as likely at least, and all of them together at most 1; vLLM tells
    # minus infinity as -9999
    V = record["vocab_size"]
    likely = (logprob > -9999) & (logprob <= ROUNDING - np.log(np.maximum(rank, 1)))
    if not (likely & (rank >= 1) & (rank <= V) & (rank == np.floor(rank))).all():
        raise InputError(
            f"{path} has a rank outside 1 to {V}, or a logprob that is no number or more than its "
            "rank allows: measure it again."
        )
    return told_ranks(
        {"document": document, "position": position, "token": token}, rank, logprob, record
    )


def read_lines(path):
    """What each line of a file of JSON lines holds."""
    with telling(
        f"{path} is not there, or has a line cut short, check it or read that window again"
    ):
        with open(path, encoding="utf-8-sig") as file:
            for line in filter(str.strip, file):
                yield dict(json.loads(line))


def answered(answer, names, path):
    """(ids, ranks, logprobs) of each window of an answer; the first id may be None.

    That is {"ids", "rank", "logprob"}, lists of one length that begin with an id, None and None; or
    what vLLM gives when asked with `prompt_logprobs` 0: the answer of its server, or a result of
    `LLM.generate`, whose entries map the id of the token to "rank" and "logprob".

    names: those that the server may give the model.
    """
    with telling(
        f"{path} holds an answer that is cut short, or gives other tokens too, "
        "have its window read again, with prompt_logprobs 0"
    ):
        # is it of this model?
        answer = answer if isinstance(answer, dict) else vars(answer)
        if answer.get("model") and Path(answer["model"]).name not in names:
            raise InputError(
                f"{path} holds ranks of {answer['model']!r} under another model's name: "
                "give each model a file of its own."
            )
        for choice in answer.get("choices", [answer]):
            if "prompt_logprobs" in choice:
                first, *_ = choice.get("prompt_token_ids") or [None]
                tokens = [(first, None, None)]
                for entry in choice["prompt_logprobs"][1:]:
                    ((token, about),) = entry.items()
                    about = about if isinstance(about, dict) else vars(about)
                    tokens.append((int(token), about["rank"], about["logprob"]))
            else:
                tokens = zip(*(choice[key] for key in ("ids", "rank", "logprob")), strict=True)
            ids, rank, logprob = zip(*tokens, strict=True)
            if {bool, str} & set(map(type, (*ids, *rank, *logprob))):
                raise TypeError("no numbers")
            ids = (ids[0], *map(index, ids[1:]))
            yield ids, np.array(rank, float), np.array(logprob, float)
