"""`python -m workflow.measure PART`: rank tables that a book lacks, a fork for each model.

What models share is done once, before the forks: imports, and cutting text into tokens.
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from functools import partial

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads are lost to forks

import torch  # noqa: F401
import transformers.modeling_utils  # noqa: F401

from rbplib.families import InputError, root
from rbplib.measuring import cut_text, measured
from rbplib.models import load_tokenizer, model_folder, window_length
from rbplib.table import asked
from rbplib.texts import is_made, load_documents
from workflow.book import Plan
from workflow.forks import ended, run_all, step
from workflow.pages import label


def draw(corpus):
    """Make embedded text that is not here; several kinds share one reading of the packages."""
    if corpus.kind and not is_made(root() / corpus.path):
        with step("text", corpus.name):
            load_documents(corpus)


def table(path):
    """Tells of a table while it is measured."""
    return step("table", label(path))


def cut_texts(family, corpora, cut):
    """Add the windows of a family's texts to those that are cut."""
    model, length = family.models[0], window_length(family)
    tokenizer = load_tokenizer(model_folder(model, weights=False)[0], model.id)
    for corpus in corpora:
        cut_text(tokenizer, load_documents(corpus), length, "paper", cut)


def size(row):
    """The place of a model in its family, the smallest first."""
    family, model, _ = row
    return family.models.index(family.model(model))


def measure(part, book, jobs=1):
    """Measure what a part of a book lacks, in a fork for each model, the largest of each family
    first. Raises RuntimeError: one failed."""
    plan = Plan(book)
    cut, rows = {}, plan.parts.get(part, [])  # another process may have measured it
    for family, texts in {row[0].name: row[::2] for row in rows}.values():
        corpora = asked(family, None, texts)[2]
        list(map(draw, corpora))
        with suppress(InputError):  # which a model's own fork tells
            cut_texts(family, corpora, cut)

    steps = []
    how = plan.how | {"progress": table, "cut": cut}
    for family, model, texts in sorted(rows, key=size, reverse=True):
        run = partial(measured, family, texts, models=[model], **how)
        steps.append((f"{family.name}/{model}", run, ()))
    if failed := run_all(steps, jobs):
        raise RuntimeError(f"not measured: {', '.join(failed)}")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m workflow.measure", description=__doc__)
    parser.add_argument("part", help="small, or FAMILY/MODEL")
    parser.add_argument("--book", type=json.loads, default={}, help="settings of the workflow")
    parser.add_argument("--jobs", type=int, default=1, help="models at once")
    options = vars(parser.parse_args(argv))
    return ended(lambda: measure(**options))


if __name__ == "__main__":
    sys.exit(main())
