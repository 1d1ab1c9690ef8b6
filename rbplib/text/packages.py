"""Text of the packages that the pinned installation holds: five kinds of documents, each with the package it is from.

Packages are read as files, never imported. No package gives both evaluation and training text of a kind:
documentation, code and examples are drawn from EVALUATION; licences and descriptions, of which nothing is trained on,
from both tables.
A training document that repeats an evaluation document is dropped by `training.data`.
"""

import ast
import functools
import hashlib
import heapq
import re
import textwrap
import warnings
import zlib
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from rbplib.settings import InputError

TRAINED = ("docs", "code", "doctests")  # kinds of text that the embedded models are trained on, from other packages
KINDS = (*TRAINED, "licences", "descriptions")


def pins(listed):
    """{package: version} of requirements on one line."""
    return dict(entry.split("==") for entry in listed.split())


# Packages and the versions whose text is on record: all that the lock file holds.
EVALUATION = pins(
    "accelerate==1.15.0 accessible-pygments==0.0.5 alabaster==0.7.16 annotated-doc==0.0.7 annotated-types==0.8.0 "
    "anyio==4.16.0 argparse-dataclass==2.0.0 asttokens==3.0.2 attrs==26.1.0 babel==2.18.0 beautifulsoup4==4.15.0 "
    "certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 comm==0.2.3 conda-inject==1.3.2 ConfigArgParse==1.9.0 "
    "connection_pool==0.0.3 contourpy==1.3.3 cycler==0.12.1 datasets==5.2.0 debugpy==1.8.22 dill==0.4.1 "
    "docutils==0.21.2 dpath==2.2.0 entrypoints==0.4.2 executing==2.3.0 fastjsonschema==2.22.3 filelock==4.2.11 "
    "fonttools==4.68.0 fsspec==2026.9.0 gitdb==4.0.12 GitPython==3.2.1 greenlet==3.5.6 h11==0.16.0 hf-xet==1.8.0 "
    "httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0 humanfriendly==10.0 hypothesis==6.170.15 idna==3.20 "
    "imagesize==2.0.1 immutables==0.21 importlib_metadata==10.2.0 iniconfig==2.3.1 interface_meta==2.0.1 "
    "ipykernel==7.4.0 ipython_pygments_lexers==1.1.1 jedi==0.20.1 Jinja2==3.1.6 jsonschema==4.26.0 "
    "jsonschema-specifications==2025.9.1 jupyter-book==1.0.4.post1 jupyter-cache==1.0.1 jupyter_client==8.10.0 "
    "jupyter_core==5.9.1 jupytext==1.19.6 kiwisolver==1.5.1 latexcodec==3.0.1 lazy-importer==0.1.0 "
    "linkify-it-py==2.2.0 markdown-it-py==3.0.0 MarkupSafe==3.0.4 matplotlib==3.11.2 matplotlib-inline==0.2.2 "
    "mdit-py-plugins==0.7.0 mdurl==0.1.2 mpmath==1.4.1 multiprocess==0.70.19 myst-nb==1.4.0 myst-parser==3.0.1 "
    "narwhals==2.29.0 nbclient==0.11.0 nbformat==5.11.1 nest-asyncio2==1.7.4 networkx==3.6.1 outcome==1.3.0.post0 "
    "packaging==25.0 papermill==2.7.0 parso==0.8.7 patsy==1.0.3 pexpect==4.9.0 pillow==13.0.0 platformdirs==4.14.7 "
    "pluggy==1.7.0 prompt_toolkit==3.0.53 psutil==7.2.2 ptyprocess==0.7.0 PuLP==3.3.2 pure_eval==0.2.4 pyarrow==26.0.1 "
    "pybtex==0.26.1 pybtex-docutils==1.0.3 pydantic_core==2.50.4 pydata-sphinx-theme==0.17.1 Pygments==2.21.0 "
    "pyparsing==3.3.3 PySocks==1.7.1 pytest==9.2.0 python-dateutil==4.0.0 PyYAML==6.0.3 pyzmq==27.3.0 "
    "referencing==0.37.0 regex==2026.11.15 requests==2.34.2 rich==15.0.0 rpds-py==2026.9.1 ruff==0.17.6 "
    "safetensors==0.8.0 selenium==4.51.0 setuptools==84.2.1 shellingham==1.5.4 smart_open==7.7.1 smmap==5.0.3 "
    "snakemake==9.27.1 snakemake-interface-common==1.23.0 snakemake-interface-executor-plugins==9.4.0 "
    "snakemake-interface-logger-plugins==2.1.0 snakemake-interface-report-plugins==1.3.0 "
    "snakemake-interface-scheduler-plugins==2.0.2 snakemake-interface-storage-plugins==4.4.1 sniffio==1.3.1 "
    "snowballstemmer==3.1.1 sortedcontainers==2.4.0 soupsieve==2.10 Sphinx==7.4.7 sphinx-book-theme==1.3.0 "
    "sphinx-comments==0.0.3 sphinx-copybutton==0.5.2 sphinx-exercise==1.2.1 sphinx-jupyterbook-latex==1.0.0 "
    "sphinx-mathjax-offline==0.0.2 sphinx-multitoc-numbering==0.1.3 sphinx-proof==0.4.0 sphinx-thebe==0.3.1 "
    "sphinx-togglebutton==0.4.5 sphinx_design==0.8.0 sphinx_external_toc==1.1.0 sphinxcontrib-applehelp==2.0.0 "
    "sphinxcontrib-bibtex==2.7.0 sphinxcontrib-devhelp==2.0.0 sphinxcontrib-htmlhelp==2.1.0 "
    "sphinxcontrib-jsmath==2.0.0 sphinxcontrib-qthelp==2.0.0 sphinxcontrib-serializinghtml==2.0.0 sqlmodel==0.0.37 "
    "stack-data==0.6.3 tabulate==0.10.0 tenacity==9.2.1 throttler==1.2.3 tokenizers==0.23.3 tornado==6.6.1 "
    "tqdm==4.70.1 traitlets==5.16.1 trio-websocket==0.12.2 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 "
    "typing_extensions==4.16.0 tzdata==2026.6 urllib3==2.8.0 wcwidth==0.9.4 websocket-client==1.9.2 wheel==0.48.0 "
    "wrapt==2.5.2 wsproto==1.3.2 xxhash==4.1.0 yte==1.9.4 zipp==4.1.2"
)
TRAINING = pins(
    "formulaic==1.2.2 ipython==9.18.1 numpy==2.4.6 pandas==3.1.1 pydantic==2.14.3 scipy==1.17.1 "
    "SQLAlchemy==2.0.58 statsmodels==0.15.0 sympy==1.14.0rc1 torch==2.13.0 transformers==5.23.0 trio==0.35.0"
)
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
SHINGLE = 8  # words of a shingle
SHARED = 0.25  # two documents of which one has more than this share of its shingles from the other are near-duplicates
REPEATED = 0.5  # a training document with more than this share of its shingles already seen is dropped
SKIP = re.compile(r"(^|/)(tests?|testing|_?vendor(ed)?|externals?|third_party|extern)/|\.dist-info/.*\.py$")
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
NO_TEXT = re.compile(r"\.(py|pyc|json|css|js)$")
PROSE_FILE = re.compile(r"\.(rst|md|txt)$")
WORD = re.compile(r"\w+")


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


