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
    POWERS,
    YAML,
    InputError,
    as_number,
    check_choice,
    complain,
    from_json,
    intact,
    telling,
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
WORDS = ("model", "family", "source", "seed")
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
SPELLED = {spelled: name for name, names in NAMES.items() for spelled in names}
# a unit at the end of a column's name
UNIT = re.compile("(..+?)(?:in)?(k|m|b|t|bn|mn|thousand|million|billion|trillion)s?")
UNITS = ("1", "k", "m", "b", "t")
# a size in a name, as in run_190M; not 6b of 1_6b
SIZE = re.compile(r"(?<![a-z0-9.])(?<!\d[_-])\d+(?:\.\d+)?[kmbt](?![a-z0-9])", re.I)
THOUSANDS = r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?[kmbtKMBT]?"  # with commas between
NOTHING = ("", "nan", "none", "null", "na", "n/a", "-", "<na>")  # cells of nothing
UNREAD = "{} cannot be read as a table, check it and its path"
FILE = "\0file"  # the column of the file that a row is from
MOST_COLUMNS = 10_000
UNPACKED = 2**31  # bytes of a packed file, at most
EXCEL = (".xlsx", ".xlsm")


def is_table(name):
    """Whether a name is that of a table of numbers, and not a family's."""
    text = str(name)
    if text == "-" or ends_as_table(text):
        return True
    is_here = os.path.exists(text)
    if is_here and yaml_file("family", text):
        complain(
            f"{text} is the family of that name, and not the file or folder ./{text}, which is "
            f"here too: write ./{text} for that."
        )
        return False
    return is_here and not text.lower().endswith(YAML)


def ends_as_table(path):
    return bool(text_kind(path)) or str(path).lower().endswith(EXCEL)


def paths_of(table):
    """The paths that a table is given by; none of rows themselves."""
    paths = [table] if isinstance(table, PATH) else table
    is_list = isinstance(paths, list | tuple) and all(isinstance(path, PATH) for path in paths)
    return list(paths) if is_list else []


def title(table):
    """What messages call a table."""
    paths = paths_of(table)
    if len(paths) != 1:
        return "these files" if paths else "the table"
    # "." has a name too
    return Path(os.path.abspath(paths[0])).name if str(paths[0]) != "-" else "standard input"


# --- Rows of files


def rows_of(table):
    """(rows as a data frame, whether they are of files, whose names and cells people write)."""
    import pandas as pd

    paths = paths_of(table)
    if not paths:
        return pd.DataFrame(table).assign(**{FILE: ""}), False
    # the files, each with its rows, and its name but for endings of letters
    frames = []
    for file in [file for path in paths for file in files_of(path)]:
        with telling(UNREAD.format(title(file))):
            data = sys.stdin.buffer.read() if str(file) == "-" else Path(intact(file)).read_bytes()
            name = re.sub(r"(?i)(\.[a-z]+)+$", "", Path(file).name)
            frames.append(rows_of_bytes(data).assign(**{FILE: name}))
    rows = pd.concat(frames, ignore_index=True) if frames[1:] else frames[0]
    if rows.empty:
        raise ValueError("no row stands below its first line")
    return rows, True


def files_of(path):
    """A file, or those of a folder that hold tables, in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    files = [file for file in sorted(Path(path).glob("[!.]*")) if ends_as_table(file)]
    if not files:
        raise ValueError("no file of the folder ends in .csv, .tsv, .json, .jsonl or .xlsx")
    return files


def rows_of_bytes(data):
    """Rows of a file by what it holds, whatever its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # unpacked, with an end
    if packed := {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}.get(data[:2]):
        with pa.input_stream(io.BytesIO(data), compression=packed) as stream:
            data = stream.read(UNPACKED)
        check_most(len(data), UNPACKED - 1, "bytes unpacked")
    if data.startswith(b"PK\x03\x04"):
        return excel_rows(data)
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(data))
        check_most(file.metadata.num_columns)
        return file.read().to_pandas(ignore_metadata=True)

    # text, by the mark at its head
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is no text in UTF-8, save it as CSV UTF-8") from None
    if "\0" in text:
        raise ValueError("it holds a NUL byte")
    return json_rows(text) if re.match(r"\s*[{[]", text) else text_rows(text)


def check_most(number, most=MOST_COLUMNS, what="columns"):
    if number > most:
        raise ValueError(f"it has {number:,} {what}, and at most {most:,} are read")


