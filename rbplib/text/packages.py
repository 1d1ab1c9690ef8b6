"""Text of the packages that the pinned installation holds: four kinds of documents, evaluation and training apart.

Packages are read as files, never imported. Evaluation and training share no package (the two tables below), and
a training document that repeats an evaluation document is dropped by `training.data`.

Imports settings only.
"""

import ast
import functools
import hashlib
import json
import os
import re
import textwrap
import zlib
from importlib import metadata
from pathlib import Path

import numpy as np

from rbplib.settings import InputError, results_dir

KINDS = ("docs", "code", "doctests", "licences")

# Distributions and the versions whose text is on record. Pure Python, or Python files that are equal on every platform.
EVALUATION = {
    "accelerate": "1.15.0",
    "anyio": "4.16.0",
    "beautifulsoup4": "4.15.0",
    "click": "8.5.1",
    "datasets": "5.2.0",
    "docutils": "0.21.2",
    "fsspec": "2026.9.0",
    "huggingface_hub": "2.4.0",
    "Jinja2": "3.1.6",
    "mpmath": "1.4.1",
    "narwhals": "2.29.0",
    "networkx": "3.6.1",
    "papermill": "2.7.0",
    "patsy": "1.0.3",
    "requests": "2.34.2",
    "rich": "15.0.0",
    "Sphinx": "7.4.7",
    "tornado": "6.6.1",
    "tqdm": "4.70.1",
    "traitlets": "5.16.1",
    "typing_extensions": "4.16.0",
}
# Evaluation packages read for their licence texts alone.
EVALUATION_LICENCES = {
    "fonttools": "4.68.0",
    "hypothesis": "6.170.15",
    "jedi": "0.20.1",
    "matplotlib": "3.11.2",
    "pyarrow": "26.0.1",
    "pyzmq": "27.3.0",
    "setuptools": "84.2.1",
    "snakemake": "9.27.1",
}
TRAINING = {
    "formulaic": "1.2.2",
    "ipython": "9.18.1",
    "numpy": "2.4.6",
    "pandas": "3.1.1",
    "pydantic": "2.14.3",
    "scipy": "1.17.1",
    "SQLAlchemy": "2.0.58",
    "statsmodels": "0.15.0",
    "sympy": "1.14.0rc1",
    "torch": "2.13.0",
    "transformers": "5.23.0",
    "trio": "0.35.0",
}
# Training packages read for their licence texts alone.
TRAINING_LICENCES = {
    "certifi": "2026.10.18",
    "idna": "3.20",
    "kiwisolver": "1.5.1",
    "psutil": "7.2.2",
    "pydata-sphinx-theme": "0.17.1",
    "python-dateutil": "4.0.0",
    "regex": "2026.11.15",
    "ruff": "0.17.6",
}

LEAST = {"docs": 500, "code": 500, "doctests": 300, "licences": 300}  # characters of the shortest document kept
PASSAGE = 700  # characters at which a licence is cut (at the next blank line)
SHINGLE = 8  # words of a shingle
REPEATED = 0.5  # a document with more than this share of its shingles already seen is a near-duplicate
SKIP = re.compile(r"(^|/)(tests?|testing|_vendor|vendored|externals?|third_party|extern)/|\.dist-info/.*\.py$")
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
NO_TEXT = re.compile(r"\.(py|pyc|json|css|js)$")
WORD = re.compile(r"\w+")


def package_files(package):
    """Installed files of a distribution as (path in the package, absolute path), sorted by path."""
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        raise InputError(
            f"the embedded corpora need the package {package!r}: install requirements.lock into this environment."
        ) from None
    return sorted((f.as_posix(), Path(f.locate())) for f in files if not f.as_posix().startswith(".."))


def read(path):
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return ""


def package_documents(package, kinds=KINDS):
    """Documents of one package by kind, in the order of its files."""
    found = {}
    if "licences" in kinds:
        files = [
            path for name, path in package_files(package) if LICENCE_FILE.search(name) and not NO_TEXT.search(name)
        ]
        found["licences"] = [passage for path in files for passage in passages(read(path))]
    if set(kinds) - {"licences"}:
        found |= _python_of(package)
    return {kind: [text for text in found[kind] if len(text) >= LEAST[kind]] for kind in kinds}


@functools.lru_cache(maxsize=64)
def _python_of(package):
    """Documents of a package's Python files by kind; kept, since several corpora are made of one reading."""
    found = {"docs": [], "code": [], "doctests": []}
    for name, path in package_files(package):
        if name.endswith(".py") and not SKIP.search(name):
            for kind, text in python_documents(read(path)):
                found[kind].append(text)
    return found


