"""Text of the packages that the pinned installation holds: four kinds of documents, evaluation and training apart.

Packages are read as files, never imported. Evaluation and training share no package (the two tables below), and
a training document that repeats an evaluation document is dropped by `training.data`.
"""

import ast
import functools
import hashlib
import re
import textwrap
import zlib
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from rbplib.settings import InputError
from rbplib.text.rows import draw

KINDS = ("docs", "code", "doctests", "licences")


def pins(listed):
    """{package: version} of requirements on one line."""
    return dict(entry.split("==") for entry in listed.split())


# Packages and the versions whose text is on record. Pure Python, or Python files that are equal on every platform.
EVALUATION = pins(
    "accelerate==1.15.0 anyio==4.16.0 beautifulsoup4==4.15.0 click==8.5.1 datasets==5.2.0 docutils==0.21.2 "
    "fsspec==2026.9.0 huggingface_hub==2.4.0 Jinja2==3.1.6 mpmath==1.4.1 narwhals==2.29.0 networkx==3.6.1 "
    "papermill==2.7.0 patsy==1.0.3 requests==2.34.2 rich==15.0.0 Sphinx==7.4.7 tornado==6.6.1 tqdm==4.70.1 "
    "traitlets==5.16.1 typing_extensions==4.16.0"
)
# Read for their licence texts alone.
EVALUATION_LICENCES = pins(
    "fonttools==4.68.0 hypothesis==6.170.15 jedi==0.20.1 matplotlib==3.11.2 pyarrow==26.0.1 pyzmq==27.3.0 "
    "setuptools==84.2.1 snakemake==9.27.1"
)
TRAINING = pins(
    "formulaic==1.2.2 ipython==9.18.1 numpy==2.4.6 pandas==3.1.1 pydantic==2.14.3 scipy==1.17.1 "
    "SQLAlchemy==2.0.58 statsmodels==0.15.0 sympy==1.14.0rc1 torch==2.13.0 transformers==5.23.0 trio==0.35.0"
)
TRAINING_LICENCES = pins(
    "certifi==2026.10.18 idna==3.20 kiwisolver==1.5.1 psutil==7.2.2 pydata-sphinx-theme==0.17.1 "
    "python-dateutil==4.0.0 regex==2026.11.15 ruff==0.17.6"
)

LEAST = {"docs": 500, "code": 500, "doctests": 300, "licences": 300}  # characters of the shortest document kept
PASSAGE = 700  # characters at which a licence is cut (at the next blank line)
SHINGLE = 8  # words of a shingle
REPEATED = 0.5  # a document with more than this share of its shingles already seen is a near-duplicate
SKIP = re.compile(r"(^|/)(tests?|testing|_vendor|vendored|externals?|third_party|extern)/|\.dist-info/.*\.py$")
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
NO_TEXT = re.compile(r"\.(py|pyc|json|css|js)$")
WORD = re.compile(r"\w+")


def distribution(package):
    """An installed package, or one sentence where it is not."""
    try:
        return metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise InputError(
            f"the embedded corpora need the package {package!r}: install requirements.lock into this environment."
        ) from None


def package_texts(package, wanted):
    """Texts of a package's installed files of which `wanted(path in the package)` is true, sorted by that path."""
    files = [f for f in distribution(package).files or () if not f.as_posix().startswith("..")]
    for file in sorted((f for f in files if wanted(f.as_posix())), key=lambda f: f.as_posix()):
        with suppress(OSError, UnicodeDecodeError):
            yield Path(file.locate()).read_text(encoding="utf-8").replace("\r\n", "\n")


def package_documents(package, kinds=KINDS):
    """Documents of one package by kind, in the order of its files."""
    found = python_of(package) if set(kinds) - {"licences"} else {}
    if "licences" in kinds:
        licences = package_texts(package, lambda path: LICENCE_FILE.search(path) and not NO_TEXT.search(path))
        found = found | {"licences": [passage for text in licences for passage in passages(text)]}
    return {kind: [text for text in found[kind] if len(text) >= LEAST[kind]] for kind in kinds}


@functools.lru_cache(maxsize=64)
def python_of(package):
    """Documents of a package's Python files by kind; kept, since several corpora are made of one reading."""
    found = {"docs": [], "code": [], "doctests": []}
    for source in package_texts(package, lambda path: path.endswith(".py") and not SKIP.search(path)):
        for kind, text in python_documents(source):
            found[kind].append(text)
    return found


def python_documents(source):
    """(kind, document) of a Python file: prose and examples of its docstrings, functions without their docstrings."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.split("\n")
    for node in definitions(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "code", code_of(node, lines)
        if text := ast.get_docstring(node):
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
    """A licence cut at blank lines into passages of about PASSAGE characters."""
    found, held = [], ""
    for paragraph in re.split(r"\n\s*\n", text):
        held = f"{held}\n\n{paragraph}" if held else paragraph
        if len(held) >= PASSAGE:
            found.append(held.strip())
            held = ""
    return [*found, held.strip()] if held.strip() else found


def shingles(text):
    """Hashes of all runs of SHINGLE words, lower-cased; one hash of the whole for a shorter text. uint64 (n,)."""
    words = np.array([zlib.crc32(w.encode()) for w in WORD.findall(text.lower())], np.uint64)
    runs = max(len(words) - SHINGLE + 1, 1)
    code = np.zeros(runs, np.uint64)
    for step in range(min(SHINGLE, len(words))):
        code = code * np.uint64(1_000_003) + words[step : step + runs]  # wraps around: a rolling hash
    return np.unique(code ^ (code >> np.uint64(29)))


def without_repeats(texts):
    """Documents in order, less those of which more than REPEATED of the shingles came in those before."""
    seen, kept = set(), []
    for text in texts:
        codes = shingles(text).tolist()
        if sum(code in seen for code in codes) <= REPEATED * len(codes):
            kept.append(text)
            seen.update(codes)
    return kept


def evaluation_packages(kind):
    """{package: version on record} of what a kind of evaluation text is drawn from, sorted by name."""
    return by_name(EVALUATION | EVALUATION_LICENCES if kind == "licences" else EVALUATION)


def training_packages():
    """The same of training text of any kind."""
    return by_name(TRAINING | TRAINING_LICENCES)


def by_name(table):
    return {name: table[name] for name in sorted(table, key=str.lower)}


def evaluation_documents(kind, documents, seed):
    """The evaluation sample: near-duplicates removed, then at most `documents` of them drawn with `seed`."""
    if kind not in KINDS:
        raise InputError(f"embedded text of kind {kind!r} does not exist: choose one of {', '.join(KINDS)}.")
    texts = [text for package in evaluation_packages(kind) for text in package_documents(package, (kind,))[kind]]
    texts = without_repeats(texts)
    return [texts[i] for i in draw(len(texts), documents, seed)]


def installed(kind):
    """{package: its version here} of the packages a kind of evaluation text is drawn from."""
    return {name: distribution(name).version for name in evaluation_packages(kind)}


def changed_packages(kind):
    """Evaluation packages whose installed version is not the one on record, as 'name installed (recorded)'."""
    recorded, here = evaluation_packages(kind), installed(kind)
    return [f"{n} {v} (on record: {recorded[n]})" for n, v in here.items() if v.split("+")[0] != recorded[n]]


def state(kind):
    """What decides the text of a kind besides the request: the packages' versions and this file's own content."""
    return [installed(kind), hashlib.sha256(Path(__file__).read_bytes()).hexdigest()]
