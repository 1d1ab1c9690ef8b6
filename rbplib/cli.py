"""The `rbp` command: thin over the library. Bad input is one sentence on standard error and exit code 2."""

import sys
from pathlib import Path

from rbplib import command as cli
from rbplib.command import command, main, natural, option, size, tell, whole
from rbplib.families import PROTOCOLS, InputError, family_names, known, load_corpus, load_family, results_dir

JSON = option("--json", action="store_true", dest="as_json", help="print JSON for programs")
RESULTS = option("--results", type=Path, help="results folder (default: results/, or RBP_RESULTS)")
FILE = option("path", nargs="?", metavar="FILE", help="this file in place of what is here")
TRUST = option("--trust-remote-code", action="store_true", help="run code that a model's repository brings")
FAMILY = option("--family", required=True, help="a name in families/ or a YAML path")
PROTOCOL = option("--protocol", choices=PROTOCOLS, default="paper", help="which tokens are scored")
MEASURING = (
    FAMILY,
    option("--model", action="append", help="one model of the family (repeatable; default: all)"),
    option("--corpus", action="append", help="a corpus name, YAML, file, folder or - for standard input (repeatable)"),
    PROTOCOL,
    option("--device", help="cpu, cuda, cuda:1, mps, auto (spread over devices); to plan also a GPU by name, as h100"),
    option("--dtype", help="float32, bfloat16, float16, or blocks: Q8_0, Q4_1, Q4_0 (default: by device)"),
    RESULTS,
)


@command("families", "nano-pythia --json", option("name", nargs="?", help="one family only, or a YAML path"), JSON)
def list_families(name, as_json):
    """List families and their models."""
    from rbplib.exchange import imported_sizes
    from rbplib.model_sizes import families_place, family_sizes

    rows, code, line = [], 0, "{family:18} {model:22} S {nonembedding_params:>15,}  {id}"
    for one in [name] if name else family_names():
        try:
            rows += imported_sizes(family) if (family := load_family(one)).counts else family_sizes(family)
        except InputError as error:
            if name:
                raise
            code = print(f"rbp: {error}", file=sys.stderr) or 2  # the others are listed
    lines = [line.format(**row) + "  (imported)" * row.get("imported", False) for row in rows]
    tell(as_json, rows, *lines, *[families_place()] * (not name))
    return code


@command(
    "corpora",
    "docs --json",
    option("name", nargs="?", help="one corpus, YAML, file or folder: what it holds as well"),
    option("--family", help="family whose tokenizer and window count the tokens (default for embedded text: theirs)"),
    JSON,
    RESULTS,
)
def list_corpora(name, family, as_json, results):
    """List corpora; documents and tokens where measured, and what one of them holds."""
    from rbplib.facts import corpus_facts, facts_text
    from rbplib.table import corpus_records

    if family and not name:
        raise InputError("tokens of a family are counted for one corpus: name it, as in `rbp corpora docs`.")
    rows, lines = [], []
    for corpus in [load_corpus(name)] if name else known("corpus"):
        records = [r for r in corpus_records(corpus, results) if r["protocol"] == "paper"]
        seen = {r["family"]: {"documents": r["documents"], "tokens": r["scored_tokens"]} for r in records}
        rows.append({"corpus": corpus.name, "title": corpus.title, "source": corpus.source, "measured": seen})
        lines.append(f"{corpus.name:14} {corpus.source:9} {corpus.title}")
        lines += [f"    {f}: {n['documents']:,} documents, {n['tokens']:,} tokens scored" for f, n in seen.items()]
        if name:
            rows[-1] |= corpus_facts(corpus, family)
            lines[1:1] = facts_text(rows[-1])
    tell(as_json, rows[0] if name else rows, *lines)


@command(
    "family new",
    "my-family EleutherAI/pythia-14m EleutherAI/pythia-31m EleutherAI/pythia-70m",
    option("name", help="the family's name"),
    option("ids", nargs="+", metavar="ID", help="hub ids or folders of models"),
    option("--force", action="store_true", help="replace a family of that name"),
    TRUST,
)
def new_family(**options):
    """Write families/NAME.yml for some models."""
    from rbplib.family_file import write_family

    print(write_family(**options))


@command("plan", "--family pythia", *MEASURING, JSON)
def plan(model, corpus, as_json, **asked):
    """Time, memory, download and disk, before anything starts."""
    from rbplib.plan import plan_family, plan_text

    found = plan_family(models=model, corpora=corpus, **asked)
    tell(as_json, found, plan_text(found))


@command(
    "measure",
    "--family nano-pythia",
    *MEASURING,
    TRUST,
    option("--batch-tokens", type=whole, help="tokens of one forward pass (default: found against memory)"),
    option("--quiet", action="store_false", dest="progress", help="no progress bars"),
)
def measure(model, corpus, **asked):
    """Measure rank tables that are missing."""
    from rbplib.measuring import measure as run

    print(*run(models=model, corpora=corpus, **asked), sep="\n")


FITTING = (
    FAMILY,
    option("--corpus", required=True, help="a corpus that the family was measured on"),
    option("--k", required=True, type=whole, help="rank counted as success, 1 to the vocabulary size"),
    PROTOCOL,
    option("--partial", action="store_true", help="go on without the models that were not measured"),
    option("--n-bootstrap", type=natural, default=10_000, help="resamples of the sources (default 10000)"),
    option("--seed", type=natural, default=42, help="seed of the bootstrap"),
    JSON,
    RESULTS,
)


