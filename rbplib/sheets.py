"""A table of numbers as it lies in a file: rows, columns by our names, cells as numbers.

file, folder or standard input -> rows, by pandas     -> what its cells hold, as text or numbers
n_params, val_loss, Perplexity -> S, loss, perplexity -> told, where there is one reading
"70M", "3,1", "1 234", "45.2%" -> float64
"""

import difflib
import io
import os
import re
import sys
from pathlib import Path

import numpy as np

from rbplib.families import (
    PATH,
    YAML,
    InputError,
    as_number,
    check_choice,
    complain,
    yaml_file,
)
from rbplib.texts import text_kind

# what a row of a table of numbers measures, with the column that it is out of
QUANTITIES = {
    "hits": "tokens",
    "accuracy": "questions",
    "loss": "tokens",
    "loss_bits": "tokens",
    "perplexity": "tokens",
    "bpb": "bytes",
    "bpc": "characters",
}
COUNTS = ("S", "D", "k", "hits", "tokens", "questions", "bytes", "characters")
OTHERS = ("family", "k", "seed", "source", "loss_se", "accuracy_se", "perplexity_se")
# names that people give to columns, in small letters and without what stands between
NAMES = {
    "model": "model name run runname modelname",
    "S": "s n params nparams parameters nparameters numparams numparameters paramcount "
    "modelsize size weightparams nonembeddingparams nonembparams paramsnoembed",
    "D": "d ntokens tokensseen trainingtokens traintokens numtokens trainedtokens",
    "hits": "hits",
    "accuracy": "accuracy acc",
    "loss": "loss valloss evalloss finalloss finalvalloss validationloss validloss testloss "
    "crossentropy crossentropyloss",
    "loss_bits": "lossbits",
    "perplexity": "perplexity ppl valppl evalppl valperplexity",
    "bpb": "bpb valbpb bitsperbyte",
    "bpc": "bpc valbpc bitsperchar bitspercharacter",
    "questions": "questions nquestions numquestions",
    "loss_se": "lossse lossstderr",
    "accuracy_se": "accuracyse accse accstderr accuracystderr",
    "perplexity_se": "perplexityse pplse pplstderr",
}
NAMES |= {name: name for name in (*QUANTITIES.values(), *OTHERS) if name not in NAMES}
NAMES = {name: names.split() for name, names in NAMES.items()}
UNIT = "(?:in)?(k|m|b|t|bn|mn|thousand|million|billion|trillion)s?"  # at a column name's end
UNITS = ("1", "k", "m", "b", "t")
# a size in a name, as in run_190M; not 6b of 1_6b
SIZE = re.compile(r"(?<![a-z0-9.])(?<!\d[_-])\d+(?:\.\d+)?[kmbt](?![a-z0-9])", re.I)
NOTHING = ("", "nan", "none", "null", "na", "n/a", "-", "<na>")  # cells of nothing
FILE = "\0file"  # the column of the file that a row is from
MOST_COLUMNS = 10_000
UNPACKED = 2**31  # bytes of a packed file, at most
EXCEL = (".xlsx", ".xlsm")


def is_table(name):
    """Whether a name is that of a table of numbers, and not a family's."""
    text = str(name)
    if text == "-" or text_kind(text)[0] or text.lower().endswith(EXCEL):
        return True
    is_family = text.lower().endswith(YAML) or yaml_file("family", text)
    return not is_family and os.path.exists(text)


def title(table):
    """What messages call a table."""
    if isinstance(table, PATH):
        return Path(table).name if str(table) != "-" else "standard input"
    return "these files" if is_paths(table) else "the table"


def is_paths(table):
    return isinstance(table, list | tuple) and len(table) and isinstance(table[0], PATH)


# --- Rows of files


def rows_of(table):
    """(rows as a data frame, whether they are of files, whose names and cells people write)."""
    import pandas as pd

    if not isinstance(table, PATH) and not is_paths(table):
        return pd.DataFrame(table), False
    # the files, each with its rows
    paths = [table] if isinstance(table, PATH) else table
    files = [file for path in paths for file in files_of(path)]
    frames = []
    for file in files:
        data = sys.stdin.buffer.read() if str(file) == "-" else Path(file).read_bytes()
        frames.append(rows_of_bytes(data).assign(**{FILE: Path(file).name.split(".")[0]}))
    rows = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    if not len(rows):
        raise ValueError("no row stands below its first line")
    return rows, True


