"""The `rbp` command: thin over the library.

Bad input is one sentence on standard error and exit code 2.
"""

import argparse
import json
import math
import os
import shlex
import signal
import sys
import warnings
from datetime import datetime
from itertools import product
from pathlib import Path

import rbplib
from rbplib.families import (
    FORMULA,
    PROTOCOLS,
    InputError,
    as_number,
    complain,
    default_corpora,
    held,
    known,
    load_corpus,
    load_family,
    printable,
    results_dir,
    yaml_files,
)

KS = (1, 10, 100)  # fitted where no k is named
# of several laws, what a table on a screen has room for
SHOWN = ("family", "corpus", "k", "alpha", "ci_tokens", "ci_models", "r2", "n_models", "status")

# --- How options are read


class Once(argparse.Action):
    """Keep the value of an option, which is given once: the last does not win in silence."""

    def __call__(self, parser, namespace, values, option_string=None):
        if getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, "given twice, and one value is taken: give it once")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    def __init__(self, **how):
        super().__init__(**how)
        self.register("action", None, Once)

    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


def whole(text):
    """A whole number, 0 or above; raises ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or above")
    return int(text)


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
    return [text] if os.path.exists(text) else [name for name in text.split(",") if name]


def wholes(text):
    """Whole numbers between commas."""
    return [whole(part) for part in text.split(",")]


def option(*names, **how):
    """An argument of a command, as `add_argument` takes it."""
    return names, how


PARSER = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
PARSER.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")

JSON = option("--json", action="store_true", dest="as_json", help="print JSON for programs")
RESULTS = option("--results", type=Path, help="results folder (default: results/, or RBP_RESULTS)")
FAMILY = option("--family", required=True, help="a name in families/ or a YAML path")
OUT = option("-o", "--output", dest="out", type=Path, required=True, help="the file to write")
PROTOCOL = option("--protocol", choices=PROTOCOLS, default="paper", help="which tokens are scored")
CORPORA = option(
    "--corpus",
    action="extend",
    type=names,
    dest="corpora",
    help="names, YAML, files or folders: several with commas, or again",
)
MODELS = option(
    "--model",
    action="extend",
    type=names,
    dest="models",
    help="models of the family, with commas or again (default: all)",
)
MEASURING = (
    FAMILY,
    MODELS,
    CORPORA,
    PROTOCOL,
    option(
        "--dtype",
        help="float32, bfloat16, float16, or blocks: Q8_0, Q4_1, Q4_0 (default: by device)",
    ),
    RESULTS,
)
WHICH = (
    CORPORA,
    option(
        "--k",
        action="extend",
        type=wholes,
        dest="ks",
        help="ranks counted as success, 1 to the vocabulary size, with commas or again "
        "(default: 1,10,100 and the cross-entropy)",
    ),
    PROTOCOL,
    option(
        "--partial", action="store_true", help="go on without the models that were not measured"
    ),
    option(
        "--n-bootstrap",
        type=whole,
        default=10_000,
        help="resamples of the sources (default 10000), 0 for none",
    ),
    option("--seed", type=whole, default=42, help="seed of the bootstrap"),
    JSON,
    RESULTS,
)
FITTING = (
    option("table", nargs="?", help="a table of numbers (CSV, TSV, Parquet, JSON lines); or:"),
    option("--family", help="a name in families/ or a YAML path"),
    *WHICH,
    option("--csv", action="store_true", dest="as_csv", help="print CSV, a row for each law"),
)


def command(name, example, *options):
    """Make a function a command: its docstring is the help, its arguments are the options."""

    def register(run):
        # a parser with its help, then its options
        about = {
            "help": run.__doc__,
            "description": run.__doc__,
            "epilog": f"example: rbp {name} {example}",
        }
        parser = COMMANDS.add_parser(name, **about)
        parser.set_defaults(run=run)
        for names, how in options:
            parser.add_argument(*names, **how)
        return run

    return register


# --- What is printed


def tell(value, as_json):
    """Print JSON where a program reads; else a record with an entry a line, records as a table."""
    if as_json:
        print(json.dumps(value, indent=2, allow_nan=False))
    elif isinstance(value, dict):
        print(*(f"{key:22} {show(entry)}" for key, entry in value.items()), "", sep="\n")
    else:
        import pandas as pd

        rows = pd.DataFrame(value, dtype=object).map(show)
        print(rows.to_string(index=False, max_colwidth=None), end="\n\n")


def jsonable(value):
    """A value as JSON holds it: None for no number, and for an interval without one of its ends."""
    if isinstance(value, tuple | list):
        return [float(end) for end in value] if all(map(math.isfinite, value)) else None
    return float(value) if math.isfinite(value) else None


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


@command(
    "families",
    "nano-pythia --json",
    option("name", nargs="?", help="one family only, or a YAML path: with what is measured of it"),
    JSON,
    RESULTS,
)
def list_families(name, as_json, results):
    """List families and the sizes of their models; of one, the tables that are there too."""
    from rbplib.models import family_sizes

    # a family that cannot be read is told, and the others are listed
    rows, code = [], 0
    for family in [name] if name else sorted(yaml_files("family")):
        try:
            family = load_family(family)
            rows += family_sizes(family)
        except InputError as error:
            if name:
                raise
            complain(str(error))
            code = 2
    tables = tables_of(family, results) if name else []
    for row in rows if as_json and name else []:
        row["tables"] = [table for table in tables if table["model"] == row["model"]]
    tell(rows, as_json)
    if tables and not as_json:
        tell(tables, as_json)
    return code


def tables_of(family, results):
    """What is measured of a family: a record for each rank table that is whole."""
    from rbplib.table import record_here

    tables = []
    for path in sorted(Path(results or results_dir(), "ranks", family.name).glob("*/*.parquet")):
        if record := record_here(path, {"family": family.name}):
            about = ("model", "corpus", "protocol", "scored_tokens", "weights_dtype")
            made = datetime.fromtimestamp(path.stat().st_mtime).date().isoformat()
            tables.append({name: record.get(name) for name in about} | {"file_of": made})
    return tables


@command(
    "corpora",
    "docs --json",
    option("name", nargs="?", help="one corpus only, or a path"),
    JSON,
    RESULTS,
)
def list_corpora(name, as_json, results):
    """List corpora, with documents, sources and tokens where they were measured."""
    from rbplib.table import record_here

    rows, folder = [], Path(results or results_dir()) / "ranks"
    for corpus in [load_corpus(name)] if name else known("corpus"):
        # of each family that was measured on it the record of one model
        records = {}
        for path in sorted(folder.glob(f"*/*/{corpus.name}.parquet")):
            if record := record_here(path, {"corpus": corpus.name}):
                records[record["family"]] = record
        for record in records.values() or [{}]:
            row = {"corpus": corpus.name, "source": corpus.source, "title": corpus.title}
            row |= {name: record.get(name) for name in ("family", "documents", "scored_tokens")}
            row["sources"] = len(set(record.get("units", ()))) or row["documents"]
            rows.append(row)
    tell(rows, as_json)


# --- Measuring


@command("plan", "--family pythia", *MEASURING, JSON)
def plan(as_json, **options):
    """Tell sizes, memory, download and disk before anything starts."""
    from rbplib.measuring import plan as planned

    plan = planned(**options)
    for part in [plan] if as_json else [plan["models"], plan["corpora"], plan["total"]]:
        tell(part, as_json)
    for note in plan["notes"]:
        complain(note)
    unknown = [row for row in plan["models"] if row["nonembedding_params"] is None]
    return 2 if unknown else 0


@command("fetch", "--family pythia --corpus wikipedia", FAMILY, MODELS, CORPORA)
def fetch(**options):
    """Fetch weights and text from the hub, for machines without a network."""
    from rbplib.measuring import fetch

    for model, place in fetch(**options).items():
        print(f"{model}: {place}")


@command(
    "measure",
    "--family nano-pythia",
    *MEASURING,
    option("--device", help="cpu, cuda, cuda:1, mps, or auto (spread over devices)"),
    option(
        "--batch-tokens",
        type=whole,
        help="tokens of one forward pass (default: found against memory)",
    ),
    option(
        "--replace",
        action="store_true",
        help="measure over tables of another model, text or precision",
    ),
    option("--quiet", action="store_false", dest="progress", help="no progress bars"),
)
def measure(**options):
    """Measure rank tables that are missing."""
    from rbplib.measuring import measured

    for corpus, tables in measured(**options).items():
        count = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
        print(f"{corpus}: {count} of {len(tables[0]):,} tokens each")
    words = ["rbp", "fit", "--family", options["family"]]
    words += [f"--corpus={corpus}" for corpus in options["corpora"] or ()]
    for name, usual in (("protocol", "paper"), ("results", None)):
        if options[name] != usual:
            words += [f"--{name}", str(options[name])]
    print("next:", shlex.join(words))


# --- Laws


def is_table(name):
    """Whether a name is that of a table of numbers."""
    return Path(name).suffix in (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


def measured_texts(family, protocol, results):
    """Names of the texts that some model of a family was measured on, its default ones first; those
    alone where it was measured on none."""
    family = load_family(family)
    corpora = default_corpora(family)
    folder = Path(results or results_dir(), "ranks", family.name)
    ending = ".parquet" if protocol == "paper" else f".{protocol}.parquet"
    names = {path.name.removesuffix(ending) for path in folder.glob(f"*/[!.]*{ending}")}
    names = {name for name in names if not name.endswith(".full")}
    here = [name for name in corpora if name in names]
    return [*here, *sorted(names - {*corpora})] or corpora


def tell_ties(tables):
    """Say on standard error where the ranks of a family's models leave ties out."""
    rules = {table.record.get("definition", "greater+ties") for table in tables}
    if "greater+1" in rules:
        which = "all models" if len(rules) == 1 else "some models, not of all,"
        family = tables[0].record["family"]
        message = f"ranks of {which} of {family} are one more than the candidates above (greater+1)"
        complain(f"{message}: their ties are not known, so hits are upper bounds, the best case.")


