"""The `rbp` command: thin over the library.

Bad input is one sentence on standard error and exit code 2.
"""

import argparse
import json
import math
import os
import re
import signal
import sys
import warnings
from datetime import date
from itertools import chain, combinations, product
from pathlib import Path

import rbplib
from rbplib.families import (
    FORMULA,
    PROTOCOLS,
    InputError,
    as_number,
    complain,
    held,
    load_corpus,
    load_family,
    not_loaded,
    printable,
    yaml_files,
)
from rbplib.sheets import UNITS, is_table

KS = (1, 10, 100)  # fitted where no k is named
TABLES = ("columns", "size_unit", "token_unit", "drop_bad", "last_row")  # options of tables
# entries of a corpus, of a rank table, and of a law
OF_CORPUS = "name source title documents licence"
OF_TABLE = "model corpus protocol scored_tokens weights_dtype"
OF_LAW = "family corpus k alpha log_c r2 ci_tokens ci_trainings ci_models"
# of several laws, and of forecasts, what a table on a screen has room for
LAWS = "family corpus k alpha ci_tokens ci_models r2 n_models status caveats"
JOINT = "family corpus k E ci_E A a ci_a B b ci_b ratio ci_ratio"
FORECASTS = "family corpus k S rbp ci_rbp loss ci_loss beyond"

# --- How options are read


class Once(argparse.Action):
    """Keep the value of an option, which is given once: the last does not win in silence."""

    def __call__(self, parser, namespace, values, option_string=None):
        if getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, "given twice, or with its alternative: give one")
        setattr(namespace, self.dest, self.const if values == [] else values)


class Parser(argparse.ArgumentParser):
    def __init__(self, **how):
        super().__init__(**how)
        self.register("action", None, Once)

    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


def size(text):
    """A number of parameters as people write it: 13e9, 13B, 350M, 22k."""
    number = as_number(text)
    if not 1 <= number <= 1e18:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number from 1 to 1e18: write 13e9, 13B, 350M or 22k"
        )
    return number


def names(text):
    """Names between commas; the path of a file that is there may hold one."""
    listed = [text] if os.path.exists(text) else [name for name in text.split(",") if name]
    if not listed:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return listed


def columns(text):
    """[(our name, theirs)] of columns, between commas."""
    # a name may hold a comma, as "acc,none" does
    pairs = [part.partition("=")[::2] for part in re.split(r",(?=\w+=)", text)]
    if not all(map(all, pairs)):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} names no columns: write S=n_params")
    return pairs


def whole_numbers(text):
    """Whole numbers, 0 or above, between commas."""
    if not re.fullmatch("[0-9]{1,18}(,[0-9]{1,18})*", text):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is no whole number from 0 up: write 10, or several with commas"
        )
    return list(map(int, text.split(",")))


def option(*names, **how):
    """An argument of a command, as `add_argument` takes it."""
    return names, how


PARSER = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
PARSER.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")

YES = {"action": "store_true"}
MANY = {"action": "extend", "type": names}
FAMILY = option("--family", required=True, help="a name in families/ or a YAML path")
OUT = option("-o", "--output", dest="out", type=Path, required=True, help="the file to write")
RESULTS = option("--results", type=Path, help="results folder (default: results/, or RBP_RESULTS)")
PROTOCOL = option("--protocol", choices=PROTOCOLS, default="paper", help="which tokens are scored")
JSON = option("--json", nargs=0, const="json", dest="form", help="print JSON for programs")
CSV = option("--csv", nargs=0, const="csv", dest="form", help="print CSV, a row for each law")
CORPORA = option(
    "--corpus", **MANY, dest="corpora", help="names, YAML, files or folders, with commas or again"
)
MODELS = option(
    "--model", **MANY, dest="models", help="of the family, with commas or again (default: all)"
)
DTYPE = option("--dtype", help="float32, bfloat16 or float16 (default: by device)")
MEASURING = FAMILY, MODELS, CORPORA, PROTOCOL, DTYPE, RESULTS
FITTING = (
    CORPORA,
    option(
        "--k",
        action="extend",
        type=whole_numbers,
        dest="ks",
        help="ranks counted as success, 1 to the vocabulary size, with commas or again "
        "(default: 1,10,100 and the cross-entropy)",
    ),
    PROTOCOL,
    option("--partial", **YES, help="go on without the models that were not measured"),
    option(
        "--n-bootstrap",
        type=int,
        default=10_000,
        help="resamples of the sources (default 10000), 0 for none",
    ),
    JSON,
    CSV,
    RESULTS,
)
WHOSE = (
    option(
        "sources",
        action="extend",
        nargs="*",
        metavar="TABLE",
        help="tables of numbers (CSV, Excel, Parquet, JSON lines; - is standard input), folders "
        "of them, or families",
    ),
    option("--family", **MANY, dest="sources", help="names or YAML paths, with commas or again"),
    option(
        "--columns",
        action="extend",
        type=columns,
        help="of a table whose columns have other names: S=n_params,loss=eval/loss; dots lead "
        "into nested JSON",
    ),
    option("--size-unit", choices=UNITS, type=str.lower, help="of sizes without a letter"),
    option("--token-unit", choices=UNITS, type=str.lower, help="of D without a letter"),
    option("--drop-bad", **YES, help="leave models with unusable cells out"),
    option("--last-row", **YES, help="each file is a run, a row a step: its last row counts"),
)