def python_documents(source):
    """(kind, document) of a Python file: prose and examples of its docstrings, functions without their docstrings."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in _definitions(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "code", _code(node, lines)
        if text := ast.get_docstring(node):
            prose, examples = split_examples(text)
            yield "docs", prose
            yield "doctests", examples


def _definitions(node):
    """The module, its classes, functions and methods in file order; nothing nested inside a function."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from _definitions(child)


def _code(node, lines):
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    doc = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
    kept = [
        line
        for number, line in enumerate(lines[first - 1 : node.end_lineno], start=first)
        if doc is None or not doc.lineno <= number <= doc.end_lineno
    ]
    return textwrap.dedent("\n".join(kept)).strip()


def split_examples(docstring):
    """Prose and examples of a docstring; an example is a paragraph that holds a `>>>` line."""
    prose, examples = [], []
    for paragraph in re.split(r"\n\s*\n", docstring):
        starts = re.search(r"^\s*>>>", paragraph, re.MULTILINE)
        if starts:
            head = paragraph[: starts.start()].rstrip()
            if head:
                prose.append(head)
            examples.append(textwrap.dedent(paragraph[starts.start() :].strip("\n")))
        else:
            prose.append(paragraph)
    return "\n\n".join(prose).strip(), "\n\n".join(examples).strip()


def passages(text):
    """A licence cut at blank lines into passages of about PASSAGE characters."""
    found, held = [], ""
    for paragraph in re.split(r"\n\s*\n", text):
        held = f"{held}\n\n{paragraph}" if held else paragraph
        if len(held) >= PASSAGE:
            found.append(held.strip())
            held = ""
    return [*found, held.strip()] if held.strip() else found


def shingles(text, size=SHINGLE):
    """Hashes of all runs of `size` words, lower-cased; one hash of the whole for a shorter text. uint32 (n,)."""
    words = [zlib.crc32(w.encode()) for w in WORD.findall(text.lower())]
    values = np.array(words, np.uint64)
    runs = max(len(words) - size + 1, 1)
    code = np.zeros(runs, np.uint64)
    for step in range(min(size, len(words))):
        code = code * np.uint64(1_000_003) + values[step : step + runs]  # wraps around: a rolling hash
    return np.unique(code ^ (code >> np.uint64(29)))


def without_repeats(texts, seen=None):
    """Documents in order, less those of which more than REPEATED of the shingles came before (in them or in `seen`)."""
    seen = set() if seen is None else seen
    kept = []
    for text in texts:
        codes = shingles(text).tolist()
        if sum(code in seen for code in codes) <= REPEATED * len(codes):
            kept.append(text)
            seen.update(codes)
    return kept


def evaluation_packages(kind):
    return sorted(EVALUATION | EVALUATION_LICENCES if kind == "licences" else EVALUATION, key=str.lower)


def training_packages(kind):
    return sorted(TRAINING | TRAINING_LICENCES if kind == "licences" else TRAINING, key=str.lower)


def evaluation_documents(kind, documents, seed):
    """The evaluation sample: near-duplicates removed, then at most `documents` of them drawn with `seed`."""
    if kind not in KINDS:
        raise InputError(f"embedded text of kind {kind!r} does not exist: choose one of {', '.join(KINDS)}.")
    texts = [text for package in evaluation_packages(kind) for text in package_documents(package, (kind,))[kind]]
    texts = without_repeats(texts)
    order = np.random.default_rng(seed).permutation(len(texts))[:documents]
    return [texts[i] for i in order]


def corpus_digest(texts):
    """SHA-256 over the documents in order, each preceded by its length."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(b"%d\n" % len(data))
        digest.update(data)
    return digest.hexdigest()


def changed_packages(kind):
    """Evaluation packages whose installed version is not the one on record, as 'name installed (recorded)'."""
    table = EVALUATION | EVALUATION_LICENCES if kind == "licences" else EVALUATION
    installed = {name: metadata.version(name) for name in table}
    return [f"{n} {installed[n]} (on record: {v})" for n, v in table.items() if installed[n].split("+")[0] != v]


def documents(kind, count, seed):
    """`evaluation_documents`, kept in the results folder so that the packages are parsed once per installation."""
    versions = {name: metadata.version(name) for name in evaluation_packages(kind)}
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    key = hashlib.sha256(json.dumps([kind, count, seed, versions, source]).encode()).hexdigest()[:16]
    path = results_dir() / "corpora" / f"{kind}-{key}.json"
    if path.is_file():
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["digest"] == corpus_digest(held["texts"]):
                return held["texts"]
        except (ValueError, KeyError, TypeError):
            pass  # a damaged cache is only slow, never wrong
    texts = evaluation_documents(kind, count, seed)
    _write(path, {"digest": corpus_digest(texts), "texts": texts})
    return texts


def _write(path, data):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(path)
    except OSError:
        pass  # without a cache the next call parses again