def asked_losses(table, family, corpora, ks, protocol, results, partial, n=None, nats=False):
    """[(losses that go together, models without a table)] of what a command names.

    nats: whether the cross-entropy of measured tables goes with each, and n the length of runs.
    Without ks it is there for itself.
    """
    from rbplib.doors import table_losses
    from rbplib.losses import cross_entropy, measured_tables, rbp_loss, run_loss, vocabulary

    given = [value for value in (family, corpora, ks, n) if value is not None]
    if bool(given) == (table is not None) or (table is None and family is None):
        raise InputError("give a table of numbers alone, or --family, with --corpus and --k.")
    if table is not None:
        return [([loss], ()) for loss in table_losses(table)]
    asked = []
    for corpus in corpora or measured_texts(family, protocol, results):
        tables, repeats, missing = measured_tables(family, corpus, protocol, results, partial)
        tell_ties(tables)
        for k in ks or [k for k in KS if k <= vocabulary(tables)]:
            losses = [rbp_loss(tables, k, repeats=repeats)]
            if nats:
                losses.append(cross_entropy(tables, repeats))
            if n is not None:
                losses.append(run_loss(tables, k, n))
            asked.append((losses, missing))
        if not (ks or nats):
            asked.append(([cross_entropy(tables, repeats)], missing))
    return asked