def command(name, example, *options):
    """Make a function a command: its docstring is the help, its arguments are the options."""

    def register(run):
        # a parser with its help, then its options
        about = run.__doc__
        how = {"help": about, "description": about, "epilog": f"example: rbp {name} {example}"}
        parser = COMMANDS.add_parser(name, **how)
        parser.set_defaults(run=run)
        for names, how in options:
            parser.add_argument(*names, **how)
        return run

    return register


# --- What is printed


def tell(records, form=None, columns=None):
    """Print records as JSON or CSV for programs; else as a table, of these columns where it is of
    several; one with an entry a line."""
    if form == "json":
        print(json.dumps(records, indent=2, allow_nan=False))
        return
    import pandas as pd

    rows = [records] if isinstance(records, dict) else records
    frame = pd.DataFrame(rows, dtype=object)
    if form == "csv":
        # no text is a spreadsheet's formula, or steers a terminal
        print(printable(frame.replace(FORMULA, "'", regex=True).to_csv(index=False)), end="")
    elif len(rows) == 1:
        print(*(f"{key:22} {show(entry)}" for key, entry in rows[0].items()), "", sep="\n")
    else:
        frame = frame.filter(columns.split() if columns else frame.columns).map(show)
        print(frame.to_string(index=False, max_colwidth=None), end="\n\n")


def plain(record):
    """A record as JSON holds it: numbers of Python, and None for what is none, or for an interval
    without one of its ends."""
    import numpy as np

    plain = {}
    for name, value in record.items():
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f":
            value = numbers.tolist() if np.isfinite(numbers).all() else None
        plain[name] = value
    return plain


def show(value):
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else ""
    return f"{value:,}" if isinstance(value, int) else printable(str(value or "none"))


# --- Families and texts


def listed(what, name, rows_of):
    """(rows of what is named, or of all there are, exit code). Of several, one that cannot be read
    is told, and the others are listed."""
    rows, code = [], 0
    for entry in [name] if name else sorted(yaml_files(what)):
        try:
            rows += rows_of(entry)
        except InputError as error:
            if name:
                raise
            complain(str(error))
            code = 2
    return rows, code


@command(
    "families",
    "nano-pythia --json",
    option("name", nargs="?", help="one family only, or a YAML path: with what is measured of it"),
    JSON,
    RESULTS,
)
def list_families(name, form, results):
    """List families and the sizes of their models; of one, the tables that are there too."""
    from rbplib.models import family_sizes
    from rbplib.table import records_of

    rows, code = listed("family", name, family_sizes)
    # of one that is named, a record for each rank table that is whole
    tables = []
    for path, record in records_of(load_family(name).name, results) if name else []:
        row = {entry: record.get(entry) for entry in OF_TABLE.split()}
        tables.append(row | {"file_of": str(date.fromtimestamp(path.stat().st_mtime))})
    for row in rows if form and name else []:
        row["tables"] = [table for table in tables if table["model"] == row["model"]]
    tell(rows, form)
    if tables and not form:
        tell(tables)
    return code


@command("corpora", "docs --json", option("name", nargs="?", help="one only, or a path"), JSON)
def list_corpora(name, form):
    """List corpora: where their text comes from."""

    def about(name):
        corpus = load_corpus(name)
        return [{entry: getattr(corpus, entry) for entry in OF_CORPUS.split()}]

    rows, code = listed("corpus", name, about)
    tell(rows, form)
    return code