def files_of(path):
    """A file, or those of a folder that hold tables, in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    files = [file for file in sorted(Path(path).iterdir()) if file.is_file()]
    files = [file for file in files if is_table(file.name) and not file.name.startswith(".")]
    if not files:
        raise ValueError("no file of the folder ends in .csv, .tsv, .json, .jsonl or .xlsx")
    return files


def rows_of_bytes(data):
    """Rows of a file by what it holds, whatever its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # unpacked, with an end
    packed = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}.get(data[:2])
    if packed:
        with pa.input_stream(io.BytesIO(data), compression=packed) as stream:
            data = stream.read(UNPACKED)
        if len(data) == UNPACKED:
            raise ValueError("unpacked it has more than 2 GiB")
    if data.startswith(b"PK\x03\x04"):
        return excel_rows(data)
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(data))
        check_columns(file.metadata.num_columns)
        return file.read().to_pandas(ignore_metadata=True)

    # text, by the mark at its head
    code = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(code)
    if "\0" in text:
        raise ValueError("it holds a NUL byte")
    first = text.lstrip()[:1]
    return json_rows(text) if first and first in "{[" else text_rows(text)


def check_columns(number):
    if number > MOST_COLUMNS:
        raise ValueError(f"it has {number:,} columns, and at most {MOST_COLUMNS:,} are read")


def json_rows(text):
    """Rows of JSON lines, of an array of objects, or of one object; nested names get dots."""
    import json

    import pandas as pd

    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        rows = rows[0] if isinstance(rows[0], list) else rows
    except ValueError:
        rows = json.loads(text)
    if isinstance(rows, dict):
        rows = [rows]
    kinds = {type(value) for value in rows[0].values()} if len(rows) == 1 else set()
    if kinds == {list} or kinds == {dict} and len(set(map(tuple, rows[0].values()))) == 1:
        return pd.DataFrame(rows[0])  # its columns
    check_columns(max(len(row) for row in rows))
    nested = any(isinstance(value, dict) for row in rows for value in row.values())
    return pd.json_normalize(rows) if nested else pd.DataFrame(rows)


def text_rows(text):
    """Rows of a CSV file: between what its first line holds, without comments and blank lines."""
    import pandas as pd

    text = re.sub(r"(?m)^[ \t]*#.*\n?", "", text) if re.search(r"(?m)^[ \t]*#", text) else text
    first = next(filter(str.strip, text.splitlines()), "")
    # the mark that is there most often outside quotes; else blanks
    bare = re.sub('"[^"]*"', "", first)
    mark = max("\t;,|", key=bare.count)
    between = mark if mark in bare else r"\s+"
    check_columns(bare.count(mark))
    how = {"header": None, "dtype": str, "keep_default_na": False, "skipinitialspace": True}
    how |= {"sep": between, "index_col": False}
    (names,) = pd.read_csv(io.StringIO(first), **how).to_numpy()
    # one column more than names: a comma at each line's end, or the index of R
    cells = pd.read_csv(io.StringIO(text), names=range(len(names) + 1), **how)
    cells = cells.apply(lambda column: column.str.strip())
    if mark == "|":  # the line below the names of a table in Markdown
        cells = cells[~cells.apply(lambda column: column.str.fullmatch(":?-*:?")).all(axis=1)]
    more = cells.pop(len(names)).iloc[1:]
    if more.str.len().any():
        index = cells.iloc[1:, 0].tolist()
        if index not in (
            list(map(str, range(len(index)))),
            list(map(str, range(1, 1 + len(index)))),
        ):
            number = int(np.flatnonzero(more.str.len())[0]) + 2
            raise ValueError(f"Expected {len(names)} fields in line {number}, saw {len(names) + 1}")
        cells = cells.drop(columns=0).set_axis(range(len(names) - 1), axis=1)
        cells[len(names) - 1] = more
        cells.iloc[0] = list(names)
    return headed(cells)


def excel_rows(data):
    """Rows of the first sheet of a workbook that has any; formulas are what was last worked out."""
    import zipfile

    import pandas as pd

    with zipfile.ZipFile(io.BytesIO(data)) as file:
        if sum(entry.file_size for entry in file.infolist()) > UNPACKED:
            raise ValueError("unpacked it has more than 2 GiB")
    try:
        sheets = pd.read_excel(io.BytesIO(data), sheet_name=None, header=None, dtype=object)
    except ImportError:
        raise InputError('a workbook needs openpyxl: pip install "rbplib[excel]".') from None
    full = [name for name, cells in sheets.items() if len(cells) > 1]
    if not full:
        raise ValueError("no sheet holds rows")
    if len(full) > 1:
        complain(f"of the sheets {', '.join(full)} the first is read.")
    cells = sheets[full[0]]
    check_columns(cells.shape[1])
    return headed(cells.dropna(how="all").dropna(how="all", axis=1).fillna(""))