def tell_all(records, alone, as_json, as_csv=False):
    """Print records; one that is alone as itself."""
    if as_csv:
        import pandas as pd

        # no text is a spreadsheet's formula, or steers a terminal
        cells = pd.DataFrame(records).replace(FORMULA, "'", regex=True)
        print(printable(cells.to_csv(index=False)), end="")
    elif len(records) == 1 and (alone or not as_json):
        tell(records[0], as_json)
    elif as_json:
        tell(records, as_json)
    else:
        tell([{name: record[name] for name in SHOWN} for record in records], as_json)


@command("fit", "--family nano-pythia --corpus docs --k 1 --json", *FITTING)
def fit(n_bootstrap, seed, as_json, as_csv, **options):
    """Fit the law to measured tables, or to a table of numbers."""
    from rbplib.law import fit
    from rbplib.losses import check_models

    records = []
    for (loss,), missing in asked_losses(**options):
        # the line, and how much it bends
        check_models(loss)
        law, bend = (fit(loss, kind, n_bootstrap, seed) for kind in ("least_squares", "quadratic"))
        numbers = {
            "alpha": law.alpha,
            "log_c": law.log_c,
            "r2": law.r2,
            "ci_tokens": law.intervals["text"]["alpha"],
            "ci_trainings": law.intervals["trainings"]["alpha"],
            "ci_models": law.intervals["models"]["alpha"],
            "lack_of_fit_p": law.p["sources"],
            "trained_lack_of_fit_p": law.p["trainings"],
            "curvature": bend.parameters["curvature"],
            "ci_curvature": bend.intervals["text"]["curvature"],
        }
        record = {"family": loss.family, "corpus": loss.corpus, "k": loss.k}
        record |= {name: jsonable(value) for name, value in numbers.items()}
        record |= {"n_models": len(law.used), "scored_tokens": int(loss.total)}
        # the law alone does not doubt an exponent that may be 0
        intervals = (interval["alpha"] for interval in law.intervals.values())
        unsure = law.status == "ok" and any(low <= 0 <= high for low, high in intervals)
        status = "not told from 0" if unsure else law.status
        record |= {"sources": loss.n_sources, "status": status, "missing": list(missing)}
        records.append(record)
    tell_all(records, not options["table"], as_json, as_csv)


