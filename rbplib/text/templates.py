"""How a row becomes a document: a template with fields, and filters."""

import string

from rbplib.settings import InputError, nearest


def template_fields(template):
    """Names of the fields a template uses; a dot reaches into a nested field."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"template {template!r} is not well formed ({error}): write fields as {{name}}.") from None
    names = [name for _, name, _, _ in parts if name is not None]
    for name in names:
        if not name or not all(p.isidentifier() for p in name.split(".")):
            raise InputError(f"template {template!r} has the field {name!r}: use plain names, as in {{text}}.")
    if not names:
        raise InputError(f"template {template!r} uses no field: write one like {{text}}.")
    return names


def render(template, row, place="a row"):
    """A row as a document: fields put into the template, missing values as nothing."""
    out = []
    for literal, name, _, _ in string.Formatter().parse(template):
        out.append(literal)
        if name is not None:
            value = lookup(row, name, place)
            out.append("" if value is None else str(value))
    return "".join(out)


def lookup(row, name, place="a row"):
    value = row
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            known = list(value) if isinstance(value, dict) else []
            hint = nearest(part, known) if known else "it holds no fields."
            raise InputError(f"{place} has no field {name!r}: {hint}")
        value = value[part]
    return value


def wanted(row, corpus, place):
    """Whether a row passes the corpus's filters."""
    if any(lookup(row, k, place) != v for k, v in corpus.where.items()):
        return False
    return not corpus.min_characters or len(render(corpus.template, row, place)) >= corpus.min_characters