def headed(cells):
    """Cells with the first row as names, without rows and columns that hold nothing, and without
    columns of numbers that have no name, as an index."""
    lengths = cells.astype(str).apply(lambda column: column.str.len()) > 0
    cells = cells.loc[lengths.any(axis=1), lengths.any()]
    if not len(cells):
        raise ValueError("no row stands below its first line")
    names = cells.iloc[0].astype(str).str.strip()
    unnamed = (names == "") | names.str.fullmatch(r"Unnamed: \d+")
    return cells.iloc[1:].set_axis(names, axis=1).loc[:, ~unnamed.to_numpy()]


# --- Columns by our names


def plain(name):
    """A column's name in small letters, without what stands between them."""
    return re.sub(r"[\W_]+", "", str(name).lower())


def reading(column, ours):
    """The unit, "" or a letter of UNITS, in which a column may be the one that we call so; None
    where it is not. A dot leads into a nested one."""
    names = "|".join(NAMES[ours])
    last = "" if ours in OTHERS else str(column).rpartition(".")[2]
    for name in (plain(column), plain(last)):
        if name in NAMES[ours]:
            return ""
        match = re.fullmatch(f"({names}){UNIT}", name)
        if ours in ("S", "D") and match and len(match[1]) > 1:
            return match[2][0]
    return None


def by_our_names(rows, columns, name):
    """(rows whose columns have our names, {"S" | "D": unit that a name tells}).

    columns: {our name: theirs} of those that were said. Raises InputError: one is not there or has
    two readings, or what a law needs is lacking.
    """
    chosen = {ours: their_column(rows, ours, theirs) for ours, theirs in columns.items()}
    units, free = {}, rows.columns.difference([*chosen.values(), FILE], sort=False)
    # one measured quantity, and each other name by itself
    for group in (QUANTITIES, *([ours] for ours in NAMES if ours not in QUANTITIES)):
        if chosen.keys() & group:
            continue
        exact = [ours for ours in group if ours in free]
        readings = {} if exact else readings_of(rows, free, group)
        if len(readings) > 1:
            could = [f"{ours} from {theirs!r}" for theirs, (ours, _) in readings.items()]
            theirs, (ours, _) = next(iter(readings.items()))
            raise InputError(
                f"{name} may have {' or '.join(could)}: say which, as in --columns {ours}={theirs}."
            )
        for theirs, (ours, unit) in readings.items():
            chosen[ours], units[ours] = theirs, unit
        chosen |= {ours: ours for ours in exact}
    refuse_lacking(rows, chosen, name)

    # a name of ours is of what was chosen alone
    taken = {theirs for ours, theirs in chosen.items() if ours != theirs}
    ours_unchosen = [ours for ours in NAMES if ours in rows and chosen.get(ours) != ours]
    rows = rows.drop(columns=[ours for ours in ours_unchosen if ours not in taken])
    changed = {theirs: ours for ours, theirs in chosen.items() if ours != theirs}
    if changed:
        complain(f"{name}: {', '.join(f'{o} from {t}' for t, o in changed.items())}.")
    return rows.rename(columns=changed), units


def their_column(rows, ours, theirs):
    """The column that a person names, whatever its capitals."""
    check_choice(ours, NAMES, "the column")
    if theirs in rows:
        return theirs
    alike = [column for column in rows if plain(column) == plain(theirs)]
    return alike[0] if len(alike) == 1 else check_choice(theirs, list(rows.columns), "the column")


def readings_of(rows, free, group):
    """{column: (our name in a group, unit)} of the columns that may be one of them: those of
    numbers, but for names."""
    readings = {}
    for column in free:
        for ours in group:
            unit = reading(column, ours)
            words = ours in ("model", "family", "source", "seed")
            if unit is not None and (words or holds_numbers(rows[column])):
                readings[column] = ours, unit
    return readings


def holds_numbers(column):
    """Whether the first cell that is not blank is a number."""
    cells = column[column.notna() & (column.astype(str) != "")]
    return bool(len(cells) and np.isfinite(cell_numbers(cells.iloc[:1], True)[0]))


def refuse_lacking(rows, chosen, name):
    """Refuse a table without sizes or without anything measured, saying all that is lacking, and
    what may be meant."""
    quantities = [ours for ours in QUANTITIES if ours in chosen]
    lacking = [] if "S" in chosen or FILE in rows and rows[FILE].nunique() > 1 else ["S"]
    if quantities == ["hits"] and "tokens" not in chosen:
        lacking.append("tokens")
    # names that are nearly theirs
    near, named = {}, {plain(column): column for column in rows if column != FILE}
    for ours in [*lacking, *([] if quantities else QUANTITIES)]:
        for word in NAMES[ours]:
            for alike in difflib.get_close_matches(word, named, 1, 0.75):
                near[f"{named[alike]!r} as {ours}"] = None
    lacking += [] if quantities else [f"one of {', '.join(QUANTITIES)}"]
    if lacking:
        there = ", ".join(map(repr, rows.columns.drop(FILE, errors="ignore")))[:400]
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise InputError(
            f"{name} lacks {' and '.join(lacking)}{hint}, it has {there}: name its columns, as in "
            "--columns S=n_params,loss=val_loss."
        )