@command(
    "predict",
    "--family nano-pythia --corpus docs --k 1 --size 6.5M 13e6",
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
    option("--n", type=whole, help="forecast runs of so many hits too"),
)
def predict(size, tokens, n, n_bootstrap, seed, as_json, as_csv, **options):
    """Forecast RBP_k, cross-entropy and runs of hits at sizes that were not measured."""
    from rbplib.forecasting import forecast, joint_forecast

    records = []
    for losses, missing in asked_losses(**options, n=n, nats=True):
        if tokens:
            forecasts = [joint_forecast(loss, size, tokens) for loss in losses]
        else:
            forecasts = [forecast(loss, size, n_bootstrap, seed) for loss in losses]
        loss, first = losses[0], forecasts[0]
        # each with its name, and how often the loss stands in the exponent; 0 for the loss itself
        quantities = [("rbp", first, -1)] if loss.hits else []
        quantities += zip(("loss", "cross_entropy", "p_n"), forecasts, (0, 0, -1), strict=False)
        # a record for each size
        for i, S in enumerate(size):
            record = {"family": loss.family, "corpus": loss.corpus, "k": loss.k, "n": n}
            record |= {"models": len(first.fitted), "missing": list(missing)}
            record |= {"tokens": round(tokens)} if tokens else {}
            record |= {"S": round(S), "place": first.place(i)}
            for name, quantity, times in quantities:
                value, ends = quantity.told(i, times)
                record |= {name: jsonable(value), f"ci_{name}": jsonable(ends)}
            records.append(record)
    if as_csv or as_json:
        tell_all(records, False, as_json, as_csv)
    else:
        for record in records:
            tell(record, as_json)


def losses_of(name, corpora, ks, **options):
    """[Loss] of a family that was measured, or of a table of numbers."""
    options |= {"table": name if is_table(name) else None, "family": name}
    if is_table(name):
        options["family"] = corpora = ks = None
    return [loss for (loss,), _ in asked_losses(corpora=corpora, ks=ks, **options)]