# --- Measuring


@command("plan", "--family pythia", *MEASURING, JSON)
def plan(form, **options):
    """Tell sizes, memory, download and disk before anything starts."""
    from rbplib.measuring import plan as planned

    plan = planned(**options)
    for part in [plan] if form else [plan["models"], plan["corpora"], plan["total"]]:
        tell(part, form)
    for note in plan["notes"]:
        complain(note)
    return 2 * any(row["nonembedding_params"] is None for row in plan["models"])


@command("fetch", "--family pythia --corpus wikipedia", FAMILY, MODELS, CORPORA)
def fetch(**options):
    """Fetch weights and text from the hub, for machines without a network."""
    from rbplib.measuring import fetch

    for model, folder in fetch(**options).items():
        print(f"{model}: {folder}")


@command(
    "measure",
    "--family nano-pythia",
    *MEASURING,
    option("--device", help="cpu, cuda, cuda:1, mps, or auto (spread over devices)"),
    option("--batch-tokens", type=size, help="of one forward pass (default: found against memory)"),
    option("--replace", **YES, help="measure over tables of another model, text or precision"),
    option("--quiet", action="store_false", dest="progress", help="no progress bars"),
)
def measure(**options):
    """Measure rank tables that are missing."""
    from rbplib.measuring import measured, measuring, tell_doubts, what_was_read

    for corpus, tables in measured(counts=False, **options).items():
        print(f"{corpus}: tokens {len(tables[0]):,}, models {len(tables)}")
        print(f"    {what_was_read(tables[0])}")
        for table in tables:
            tell_doubts(table)
    about = [options[name] for name in ("family", "corpora", "protocol", "results")]
    print("next:", measuring(*about, "fit"))


# --- Laws


def asked_losses(sources, corpora, ks, **options):
    """For each table of numbers or family that a command names, its losses: [(Loss, what a record
    says of the models that it lacks)]."""
    # options of tables, and of families
    of_tables = {name: options.pop(name) for name in TABLES}
    tables = [is_table(source) for source in sources or ()]
    of_families = corpora or options["partial"] or options["results"]
    if not tables or (of_families or options["protocol"] != "paper") and all(tables):
        raise InputError(
            "give a table of numbers, or --family with --corpus, --protocol, --partial and "
            "--results; --k with either."
        )
    if any(of_tables.values()) and not all(tables):
        raise InputError(
            "--columns, --size-unit, --token-unit, --drop-bad and --last-row are of tables of "
            "numbers: leave them out for a family."
        )
    pairs = of_tables["columns"] or ()
    of_tables["columns"] = dict(pairs)
    for side, what in enumerate(("name", "column")):
        if len({pair[side] for pair in pairs}) < len(pairs):
            raise InputError(f"--columns gives a {what} twice: give each once.")
    # files of which each is a run are one table
    if of_tables["last_row"]:
        return [table_laws(sources, ks, of_tables)]
    return [
        table_laws(source, ks, of_tables) if table else family_laws(source, corpora, ks, **options)
        for source, table in zip(sources, tables, strict=True)
    ]


def table_laws(source, ks, options):
    """As `asked_losses`, of a table of numbers."""
    from rbplib.doors import read_losses, title

    losses, left_out = read_losses(source, **options)
    there = {loss.k for loss in losses}
    if absent := set(ks or ()) - there:
        raise InputError(f"{title(source)} has nothing at k = {min(absent)}: name another k.")
    wanted = [loss for loss in losses if loss.k in (ks or there)]
    return [(loss, counted(loss, (), left_out.get(loss.family, []))) for loss in wanted]