def json_rows(text):
    """Rows of JSON lines, of an array of objects, or of one object; nested names get dots."""
    import pandas as pd

    rows = []
    try:
        for line in filter(str.strip, text.splitlines()):
            rows.append(from_json(line))
    except ValueError as error:
        # lines from the first on, or one value over several
        if rows:
            raise ValueError(f"row {len(rows) + 1} is no JSON that can be read, {error}") from None
        rows = [from_json(text)]
    rows = rows[0] if isinstance(rows[0], list) and len(rows) == 1 else rows
    if not rows or {*map(type, rows)} != {dict}:
        raise ValueError("its JSON holds no rows, each an object of names and numbers")
    check_most(max(map(len, rows)))
    # columns, as lists or with the same index, may stand in one object
    kinds = {tuple(cells) if isinstance(cells, dict) else type(cells) for cells in rows[0].values()}
    if len(rows) == len(kinds) == 1 and (kinds == {list} or isinstance(*kinds, tuple)):
        return pd.DataFrame(rows[0])
    return pd.json_normalize(rows)


def text_rows(text):
    """Rows of a CSV file: between what its first line holds, without comments and blank lines."""
    import pandas as pd

    if re.search(r"(?m)^[ \t]*#", text):
        text = re.sub(r"(?m)^[ \t]*#.*\n?", "", text)
    first = next(filter(str.strip, text.splitlines()), "")
    # the mark that is there most often outside quotes; else blanks
    bare = re.sub('"[^"]*"', "", first)
    mark = max("\t;,|", key=bare.count)
    check_most(bare.count(mark))
    how = {"header": None, "dtype": str, "keep_default_na": False, "skipinitialspace": True}
    how |= {"sep": mark if mark in bare else r"\s+", "index_col": False}
    names = pd.read_csv(io.StringIO(first), **how).iloc[0].tolist()
    if np.isfinite([*map(as_number, names)]).all():
        raise ValueError("its first line holds numbers, write names of columns above, without #")
    # one column more than names: a comma at each line's end, or the index of R
    cells = pd.read_csv(io.StringIO(text), names=range(len(names) + 1), **how)
    cells = cells.apply(lambda column: column.str.strip())
    more = cells[len(names)].str.len() > 0
    if more.any():
        numbers = pd.to_numeric(cells[0][1:], errors="coerce")
        if set(numbers - np.arange(len(numbers))) not in ({0}, {1}):
            wrong = f"in line {more.argmax() + 1}, saw {len(names) + 1}: name each"
            raise ValueError(f"Expected {len(names)} fields {wrong}")
        cells.iloc[0] = ["", *names]
    if mark == "|":  # the line below the names of a table in Markdown
        cells = cells[~cells.apply(lambda column: column.str.fullmatch(":?-*:?")).all(axis=1)]
    return headed(cells)


def excel_rows(data):
    """Rows of the first sheet of a workbook that has any; formulas are what was last worked out."""
    import zipfile

    import pandas as pd

    with zipfile.ZipFile(io.BytesIO(data)) as file:
        check_most(sum(entry.file_size for entry in file.infolist()), UNPACKED, "bytes unpacked")
    try:
        sheets = pd.read_excel(io.BytesIO(data), sheet_name=None, header=None, dtype=object)
    except ImportError:
        raise InputError('a workbook needs openpyxl: pip install "rbplib[excel]".') from None
    full = [name for name, cells in sheets.items() if len(cells) > 1]
    if not full:
        raise ValueError("no sheet holds rows")
    if full[1:]:
        complain(f"of the sheets {', '.join(full)} the first is read, move another to the front.")
    check_most(sheets[full[0]].shape[1])
    return headed(sheets[full[0]].fillna(""))


def headed(cells):
    """Cells with the first row that holds something as names, without blank rows, and without
    columns that have no name, as an index."""
    filled = cells.apply(lambda column: column.astype(str).str.len() > 0)
    first = filled.any(axis=1).to_numpy().argmax()
    names = cells.iloc[first].astype(str).str.strip()
    named = ~names.str.fullmatch(r"(Unnamed: \d+)?").to_numpy(bool)
    cells, filled = cells.iloc[first + 1 :, named], filled.iloc[first + 1 :, named]
    return cells[filled.any(axis=1)].set_axis(names[named], axis=1)


# --- Columns by our names


def our_rows(table, columns, last_row, name):
    """(rows of a table in our columns, {"S" | "D": unit that a name tells} of files).

    columns: {our name: theirs} of those that were said. Raises InputError: one is not there, there
    twice or has two readings, or what a law needs is lacking.
    """
    rows, written = rows_of(table)
    if not rows.columns.is_unique:
        raise InputError(f"a column of {name} is there twice: leave one.")
    chosen = {ours: their_column(rows, ours, theirs) for ours, theirs in columns.items()}
    if written:
        units = by_our_names(rows, chosen, name)
    else:
        units, chosen = {}, {column: column for column in rows if column in NAMES} | chosen

    # a unit in the name of a column that was said
    for ours, column in columns.items():
        match = UNIT.fullmatch(plain(column))
        if ours in ("S", "D") and match and match[1] in SPELLED and plain(column) not in SPELLED:
            units[ours] = match[2][0]

    # a name of ours is of what was chosen alone
    theirs = {theirs: ours for ours, theirs in chosen.items()}
    rows = rows[[column for column in rows if column in theirs or column not in NAMES]]
    changed = [f"{theirs[t]} from {t}" for t in rows if theirs.get(t, t) != t]
    if changed and written:
        complain(f"{name}: {', '.join(changed)}.")
    rows = rows.rename(columns=theirs)
    refuse_lacking(rows, name)
    return as_meant(rows, last_row, name), units


