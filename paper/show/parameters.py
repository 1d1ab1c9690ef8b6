"""What a page is asked for, checked before anything runs: by the runner,
and by each page itself."""

import re

from rbplib.families import PROTOCOLS, InputError, check_choice, load_corpus, load_family, nearest

DECLARED = re.compile(r"^(\w+)(?:: (\w+))? *= *(.*?)(?:  #.*)?$", re.M)  # name, kind, default
INJECTED = "# Parameters\n"  # how the cell begins that papermill writes
KINDS = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "text"),
    "list": (list, "a list"),
}
ITEMS = {"ks": "int", "lengths": "int", "corpora": "str", "families": "str"}
LIMITS = {  # others: from 1 on
    "n_bootstrap": (100, 1_000_000),
    "resamples": (100, 100_000),
    "seed": (0, 2**32 - 1),
}


def check_parameters(cell, given, page):
    """InputError, one sentence, for a name or a value that a page cannot take.

    Args:
        cell: source of its parameters cell, with their kinds. given: {name: value}. page: its name,
        for the sentence.
    """
    declared = {name: rest for name, *rest in DECLARED.findall(cell)}
    for name, value in given.items():
        if name not in declared:
            hint = nearest(name, declared) if declared else "it takes none."
            raise InputError(f"{page} has no parameter {name!r}: {hint}")
        kind, default = declared[name]
        # the comment of some says what empty text asks for
        if value == "" and re.search(rf"^{name}: str .*\bempty\b", cell, re.M):
            continue
        check_value(name, value, kind)
        values = value if kind == "list" else [value]
        if kind == "list":
            for item in values:
                check_value(f"each of {name}", item, ITEMS.get(name))
        if values == [] and default != "[]":
            raise InputError(f"{name} is empty: give at least one, as in {name} = {default}.")
        # names that must be known (of texts a family may know more); page 12 has published families
        for item in values:
            if name == "protocol":
                check_choice(item, PROTOCOLS, name)
            if name == "corpora" and "family" not in given:
                load_corpus(item)
            if name == "family" or (name == "families" and default == "[]"):
                load_family(item)


def check_value(name, value, kind):
    """InputError for a value of another kind, or a number outside LIMITS; none where no kind is."""
    if not kind:
        return
    types, words = KINDS[kind]
    if value == "" or isinstance(value, bool) or not isinstance(value, types):
        raise InputError(f"{name} must be {words}, not {value!r}.")
    low, high = LIMITS.get(name, (1, None))
    if kind == "int" and not low <= value <= (high or value):
        limits = f"from {low:,} to {high:,}" if high else f"{low} or more"
        raise InputError(f"{name} must be {limits}, not {value:,}.")


def check():
    """`check_parameters` from inside a page: of its own cell, and of what papermill wrote below."""
    from IPython import get_ipython

    names = getattr(get_ipython(), "user_ns", {})
    cells = names.get("In", [])
    declared = [cell for cell in cells if re.search(r"^seed: int = \d", cell, re.M)]
    if declared:
        cells = [declared[-1], *(cell for cell in cells if cell.startswith(INJECTED))]
        given_here = {name for cell in cells for name, *_ in DECLARED.findall(cell)}
        check_parameters(declared[-1], {name: names[name] for name in given_here}, "this page")
