"""Families, models and corpora as YAML says them; where files are; how bad input is told."""

import difflib
import errno
import filecmp
import functools
import hashlib
import json
import math
import os
import re
import reprlib
import sys
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

import filelock
import yaml

PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}"  # of a file's name, which may have 255 letters
REPO_ID = re.compile(rf"{PART}(/{PART})?\Z")  # OWNER/NAME or NAME on the hub
NAME = re.compile(rf"{PART}\Z")  # what may become a file or folder name
# bytes of a parameter in each precision that is known; weights are loaded in the first three
PRECISIONS = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float64": 8,
    "fp8": 1,
    "int8": 1,
    "int4": 0.5,
}
DTYPES = ("auto", *list(PRECISIONS)[:3])
PROTOCOLS = ("paper", "full")
SUMS = "published/SHA256SUMS"  # digests of the repository's data
FOLDERS = {"family": "families", "corpus": "corpora"}  # of the YAML files, in the root
YAML = (".yml", ".yaml")
POWERS = {"k": "e3", "m": "e6", "b": "e9", "t": "e12"}
LARGEST = 100_000  # characters of a YAML file, of which a second reads some 400,000
WINDOW = 512  # tokens, the paper's truncation
# the least that a number in a YAML file may be
LEAST = {
    "context": 2,
    "tokens": 1,
    "nonembedding_params": 1,
    "documents": 1,
    "first": 1,
    "seed": 0,
    "min_characters": 0,
}
MENDS = {  # how a value of a type is written; to Python a bool is an int
    str: "put it in quotes",
    int: "write a whole number",
    bool: "write true or false",
    list: "write a list, as [a, b]",
    dict: "write lines of 'name: value', indented, below it",
}
OTHER_KEYS = {
    "file": "did you mean 'path'?",
    "tokenizer": "each model is read with its own, of its folder, so leave it out.",
}
SHARED = {"dtype": str, "context": int, "tokens": int}  # of a family, for all of its models
RESERVED = ("all", "live", "far", "precision", "ranks", "text", "imported", "corpora")  # folders
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks
PATH = (str, os.PathLike)  # of a file
PACKAGE = Path(__file__).resolve().parent


class InputError(ValueError):
    """Bad input from a person: one sentence that names what is wrong and the mend."""

    code = 2  # the exit code of a program that it ends

    def _render_traceback_(self):  # what IPython shows in a notebook in place of a traceback
        return [f"rbp: {self}"]


class WriteError(InputError):
    """A file that could not be written."""


class Damaged(InputError):
    """A file of the repository that is not the one which it names."""


class NoAnswer(InputError):
    """What is not here, and the hub does not answer."""


# --- the records


@dataclass(frozen=True)
class Model:
    """One model of a family. `id` is of the hub, or a folder beside the YAML or in the root."""

    name: str
    id: str
    revision: str | None = None
    dtype: str = "auto"
    context: int | None = None
    nonembedding_params: int | None = None
    tokens: int | None = None  # of text seen in training, where that is known
    local: Path | None = None  # set when `id` is a folder on this machine


@dataclass(frozen=True)
class Family:
    """A ladder of models measured on the same tokens."""

    name: str
    models: tuple[Model, ...]
    title: str = ""
    note: str = ""
    embedded: bool = False
    published: dict = field(default_factory=dict)
    repeats: str = ""  # a family of models trained again: how trainings of one size differ
    imported: bool = False  # its rank tables are here, its models and text are not
    corpora: list = field(default_factory=list)  # of such a family: those measured
    path: Path | None = None

    def need_models(self):
        """Refuse an imported family."""
        if self.imported:
            raise InputError(f"{self.name} is imported, without models and text to measure.")

    def model(self, name):
        """The Model of that name, or id."""
        self.need_models()
        models = {key: model for model in self.models for key in (model.id, model.name)}
        if name not in models:
            raise InputError(f"family {self.name!r} has no model {name!r}: {nearest(name, models)}")
        return models[name]