def plain(name):
    """A column's name in small letters, without what stands between them."""
    return re.sub(r"[\W_]+", "", str(name).lower())


def reading(column):
    """(our name of a column, or None; "" or a letter of UNITS). A dot leads into a nested one."""
    whole, last = plain(column), plain(str(column).rpartition(".")[2])
    for name in (whole, last):
        ours, unit, match = SPELLED.get(name), "", UNIT.fullmatch(name)
        if not ours and match and SPELLED.get(match[1]) in ("S", "D"):
            ours, unit = SPELLED[match[1]], match[2][0]
        if ours and (name == whole or ours not in OTHERS):
            return ours, unit
    return None, ""


def by_our_names(rows, chosen, name):
    """Add to {our name: theirs} what other columns of files may be, where there is one reading:
    units as `our_rows` gives them."""
    # what other columns may be: one measured quantity, and each other name by itself
    said, could, units = {group_of(ours) for ours in chosen}, {}, {"S": "", "D": ""}
    for theirs in rows.columns.difference([*chosen.values(), FILE], sort=False):
        ours, unit = reading(theirs)
        # of numbers, but for words
        if ours and (ours in (theirs, *WORDS) or holds_numbers(rows[theirs])):
            could.setdefault(group_of(ours), {})[theirs] = ours, unit
    for readings in [readings for group, readings in could.items() if group not in said]:
        exact = {theirs: found for theirs, found in readings.items() if theirs == found[0]}
        if len(readings) > 1 and not exact:
            texts = [f"{ours} from {theirs!r}" for theirs, (ours, _) in readings.items()]
            theirs, (ours, _) = next(iter(readings.items()))
            raise InputError(
                f"{name} may have {' or '.join(texts)}: say which, as in --columns {ours}={theirs}."
            )
        for theirs, (ours, unit) in (exact or readings).items():
            chosen[ours] = theirs
            units |= {ours: unit} if unit else {}
    return units


def group_of(ours):
    """Names of which a table has one."""
    return "measured" if ours in QUANTITIES else ours


def their_column(rows, ours, theirs):
    """The column that a person names, whatever its capitals."""
    check_choice(ours, NAMES, "the column")
    alike = [column for column in rows if plain(column) == plain(theirs)]
    if theirs in rows or len(alike) != 1:
        return check_choice(theirs, [column for column in rows if column != FILE], "the column")
    return alike[0]


def holds_numbers(column):
    """Whether one of the first cells is a number: a run that diverged may be above the others."""
    cells = column.iloc[:1000]
    return bool(np.isfinite(cell_numbers(cells[~is_blank(cells)])).any())


def refuse_lacking(rows, name):
    """Refuse a table without sizes or without one thing measured, saying all that is lacking, and
    what may be meant."""
    quantities = [ours for ours in QUANTITIES if ours in rows]
    if quantities[1:]:
        raise InputError(f"{name} has {' and '.join(quantities)}: leave one of them.")
    absent = [] if "S" in rows or rows[FILE].nunique() > 1 else ["S"]
    absent += ["tokens"] if quantities == ["hits"] and "tokens" not in rows else []
    # names that are nearly theirs
    near, words = [], [*absent, *([] if quantities else QUANTITIES)]
    spelled = [word for word, ours in SPELLED.items() if ours in words]
    for column in rows.columns.drop(FILE):
        for word in difflib.get_close_matches(plain(column), spelled, 1, 0.75):
            near.append(f"{column!r} as {SPELLED[word]}")
    absent += [] if quantities else [f"one of {', '.join(QUANTITIES)}"]
    if absent:
        there = ", ".join(map(repr, rows.columns.drop(FILE)))[:400]
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise InputError(
            f"{name} lacks {' and '.join(absent)}{hint}, it has {there}: name its columns, as in "
            "--columns S=n_params,loss=val_loss (in Python `columns` of rbp.table_losses)."
        )


