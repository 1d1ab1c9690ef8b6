"""Text of the packages of the pinned installation: five kinds of documents with their sources.

Packages are read as files, never imported. No package gives both evaluation and training text of a
kind: documentation, code and examples are drawn from EVALUATION; licences and descriptions, of
which nothing is trained on, from both tables. A training document that repeats an evaluation
document is dropped by `training.data`.

`python -m corpora.make` writes the evaluation text of each corpus that names a `kind` to its path,
as JSON lines of "text" and "source"; from then on it is a file like any other.
"""

import ast
import functools
import gc
import inspect
import json
import re
import sys
import textwrap
import warnings
from collections import Counter, defaultdict
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from corpora.shingles import Kept
from rbplib.families import (
    InputError,
    check_choice,
    digest,
    file_digest,
    held,
    list_corpora,
    load_corpus,
    one_at_a_time,
    root,
    telling,
    write_text,
)

# the tables, at the versions whose text is on record: all that the lock holds
PINS = held("corpora", "packages")


def pinned(table):
    """{package: version} of a table."""
    lines = (PINS / f"{table}.txt").read_text(encoding="utf-8")
    return dict(re.findall("(.+)==(.+)", lines))


EVALUATION = pinned("evaluation")
TRAINING = pinned("training")
# kinds of text that the embedded models are trained on, from other packages
TRAINED = ("docs", "code", "doctests")
# Text that differs between the builds for Linux, macOS and Windows of one version: left out.
BUILT = {
    "code": ("contourpy",),
    "licences": ("numpy", "pillow", "scipy", "torch"),
    "descriptions": ("numpy", "scipy", "torch", "xxhash"),
}

# Characters of the shortest document kept.
LEAST = {"docs": 500, "code": 500, "doctests": 150, "licences": 300, "descriptions": 300}
KINDS = tuple(LEAST)
READ = 800  # characters of a document that count against its source: about a window of 256 tokens
LARGEST = 0.04  # of a corpus's characters that one source may give
PASSAGE = 700  # characters at which a licence or a description is cut (at the next blank line)
SKIP = re.compile(
    r"(^|/)(\.\.|tests?|testing|_?vendor(ed)?|externals?|third_party|extern)/|\.dist-info/.*\.py$"
)
PYTHON_FILE = re.compile(r"\.py$")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
PROSE_FILE = re.compile(r"\.(rst|md|txt)$")
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
NO_TEXT = re.compile(r"^\.\.|\.(py|pyc|json|css|js)$")
# before a line: Pythons differ in whether form feeds and the like are space
BEFORE = re.compile(r"^[^\S\n]+", re.MULTILINE)


def distribution(package):
    """An installed package, or one sentence where it is not."""
    with telling(f"the embedded corpora need the package {package!r}, install requirements.lock"):
        return metadata.distribution(package)


def named_texts(package, wanted, unwanted):
    """(path, text) of the files of a package whose paths match one pattern and not the other, by
    path."""
    for file in sorted(distribution(package).files or (), key=str):
        name = file.as_posix()
        if wanted.search(name) and not unwanted.search(name):
            with suppress(OSError, UnicodeDecodeError):
                yield name, file.read_text()


def package_documents(package, kind):
    """{source: its documents} of a kind in one package: the package, or each licence file."""
    sources = defaultdict(list)
    if kind == "licences":
        for name, text in named_texts(package, LICENCE_FILE, NO_TEXT):
            sources[f"{package}: {Path(name).name}"] += passages(text)
    elif kind == "descriptions":
        sources[package] = passages(description(package))
    else:
        sources[package] = python_of(package)[kind]
    for source, texts in sources.items():
        sources[source] = [text for text in texts if len(text) >= LEAST[kind]]
    return sources


def description(package):
    """The long description in a package's metadata: what its page in the index shows."""
    return distribution(package).metadata.json.get("description", "")


@functools.cache
def python_of(package):
    """Documents of a package's Python files by kind, with the examples of its other texts.

    Kept, since several corpora are made of one reading.
    """
    documents = defaultdict(list)
    for _, source in named_texts(package, PYTHON_FILE, SKIP):
        for kind, text in python_documents(source):
            documents[kind].append(text)
    texts = [text for _, text in named_texts(package, PROSE_FILE, SKIP)]
    for text in [description(package), *texts]:
        documents["doctests"] += passages(split_examples(text)[1])
    return documents


def python_documents(source):
    """(kind, document) of a Python file: prose and examples of docstrings, functions without."""
    try:
        # where warnings are errors, an escape in a string would lose the file
        with warnings.catch_warnings(action="ignore"):
            # a file in newer syntax is no text for any Python
            tree = ast.parse(source, feature_version=(3, 11))
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in definitions(tree):
        if isinstance(node, FUNCTION):
            yield "code", code_of(node, lines)
        raw = ast.get_docstring(node, clean=False) or ""
        raw = BEFORE.sub(lambda space: " " * len(space[0].expandtabs()), raw)
        prose, examples = split_examples(inspect.cleandoc(raw))
        yield "docs", prose
        yield "doctests", examples