@command(
    "compare",
    "nano-pythia nano-gpt2 --corpus docs",
    option("a", metavar="A", help="a family, or a table of numbers, as of `rbp fit`"),
    option("b", metavar="B", nargs="?", help="another; without it A is a table of two families"),
    option("--size", type=size, dest="S", help="of A (default: its largest): 13e9, 13B"),
    *WHICH,
)
def compare_families(a, b, S, corpora, n_bootstrap, seed, as_json, **options):
    """Tell how many times the parameters B needs to be as good as A."""
    from rbplib.comparing import compare

    two = "two families are compared: give two, or a table that holds just two"
    if b is None and not is_table(a):
        raise InputError(f"{two}.")

    # texts of both, where none is named
    names = [name for name in (a, b) if name]
    pair = [name for name in names if not is_table(name)]
    if not corpora and pair:
        texts = [measured_texts(name, options["protocol"], options["results"]) for name in pair]
        corpora = [text for text in texts[0] if text in texts[-1]]
        if not corpora:
            raise InputError(f"{a} and {b} were measured on no common text: name one by --corpus.")
    families = {}
    for side, name in enumerate(names):
        for loss in losses_of(name, corpora, **options):
            families.setdefault((side, loss.family), []).append(loss)
    if len(families) != 2:
        raise InputError(f"{two}.")
    ours, theirs = families.values()

    # losses of one kind, and of one text where both are of measured ones
    records = []
    for one, other in product(ours, theirs):
        alike = (one.hits, one.k) == (other.hits, other.k)
        if alike and (len(pair) < 2 or one.corpus == other.corpus):
            told = compare(one, other, S, n_bootstrap, seed)
            record = {"a": one.family, "b": other.family, "corpus": one.corpus, "k": one.k}
            record |= {"S": round(told.S), "ratio": jsonable(told.ratio)}
            record |= {f"ci_{of}": jsonable(ends) for of, ends in told.intervals.items()}
            record |= {"as_good": jsonable(told.as_good), "beyond": jsonable(told.beyond)}
            records.append(record | {"paired": told.paired})
    if not records:
        raise InputError(f"{a} and {b} have no k and no loss in common: nothing can be compared.")
    if len(pair) == 2 and ours[0].total != theirs[0].total:
        complain("the families cut the text into other tokens: a rank is among other candidates.")
    tell(records, as_json)


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
        print("Who has a model can read its text back from ranks in order; --unordered leaves that")
        print("out. Either way who has model and text can tell that it was measured.")


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
    place = held("workflow", "Snakefile").parents[1]
    if not (place / "workflow").is_dir():
        message = f"`rbp {name}` needs a checkout of the repository"
        raise InputError(f"{message}: run it there, or set RBP_ROOT.")
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    # the program takes the place of this one, with its signals and its exit code
    os.execve(sys.executable, [sys.executable, "-m", PROGRAMS[name], *arguments], environment)


@command("book", "--family nano-pythia")
def book():
    """In a checkout: run the notebooks, then build the HTML book."""


@command("verify", "--json")
def verify():
    """In a checkout: compare the numbers here with the book's own."""


# --- The command


def interrupt(*_):
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


def main(argv=None):
    # a call to end, as Ctrl-C
    arguments = sys.argv[1:] if argv is None else list(argv)
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) != signal.SIG_IGN:  # as nohup asks
            signal.signal(name, interrupt)
    warnings.showwarning = lambda message, *_: complain(str(message))
    # the command, or in one sentence why not
    try:
        if arguments[:1] and arguments[0] in PROGRAMS:
            run_program(arguments[0], arguments[1:])
        options = vars(PARSER.parse_args(arguments))
        return options.pop("run")(**options) or 0
    except InputError as error:
        message, code = str(error), 2
    except PermissionError as error:
        message, code = f"{error.filename} cannot be read or written: change its permissions.", 2
    except ModuleNotFoundError as error:
        message, code = f"this needs {error.name}: run `make env`, or install rbplib whole.", 2
    except KeyboardInterrupt:
        message, code = "stopped; run the same command again to go on from here.", 130
    except BrokenPipeError:  # the reader went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    print(f"rbp: {printable(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
