"""Where things are, what families and corpora there are, and how bad input is told."""

import difflib
import os
import re
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import yaml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")  # what may become a file or folder name
REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")  # OWNER/NAME or NAME on the hub
DTYPES = ("auto", "float32", "bfloat16", "float16")
PROTOCOLS = ("paper", "full")
FOLDERS = {"family": "families", "corpus": "corpora"}  # of the YAML files, in the root
TEXT_SUFFIXES = (".txt", ".md", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")  # also .gz, .zst; any case
WINDOW = 512  # tokens, the paper's truncation


class InputError(ValueError):
    """Bad input from a person: one sentence that names what is wrong and the mend."""


def root():
    """The folder that holds `families/` and `corpora/`: RBP_ROOT, a parent of the current folder, or the checkout."""
    if env := os.environ.get("RBP_ROOT"):
        return Path(env).resolve()
    here = Path.cwd().resolve()
    roots = (p for p in (here, *here.parents) if (p / "families").is_dir() and (p / "corpora").is_dir())
    return next(roots, Path(__file__).resolve().parent.parent)


def results_dir():
    """Folder of everything a run makes: RBP_RESULTS, or `results/` in the root."""
    return Path(env).resolve() if (env := os.environ.get("RBP_RESULTS")) else root() / "results"


@contextmanager
def atomic_path(path):
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_error(path, error):
    reason = error.strerror or error
    return InputError(f"{path} could not be written ({reason}): free space or fix permissions, then run again.")


def write_text(path, text):
    """Write a small text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_name(name, what):
    """Refuse a name that could leave its folder once it becomes a path."""
    if not isinstance(name, str) or not NAME.match(name) or ".." in name:
        raise InputError(f"{what} {name!r} is not a usable name: use letters, digits, '.', '_' and '-' only.")
    return name


def check_choice(value, choices, what):
    if value not in choices:
        raise InputError(f"{what} {value!r} is not known: {nearest(value, choices)}")
    return value


def nearest(name, names):
    """A hint for an unknown name: the nearest known one, or the list."""
    close = difflib.get_close_matches(str(name), [str(n) for n in names], n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(map(str, names))}."


@dataclass(frozen=True)
class Model:
    """One model of a family. `id` is a hub id, or a folder relative to the YAML file's root (or absolute)."""

    name: str
    id: str
    revision: str | None = None
    dtype: str = "auto"
    context: int | None = None
    nonembedding_params: int | None = None
    experts: str | None = None  # which of a mixture S counts: "all", or "active", those that one token meets
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
    repeats: str = ""  # a family of models trained again with other seeds: how far trainings of one size differ
    path: Path | None = None

    def model(self, name):
        known = {m.name: m for m in self.models}
        if name not in known:
            raise InputError(f"family {self.name!r} has no model {name!r}: {nearest(name, known)}")
        return known[name]


@dataclass(frozen=True)
class Corpus:
    """One corpus: where its text comes from and how its sample is drawn."""

    name: str
    title: str = ""
    source: str = "file"  # "embedded" (text of the installed packages), "hub" (a dataset) or "file" (or folder)
    id: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    data_files: str | None = None
    where: dict = field(default_factory=dict)
    template: str = "{text}"  # how a row becomes a document, e.g. "{prompt}\n{canonical_solution}"
    group: str | None = None  # names the source of a row, e.g. "{author}": rows of one source are resampled as one
    min_characters: int = 0  # shorter documents are left out before the sample is drawn
    first: int | None = None  # the sample is drawn from the first rows only
    documents: int = 1000
    seed: int = 42
    tokens: int | None = None  # about how many the sample holds, for plans; results are counted, never taken from here
    streaming: bool = False
    default: bool = True  # measured when no corpus is named
    path: str | None = None
    kind: str | None = None
    digest: str | None = None
    licence: str = ""
    note: str = ""
    file: Path | None = None


def yaml_names(folder):
    return sorted(p.stem for p in (root() / folder).glob("*.yml"))


family_names = partial(yaml_names, "families")
corpus_names = partial(yaml_names, "corpora")


def read_yaml(path):
    """The mapping in a YAML file, or one sentence why there is none."""
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} is not readable YAML ({first}): correct it or its permissions.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} holds no mapping: it needs lines like 'name: value'.")
    return data


def given(data, record, path, what, **others):
    """The entries of a mapping that have a value; each must be a field of `record`, or one of `others`, of its type."""
    kinds = {f.name: f.type for f in fields(record)} | {"name": object} | others
    for key, value in data.items():
        if key not in kinds:
            raise InputError(f"{path} has an unknown key {key!r} in {what}: {nearest(key, kinds)}")
        kind = kinds[key]
        fits = isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))
        if value is not None and not fits:
            said = getattr(kind, "__name__", kind)
            raise InputError(f"{path}: {key!r} of {what} must be of type {said}, not {value!r}.")
    return {key: value for key, value in data.items() if value is not None}