def family_laws(source, corpora, ks, protocol, results, partial):
    """As `asked_losses`, of a family: of each text at each k, and in cross-entropy where no k is
    named.

    A text that is not named, and not measured whole, is told and left out.
    """
    from rbplib.losses import cross_entropy, precision_of, rbp_loss
    from rbplib.table import family_tables, measured_texts, tell_candidates

    losses, faults = [], []
    texts = corpora or measured_texts(source, protocol, results)
    for corpus in dict.fromkeys(texts):
        try:
            tables, missing = family_tables(source, corpus, protocol, results, partial)
        except InputError as error:
            if corpora:
                raise
            faults.append(InputError(f"{corpus}: {error}"))
            continue
        # what is to be said of the ranks
        bounds = [t.record for t in tables if t.record.get("definition") == "greater+1"]
        if bounds:
            models = ", ".join(map("{family}/{model}".format_map, bounds))
            complain(
                f"ranks of {models} are one more than the candidates above (greater+1): "
                "their ties are not known, so hits are upper bounds, the best case."
            )
        precision = precision_of(tables)
        if precision not in ("", "float32"):
            complain(f"{tables[0].record['family']} was measured in {precision}.")
        tell_candidates({t.record["model"]: t.record["vocab_size"] for t in tables})
        laws = [
            rbp_loss(tables, k) for k in dict.fromkeys(ks or KS) if ks or k <= tables.vocab_size
        ]
        if not ks:
            laws.append(cross_entropy(tables))
        losses += [(loss, counted(loss, missing, [])) for loss in laws]
    # nothing, or not all
    if not losses:
        raise [*faults, InputError("nothing of that was measured: name a text by --corpus.")][0]
    for fault in faults:
        complain(f"left out: {fault}")
    return losses


def counted(loss, missing, left_out):
    """What a record says of the models that a law lacks: those without a rank table, and what else
    is left out of it; those without a logarithm of their loss are told."""
    import numpy as np

    names = np.array(loss.models)[~np.isfinite(loss.y)]
    valueless = [f"{name} has no finite logarithm of its loss" for name in names]
    if valueless:
        complain(
            f"left out of {loss.name} of {loss.family} on {loss.corpus}: {', '.join(valueless)}."
        )
    return {"missing": list(missing), "left_out": [*left_out, *valueless]}


def about(loss):
    """What a law is of."""
    return {"family": loss.family, "corpus": loss.corpus, "k": loss.k}


@command(
    "fit",
    "--family nano-pythia --corpus docs --k 1 --json",
    *WHOSE,
    *FITTING,
    option("--joint", **YES, help="with D: E + A S^-a + B D^-b, and the best tokens a parameter"),
)
def fit(n_bootstrap, form, joint, **options):
    """Fit the law to measured tables, or to a table of numbers."""
    from rbplib.law import fit
    from rbplib.losses import check_models

    losses, records = chain(*asked_losses(**options)), []
    if joint:
        made = of_each(losses, joint_record)
        tell([plain(record | without) for _, without, record in made], form, JOINT)
        return
    for loss, without in losses:
        # the line, and how much it bends
        check_models(loss)
        law, bend = (fit(loss, kind, n_bootstrap) for kind in ("least_squares", "quadratic"))
        record = {name: getattr(law, name) for name in OF_LAW.split()} | {
            "lack_of_fit_p": law.p["sources"],
            "trained_lack_of_fit_p": law.p["trainings"],
            "curvature": bend.parameters["curvature"],
            "ci_curvature": bend.intervals["text"]["curvature"],
            "n_models": law.n_models,
            "scored_tokens": law.scored_tokens,
            "sources": law.n_sources,
            "status": law.status,
            **without,
            "precision": loss.precision or None,
            "notes": list(law.notes),
            "caveats": list(law.caveats),
        }
        records.append(plain(record))
    alone = len(records) == 1 and not is_table(options["sources"][0])
    tell(records[0] if alone else records, form, LAWS)


def of_each(losses, work):
    """[(loss, what it lacks, what is made of it)]; where that fails for some, they are told."""
    made, faults = [], []
    for loss, without in losses:
        try:
            made.append((loss, without, work(loss)))
        except InputError as fault:
            faults.append(fault)
    if not made:
        raise faults[0]
    for fault in faults:
        complain(f"left out: {fault}")
    return made


def joint_record(loss):
    """Parameters of the law in size and tokens, and its best ratio of tokens to parameters."""
    from rbplib.joint import joint_fit

    law, record = joint_fit(loss), about(loss)
    ratio, ends = law.ratio()
    intervals = law.intervals | {"ratio": ends}
    for name, value in (law.parameters | {"ratio": ratio}).items():
        record |= {name: value, f"ci_{name}": intervals[name]}
    return record | {
        "compute": 6 * max(law.loss.S * law.loss.D),
        "floor": law.draws.floor,
        "widened": law.missed,
        "n_points": len(law.loss.S),
    }