@command("fit", "--family nano-pythia --corpus docs --k 1 --json", *FITTING)
def fit(family, corpus, k, protocol, partial, n_bootstrap, seed, as_json, results):
    """Fit the law to measured tables."""
    from rbplib.curve import family_curve
    from rbplib.identity import asked
    from rbplib.law import fit_law
    from rbplib.losses import check_models

    family, _, (corpus,) = asked(family, None, [corpus], protocol)
    curve = family_curve(family, corpus, [k], protocol, results=results, partial=partial)
    check_models(curve.loss(k))
    law, bend = (fit_law(curve, k, kind, n_bootstrap, seed) for kind in ("least_squares", "quadratic"))
    row, lines = cli.law_report(law, bend)
    tell(as_json, row | {"missing": list(curve.missing)}, *lines)


@command("published", "cerebras-gpt --json", option("family", nargs="?", help="one family only"), JSON)
def list_published(family, as_json):
    """Fit the law to what others published."""
    from paper.ladders import open_lm_laws, published_laws

    laws = [*published_laws(family), *open_lm_laws(family)]
    rows = [{name: cli.jsonable(v) for name, v in law.record.items()} for law in laws]
    line = "{family:25} {quantity:13} {of:20} {n} models, {S[0]:.1e} to {S[1]:.1e}  {alpha:.3f} {told:17} R2 {r2:.3f}  "
    tell(as_json, rows, *((line + row["source"]).format(**row, told=cli.show(row["interval"])) for row in rows))


@command(
    "predict",
    "--family nano-pythia --corpus docs --k 1 --size 6.5M 13e6",
    *FITTING,
    option("--size", type=size, nargs="+", action="extend", required=True, help="non-embedding parameters: 13e9, 13B"),
    option("--n", type=whole, default=10, help="length of a run of hits (default 10)"),
    option("--tokens", type=size, help="of training text, by a law in size and tokens: 300B; needs --beside"),
    option("--beside", nargs="+", action="extend", help="families of the same kind that saw other amounts of text"),
)
def predict(family, corpus, k, protocol, partial, size, n, tokens, beside, n_bootstrap, seed, as_json, results):
    """Forecast RBP_k, runs of hits and cross-entropy at sizes that were not measured."""
    from paper import joint_forecast
    from rbplib import forecasting as forecast

    if tokens or beside:
        losses, ahead = joint_forecast.joint_losses(family, beside, corpus, k, tokens, protocol, results, partial)
    else:
        losses, ahead = forecast.forecast_losses(family, corpus, k, n, protocol, results, partial), forecast.attempt
    record, lines = cli.forecasts(losses, n, size, ahead, n_bootstrap=n_bootstrap, seed=seed)
    tell(as_json, record, *lines)


@command(
    "book",
    "--family nano-pythia",
    option("--family", action="append", help="families of the book (repeatable; default: embedded ones)"),
    option("--corpus", action="append", help="text of every page: a corpus or a file (repeatable; default: their own)"),
)
def book(family, corpus):
    """Run the notebooks by papermill, then build the HTML book."""
    from workflow.book import make_book

    try:
        return print("first page:", make_book(family, corpora=corpus))
    except RuntimeError as error:  # a step of the workflow failed: not bad input
        return print(f"rbp: {error}", file=sys.stderr) or 1


@command(
    "export",
    "--family nano-pythia -o nano-pythia.counts",
    FAMILY,
    option("-o", "--output", dest="out", type=Path, required=True, help="the file to write, NAME.counts"),
    option("--corpus", action="append", help="a corpus that the family was measured on (repeatable; default: its own)"),
    PROTOCOL,
    option("--k", action="append", type=whole, default=[], help="count hits and runs at this rank too (repeatable)"),
    option("--by", default="", help="who measured, as pages shall say it"),
    option("--anonymous", action="store_true", help="number the sources of the text in place of their names"),
    RESULTS,
)
def export(family, out, corpus, k, **options):
    """Write what pages need of a measured family to one file: counts, and no text."""
    from paper.evidence import shown_ks
    from rbplib.sharing import export_family

    export_family(family, out, shown_ks, corpus, ks=k, **options)
    print(f"{out}: {out.stat().st_size:,} bytes. It holds no text and no order of tokens; but who holds the models can")
    print("test whether a text is among those counted, and may find very short documents by trying.")


@command(
    "import",
    "nano-pythia.counts --as theirs",
    option("path", metavar="FILE", help="a file that `rbp export` wrote"),
    option("--as", dest="name", help="the family's name here (default: as it was)"),
)
def import_file(path, name):
    """Show what another machine measured: pages and fits take the family by its name."""
    from rbplib.sharing import import_counts

    print(import_counts(path, name))


@command("check", "--json", FILE, JSON, RESULTS)
def check(path, as_json, results):
    """Verify every table, page and imported file; or one counts file."""
    return tell(as_json, *cli.checked(path, results or results_dir()))


@command("verify", "--json", FILE, option("--write", action="store_true", help="keep this run's as the book's"), JSON)
def verify(path, write, as_json):
    """Compare this run's numbers with the book's own; exit code 1 where one is beyond its tolerance."""
    return tell(as_json, *cli.verified(write, path))


if __name__ == "__main__":
    raise SystemExit(main())