@dataclass(frozen=True)
class Corpus:
    """One corpus: where its text comes from and how its sample is drawn."""

    name: str
    title: str = ""
    source: str = "file"  # or folder; "hub": a data set; "table": tables alone are here, and say
    id: str | None = None  # of the hub, as the next four are
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    data_files: str | None = None  # patterns of its files, in place of config
    path: str | None = None  # of text: as it is, beside the YAML file, or in the root
    where: dict = field(
        default_factory=dict
    )  # {field: value} that a row must have; what tables say
    template: str = "{text}"  # how a row becomes a document, e.g. "{prompt}\n{canonical_solution}"
    group: str | None = None  # a row's source, e.g. "{author}": rows of one are resampled as one
    min_characters: int = 0  # shorter documents are left out before the sample is drawn
    first: int | None = None  # the sample is drawn from the first rows only
    documents: int = 1000
    seed: int = 42
    shuffle: bool = True  # false: the first documents, in their order
    tokens: int | None = None  # about how many the sample holds, for plans; results are counted
    default: bool = True  # measured when no corpus is named
    kind: str | None = None  # of embedded text, made by `corpora.make` from the installed packages
    digest: str | None = None  # of the text on record
    licence: str = ""
    note: str = ""
    file: Path | None = None  # the YAML file


# --- reading them


def load_family(name_or_path):
    """The family of this name in `families/`, or of this path of a YAML file.

    Args:
        name_or_path: text, a path, or a Family.
    Returns:
        Family: name, title, note, models, corpora, repeats and the rest of its file.
    Raises:
        InputError: no such name or file, or an entry that a family cannot have.
    """
    if isinstance(name_or_path, Family):
        return name_or_path
    return family_of(*read_entry(name_or_path, "family", Family))


def family_of(entry, path):
    """The Family of the checked entries of the YAML file at a path. Raises InputError."""
    # what is said of all models
    common = {key: entry.pop(key) for key in SHARED if key in entry}
    listed = entry.pop("models", None)
    if not listed or not isinstance(listed, list):
        raise InputError(f"{path} lists no models: add 'models:' and a line '- id: ...' for each.")
    models = tuple(read_model(model, path, common) for model in listed)

    # one model twice, or two of one name
    seen = set()
    for model in models:
        same = (model.local or model.id, model.revision or "main", model.dtype)
        if seen & {model.name, same}:
            raise InputError(f"{path} lists {model.name!r} twice: remove or rename one.")
        seen |= {model.name, same}
    return Family(**{"title": entry["name"]} | entry, models=models, path=path)


