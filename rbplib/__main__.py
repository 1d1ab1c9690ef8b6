"""The `rbp` command: thin over the library. Bad input is one sentence on standard error and exit code 2."""

import argparse
import json
import os
import sys
from pathlib import Path

import rbplib
from rbplib.settings import PROTOCOLS, InputError, corpus_names, family_names, load_corpus, load_family, results_dir


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


def parser():
    top = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
    top.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def command(name, run, text, example, parent=commands):
        c = parent.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: {example}",
            formatter_class=argparse.RawTextHelpFormatter,
        )
        c.set_defaults(run=run)
        return c

    def option_json(c):
        c.add_argument("--json", action="store_true", help="print JSON for programs")

    def option_results(c):
        c.add_argument("--results", type=Path, default=None, help="results folder (default: results/, or RBP_RESULTS)")

    c = command("families", list_families, "List families and their models.", "rbp families nano-pythia --json")
    c.add_argument("name", nargs="?", help="one family only: a name or a YAML path")
    option_json(c)

    c = command("corpora", list_corpora, "List corpora; documents and tokens where measured.", "rbp corpora")
    c.add_argument("name", nargs="?", help="one corpus only")
    option_json(c)
    option_results(c)

    family = commands.add_parser("family", help="Make a new family.", description="Make a new family.")
    inner = family.add_subparsers(dest="what", required=True, metavar="new", parser_class=Parser)
    example = "rbp family new my-family EleutherAI/pythia-14m EleutherAI/pythia-31m EleutherAI/pythia-70m"
    c = command("new", new_family, "Write families/NAME.yml for some models.", example, inner)
    c.add_argument("name", help="the family's name")
    c.add_argument("ids", nargs="+", metavar="ID", help="hub ids or folders of models")
    c.add_argument("--force", action="store_true", help="replace a family of that name")
    c.add_argument("--trust-remote-code", action="store_true", help="run code that a model's repository brings")

    def measuring(c):
        c.add_argument("--family", required=True, help="a name in families/ or a YAML path")
        c.add_argument("--model", action="append", help="one model of the family (repeatable; default: all)")
        c.add_argument("--corpus", action="append", help="a corpus name, YAML, file or folder (repeatable)")
        c.add_argument("--protocol", choices=PROTOCOLS, default="paper", help="which tokens are scored")
        c.add_argument("--device", help="cpu, cuda, cuda:1, mps, auto (spread over devices)")
        c.add_argument("--dtype", help="float32, bfloat16 or float16 (default: by device)")
        option_results(c)

    c = command("plan", plan, "Time, memory, download and disk, before anything starts.", "rbp plan --family pythia")
    measuring(c)
    option_json(c)

    c = command("measure", measure, "Measure rank tables that are missing.", "rbp measure --family nano-pythia")
    measuring(c)
    c.add_argument("--trust-remote-code", action="store_true", help="run code that a model's repository brings")
    c.add_argument("--batch-tokens", type=whole, help="tokens of one forward pass (default: found against memory)")
    c.add_argument("--quiet", action="store_true", help="no progress bars")

    example = "rbp fit --family nano-pythia --corpus docs --k 1 --json"
    c = command("fit", fit, "Fit the law to measured tables.", example)
    c.add_argument("--family", required=True, help="a name in families/ or a YAML path")
    c.add_argument("--corpus", required=True, help="a corpus that the family was measured on")
    c.add_argument("--k", required=True, type=whole, help="rank counted as success, 1 to the vocabulary size")
    c.add_argument("--protocol", choices=PROTOCOLS, default="paper", help="which tokens were scored")
    c.add_argument("--n-bootstrap", type=whole, default=10_000, help="resamples of documents (default 10000)")
    c.add_argument("--seed", type=int, default=42, help="seed of the bootstrap")
    option_json(c)
    option_results(c)

    c = command(
        "book", book, "Run the notebooks by papermill, then build the HTML book.", "rbp book --family nano-pythia"
    )
    c.add_argument("--family", action="append", help="families of the book (repeatable; default: embedded ones)")

    c = command("check", check, "Verify every table and page against its record.", "rbp check")
    option_json(c)
    option_results(c)
    return top


def whole(text):
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def print_json(value):
    print(json.dumps(value, indent=2, allow_nan=False))


def list_families(args):
    from rbplib.models.sizes import family_sizes

    rows = []
    for name in [args.name] if args.name else family_names():
        rows += family_sizes(load_family(name))
    if args.json:
        return print_json(rows)
    for r in rows:
        print(f"{r['family']:18} {r['model']:22} S {r['nonembedding_params']:>15,}  {r['id']}")