def as_meant(rows, last_row, name):
    """Rows in our columns: models and sizes from the names of files, the last row of each file, and
    no source that only says where a row is from."""
    import pandas as pd

    if last_row:
        quantity = next(ours for ours in QUANTITIES if ours in rows)
        # the last that has a number; of a file without one, its last
        some = pd.Series(~is_blank(rows[quantity]), rows.index)
        ends = rows.groupby(FILE, sort=False).tail(1)
        rows = rows[some | ~some.groupby(rows[FILE]).transform("any")]
        rows = rows.groupby(FILE, sort=False).tail(1)
        if early := rows.loc[~rows.index.isin(ends.index), FILE].tolist():
            more = f" and {len(early) - 5} more" if early[5:] else ""
            complain(
                f"{name}: {', '.join(early[:5])}{more} end in rows without {quantity}: the last "
                "with one counts; if that run diverged, remove its file."
            )
    files = rows.pop(FILE)
    if "S" not in rows:
        rows["S"] = files
        complain(f"{name}: S from the names of the files.")
    # a model is its file, or the row, where nothing names it, nor its size
    if "model" not in rows:
        numbers = [f"row {i + 1}" for i in range(len(rows))]
        rows["model"] = "S = " + rows["S"].astype(str) if {"k", "source"} & {*rows} else numbers
        if files.nunique() > 1:
            rows["model"] = files
        elif not holds_numbers(rows["S"]):
            rows["model"] = rows["S"]
    keys = rows.columns.intersection(["family", "k", "model", "D", "seed"]).tolist()
    if "source" in rows and (files != "").any() and not rows.duplicated(keys).any():
        rows = rows.drop(columns="source")
        complain(f"{name}: source says where each row is from, and is no piece of text.")
    return rows.reset_index(drop=True)


# --- Cells


def is_blank(column):
    """Whether each cell holds nothing, bool (R,)."""
    blank = column.isna().to_numpy()
    if column.dtype.kind not in "iuf":
        blank = blank | column.astype(str).str.strip().str.lower().isin(NOTHING).to_numpy(bool)
    return blank


def cell_numbers(column):
    """The numbers in a column, float64 (R,), NaN for what is none: as people write them, with
    blanks or commas between thousands, decimal commas, letters of a unit, and per cent."""
    import pandas as pd

    if column.dtype.kind in "iuf":
        return column.to_numpy(float, na_value=np.nan)
    cells = column.astype(str).str[:60]
    values = pd.to_numeric(cells, errors="coerce").to_numpy(float)
    if not np.isfinite(values).all():
        which, different = pd.factorize(cells, use_na_sentinel=False)
        different = plain_cells(list(map(str, different)), column.name in COUNTS)
        values = np.array([*map(as_number, different)])[which]
    return values


def plain_cells(cells, counts):
    """Cells as `as_number` takes them. counts: whether they are whole, so that 1,234 is above a
    thousand; else it is between one and two."""
    blank = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))|\s+(?=[kmbt%]$)", re.I)
    cells = [blank.sub("", cell.strip()) for cell in cells]
    commas = [cell for cell in cells if "," in cell]
    if all(re.fullmatch(THOUSANDS, cell) for cell in commas):
        if counts or any(cell.count(",") > 1 or "." in cell for cell in commas):
            commas, cells = [], [cell.replace(",", "") for cell in cells]
    dots = any(re.search(r"\.\d{1,2}(?!\d)|\.\d{4}", cell) for cell in cells)
    if not dots and (commas or not any(cell.count(".") == 1 for cell in cells)):
        cells = [cell.replace(".", "").replace(",", ".") for cell in cells]
    return [re.sub("%$", "e-2", cell) for cell in cells]


def in_units(column, values, unit, name):
    """Sizes or tokens (R,) in the unit that is said, for cells that bear no letter of one.

    Raises InputError: some are below 1,000, and nothing says a unit.
    """
    bare = ~column.astype(str).str.strip().str[-1:].str.isalpha().to_numpy(bool)
    if unit:
        unit = check_choice(str(unit).lower(), UNITS, "the unit")
        return np.where(bare, values * float(f"1{POWERS.get(unit, '')}"), values)
    small = bare & (values > 0) & (values < 1000)
    if small.any():
        option = "--size-unit" if column.name == "S" else "--token-unit"
        rows = ", ".join(map(str, np.flatnonzero(small)[:5] + 1))
        which = (
            "every row" if small.all() else f"row(s) {rows}" + (", ..." if small.sum() > 5 else "")
        )
        raise InputError(
            f"{column.name} of {name} is below 1,000 in {which}: are billions or millions meant? "
            f"Say {option} B or M, or 1 where they are meant so."
        )
    return values


def sizes_in_names(column):
    """Sizes (R,) that stand in names, as in run_190M; NaN where none, or more than one, does."""
    sizes = column.astype(str).str.findall(SIZE)
    return np.array([as_number(found[0]) if len(found) == 1 else np.nan for found in sizes])
