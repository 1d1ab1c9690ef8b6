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
import hashlib
import heapq
import inspect
import json
import re
import sys
import textwrap
import warnings
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from corpora.shingles import Kept
from rbplib.families import (
    InputError,
    check_choice,
    held,
    known,
    load_corpus,
    one_at_a_time,
    root,
    write_text,
)
from rbplib.models import file_digest

# the tables, at the versions whose text is on record: all that the lock holds
PINS = held("corpora", "packages")
EVALUATION, TRAINING = (
    dict(line.split("==") for line in (PINS / f"{table}.txt").read_text(encoding="utf-8").split())
    for table in ("evaluation", "training")
)
# kinds of text that the embedded models are trained on, from other packages
TRAINED = ("docs", "code", "doctests")
KINDS = (*TRAINED, "licences", "descriptions")
# Text that differs between the builds for Linux, macOS and Windows of one version: left out.
BUILT = {
    "code": ("contourpy",),
    "licences": ("numpy", "pillow", "scipy", "torch"),
    "descriptions": ("numpy", "scipy", "torch", "xxhash"),
}

# Characters of the shortest document kept.
LEAST = {"docs": 500, "code": 500, "doctests": 150, "licences": 300, "descriptions": 300}
READ = 800  # characters of a document that count against its source: about a window of 256 tokens
LARGEST = 0.04  # of a corpus's characters that one source may give
PASSAGE = 700  # characters at which a licence or a description is cut (at the next blank line)
SKIP = re.compile(
    r"(^|/)(tests?|testing|_?vendor(ed)?|externals?|third_party|extern)/|\.dist-info/.*\.py$"
)
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
NO_TEXT = re.compile(r"\.(py|pyc|json|css|js)$")
BEFORE = re.compile(
    r"^[^\S\n]+", re.MULTILINE
)  # of a line: Pythons differ in whether form feeds and the like are space
PROSE_FILE = re.compile(r"\.(rst|md|txt)$")


def distribution(package):
    """An installed package, or one sentence where it is not."""
    try:
        return metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise InputError(
            f"the embedded corpora need the package {package!r}: install requirements.lock here."
        ) from None


def named_texts(package, wanted):
    """(path, text) of the installed files of a package that are `wanted(path in it)`, by path."""
    files = {file.as_posix(): file for file in distribution(package).files or ()}
    for name in sorted(files):
        if not name.startswith("..") and wanted(name):
            with suppress(OSError, UnicodeDecodeError):
                text = Path(files[name].locate()).read_text(encoding="utf-8")
                yield name, text.replace("\r\n", "\n")


def package_documents(package, kind):
    """{source: its documents} of a kind in one package: the package, or each licence file."""
    if kind == "licences":
        sources = licence_files(package)
    elif kind == "descriptions":
        sources = {package: passages(description(package))}
    else:
        sources = {package: python_of(package)[kind]}
    for source, texts in sources.items():
        sources[source] = [text for text in texts if len(text) >= LEAST[kind]]
    return sources


def licence_files(package):
    """Passages of a package's licences and notices: {"package: name of the file": list}."""
    sources = {}
    for name, text in named_texts(package, is_licence):
        source = f"{package}: {name.rpartition('/')[2]}"
        sources.setdefault(source, []).extend(passages(text))
    return sources


def is_licence(path):
    """Whether a file of a package is a licence or notice."""
    return LICENCE_FILE.search(path) and not NO_TEXT.search(path)


def description(package):
    """The long description in a package's metadata: what its page in the index shows."""
    return distribution(package).metadata.json.get("description", "").replace("\r\n", "\n")


@functools.cache
def python_of(package):
    """Documents of a package's Python files by kind, with the examples of its other texts.

    Kept, since several corpora are made of one reading.
    """
    documents = {"docs": [], "code": [], "doctests": []}
    sources = named_texts(package, lambda path: path.endswith(".py") and not SKIP.search(path))
    for _, source in sources:
        for kind, text in python_documents(source):
            documents[kind].append(text)
    texts = named_texts(package, lambda path: PROSE_FILE.search(path) and not SKIP.search(path))
    for text in (description(package), *(text for _, text in texts)):
        documents["doctests"] += passages(split_examples(text)[1])
    return documents


