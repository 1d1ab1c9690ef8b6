"""How commands are made and how they print: one declaration for a parser, its help and what runs."""

import argparse
import json
import math
import os
import sys

import rbplib
from rbplib.families import root
from rbplib.inputs import InputError, interrupt, stopped_by, write_text


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


PARSER = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
PARSER.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
GROUPS = {"": PARSER.add_subparsers(required=True, metavar="COMMAND")}  # first words of commands: where the second goes


def command(name, example, *options):
    """Makes a function the command of this name: its docstring is the help, its arguments are the options; it prints
    what it finds, and may return an exit code."""

    def keep(run):
        group, _, own = name.rpartition(" ")
        if group not in GROUPS:
            made = GROUPS[""].add_parser(group, help=f"Make a new {group}.")
            GROUPS[group] = made.add_subparsers(required=True, metavar=own)
        texts = {"help": run.__doc__, "description": run.__doc__, "epilog": f"example: rbp {name} {example}"}
        parser = GROUPS[group].add_parser(own, formatter_class=argparse.RawTextHelpFormatter, **texts)
        parser.set_defaults(run=run)
        for names, how in options:
            parser.add_argument(*names, **how)
        return run

    return keep


def option(*names, **how):
    """An argument of a command, as `add_argument` takes it."""
    return names, how


def whole(text):
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def natural(text):
    if (number := whole(text)) < 0:
        raise argparse.ArgumentTypeError(f"{number} is below 0")
    return number


def size(text):
    """A number of parameters or tokens as people write it: 13e9, 13B, 350M, 22k."""
    try:
        found = float(text[:-1]) * POWERS[text[-1].lower()] if text[-1:].lower() in POWERS else float(text)
        if 1 <= found <= 1e18:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1e18: write it as 13e9, 13B, 350M or 22k")


def tell(as_json, value, *lines):
    """Print a value as JSON where a program reads, else its lines for people; 1 where it holds problems, else 0."""
    print(json.dumps(value, indent=2, allow_nan=False) if as_json else "\n".join(lines))
    return int(isinstance(value, dict) and bool(value.get("problems")))


def jsonable(value):
    """A value as JSON holds it: None for a number that is none, and for an interval without one of its ends."""
    if isinstance(value, tuple | list):
        ends = [jsonable(v) for v in value]
        return None if None in ends else ends
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(value):
    if value is None:
        return "none"
    return f"[{show(value[0])}, {show(value[1])}]" if isinstance(value, list) else f"{value:.4f}"


FITTED = ("alpha", "log_c", "r2", "ci_tokens", "ci_trainings", "ci_models", "lack_of_fit_p", "trained_lack_of_fit_p")
FITTED += ("explained_by", "n_models", "scored_tokens", "status")


def law_report(law, bend):
    """(record for programs, lines for people) of one law, and of the same with a bend."""
    found = {name: getattr(law, name) for name in FITTED}
    found |= {"ci_documents": law.over_documents.ci_tokens, "sources": law.n_sources}
    found |= {"curvature": bend.parameters["curvature"], "ci_curvature": bend.token_intervals["curvature"]}
    row = {"family": law.family, "corpus": law.corpus, "k": law.k} | {n: jsonable(v) for n, v in found.items()}
    said = {name: show(value) for name, value in row.items() if not isinstance(value, str | int)}
    return row, [
        f"{law.family} on {law.corpus}, k = {law.k}: alpha {said['alpha']}, R2 {said['r2']}",
        f"  95% intervals: other text {said['ci_tokens']}, as if documents were independent {said['ci_documents']}",
        f"  other text and trainings {said['ci_trainings']}, other sizes {said['ci_models']}",
        f"  lack of fit p {said['lack_of_fit_p']}, with trainings {said['trained_lack_of_fit_p']}: {law.explained_by}",
        f"  curvature {said['curvature']} {said['ci_curvature']}",
        f"  {law.n_models} models, {law.n_sources:,} sources, {law.scored_tokens:,} tokens, status: {law.status}",
        *([f"  not measured, and left out: {', '.join(law.loss.missing)}"] if law.loss.missing else []),
    ]