def read_entry(name_or_path, what, record, **others):
    """(fields, path) of a family or corpus: by its name in the root, or by the path of a YAML file of the user's."""
    text, names = str(name_or_path), yaml_names(FOLDERS[what])
    path = Path(text).expanduser()
    if text in names:
        path = root() / FOLDERS[what] / f"{text}.yml"
    elif path.suffix not in (".yml", ".yaml"):
        raise InputError(f"there is no {what} {text!r}: {nearest(text, names)} The path of a file also does.")
    elif not path.is_file():
        raise InputError(f"there is no {what} file {text!r}: check the path, or give a name of `rbp {FOLDERS[what]}`.")
    data = given(read_yaml(path), record, path, f"the {what}", **others)
    return data | {"name": check_name(str(data.get("name", path.stem)), f"{path}: {what} name")}, path.resolve()


def read_model(entry, path, common):
    """One entry of a family file as a Model; a bare string is its id. common: fields that stand in the family."""
    entry = {"id": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"].strip():
        raise InputError(f"{path}: each entry of 'models' needs an 'id' (a hub id or a folder), got {entry!r}.")
    ident = entry["id"]
    entry = {"name": Path(ident).name.removesuffix(".gguf"), **common, **given(entry, Model, path, "a model")}
    places = (Path(ident).expanduser(), path.parent / ident, root() / ident)
    local = next((p.resolve() for p in places if is_model_place(p)), None)
    if local is None and (not REPO_ID.match(ident) or ident.endswith(".gguf")):
        said = f"model id {ident!r} is neither a folder or .gguf file that exists nor a hub id: 'owner/name'."
        raise InputError(f"{path}: {said}")
    entry["name"] = check_name(str(entry["name"]), f"{path}: model name")
    check_choice(entry.get("dtype", "auto"), DTYPES, f"{path}: dtype")
    check_choice(entry.get("experts", "all"), ("all", "active"), f"{path}: experts")
    if entry.get("context", 2) < 2:
        raise InputError(f"{path}: context of {entry['name']} must be at least 2 tokens, got {entry['context']}.")
    return Model(**entry, local=local)


def is_model_place(path):
    """Whether a model may lie at a path: a folder, or a GGUF file."""
    return path.is_dir() or (path.suffix.lower() == ".gguf" and path.is_file())


def load_family(name_or_path):
    """A family by its name in `families/`, or by the path of a YAML file of the user's."""
    if isinstance(name_or_path, Family):
        return name_or_path
    data, path = read_entry(name_or_path, "family", Family, models=object, dtype=str, context=int, experts=str)
    entries = data.get("models")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} lists no models: add 'models:' with one '- id: ...' line per model.")
    common = {key: data.pop(key) for key in ("dtype", "context", "experts") if key in data}
    models = tuple(read_model(e, path, common) for e in entries)
    names = [m.name for m in models]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise InputError(f"{path} names the model {twice[0]!r} twice: remove one, or give them different names.")
    return Family(**{"title": data["name"], **data, "models": models, "path": path})


def load_corpus(name_or_path):
    """A corpus by its name in `corpora/`, or by the path of a corpus YAML, a text file or a folder of text files; "-"
    is standard input."""
    if isinstance(name_or_path, Corpus):
        return name_or_path
    if str(name_or_path) == "-":
        return Corpus(name="stdin", title="standard input", path="-")
    path = Path(name_or_path).expanduser()
    is_text = str(name_or_path) and os.path.lexists(path) and path.suffix not in (".yml", ".yaml")
    if is_text and str(name_or_path) not in corpus_names():
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().stem).strip("-.") or "text"
        return Corpus(name=name, title=path.name, path=str(path.absolute()))
    data, path = read_entry(name_or_path, "corpus", Corpus, digest=object)
    corpus = Corpus(**{**data, "file": path})
    check_choice(corpus.source, ("embedded", "hub", "file"), f"{path}: source")
    if bad := [k for k in ("documents", "first") if data.get(k, 1) < 1]:
        raise InputError(f"{path}: {bad[0]!r} must be at least 1, got {data[bad[0]]}.")
    if corpus.source == "hub" and not REPO_ID.match(corpus.id or ""):
        raise InputError(f"{path}: a hub corpus needs an 'id' like 'owner/name', got {corpus.id!r}.")
    return corpus


def default_corpora(family):
    """Corpora a family is measured on when none are named: embedded ones for embedded families, the paper's else."""
    source = "embedded" if family.embedded else "hub"
    return [c.name for c in map(load_corpus, corpus_names()) if c.default and c.source == source]