def package_documents(package, kinds=KINDS):
    """Documents of one package by kind, in the order of its files."""
    found = dict(python_of(package)) if set(kinds) & set(TRAINED) else {}
    if "licences" in kinds:
        found["licences"] = [passage for texts in licence_files(package).values() for passage in texts]
    if "descriptions" in kinds:
        found["descriptions"] = passages(description(package))
    return {kind: [text for text in found[kind] if len(text) >= LEAST[kind]] for kind in kinds}


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
    """A text cut at blank lines into passages of about PASSAGE characters."""
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
    table = EVALUATION if kind in TRAINED else EVALUATION | TRAINING
    return {name: table[name] for name in sorted(table, key=str.lower) if name not in BUILT.get(kind, ())}


def evaluation_sources(kind):
    """{source: its documents} of a kind of evaluation text: a package, or one of its licence files."""
    if kind not in KINDS:
        raise InputError(f"embedded text of kind {kind!r} does not exist: choose one of {', '.join(KINDS)}.")
    found = {}
    for package in evaluation_packages(kind):
        parts = licence_files(package) if kind == "licences" else {package: package_documents(package, (kind,))[kind]}
        found |= {source: [t for t in texts if len(t) >= LEAST[kind]] for source, texts in parts.items()}
    return found


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


class Kept:
    """Documents kept so far by their shingles."""

    def __init__(self):
        self.where, self.sizes = {}, []

    def adds(self, text):
        """Keep a text and say so, unless it is a near-duplicate of one kept before."""
        codes, shared = shingles(text).tolist(), {}
        for code in codes:
            for number in self.where.get(code, ()):
                shared[number] = shared.get(number, 0) + 1
        if any(n > SHARED * min(len(codes), self.sizes[number]) for number, n in shared.items()):
            return False
        for code in codes:
            self.where.setdefault(code, []).append(len(self.sizes))
        self.sizes.append(len(codes))
        return True


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
    return {name: distribution(name).version for name in evaluation_packages(kind)}


def changed_packages(kind):
    """Evaluation packages whose installed version is not the one on record, as 'name installed (recorded)'."""
    recorded, here = evaluation_packages(kind), installed(kind)
    return [f"{n} {v} (on record: {recorded[n]})" for n, v in here.items() if v.split("+")[0] != recorded[n]]


def state(kind):
    """What decides the text of a kind besides the request: the packages' versions and this file's own content."""
    return [installed(kind), hashlib.sha256(Path(__file__).read_bytes()).hexdigest()]
