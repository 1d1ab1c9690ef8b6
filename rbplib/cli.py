"""The `rbp` command: thin over the library. Bad input is one sentence on standard error and exit
code 2."""

import argparse
import json
import math
import os
import signal
import sys
from pathlib import Path

import rbplib
from rbplib.families import (
    PACKAGE,
    PROTOCOLS,
    InputError,
    known,
    load_corpus,
    load_family,
    results_dir,
    root,
    yaml_files,
)

POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


# --- How options are read


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


def whole(text):
    """A whole number, 0 or above."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or above")
    return int(text)


def size(text):
    """A number of parameters as people write it: 13e9, 13B, 350M, 22k."""
    try:
        power = POWERS.get(text[-1:].lower())
        number = float(text[:-1]) * power if power else float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 1e18:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number from 1 to 1e18: write 13e9, 13B, 350M or 22k"
        )
    return number


def option(*names, **how):
    """An argument of a command, as `add_argument` takes it."""
    return names, how


PARSER = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
PARSER.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")

JSON = option("--json", action="store_true", dest="as_json", help="print JSON for programs")
RESULTS = option("--results", type=Path, help="results folder (default: results/, or RBP_RESULTS)")
FAMILY = option("--family", required=True, help="a name in families/ or a YAML path")
PROTOCOL = option("--protocol", choices=PROTOCOLS, default="paper", help="which tokens are scored")
CORPORA = option(
    "--corpus", action="append", dest="corpora", help="a name, YAML, file or folder (repeatable)"
)
MEASURING = (
    FAMILY,
    option(
        "--model",
        action="append",
        dest="models",
        help="a model of the family (repeatable; default: all)",
    ),
    CORPORA,
    PROTOCOL,
    option(
        "--dtype",
        help="float32, bfloat16, float16, or blocks: Q8_0, Q4_1, Q4_0 (default: by device)",
    ),
    RESULTS,
)
FITTING = (
    FAMILY,
    option("--corpus", required=True, help="a corpus that the family was measured on"),
    option(
        "--k", required=True, type=whole, help="rank counted as success, 1 to the vocabulary size"
    ),
    PROTOCOL,
    option(
        "--partial", action="store_true", help="go on without the models that were not measured"
    ),
    option(
        "--n-bootstrap", type=whole, default=10_000, help="resamples of the sources (default 10000)"
    ),
    option("--seed", type=whole, default=42, help="seed of the bootstrap"),
    JSON,
    RESULTS,
)


def command(name, example, *options):
    """Makes a function the command of this name: its docstring is the help, its arguments are the
    options."""

    def register(run):
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


def tell(as_json, value, lines):
    """Print a value as JSON where a program reads, else its lines for people."""
    print(json.dumps(value, indent=2, allow_nan=False) if as_json else "\n".join(lines))


def jsonable(value):
    """A value as JSON holds it: None for a number that is none, and for an interval without one of
    its ends."""
    if isinstance(value, tuple | list):
        ends = [jsonable(end) for end in value]
        return None if None in ends else ends
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(value):
    """A number or an interval as people read it."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"[{show(value[0])}, {show(value[1])}]"
    return f"{value:.4g}"