def definitions(node):
    """The module, its classes, functions and methods in file order; nothing inside a function."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTION):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from definitions(child)


def code_of(node, lines):
    """A function with its decorators, without its docstring."""
    kept = lines[: node.end_lineno]
    if ast.get_docstring(node, clean=False) is not None:
        del kept[node.body[0].lineno - 1 : node.body[0].end_lineno]
    first = min(part.lineno for part in [node, *node.decorator_list])
    return textwrap.dedent("\n".join(kept[first - 1 :])).strip()


def split_examples(docstring):
    """Prose and examples of a docstring; an example is a paragraph that holds a `>>>` line."""
    prose, examples = [], []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if starts := re.search(r"^\s*>>>", paragraph, re.MULTILINE):
            if head := paragraph[: starts.start()].rstrip():
                prose.append(head)
            examples.append(textwrap.dedent(paragraph[starts.start() :].strip("\n")))
        else:
            prose.append(paragraph)
    return "\n\n".join(prose).strip(), "\n\n".join(examples).strip()


def passages(text):
    """A text cut at blank lines into passages of about PASSAGE characters."""
    cut, rest = [], ""
    for paragraph in re.split(r"\n\s*\n", text):
        rest = f"{rest}\n\n{paragraph}" if rest else paragraph
        if len(rest) >= PASSAGE:
            cut.append(rest.strip())
            rest = ""
    return [*cut, rest.strip()]


def evaluation_packages(kind):
    """Names of the packages that a kind of evaluation text is drawn from, in order."""
    table = EVALUATION if kind in TRAINED else EVALUATION | TRAINING
    return sorted(table.keys() - BUILT.get(kind, ()), key=str.lower)


def evaluation_sources(kind):
    """{source: its documents} of a kind of evaluation text: packages, or their licence files."""
    check_choice(kind, KINDS, "embedded text of kind")
    sources = {}
    for package in evaluation_packages(kind):
        sources |= package_documents(package, kind)
    return sources


def evaluation_documents(kind, documents, seed):
    """At most `documents` evaluation documents, in the order drawn: list of (source, text).

    The next document always comes from the source with the least text so far, so that sources give
    alike as long as they last; one that shares more than SHARED of its shingles, or of the other's,
    with a document drawn before is passed over. Drawing ends where no source can go on below
    LARGEST of the whole: that is not to be had from fewer sources than 1 / LARGEST, which give all.
    """
    rng, drawn, kept, balanced = np.random.default_rng(seed), [], Kept(), 0
    # documents of each source, in a random order
    left = {}
    for source, texts in evaluation_sources(kind).items():
        left[source] = [texts[i] for i in rng.permutation(len(texts))]
    # the source with the least text gives the next
    given = Counter()
    while left and len(drawn) < documents:
        source = min(left, key=lambda source: (given[source], source))
        if not left[source]:
            del left[source]
            continue
        text = left[source].pop()
        if kept.adds(text):
            drawn.append((source, text))
            given[source] += min(len(text), READ)
            if max(given.values()) <= LARGEST * given.total():
                balanced = len(drawn)
    return drawn[: balanced or len(drawn)]


def state(corpus, path):
    """What decides a corpus' text, as JSON: what it asks for, the packages' versions, the code; and
    the digest of the text that is at its path."""
    installed = {name: distribution(name).version for name in evaluation_packages(corpus.kind)}
    files = [*Path(__file__).parent.glob("*.py"), *PINS.iterdir()]
    return json.dumps(
        {
            "documents": corpus.documents,
            "seed": corpus.seed,
            "packages": installed,
            "code": digest(sorted(map(file_digest, files))),
            "text": file_digest(path),
        }
    )


def make_text(corpus):
    """Write an embedded corpus' text where it is missing, damaged or of other packages; returns its
    path.

    A JSON file beside it says what it was made of, and its digest. Raises InputError: a package is
    missing, or the kind is unknown.
    """
    path = root() / corpus.path
    record = path.with_suffix(".made.json")
    with one_at_a_time(path):
        # current already?
        with suppress(OSError):  # one of them is missing
            if record.read_bytes() == state(corpus, path).encode():
                return path
        # draw it, and say of what
        drawn = evaluation_documents(corpus.kind, corpus.documents, corpus.seed)
        lines = [json.dumps({"text": text, "source": source}) + "\n" for source, text in drawn]
        write_text(path, "".join(lines))
        write_text(record, state(corpus, path))
    return path


def main(names):
    """Make the text of corpora, by names or paths of YAML; of all embedded ones for none."""
    gc.disable()  # syntax trees are no garbage, and looking through them takes its time
    for corpus in map(load_corpus, names) if names else list_corpora():
        if corpus.kind:
            print(make_text(corpus))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"rbp: {error}")