def as_meant(rows, columns, last_row, name):
    """(rows of files in our columns, units): models and sizes from the names of files, the last
    row of each file, and no source that only says where a row is from."""
    rows, units = by_our_names(rows, columns, name)
    (quantity, *_) = [ours for ours in QUANTITIES if ours in rows]
    if last_row:
        filled = rows[quantity].notna() & (rows[quantity].astype(str).str.strip() != "")
        rows = rows[filled].groupby(FILE, sort=False).tail(1)
    files = rows.pop(FILE)
    if "model" not in rows and files.nunique() > 1:
        rows["model"] = files
    if "S" not in rows:
        rows["S"] = files
        complain(f"{name}: S from the names of the files.")
    # a model is the row where nothing names it, nor its size
    if "model" not in rows and not holds_numbers(rows["S"]):
        rows["model"] = rows["S"]
    apart = rows.columns.intersection(["family", "k", "model", "D", "seed"]).tolist()
    if "model" not in rows:
        by_row = not {"k", "source"} & set(rows)
        numbered = [f"row {i + 1}" for i in range(len(rows))]
        rows["model"] = numbered if by_row else "S = " + rows["S"].astype(str)
    if "source" in rows and not rows.duplicated([*apart, "model"]).any():
        rows = rows.drop(columns="source")
        complain(f"{name}: source says where each row is from, and is no piece of text.")
    return rows.reset_index(drop=True), units


# --- Cells


def is_blank(column, nothing=NOTHING):
    """Whether each cell holds nothing, bool (R,)."""
    blank = column.isna().to_numpy()
    if column.dtype.kind not in "iuf":
        blank = blank | column.astype(str).str.strip().str.lower().isin(nothing).to_numpy(bool)
    return blank


def cell_numbers(column, written=False):
    """The numbers in a column, float64 (R,), NaN for what is none. written: as people write them in
    files, with blanks or commas between thousands, decimal commas, and per cent."""
    import pandas as pd

    if column.dtype.kind in "iuf" and not written:
        return column.to_numpy(float, na_value=np.nan)
    which, cells = pd.factorize(column)
    cells = [str(cell)[:60] for cell in cells]
    if written:
        cells = plain_cells(cells, column.name in COUNTS)
    # the last stands for what is blank
    return np.array([*map(as_number, cells), np.nan])[which]


def plain_cells(cells, counts):
    """Cells as `as_number` takes them. counts: whether they are whole, so that 1,234 is above a
    thousand; else it is between one and two."""
    blank = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))|\s+(?=[kmbt%]$)", re.I)
    cells = [blank.sub("", cell.strip()) for cell in cells]
    commas = [cell for cell in cells if "," in cell]
    if all(re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?[kmbt]?", cell, re.I) for cell in commas):
        if counts or any(cell.count(",") > 1 or "." in cell for cell in commas):
            commas, cells = [], [cell.replace(",", "") for cell in cells]
    dots = any(re.search(r"\.\d{1,2}(?!\d)|\.\d{4}", cell) for cell in cells)
    if commas and not dots:
        cells = [cell.replace(".", "").replace(",", ".") for cell in cells]
    elif not dots and all(cell.count(".") > 1 for cell in cells if "." in cell):
        cells = [cell.replace(".", "") for cell in cells]
    return [re.sub("%$", "e-2", cell) for cell in cells]


def in_units(column, values, unit, name):
    """Sizes or tokens (R,) in the unit that is said, for cells that bear no letter of one.

    Raises InputError: all are below 1,000, and nothing says a unit.
    """
    bare = ~column.astype(str).str.strip().str[-1:].str.isalpha().to_numpy(bool)
    if unit:
        unit = check_choice(str(unit).lower(), UNITS, "the unit")
        return np.where(bare, values * (as_number(f"1{unit}") if unit != "1" else 1.0), values)
    if len(values) and bare.all() and np.nanmax(values, initial=0) < 1000:
        option = "--size-unit" if column.name == "S" else "--token-unit"
        raise InputError(
            f"all {column.name} of {name} are below 1,000: are they billions or millions? "
            f"Say {option} B or M, or 1 where they are meant so."
        )
    return values


def sizes_in_names(column):
    """Sizes (R,) that stand in names, as in run_190M; NaN where none, or more than one, does."""
    found = column.astype(str).str.findall(SIZE)
    return np.array([as_number(sizes[0]) if len(sizes) == 1 else np.nan for sizes in found])
