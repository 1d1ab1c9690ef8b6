"""`python -m workflow.measure PART BOOK JOBS`: rank tables that a book lacks, a fork for each.

PART is `small` or FAMILY/MODEL, BOOK the settings of the workflow as JSON, JOBS how many at once.
What models share is done once, before the forks: imports, and cutting text into tokens.
"""

import json
import os
import sys
from contextlib import suppress
from functools import partial

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads are lost to forks

import torch  # noqa: F401
import transformers.modeling_utils  # noqa: F401

from rbplib.cli import ended
from rbplib.families import InputError
from rbplib.measuring import cut_text, measured
from rbplib.models import load_tokenizer, model_folder, tokenizer_digest, window_length
from rbplib.table import resolve
from rbplib.texts import load_documents, make_texts, unmade
from workflow.book import Plan
from workflow.forks import Failed, run_all, step
from workflow.pages import label


def table(path):
    """Tells of a table while it is measured."""
    return step("table", label(path))


def share(family, corpora, cut):
    """Do once what the models of a family share: make embedded text that is not here, and
    add its windows to those that are cut."""
    if absent := unmade(corpora):
        with step("text", ", ".join(corpus.name for corpus in absent)):
            make_texts(absent)
    model, length = family.models[0], window_length(family)
    tokenizer = load_tokenizer(model_folder(model, weights=False)[0], model.id)
    for corpus in corpora:
        documents = load_documents(corpus)
        cut_text(tokenizer, tokenizer_digest(tokenizer), documents, length, "paper", cut)


def measure(part, book, jobs=1):
    """Measure what a part of a book lacks, in a fork for each model, the largest of each family
    first. Raises Failed: one did."""
    plan = Plan(book)
    cut, rows = {}, plan.parts.get(part, [])  # another process may have measured it
    for family, texts in {row[0].name: row[::2] for row in rows}.values():
        with suppress(InputError):  # which a model's own fork tells
            share(family, resolve(family, None, texts)[2], cut)

    steps, how = [], plan.how | {"progress": table, "cut": cut}
    rows.sort(key=lambda row: row[0].models.index(row[0].model(row[1])), reverse=True)
    for family, model, texts in rows:
        run = partial(measured, family, texts, models=[model], **how)
        steps.append((f"{family.name}/{model}", run))
    if failed := run_all(steps, jobs):
        raise Failed(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    part, book, jobs = sys.argv[1:]
    sys.exit(ended(partial(measure, part, json.loads(book), int(jobs))))