def read_model(entry, path, common):
    """The Model of an entry, or of a bare id. common: entries of the whole family."""
    entry = {"id": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or not entry.get("id"):
        raise InputError(f"{path}: each entry of 'models' needs an 'id': a hub id or a folder.")
    entry = common | checked_entries(entry, Model, path)
    ident = entry["id"]

    # a folder or GGUF file on this machine, or an id of the hub
    gguf = ident.endswith(".gguf")
    is_there = os.path.isfile if gguf else os.path.isdir  # of any length, unlike Path's
    here = place_of(ident, path.parent, is_there)
    if not here and (gguf or not REPO_ID.match(ident)):
        raise InputError(f"{path}: {ident!r} is no folder or .gguf, nor a hub id like owner/name.")
    if here and entry.get("revision", "main") != "main":
        raise InputError(f"{path}: {ident!r} is on this machine: leave out its 'revision'.")
    entry.setdefault("name", Path(ident).name.removesuffix(".gguf"))
    model = Model(**entry, local=here)

    # values that a model may have
    check_name(model.name, f"{path}: model name")
    check_choice(model.dtype, DTYPES, f"{path}: dtype")
    return model


def place_of(name, beside, is_there):
    """Where a file or folder is that a YAML file names: beside that, in the root, or as it says.

    None where it is nowhere; of several the first, which is told.
    """
    path = Path(os.path.expanduser(name))  # a ~ of nobody as it stands
    places = [folder / path for folder in (beside, root(), Path())]
    here = list(dict.fromkeys(there.resolve() for there in places if is_there(there)))
    if here[1:] and not filecmp.cmp(*here[:2], shallow=False):
        complain(
            f"{name} is {here[0]} here, beside the file that names it or in the root, and not "
            f"{here[1]}, which is there too: write a whole path for that."
        )
    elif here and not any(map(is_there, places[:2])):
        complain(
            f"{name} is {here[0]}, which is in the current folder alone, and nothing of the hub: "
            "write the whole path if it is meant, else go elsewhere."
        )
    return here[0] if here else None


def load_corpus(name_or_path):
    """The text of this name in `corpora/`, or of this path: YAML, text, a folder.

    Args:
        name_or_path: text, a path, or a Corpus.
    Returns:
        Corpus: name, title, kind, source and the rest of its file; `load_documents` reads it.
    Raises:
        InputError: no such name or file, or an entry that a text cannot have.
    """
    if isinstance(name_or_path, Corpus):
        return name_or_path
    # text as it is, which has no YAML
    text = str(name_or_path)
    path = Path(os.path.expanduser(text))
    is_name = not text or yaml_file("corpus", text)
    if not is_name and os.path.lexists(path) and path.suffix.lower() not in YAML:
        return own_text(path)

    # what the YAML says
    entry, path = read_entry(name_or_path, "corpus", Corpus)
    corpus = Corpus(**entry, file=path)
    check_choice(corpus.source, ("hub", "file"), f"{path}: source")
    if corpus.source == "hub" and not REPO_ID.match(corpus.id or ""):
        raise InputError(f"{path}: a corpus of the hub needs an 'id' like 'owner/name'.")
    return corpus


def own_text(path):
    """A text file or folder as a Corpus; a hash sets its name apart from those in `corpora/`."""
    stem = Path(os.path.realpath(path)).stem
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")
    if yaml_file("corpus", name) or not name or not stem.isascii():
        name = f"{name or 'text'}-{hashlib.sha256(os.fsencode(stem)).hexdigest()[:6]}"
    return Corpus(name=name, title=path.name, path=str(path.absolute()))


def read_entry(name_or_path, what, record):
    """(entries, path) of a family or corpus, by its name or by the path of a YAML file."""
    # which file
    text = str(name_or_path)
    path = yaml_file(what, text) or Path(os.path.expanduser(text))
    is_yaml = path.suffix.lower() in YAML
    is_there = os.path.isfile(path)
    if not (is_yaml and is_there):
        message, mend = f"there is no file {reprlib.repr(text)}", "check the path."
        if is_there:
            message, mend = f"{path} is no YAML file", "give one whose name ends in .yml."
        elif "/" not in text and not is_yaml:
            message += f", and no {what} of that name in {root() / FOLDERS[what]}"
            mend = nearest(text, sorted({*yaml_files(what)} - {text}))
            if text.startswith("nano-") and not held("models").is_dir():
                mend = "embedded models need a checkout of the repository: run it there."
        raise InputError(f"{message}: {mend}")

    # what it says, under a name of its own
    entry = checked_entries(read_yaml(intact(path), aliases=False), record, path)
    name = check_name(str(entry.get("name", path.stem)), f"{path}: {what} name")
    other = yaml_file(what, name)
    if other not in (None, path.resolve()):
        raise InputError(f"{path} has the name of {other}: say another 'name: ...'.")
    return entry | {"name": name}, path.resolve()


def once(pairs):
    """The mapping of pairs, as a reader of JSON takes it; ValueError where a key has two values."""
    kept = {}
    for key, value in pairs:
        if kept.get(key, value) != value:
            raise ValueError(f"the key {key!r} is there twice")
        kept[key] = value
    return kept


from_json = functools.partial(json.loads, object_pairs_hook=once)


class Reader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML in which a key given twice is an error; read by libyaml where PyYAML has it."""

    def construct_mapping(self, node, deep=False):
        once((str(key.value), value) for key, value in node.value)
        return super().construct_mapping(node, deep)


def read_yaml(path, aliases=True):
    """The mapping in a YAML file. Raises InputError.

    aliases: whether it may hold them: a few lines can stand for more than fits memory.
    """
    with telling(f"{path} is not readable YAML, correct it or its permissions"):
        text = Path(path).read_text(encoding="utf-8")
        if len(text) > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} characters")
        events = () if aliases else yaml.parse(text, Reader)
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            raise ValueError("it holds an alias, as *name: write out what it stands for")
        entries = yaml.load(text, Reader)
    if not isinstance(entries, dict):
        raise InputError(f"{path} holds no mapping: it needs lines like 'name: value'.")
    return entries


def checked_entries(entries, record, path):
    """The entries of a mapping that have a value; each one of a record, of its type."""
    kinds = {entry.name: entry.type for entry in fields(record) if "Path" not in str(entry.type)}
    kinds |= {"name": object} | (SHARED | {"models": object} if record is Family else {})
    entries = {key: value for key, value in entries.items() if value is not None}
    for key, value in entries.items():
        if key not in kinds:
            hint = OTHER_KEYS.get(key) or nearest(key, kinds)
            raise InputError(f"{path} has an unknown key {key!r}: {hint}")
        if key == "tokens" and isinstance(value, str | float) and as_number(value) % 1 == 0:
            value = entries[key] = int(as_number(value))
        # to Python a bool is an int
        strange = isinstance(value, bool) and kinds[key] not in (bool, object)
        if strange or not isinstance(value, kinds[key]):
            mend = next(mend for kind, mend in MENDS.items() if issubclass(kind, kinds[key]))
            shown = json.dumps(value, default=str, skipkeys=True)[:60]
            raise InputError(f"{path}: {key!r} cannot be {shown}: {mend}.")
        if key in LEAST and value < LEAST[key]:
            raise InputError(f"{path}: {key!r} must be at least {LEAST[key]}, not {value}.")
    return entries


def check_name(name, what):
    """Refuse a name that could leave its folder once it becomes a path."""
    if not isinstance(name, str) or not NAME.match(name) or ".." in name:
        rule = "must be of letters, digits, '.', '_' and '-', at most 121, without '..'"
        raise InputError(f"{what} {reprlib.repr(name)} {rule}: write another 'name: ...'.")
    return name


def check_choice(value, choices, what):
    """Refuse what is not one of the choices."""
    if value not in choices:
        raise InputError(f"{what} {value!r} is not known: {nearest(value, choices)}")
    return value


def as_number(text):
    """A number as people write it: 13e9, 13B, 350M, 22k; NaN for what is none."""
    text = str(text).strip().lower()
    try:
        return float(text[:-1] + POWERS.get(text[-1:], text[-1:]))
    except ValueError:
        return math.nan


def nearest(name, names):
    """A hint for an unknown name: the nearest known one, or the list."""
    names = [str(choice) for choice in names]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names[:50])}."


def first_line(error):
    """A library's message on one line, cut where it is very long; of torch's on a pickle its
    reason, without how to run what is in it."""
    advice = r"(This file can|In PyTorch 2).*(pickler error:|source\.) ?| (Please use `|Check t).*"
    return re.sub(advice, "", " ".join(str(error).split()))[:300] or type(error).__name__


def not_loaded(error):
    """The InputError of a package that is not there, or of another version than is needed."""
    return InputError(
        f"a package cannot be loaded ({first_line(error)}): install it, or a newer one where "
        "`pip check` names one as older than rbplib needs."
    )


@contextmanager
def telling(message):
    """Whatever a library refuses inside is one InputError: our sentence, and its own reason."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # readers of a dozen formats raise as many kinds of error
        raise InputError(f"{message}: {first_line(error.__cause__ or error)}") from None


# --- which there are, and where


def root(writing=False):
    """The folder of `families/` and `corpora/`: RBP_ROOT, the current one or a parent, the
    checkout, or the package.

    writing: whether for a file to write; then it is the current one in place of the package.
    """
    if env := os.environ.get("RBP_ROOT"):
        return Path(env).resolve()
    here = Path.cwd()
    for folder in (here, *here.parents, PACKAGE.parent):
        if (folder / "families").is_dir() and (folder / "corpora").is_dir():
            return folder
    return here if writing else PACKAGE


def held(*parts):
    """What the repository brings, as book/claims.yml: in the root, the checkout or the package."""
    places = [folder.joinpath(*parts) for folder in (root(), PACKAGE.parent, PACKAGE)]
    return next((path for path in places if path.exists()), places[0])


def intact(path):
    """The path of a file, with the digest that published/SHA256SUMS of its checkout gives, if any.

    Raises Damaged: it has another, or is gone.
    """
    here = Path(os.path.abspath(path))
    for folder in here.parents:
        if (folder / SUMS).is_file():
            name = here.relative_to(folder).as_posix()
            line = rb"(?m)^(.+) [ *]%s\r?$" % re.escape(os.fsencode(name))
            said = re.search(line, (folder / SUMS).read_bytes())
            if said and not (here.is_file() and said[1] == file_digest(here).encode()):
                raise Damaged(
                    f"{name} is not the file that {SUMS} names: get both again by "
                    f"`git -C {folder} checkout {SUMS} {name}`, or keep what you made anew by "
                    "`python -m paper.published` there."
                )
            break
    return path


def file_digest(path):
    """SHA-256 of a file's bytes."""
    return _file_digest(path, path.stat().st_mtime_ns)


@functools.lru_cache(1024)
def _file_digest(path, changed):
    with telling(f"{path} cannot be read"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def results_dir():
    """Folder of everything a run makes: RBP_RESULTS, or `results/` in the root."""
    env = os.environ.get("RBP_RESULTS")
    return Path(env).resolve() if env else root(writing=True) / "results"


def yaml_folders(what):
    """Folders of the YAML files of families or corpora, those of imported families too; the last
    one that has a name counts."""
    places = [root(writing=True) / FOLDERS[what], root() / FOLDERS[what]]
    if what == "family":
        places[:0] = [results_dir() / "imported", root() / "published" / "ranks"]
    return places


def yaml_files(what):
    """{name: path} of the YAML files in `yaml_folders`."""
    paths = [path for folder in yaml_folders(what) for path in folder.glob("*.yml")]
    return {path.stem: Path(os.path.realpath(path)) for path in paths}  # a link to itself as it is


def yaml_file(what, name):
    """The path that `yaml_files` gives a name, or None, without a look at the others."""
    for folder in reversed(yaml_folders(what)):
        path = folder / f"{name}.yml"
        if "/" not in name and os.path.isfile(path):  # of any length, unlike Path's
            return path.resolve()
    return None


def list_families():
    """The families that are here by name, as `rbp families` lists them: list of Family.

    Raises InputError: a file of one is none. Cost: reads each file.
    """
    return list(map(load_family, sorted(yaml_files("family"))))


def list_corpora():
    """The texts that are here by name, as `rbp corpora` lists them: list of Corpus, see
    `list_families`."""
    return list(map(load_corpus, sorted(yaml_files("corpus"))))


def one_each(records, what):
    """Families or corpora without repeats, in order; two different ones of one name are refused."""
    by_name = {}
    for record in records:
        if by_name.setdefault(record.name, record) != record:
            raise InputError(f"two {what} are named {record.name!r}: rename one of their files.")
    return list(by_name.values())


def argument(record):
    """A family or corpus as another process finds it: its name, or the whole path of its file; what
    a person wrote as it is."""
    if isinstance(record, str):
        return record
    here = yaml_file("corpus" if isinstance(record, Corpus) else "family", record.name)
    path = getattr(record, "file", None) or record.path
    return str(path) if path and path != here else record.name


def default_corpora(family):
    """Names of the texts of a Family where none are named: its own, embedded ones, or the paper's;
    list of str."""
    if family.corpora:
        return list(family.corpora)
    return [
        corpus.name
        for corpus in list_corpora()
        if corpus.default and (corpus.kind if family.embedded else corpus.source == "hub")
    ]


# --- writing


@contextmanager
def atomic_path(path):
    """A temporary path beside `path`, renamed to it when the block ends well, else removed."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        # on the disk, before it takes the name
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_error(path, error):
    """The WriteError of a file."""
    return WriteError(
        f"{path} could not be written ({error.strerror or error}): "
        "check path, permissions and free space, then run again."
    )


def write_text(path, text):
    """Write a small text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def one_at_a_time(path):
    """Make `path`, which may be missing, in one process at a time.

    The system frees the lock of a process that ends, however it ends. Another process is waited
    for, and told on standard error. A file system without locks is told too, and gone on with.
    Raises InputError: the folder cannot be written.
    """
    lock_path = path.with_name(f".{path.name}.lock")
    lock = filelock.FileLock(lock_path, mode=0o664, is_singleton=True, fallback_to_soft=False)
    try:
        # have it, or wait
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(filelock.Timeout):
            lock.acquire(timeout=0)
        if not lock.is_locked:
            print(f"rbp: another process is at work on {path}: waiting.", file=sys.stderr)
            lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise write_error(path, error) from None
        complain(
            f"the file system of {path.parent} has no locks: "
            "let no other process measure or build there meanwhile."
        )
    # hand it back
    try:
        yield
    finally:
        if lock.lock_counter < 2:
            lock_path.unlink(missing_ok=True)  # who waits for it looks for a new one
        lock.release()


@functools.cache
def complain(sentence):
    """Print a sentence on standard error, once."""
    print(f"rbp: {printable(sentence)}", file=sys.stderr)


FORMULA = r"^(?=[=@\t\r]|[+-][\s\S]*[(|!])"  # how a text begins that a spreadsheet would work out


def printable(text):
    """A text in which what could steer a terminal, as an escape, is a question mark."""
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "?", text)


def digest(value):
    """SHA-256 of what JSON holds, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