def forecasts(losses, N, sizes, ahead, **drawn):
    """(record for programs, lines for people) of forecasts at sizes, made by `ahead`, of {name: Loss or a sentence}."""
    found, rbp, rows = {name: ahead(loss, sizes, **drawn) for name, loss in losses.items()}, losses["rbp"], []
    if isinstance(main := found["rbp"], str):
        raise InputError(main)
    kinds = {  # {key: (of which forecast, exp of so many times the loss or 0 for the loss, words)}
        "rbp": ("rbp", -1, f"RBP_{rbp.k}"),
        "loss": ("rbp", 0, f"-log RBP_{rbp.k}"),
        "cross_entropy": ("cross_entropy", 0, "cross-entropy, nats per token:"),
        "p_n": ("run", -1, f"{N} hits in a row, as runs were counted:"),
        "p_n_independent": ("rbp", -N, f"{N} hits in a row, were hits independent (Eq. 6):"),
    }
    held = ["how models scatter"]
    held += ["the choice of sources"] * (rbp.resampled(min(drawn["n_bootstrap"], 1), 0) is not None)
    held += ["the choice among " + ", ".join(main.laws)] * (len(main.laws) > 1)
    held += ["how trainings differ"] * bool(rbp.training_noise()[1])
    about = {"family": rbp.family, "corpus": rbp.corpus, "k": rbp.k, "n": N, "models": len(main.fitted)}
    about |= {"level": 0.95, "held": held}
    lines = [
        f"{rbp.family} on {rbp.corpus}, k = {rbp.k}: from {len(main.fitted)} models of {main.fitted.min():,.0f} to "
        f"{main.fitted.max():,.0f} non-embedding parameters; a 95% interval holds " + ", ".join(held),
        *([f"not measured, and left out: {', '.join(rbp.missing)}"] if rbp.missing else []),
    ]
    for i, size in enumerate(main.S):
        forms = {name: float(values[i]) for name, values in main.by_form.items()}
        row = {"S": float(size), "decades_beyond": float(main.horizon[i]), "place": main.place(i), "forms": forms}
        lines.append(f"S = {size:,.0f}: {row['place']}")
        for name, (of, times, words) in kinds.items():
            value, ends = (None, None) if (none := isinstance(found[of], str)) else found[of].told(i, times)
            row |= {name: jsonable(value), f"ci_{name}": jsonable(ends)}
            lines.append(f"  {words} " + (found[of] if none else f"{value:.4g} [{ends[0]:.4g}, {ends[1]:.4g}]"))
        lines.append("  -log RBP by form: " + ", ".join(f"{name} {value:.4g}" for name, value in forms.items()))
        rows.append(row)
    why = {name: said for name, said in found.items() if isinstance(said, str)}
    return about | {"missing": list(rbp.missing), "forecasts": rows, "not_told": why}, lines


def checked(path, results):
    """(record, *lines) of what is wrong with the counts file at a path, or with every table, page and imported file."""
    from rbplib.exchange import broken_files, read_counts
    from rbplib.table import check_tables

    if path:
        record, found = read_counts(path)
        lines = [f"{corpus} ({protocol}, {role}): {len(t)} models" for (role, corpus, protocol), t in found.items()]
        told = {"family": record["family"], "by": record["by"], "exported": record["exported"], "problems": []}
        return told, *lines, f"{path}: every test passed; who made it is not tested"
    folder, pages, of_pages = results / "ranks", 0, []
    tables, problems = check_tables(folder)
    if not folder.is_dir() and not (folder.parent / "imported").is_dir():
        problems.append(f"there is no folder {folder}: run `rbp measure`, or name another by --results or RBP_RESULTS.")
    if (root() / "book" / "_executed").is_dir():  # where no page was run, the book's packages may be absent
        from workflow.html import check_pages

        pages, of_pages = check_pages()
    problems += broken_files() + of_pages
    found = {"tables": tables, "pages": pages, "problems": problems}
    return found, *problems, f"{tables} tables and {pages} pages checked, {len(problems)} problems"


def verified(write, path):
    """(record, *lines) of this run's numbers beside the book's own, or of the file that they were written to."""
    from paper.show import reference as numbers

    run = numbers.run_record()
    if write:
        write_text(path := path or root().joinpath(*numbers.PLACE), json.dumps(run, indent=0, sort_keys=True) + "\n")
        return {"written": str(path), "problems": []}, f"{path}: the numbers of {len(run['pages'])} pages"
    rows = numbers.compared(book := numbers.read_reference(path), run)
    bad, said = rows[~rows["outcome"].isin(numbers.FINE)].astype(object).fillna("–"), numbers.sentences(book, run, rows)
    line = "{page}: {number} of {case} {outcome}: {book} in the book, {here} here"
    problems = [line.format(**row) for row in bad.to_dict("records")]
    return {"numbers": said, "problems": problems}, *problems, *said


def main(argv=None):
    args = vars(PARSER.parse_args(argv))
    stopped_by(interrupt)
    try:
        return args.pop("run")(**args) or 0
    except InputError as error:
        return print(f"rbp: {error}", file=sys.stderr) or 2
    except PermissionError as error:
        return print(f"rbp: {error.filename} cannot be read or written: change its permissions.", file=sys.stderr) or 2
    except ModuleNotFoundError as error:
        return print(f"rbp: this needs {error.name}: run `make env`, or install rbplib whole.", file=sys.stderr) or 2
    except KeyboardInterrupt:
        print("rbp: stopped; run the same command again to go on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