def python_documents(source):
    """(kind, document) of a Python file: prose and examples of docstrings, functions without."""
    try:
        with warnings.catch_warnings():
            # where warnings are errors, an escape in a string would lose the file
            warnings.simplefilter("ignore")
            # a file in newer syntax is no text for any Python
            tree = ast.parse(source, feature_version=(3, 11))
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in definitions(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "code", code_of(node, lines)
        raw = ast.get_docstring(node, clean=False) or ""
        raw = BEFORE.sub(lambda space: " " * len(space[0].expandtabs()), raw)
        if text := inspect.cleandoc(raw):
            prose, examples = split_examples(text)
            yield "docs", prose
            yield "doctests", examples


def definitions(node):
    """The module, its classes, functions and methods in file order; nothing inside a function."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from definitions(child)


def code_of(node, lines):
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    kept = lines[first - 1 : node.end_lineno]
    if ast.get_docstring(node, clean=False) is not None:
        doc = node.body[0]
        del kept[doc.lineno - first : doc.end_lineno - first + 1]
    return textwrap.dedent("\n".join(kept)).strip()


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
    return [*cut, rest.strip()] if rest.strip() else cut


def evaluation_packages(kind):
    """Names of the packages that a kind of evaluation text is drawn from, in order."""
    table = EVALUATION if kind in TRAINED else EVALUATION | TRAINING
    return sorted(set(table) - set(BUILT.get(kind, ())), key=str.lower)


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
    LARGEST of the whole.
    """
    rng, drawn, kept = np.random.default_rng(seed), [], Kept()
    # documents of each source, in a random order
    left = {}
    for source, texts in evaluation_sources(kind).items():
        left[source] = [texts[i] for i in rng.permutation(len(texts))]
    # the source with the least text gives the next
    heapq.heapify(given := [(0, source) for source in left])
    while given and len(drawn) < documents:
        size, source = heapq.heappop(given)
        while left[source]:
            if kept.adds(text := left[source].pop()):
                drawn.append((source, text))
                heapq.heappush(given, (size + min(len(text), READ), source))
                break
    return drawn[: balanced(drawn)]


def balanced(drawn):
    """How many documents from the front to take so that no source gives more than LARGEST of them.

    All of them where that cannot be had, from fewer sources than 1 / LARGEST.
    """
    given, best = {}, 0
    for number, (source, text) in enumerate(drawn, 1):
        given[source] = given.get(source, 0) + min(len(text), READ)
        if max(given.values()) <= LARGEST * sum(given.values()):
            best = number
    return best or len(drawn)


def state(corpus):
    """What decides a corpus' text: what it asks for, the packages' versions, the code."""
    installed = {name: distribution(name).version for name in evaluation_packages(corpus.kind)}
    files = sorted([*Path(__file__).parent.glob("*.py"), *PINS.iterdir()])
    code = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return {"documents": corpus.documents, "seed": corpus.seed, "packages": installed, "code": code}


def make_text(corpus):
    """Write an embedded corpus' text where it is missing, damaged or of other packages; returns its
    path.

    A JSON file beside it says what it was made of, and its digest. Raises InputError: a package is
    missing, or the kind is unknown.
    """
    path = root() / corpus.path
    # current already?
    now = state(corpus)
    record = path.with_suffix(".made.json")
    with one_at_a_time(path):
        with suppress(OSError):  # one of them is missing
            now["text"] = file_digest(path)
            if record.read_bytes() == json.dumps(now).encode():
                return path
        # draw it, and say of what
        drawn = evaluation_documents(corpus.kind, corpus.documents, corpus.seed)
        lines = [json.dumps({"text": text, "source": source}) + "\n" for source, text in drawn]
        write_text(path, "".join(lines))
        write_text(record, json.dumps(now | {"text": file_digest(path)}))
    return path


def main(names):
    """Make the text of corpora, by names or paths of YAML; of all embedded ones for none."""
    for corpus in map(load_corpus, names) if names else known("corpus"):
        if corpus.kind:
            print(make_text(corpus))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"rbp: {error}")
