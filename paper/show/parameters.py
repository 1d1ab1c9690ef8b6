"""What a page is asked for, checked before anything runs: by the runner, and by each page itself."""

import re
from ast import literal_eval
from contextlib import suppress

from rbplib.families import PROTOCOLS, InputError, check_choice, load_corpus, load_family, nearest
from rbplib.models import family_sizes

DECLARED = re.compile(
    r"^(\w+)(?:: (\w+))? *= *(.*?)(?:  #.*)?$", re.M
)  # name, kind and default of a parameter
KINDS = {"int": int, "float": (int, float), "str": str, "list": list}
SAID = {"int": "a whole number", "float": "a number", "str": "text", "list": "a list"}
ITEMS = {"ks": "int", "lengths": "int", "corpora": "str", "families": "str"}
LIMITS = {
    "n_bootstrap": (100, 1_000_000),
    "resamples": (100, 100_000),
    "seed": (0, 2**32 - 1),
}  # others: from 1 on


def check_parameters(cell, given, page):
    """InputError, one sentence, for a name or a value that a page cannot take.

    Args:
        cell: source of its parameters cell, with their kinds. given: {name: value}. page: its name, for the sentence.
    """
    known = {name: rest for name, *rest in DECLARED.findall(cell)}
    for name, value in given.items():
        if name not in known:
            hint = nearest(name, known) if known else "it takes none."
            raise InputError(f"{page} has no parameter {name!r}: {hint}")
        kind, default = known[name]
        check_value(name, value, kind)
        for item in value if kind == "list" else ():
            check_value(f"each of {name}", item, ITEMS.get(name))
        if value == [] and default != "[]":
            raise InputError(f"{name} is empty: give at least one, as in {name} = {default}.")
        if name == "protocol":
            check_choice(value, PROTOCOLS, name)
        if name in ("corpora", "family") or (
            name == "families" and default == "[]"
        ):  # 10 is about others
            list(
                map(
                    load_corpus if name == "corpora" else load_family,
                    value if kind == "list" else [value],
                )
            )
    if "family" in known and "ks" in given and str(given["ks"]) != known["ks"][1]:
        check_ks(given["ks"], load_family(given.get("family") or literal_eval(known["family"][1])))


def check_value(name, value, kind):
    """InputError for a value of another kind, or a number outside LIMITS; a kind that is not declared fits all."""
    if kind and (value == "" or isinstance(value, bool) or not isinstance(value, KINDS[kind])):
        raise InputError(f"{name} must be {SAID[kind]}, not {value!r}.")
    low, high = LIMITS.get(name, (1, None))
    if kind == "int" and not low <= value <= (high or value):
        raise InputError(
            f"{name} must be {f'from {low:,} to {high:,}' if high else f'{low} or more'}, not {value:,}."
        )


def check_ks(ks, family):
    """InputError for a k beyond the vocabulary, where the models' configurations tell how large that is."""
    V = None
    with suppress(InputError):
        V = min(
            (row["vocab_size"] for row in family_sizes(family) if row.get("vocab_size")),
            default=None,
        )
    if V and max(ks, default=0) > V:
        raise InputError(
            f"k = {max(ks):,} is beyond the vocabulary of {family.name}, {V:,} tokens: give smaller ks."
        )


def check():
    """`check_parameters` from inside a page, of its own cell and of the one that papermill wrote below it."""
    from IPython import get_ipython

    names = getattr(get_ipython(), "user_ns", {})
    cells = [
        c
        for c in names.get("In", [])
        if re.search(r"^seed: int = \d", c, re.M) or c.startswith("# Parameters\n")
    ]
    own = max((i for i, c in enumerate(cells) if not c.startswith("# Parameters\n")), default=None)
    if own is not None:
        asked = {name for cell in cells[own:] for name, *_ in DECLARED.findall(cell)}
        check_parameters(cells[own], {name: names[name] for name in asked}, "this page")