@command(
    "predict",
    "--family nano-pythia --corpus docs --k 1 --size 6.5M 13e6",
    *WHOSE,
    *FITTING,
    option(
        "--size",
        type=size,
        nargs="+",
        action="extend",
        required=True,
        help="non-embedding parameters: 13e9, 13B",
    ),
    option("--tokens", type=size, help="of training text, where a table tells D: 2T, 300B"),
)
def predict(size, tokens, n_bootstrap, form, **options):
    """Forecast RBP_k and cross-entropy at sizes that were not measured."""
    import numpy as np

    from rbplib.forecasting import FAR, forecast
    from rbplib.joint import joint_forecast

    def ahead_of(loss):
        if tokens:
            return joint_forecast(loss, size, tokens)
        return forecast(loss, size, n_bootstrap)

    records = []
    for loss, without, ahead in of_each(chain(*asked_losses(**options)), ahead_of):
        shared = about(loss) | {"models": len(loss.defined().models), **without}
        shared["precision"] = loss.precision or None
        if tokens:
            shared["tokens"] = round(tokens)
        # a record for each size; RBP is the exponential of less the loss
        columns = {"S": map(round, size), "beyond": ahead.horizon, "below": ahead.below}
        if loss.hits:
            columns |= {"rbp": np.exp(-ahead.loss), "ci_rbp": np.exp(-ahead.interval[::-1].T)}
        columns |= {"loss": ahead.loss, "ci_loss": ahead.interval.T}
        for row in zip(*columns.values(), strict=True):
            records.append(plain(shared | dict(zip(columns, row, strict=True))))
    for side, what in (("beyond", "beyond the largest"), ("below", "below the smallest")):
        if max(record[side] for record in records) > FAR:
            complain(f"more than {FAR:g} decade {what} model: do not lean on that.")
    tell(records, form, FORECASTS)


@command(
    "compare",
    "nano-pythia nano-gpt2 --corpus docs",
    *WHOSE,
    option("--size", type=size, dest="S", help="of A (default: its largest): 13e9, 13B"),
    *FITTING,
)
def compare_families(S, n_bootstrap, form, **options):
    """Tell how many times the parameters, and tokens where known, the second of two families needs
    to be as good as the first, of more than two for all pairs; a table may hold them."""
    from rbplib.comparing import compare

    # the losses of each family of each source
    groups = []
    for losses in asked_losses(**options):
        families = {}
        for loss, without in losses:
            families.setdefault(loss.family, []).append((loss, without["left_out"]))
        groups += families.values()
    if len(groups) < 2:
        raise InputError("families are compared: give two or more, or a table that holds them.")

    # losses of one kind, and of one text where both are of measured ones
    records, tables = [], any(map(is_table, options["sources"]))
    twos, compared = list(combinations(groups, 2)), set()
    pairs = [(i, *pair) for i, two in enumerate(twos) for pair in product(*two)]
    for i, (a, left_out), (b, left_out_of_b) in pairs:
        kinds = {(loss.hits, loss.k, "accuracy" in loss.name) for loss in (a, b)}
        if len(kinds) > 1 or not (tables or a.corpus == b.corpus):
            continue
        comparison = compare(a, b, S, n_bootstrap)
        compared |= {i, id(a), id(b)}
        record = {"a": a.family, "b": b.family, "corpus": a.corpus, "k": a.k}
        if tables:
            record["b_corpus"] = b.corpus
        record |= {"S": round(comparison.S), **ratio_columns(comparison)}
        for name in ("as_good", "beyond", "outside", "paired"):
            record[name] = getattr(comparison, name)
        # the same along the tokens of training, where they grow
        along = [loss.along_tokens() for loss in (a, b)]
        if None not in along:
            comparison = compare(*along, None, n_bootstrap)
            record |= {"D": round(comparison.S), **ratio_columns(comparison, "tokens_")}
        # with nothing left out as it ever was
        if left_out or left_out_of_b:
            record["left_out"] = left_out + left_out_of_b
        records.append(plain(record))
    if not records:
        raise InputError("these have no text, k and loss in common to be compared.")
    for i, two in enumerate(twos):
        if i not in compared:
            names = " and ".join(f"{loss.family} on {loss.corpus}" for (loss, _), *_ in two)
            complain(f"left out: {names} have no text, k and loss in common.")
    for group in groups:
        lone = [loss for loss, _ in group if id(loss) not in compared]
        for loss in lone if len(lone) < len(group) else ():
            k = f" at k = {loss.k}" if loss.k else ""
            complain(f"left out: no other has {loss.name}{k} on {loss.corpus} of {loss.family}.")
    if not tables and len({group[0][0].total for group in groups}) > 1:
        complain("the families cut the text into other tokens: a rank is among other candidates.")
    tell(records, form)


