"""Text of the packages that the pinned installation holds: five kinds of documents, each with the package it is from.

Packages are read as files, never imported. No package gives both evaluation and training text of a kind:
documentation, code and examples are drawn from EVALUATION; licences and descriptions, of which nothing is trained on,
from both tables. A training document that repeats an evaluation document is dropped by `training.data`.
"""

import ast
import functools
import hashlib
import heapq
import inspect
import re
import textwrap
import warnings
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from corpora.shingles import Kept
from rbplib.families import InputError, check_choice, held

PINS = held("corpora", "packages")  # the tables, at the versions whose text is on record: all that the lock holds
EVALUATION, TRAINING = (
    dict(line.split("==") for line in (PINS / f"{table}.txt").read_text(encoding="utf-8").split())
    for table in ("evaluation", "training")
)
TRAINED = ("docs", "code", "doctests")  # kinds of text that the embedded models are trained on, from other packages
KINDS = (*TRAINED, "licences", "descriptions")
# Text that differs between the builds for Linux, macOS and Windows of one version: left out, so that all read the same.
BUILT = {
    "code": ("contourpy",),
    "licences": ("numpy", "pillow", "scipy", "torch"),
    "descriptions": ("numpy", "scipy", "torch", "xxhash"),
}

# Characters of the shortest document kept.
LEAST = {"docs": 500, "code": 500, "doctests": 150, "licences": 300, "descriptions": 300}
READ = 800  # characters of a document that count against its source: about what a window of 256 tokens reads
LARGEST = 0.04  # of a corpus's characters that one source may give
PASSAGE = 700  # characters at which a licence or a description is cut (at the next blank line)
SKIP = re.compile(r"(^|/)(tests?|testing|_?vendor(ed)?|externals?|third_party|extern)/|\.dist-info/.*\.py$")
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
            f"the embedded corpora need the package {package!r}: install requirements.lock into this environment."
        ) from None


def named_texts(package, wanted):
    """(path, text) of a package's installed files of which `wanted(path in the package)` is true, sorted by path."""
    files = [f for f in distribution(package).files or () if not f.as_posix().startswith("..")]
    for file in sorted((f for f in files if wanted(f.as_posix())), key=lambda f: f.as_posix()):
        with suppress(OSError, UnicodeDecodeError):
            yield file.as_posix(), Path(file.locate()).read_text(encoding="utf-8").replace("\r\n", "\n")


def package_documents(package, kind):
    """{source: its documents} of a kind in one package, in the order of its files: the package, or a licence file."""
    if kind == "licences":
        found = licence_files(package)
    else:
        found = {package: passages(description(package)) if kind == "descriptions" else python_of(package)[kind]}
    return {source: [text for text in texts if len(text) >= LEAST[kind]] for source, texts in found.items()}


def licence_files(package):
    """Passages of a package's licences and notices: {"package: name of the file": list}."""
    found = {}
    for name, text in named_texts(package, lambda path: LICENCE_FILE.search(path) and not NO_TEXT.search(path)):
        found.setdefault(f"{package}: {name.rpartition('/')[2]}", []).extend(passages(text))
    return found


def description(package):
    """The long description in a package's metadata: what its page in the index shows."""
    return distribution(package).metadata.json.get("description", "").replace("\r\n", "\n")


@functools.cache
def python_of(package):
    """Documents of a package's Python files by kind, with the examples of its other texts.

    Kept, since several corpora are made of one reading.
    """
    found = {"docs": [], "code": [], "doctests": []}
    for _, source in named_texts(package, lambda path: path.endswith(".py") and not SKIP.search(path)):
        for kind, text in python_documents(source):
            found[kind].append(text)
    texts = named_texts(package, lambda path: PROSE_FILE.search(path) and not SKIP.search(path))
    for text in (description(package), *(text for _, text in texts)):
        found["doctests"] += passages(split_examples(text)[1])
    return found


def python_documents(source):
    """(kind, document) of a Python file: prose and examples of its docstrings, functions without their docstrings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where warnings are errors, an escape in a string would lose the file
            tree = ast.parse(source, feature_version=(3, 11))  # a file in newer syntax is no text for any Python
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in definitions(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "code", code_of(node, lines)
        raw = BEFORE.sub(lambda space: " " * len(space[0].expandtabs()), ast.get_docstring(node, clean=False) or "")
        if text := inspect.cleandoc(raw):
            prose, examples = split_examples(text)
            yield "docs", prose
            yield "doctests", examples


def definitions(node):
    """The module, its classes, functions and methods in file order; nothing nested inside a function."""
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
    found, held = [], ""
    for paragraph in re.split(r"\n\s*\n", text):
        held = f"{held}\n\n{paragraph}" if held else paragraph
        if len(held) >= PASSAGE:
            found.append(held.strip())
            held = ""
    return [*found, held.strip()] if held.strip() else found


def evaluation_packages(kind):
    """{package: version on record} of what a kind of evaluation text is drawn from, sorted by name."""
    table = EVALUATION if kind in TRAINED else EVALUATION | TRAINING
    return {name: table[name] for name in sorted(table, key=str.lower) if name not in BUILT.get(kind, ())}


def evaluation_sources(kind):
    """{source: its documents} of a kind of evaluation text: a package, or one of its licence files."""
    packages = evaluation_packages(check_choice(kind, KINDS, "embedded text of kind"))
    return {source: texts for package in packages for source, texts in package_documents(package, kind).items()}


def evaluation_documents(kind, documents, seed):
    """At most `documents` evaluation documents, in the order drawn: list of (source, text).

    The next document always comes from the source with the least text so far, so that sources give alike as long as
    they last; one that shares more than SHARED of its shingles, or of the other's, with a document drawn before is
    passed over. Drawing ends where no source can go on below LARGEST of the whole.
    """
    rng, drawn, kept = np.random.default_rng(seed), [], Kept()
    left = {s: [texts[i] for i in rng.permutation(len(texts))] for s, texts in evaluation_sources(kind).items()}
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
    """How many documents from the front to take so that no source gives more than LARGEST of their characters.

    All of them where that cannot be had, from fewer sources than 1 / LARGEST.
    """
    given, best = {}, 0
    for number, (source, text) in enumerate(drawn, 1):
        given[source] = given.get(source, 0) + min(len(text), READ)
        if max(given.values()) <= LARGEST * sum(given.values()):
            best = number
    return best or len(drawn)


def installed(kind):
    """{package: its version here} of the packages a kind of evaluation text is drawn from."""
    return {name: version(name) for name in evaluation_packages(kind)}


@functools.cache
def version(package):
    return distribution(package).version


def changed_packages(kind):
    """Evaluation packages whose installed version is not the one on record, as 'name installed (recorded)'."""
    recorded, here = evaluation_packages(kind), installed(kind)
    return [f"{n} {v} (on record: {recorded[n]})" for n, v in here.items() if v.split("+")[0] != recorded[n]]


def state(kind):
    """What decides the text of a kind besides the request: the packages' versions and the code that draws it."""
    files = [*(Path(__file__).with_name(f"{name}.py") for name in ("make", "shingles")), *sorted(PINS.iterdir())]
    code = b"".join(path.read_bytes() for path in files)
    return [installed(kind), hashlib.sha256(code).hexdigest()]