def amount(count):
    """Bytes as people read them."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


# --- Families and texts


@command(
    "families",
    "nano-pythia --json",
    option("name", nargs="?", help="one family only, or a YAML path"),
    JSON,
)
def list_families(name, as_json):
    """List families and their models."""
    from rbplib.models import family_sizes

    rows, lines, code = [], [], 0
    for family in [name] if name else sorted(yaml_files("family")):
        try:
            family = load_family(family)
            rows += imported_sizes(family) if family.counts else family_sizes(family)
        except InputError as error:
            if name:
                raise
            print(f"rbp: {error}", file=sys.stderr)
            code = 2  # the others are listed
    for row in rows:
        line = "{family:18} {model:22} S {nonembedding_params:>15,}  {id}".format(**row)
        lines.append(f"{line}  (imported)" if "imported" in row else line)
    if not name:
        place = root() / "families"
        lines.append(f"Families are looked for in {place}; one elsewhere is given by its path.")
    tell(as_json, rows, lines)
    return code


def imported_sizes(family):
    """Rows of `family_sizes` for an imported family: what its file says, for its models are not
    here."""
    rows = []
    for model in family.models:
        row = {"family": family.name, "model": model.name, "id": model.id}
        row["nonembedding_params"] = model.nonembedding_params
        rows.append(row | {"imported": True})
    return rows


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

    rows, lines, folder = [], [], Path(results or results_dir()) / "ranks"
    for corpus in [load_corpus(name)] if name else known("corpus"):
        lines.append(f"{corpus.name:14} {corpus.source:9} {corpus.title}")
        measured = {}
        for path in sorted(folder.glob(f"*/*/{corpus.name}.parquet")):
            record = record_here(path, {"corpus": corpus.name})
            if record:
                counts = {"documents": record["documents"], "tokens": record["scored_tokens"]}
                counts["sources"] = len(set(record.get("units") or range(record["documents"])))
                measured[record["family"]] = counts
        words = "    {}: {documents:,} documents of {sources:,} sources, {tokens:,} tokens"
        lines += [words.format(family, **counts) for family, counts in measured.items()]
        about = {"corpus": corpus.name, "title": corpus.title, "source": corpus.source}
        rows.append(about | {"measured": measured})
    tell(as_json, rows[0] if name else rows, lines)


# --- Measuring


@command("plan", "--family pythia", *MEASURING, JSON)
def plan(as_json, **options):
    """Tell sizes, memory, download and disk before anything starts."""
    from rbplib.measuring import plan as planned

    found = planned(**options)
    words = "{corpus:14} about {tokens:,} tokens"
    lines = [words.format(**text) for text in found["corpora"]]
    for row in found["models"]:
        if row["weights_bytes"] is None:
            line = f"no estimate: {row['note']}"
        else:
            line = f"S {row['nonembedding_params']:>15,}  weights {amount(row['weights_bytes'])}"
        lines.append(f"{row['model']:22} {line}, {row['tables_to_measure']} to measure")
    total = {name: amount(count) for name, count in found["total"].items()}
    summary = "{memory_bytes} of memory, {download_bytes} to download, {disk_bytes} of disk"
    tell(as_json, found, [*lines, summary.format(**total)])


@command(
    "measure",
    "--family nano-pythia",
    *MEASURING,
    option("--device", help="cpu, cuda, cuda:1, mps, or auto (spread over devices)"),
    option(
        "--trust-remote-code", action="store_true", help="run code that a model's repository brings"
    ),
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

    for tables in measured(**options).values():
        print(*(table.path for table in tables), sep="\n")


# --- Laws


@command("fit", "--family nano-pythia --corpus docs --k 1 --json", *FITTING)
def fit(family, corpus, k, protocol, partial, n_bootstrap, seed, as_json, results):
    """Fit the law to measured tables."""
    from dataclasses import replace

    from rbplib.law import fit
    from rbplib.losses import check_models, measured_tables, rbp_loss
    from rbplib.noise import explanation

    tables, repeats, missing = measured_tables(family, corpus, protocol, results, partial)
    loss = replace(rbp_loss(tables, k, repeats=repeats), missing=missing)
    check_models(loss)
    law, bend = (fit(loss, kind, n_bootstrap, seed) for kind in ("least_squares", "quadratic"))
    documents = law  # as if no two documents had a source in common
    if loss.n_sources < loss.n_documents:
        documents = fit(loss.over_documents(), n_bootstrap=n_bootstrap, seed=seed)
    numbers = {
        "alpha": law.alpha,
        "log_c": law.log_c,
        "r2": law.r2,
        "ci_tokens": law.intervals["text"]["alpha"],
        "ci_trainings": law.intervals["trainings"]["alpha"],
        "ci_models": law.intervals["models"]["alpha"],
        "ci_documents": documents.intervals["text"]["alpha"],
        "lack_of_fit_p": law.p["sources"],
        "trained_lack_of_fit_p": law.p["trainings"],
        "curvature": bend.parameters["curvature"],
        "ci_curvature": bend.intervals["text"]["curvature"],
    }
    numbers = {name: jsonable(value) for name, value in numbers.items()}
    texts = {name: show(value) for name, value in numbers.items()}
    explained = explanation(
        (documents.p["sources"], law.p["sources"], law.p["trainings"]), law.level
    )
    row = {"family": loss.family, "corpus": loss.corpus, "k": k, **numbers}
    row |= {"explained_by": explained, "n_models": len(law.used), "scored_tokens": int(loss.total)}
    row |= {"sources": loss.n_sources, "status": law.status, "missing": list(missing)}
    lines = [
        f"{loss.family} on {loss.corpus}, k = {k}: alpha {texts['alpha']}, R2 {texts['r2']}",
        f"  95% intervals: other text {texts['ci_tokens']}, "
        f"as if documents were independent {texts['ci_documents']}",
        f"  other text and trainings {texts['ci_trainings']}, other sizes {texts['ci_models']}",
        f"  lack of fit p {texts['lack_of_fit_p']}, "
        f"with trainings {texts['trained_lack_of_fit_p']}: {explained}",
        f"  curvature {texts['curvature']} {texts['ci_curvature']}",
        f"  {len(law.used)} models, {loss.n_sources:,} sources, "
        f"{loss.total:,.0f} tokens, status: {law.status}",
    ]
    if missing:
        lines.append(f"  not measured, and left out: {', '.join(missing)}")
    tell(as_json, row, lines)


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
    option("--n", type=whole, default=10, help="length of a run of hits (default 10)"),
)
def predict(family, corpus, k, protocol, partial, size, n, n_bootstrap, seed, as_json, results):
    """Forecast RBP_k, runs of hits and cross-entropy at sizes that were not measured."""
    from rbplib.forecasting import attempt, forecast_losses

    if n < 1:
        raise InputError(f"a run has at least 1 hit, not {n}.")
    losses = forecast_losses(family, corpus, k, n, protocol, results, partial)
    found = {
        name: attempt(loss, size, n_bootstrap=n_bootstrap, seed=seed)
        for name, loss in losses.items()
    }
    main, rbp = found["rbp"], losses["rbp"]
    if isinstance(main, str):
        raise InputError(main)
    # {key: (of which forecast, exp of so many times the loss or 0 for the loss, words)}
    quantities = {
        "rbp": ("rbp", -1, f"RBP_{k}"),
        "loss": ("rbp", 0, f"-log RBP_{k}"),
        "cross_entropy": ("cross_entropy", 0, "cross-entropy, nats per token:"),
        "p_n": ("run", -1, f"{n} hits in a row, as runs were counted:"),
        "p_n_independent": ("rbp", -n, f"{n} hits in a row, were hits independent (Eq. 6):"),
    }
    held = ["how models scatter"]  # what an interval holds
    if rbp.resampled(min(n_bootstrap, 1), 0) is not None:
        held.append("the choice of sources")
    if len(main.laws) > 1:
        held.append(f"the choice among {', '.join(main.laws)}")
    if rbp.training_noise()[1]:
        held.append("how trainings differ")
    line = f"{rbp.family} on {rbp.corpus}, k = {k}: from {len(main.fitted)} models; "
    line += "a 95% interval holds "
    rows, lines = [], [line + ", ".join(held)]
    if rbp.missing:
        lines.append(f"not measured, and left out: {', '.join(rbp.missing)}")
    for i, S in enumerate(main.S):
        row = {"S": float(S), "decades_beyond": float(main.horizon[i]), "place": main.place(i)}
        row["forms"] = {name: float(values[i]) for name, values in main.by_form.items()}
        lines.append(f"S = {S:,.0f}: {row['place']}")
        for name, (of, times, words) in quantities.items():
            if isinstance(found[of], str):
                row |= {name: None, f"ci_{name}": None}
                lines.append(f"  {words} {found[of]}")
                continue
            value, ends = found[of].told(i, times)
            row |= {name: jsonable(value), f"ci_{name}": jsonable(ends)}
            lines.append(f"  {words} {show(value)} {show(ends)}")
        rows.append(row)
    record = {
        "family": rbp.family,
        "corpus": rbp.corpus,
        "k": k,
        "n": n,
        "models": len(main.fitted),
        "level": 0.95,
    }
    record |= {"held": held, "missing": list(rbp.missing), "forecasts": rows}
    record["not_told"] = {name: why for name, why in found.items() if isinstance(why, str)}
    tell(as_json, record, lines)


# --- Doors


@command(
    "export",
    "--family nano-pythia -o nano-pythia.counts",
    FAMILY,
    option(
        "-o",
        "--output",
        dest="out",
        type=Path,
        required=True,
        help="the file to write, NAME.counts",
    ),
    CORPORA,
    PROTOCOL,
    RESULTS,
)
def export(out, **options):
    """Write what pages need of a measured family to one file: counts, and no text."""
    from rbplib.doors import export_family

    export_family(out=out, **options)
    print(
        f"{out}: {out.stat().st_size:,} bytes. It holds no text and no order of tokens; "
        f"but who holds the models can"
    )
    print(
        "test whether a text is among those counted, and may find very short documents by trying."
    )


@command(
    "import",
    "nano-pythia.counts --as theirs",
    option("path", metavar="FILE", help="a file that `rbp export` wrote"),
    option("--as", dest="name", help="the family's name here (default: as it was)"),
)
def import_file(path, name):
    """Show what another machine measured: pages and fits take the family by its name."""
    from rbplib.doors import import_counts

    print(import_counts(path, name))


# --- In a checkout: programs of the paper, which take the rest of the command line


PROGRAMS = {"book": "workflow.book", "verify": "paper.verify"}


def run_program(name, arguments):
    """Go on as a program of the checkout."""
    places = [
        place for place in (root(), PACKAGE.parent) if (place / "workflow" / "Snakefile").is_file()
    ]
    if not places:
        raise InputError(
            f"`rbp {name}` needs a checkout of the repository: run it there, or set RBP_ROOT."
        )
    paths = [str(places[0]), *filter(None, [os.environ.get("PYTHONPATH")])]
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
    arguments = sys.argv[1:] if argv is None else list(argv)
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) != signal.SIG_IGN:  # as nohup asks
            signal.signal(name, interrupt)
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
    print(f"rbp: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