def list_corpora(args):
    from rbplib.ranks.table import read_record

    results = args.results or results_dir()
    rows = []
    for name in [args.name] if args.name else corpus_names():
        corpus = load_corpus(name)
        seen = {}
        for path in sorted((results / "ranks").glob(f"*/*/{corpus.name}.parquet")):
            record = read_record(path)
            seen[record["family"]] = {"documents": record["documents"], "tokens": record["scored_tokens"]}
        rows.append({"corpus": corpus.name, "title": corpus.title, "source": corpus.source, "measured": seen})
    if args.json:
        return print_json(rows)
    for r in rows:
        print(f"{r['corpus']:14} {r['source']:9} {r['title']}")
        for family, n in r["measured"].items():
            print(f"    {family}: {n['documents']:,} documents, {n['tokens']:,} tokens scored")


def new_family(args):
    from rbplib.models.family_file import write_family

    print(write_family(args.name, args.ids, force=args.force, trust_remote_code=args.trust_remote_code))


def asked(args):
    """What a plan and a measurement have in common."""
    names = {"models": "model", "corpora": "corpus", "protocol": "protocol", "device": "device", "dtype": "dtype"}
    return {name: getattr(args, given) for name, given in names.items()}


def plan(args):
    from rbplib.ranks.plan import plan_family, plan_text

    found = plan_family(args.family, **asked(args))
    print_json(found) if args.json else print(plan_text(found))


def measure(args):
    from rbplib.ranks.measure import measure as run

    paths = run(
        args.family,
        **asked(args),
        results=args.results,
        trust_remote_code=args.trust_remote_code,
        progress=not args.quiet,
        batch_tokens=args.batch_tokens,
    )
    for path in paths:
        print(path)


def fit(args):
    from rbplib.laws.curve import family_curve
    from rbplib.laws.law import fit_law

    family, corpus = load_family(args.family), load_corpus(args.corpus)
    curve = family_curve(family, corpus.name, [args.k], args.protocol, results=args.results)
    law = fit_law(curve, args.k, n_bootstrap=args.n_bootstrap, seed=args.seed)
    row = {
        "family": family.name,
        "corpus": corpus.name,
        "k": args.k,
        "alpha": number(law.alpha),
        "log_c": number(law.log_c),
        "r2": number(law.r2),
        "ci_tokens": interval(law.ci_tokens),
        "ci_models": interval(law.ci_models),
        "n_models": law.n_models,
        "scored_tokens": law.scored_tokens,
        "status": law.status,
    }
    if args.json:
        return print_json(row)
    print(
        f"{row['family']} on {row['corpus']}, k = {args.k}: alpha {show(row['alpha'])}, R2 {show(row['r2'])}\n"
        f"  95% interval from tokens {show(row['ci_tokens'])}, from models {show(row['ci_models'])}\n"
        f"  {row['n_models']} models, {row['scored_tokens']:,} tokens scored, status: {row['status']}"
    )


def number(value):
    """A float, or None where there is none: JSON has no NaN."""
    return float(value) if value is not None and value == value and abs(value) != float("inf") else None


def interval(pair):
    """Both ends, or None where there is no interval."""
    ends = [number(v) for v in pair] if pair is not None else [None]
    return None if None in ends else ends


def show(value):
    if value is None:
        return "none"
    return f"[{show(value[0])}, {show(value[1])}]" if isinstance(value, list) else f"{value:.4f}"


def book(args):
    from rbplib.pages.book import make_book

    try:
        print("first page:", make_book(args.family))
    except RuntimeError as error:  # a step of the workflow failed: not bad input
        print(f"rbp: {error}", file=sys.stderr)
        return 1


def check(args):
    from rbplib.pages.book import check_pages
    from rbplib.ranks.table import read_ranks

    results, problems, tables = args.results or results_dir(), [], 0
    for path in sorted((results / "ranks").glob("*/*/*.parquet")):
        tables += 1
        try:
            read_ranks(path)
        except InputError as error:
            problems.append(str(error))
    pages, page_problems = check_pages(results)
    problems += page_problems
    if args.json:
        print_json({"tables": tables, "pages": pages, "problems": problems})
    else:
        print(*problems, f"{tables} tables and {pages} pages checked, {len(problems)} problems", sep="\n")
    return 1 if problems else 0


def main(argv=None):
    args = parser().parse_args(argv)
    try:
        return args.run(args) or 0
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rbp: stopped; run the same command again to go on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