def ratio_columns(comparison, pair_name=""):
    """The ratio of a Comparison with its intervals, as columns."""
    ends = {f"ci_{pair_name}{noise}": pair for noise, pair in comparison.intervals.items()}
    return {f"{pair_name}ratio": comparison.ratio, **ends}


# --- Doors


@command(
    "export",
    "--family nano-pythia -o nano-pythia.ranks",
    FAMILY,
    OUT,
    CORPORA,
    PROTOCOL,
    RESULTS,
    option(
        "--unordered",
        action="store_false",
        dest="ordered",
        help="for text that is not to be had back: without the order of ranks, and runs of hits",
    ),
)
def export(out, ordered, **options):
    """Write a measured family's rank tables, without their tokens, to one file."""
    from rbplib.doors import export_family

    export_family(out=out, ordered=ordered, **options)
    print(f"{out}: {out.stat().st_size:,} bytes, without tokens.")
    if ordered:
        print(
            "Who has a model can read its text back from ranks in order; --unordered leaves that\n"
            "out. Either way who has model and text can tell that it was measured."
        )


@command(
    "windows",
    "--family nano-pythia --corpus docs -o windows.jsonl",
    FAMILY,
    option("--corpus", required=True, help="a name in corpora/, YAML, a file or a folder"),
    PROTOCOL,
    OUT,
)
def windows(**options):
    """Write the token ids that another engine is to rank, window by window."""
    from rbplib.doors import write_windows

    print(write_windows(**options))


@command(
    "import",
    "nano-pythia.ranks --as theirs",
    option("path", metavar="FILE", type=Path, help="what `rbp export` wrote, or ranks of windows"),
    option("--family", help="of ranks that another engine told of its windows"),
    option("--as", dest="name", help="the family's name here (default: as it was)"),
)
def import_file(path, family, name):
    """Take what another machine measured, or the ranks that another engine told."""
    from rbplib.doors import import_answers, import_family

    print(import_answers(path, family, name) if family else import_family(path, name))


# --- In a checkout: programs of the paper, which take the rest of the command line


PROGRAMS = {"book": "workflow.book", "verify": "paper.verify"}


def run_program(name, arguments):
    """Go on as a program of the checkout."""
    file = held("workflow", "Snakefile")
    if not file.is_file():
        raise InputError(
            f"`rbp {name}` needs a checkout of the repository: run it there, or set RBP_ROOT."
        )
    # an empty entry would be the folder that one happens to stand in
    paths = filter(None, [str(file.parents[1]), os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    # the program takes the place of this one, with its signals and its exit code
    os.execv(sys.executable, [sys.executable, "-m", PROGRAMS[name], *arguments])


@command("book", "--family nano-pythia")
def book():
    """In a checkout: run the notebooks, then build the HTML book."""


@command("verify", "--json")
def verify():
    """In a checkout: compare the numbers here with the book's own."""


# --- The command


def ended(run):
    """Exit code of a program that is a function without arguments: what it returns, or, told in a
    sentence, why it did not come to its end."""
    try:
        return run() or 0
    except InputError as error:
        message, code = str(error), error.code
    except PermissionError as error:
        message, code = f"{error.filename} cannot be read or written: change its permissions.", 2
    except ImportError as error:
        message, code = str(not_loaded(error)), 2
    except KeyboardInterrupt:
        message, code = "stopped; run the same command again to go on from here.", 130
    except BrokenPipeError:  # the reader went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    print("rbp: " + printable(message).removeprefix("rbp: "), file=sys.stderr)
    return code


def main(argv=None):
    # a call to end, as Ctrl-C
    arguments = sys.argv[1:] if argv is None else list(argv)
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) != signal.SIG_IGN:  # as nohup asks
            signal.signal(name, signal.default_int_handler)
    warnings.showwarning = lambda message, *_: complain(str(message))
    complain.cache_clear()  # what another command told in this process is told again

    def run():
        if "" in (word.split("=")[-1] for word in arguments):
            raise InputError(f"an option or name of {arguments} is empty: say it or leave it out.")
        if PROGRAMS.keys() & arguments[:1]:
            run_program(arguments[0], arguments[1:])
        options = vars(PARSER.parse_args(arguments))
        return options.pop("run")(**options)

    return ended(run)
