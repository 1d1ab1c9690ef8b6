"""How commands are made and how they print: one declaration for a parser, its help and what runs."""

import argparse
import json
import math

import rbplib


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"rbp: {message}; see `{self.prog} --help`.\n")


PARSER = Parser(prog="rbp", description="The reproducible paper of the Relative-Based Scaling Law.")
PARSER.add_argument("--version", action="version", version=f"rbp {rbplib.__version__}")
GROUPS = {"": PARSER.add_subparsers(required=True, metavar="COMMAND")}  # first words of commands: where the second goes


def command(name, example, *options):
    """Makes a function the command of this name: its docstring is the help, its arguments are the options; it prints
    what it finds, and may return an exit code."""

    def keep(run):
        group, _, own = name.rpartition(" ")
        if group not in GROUPS:
            made = GROUPS[""].add_parser(group, help=f"Make a new {group}.", description=f"Make a new {group}.")
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


def tell(as_json, value, *lines):
    """Print a value as JSON where a program reads, else its lines for people."""
    print(json.dumps(value, indent=2, allow_nan=False) if as_json else "\n".join(lines))


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
    missing = law.loss.missing
    return row, [
        f"{law.family} on {law.corpus}, k = {law.k}: alpha {said['alpha']}, R2 {said['r2']}",
        f"  95% interval over sources {said['ci_tokens']}, over documents {said['ci_documents']}",
        f"  with the scatter between trainings {said['ci_trainings']}, from models {said['ci_models']}",
        f"  lack of fit p {said['lack_of_fit_p']}, with trainings {said['trained_lack_of_fit_p']}: {law.explained_by}",
        f"  curvature {said['curvature']} {said['ci_curvature']}",
        f"  {law.n_models} models, {law.n_sources:,} sources, {law.scored_tokens:,} tokens, status: {law.status}",
        *([f"  not measured, and left out: {', '.join(missing)}"] if missing else []),
    ]
