"""Where things are, what families and corpora there are, and how bad input is told."""

import os
import re
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from rbplib.inputs import InputError, check_choice, check_name, complain, given, nearest, read_yaml
from rbplib.inputs import atomic_path as atomic_path
from rbplib.inputs import write_error as write_error
from rbplib.inputs import write_text as write_text

REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")  # OWNER/NAME or NAME on the hub
DTYPES = ("auto", "float32", "bfloat16", "float16", "Q8_0", "Q4_1", "Q4_0")  # the last: float32 of llama.cpp's blocks
PROTOCOLS = ("paper", "full")
FOLDERS = {"family": "families", "corpus": "corpora"}  # of the YAML files, in the root
TEXT_SUFFIXES = (".txt", ".md", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")  # also .gz, .zst; any case
WINDOW = 512  # tokens, the paper's truncation
PACKAGE = Path(__file__).resolve().parent


def root(writing=False):
    """The folder of `families/` and `corpora/`: RBP_ROOT, the current one or a parent, the checkout, or the package;
    for writing the current one in place of the package."""
    if env := os.environ.get("RBP_ROOT"):
        return Path(env).resolve()
    here = Path.cwd().resolve()
    places = (here, *here.parents, PACKAGE.parent)
    found = (p for p in places if (p / "families").is_dir() and (p / "corpora").is_dir())
    return next(found, here if writing else PACKAGE)


def held(*parts):
    """What the repository itself brings, as book/claims.yml: in the root, else in the checkout or the package."""
    places = [folder.joinpath(*parts) for folder in (root(), PACKAGE.parent, PACKAGE)]
    return next((p for p in places if p.exists()), places[0])


def results_dir():
    """Folder of everything a run makes: RBP_RESULTS, or `results/` in the root."""
    return Path(env).resolve() if (env := os.environ.get("RBP_RESULTS")) else root(writing=True) / "results"


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
    repeats: str = ""  # a family of models trained again with other seeds: how far trainings of one size differ
    counts: str = ""  # of an imported family: the counts file beside its own, which stands for models and text
    corpora: list = field(default_factory=list)  # of an imported family: names of those that were counted
    path: Path | None = None

    def need_models(self):
        """Refuse an imported family."""
        if self.counts:
            raise InputError(f"{self.name} is imported: its counts are here, its models and its text are not.")

    def model(self, name):
        self.need_models()
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


def yaml_files(what):
    """{name: path} of the files of families or corpora in the root and beside results, and of imported families."""
    places = [results_dir() / "imported", root() / "published" / "ranks"] if what == "family" else []
    places += [root(writing=True) / FOLDERS[what], root() / FOLDERS[what]]
    return {p.stem: p.resolve() for folder in places for p in folder.glob("*.yml")}


def family_names():
    return sorted(yaml_files("family"))


def known(what):
    """The families or corpora in the root, by name; a file that is none is named on standard error and passed over."""
    for name in sorted(yaml_files(what)):
        try:
            yield {"family": load_family, "corpus": load_corpus}[what](name)
        except InputError as error:
            complain(str(error))


def one_each(found, what):
    """Families or corpora without repeats, in order; two different ones of one name are refused."""
    kept = {}
    for one in found:
        if kept.setdefault(one.name, one) != one:
            both = f"{argument(kept[one.name])} and {argument(one)}"
            raise InputError(f"two {what} are named {one.name!r}, {both}: rename a file, or say 'name: ...' in YAML.")
    return list(kept.values())


def argument(one):
    """A family or corpus as another process finds it: its name, or the whole path of its file."""
    path = getattr(one, "file", None) or one.path
    files = yaml_files("corpus" if isinstance(one, Corpus) else "family")
    named = path is None or Path(path) == files.get(one.name)
    return one.name if named else str(path)


def read_entry(name_or_path, what, record, **others):
    """(fields, path) of a family or corpus: by its name in the root, or by the path of a YAML file of the user's."""
    text, files = str(name_or_path), yaml_files(what)
    path = Path(text).expanduser()
    if text in files:
        path = files[text]
    elif path.suffix not in (".yml", ".yaml"):
        where = f"{what} {text!r} in {root() / FOLDERS[what]}"
        raise InputError(f"there is no {where}: {nearest(text, sorted(files))} The path of a file also does.")
    elif not path.is_file():
        raise InputError(f"there is no {what} file {text!r}: check the path, or give a name of `rbp {FOLDERS[what]}`.")
    data = given(read_yaml(path), record, path, f"the {what}", **others)
    name = check_name(str(data.get("name", path.stem)), f"{path}: {what} name")
    if path.resolve() != files.get(name, path.resolve()):
        raise InputError(f"{path} has the name of {files[name]}, {name!r}: give it another one by 'name: ...'.")
    return data | {"name": name}, path.resolve()


def is_model_place(path):
    """Whether a model may lie at a path: a GGUF file, or a folder."""
    return path.is_file() if path.suffix == ".gguf" else path.is_dir()


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
        raise InputError(f"{path}: model id {ident!r} is no folder or .gguf file here, nor a hub id: 'owner/name'.")
    entry["name"] = check_name(str(entry["name"]), f"{path}: model name")
    check_choice(entry.get("dtype", "auto"), DTYPES, f"{path}: dtype")
    check_choice(entry.get("experts", "all"), ("all", "active"), f"{path}: experts")
    for key, least in (("context", 2), ("tokens", 1)):
        if entry.get(key, least) < least:
            raise InputError(f"{path}: {key} of {entry['name']} must be at least {least}, got {entry[key]}.")
    return Model(**entry, local=local)


def load_family(name_or_path):
    """A family by its name in `families/`, or by the path of a YAML file of the user's."""
    if isinstance(name_or_path, Family):
        return name_or_path
    kinds = dict(models=object, dtype=str, context=int, experts=str, tokens=int)
    return family_of(*read_entry(name_or_path, "family", Family, **kinds))


def family_of(data, path):
    """The Family that the entries of a file say."""
    entries = data.get("models")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} lists no models: add 'models:' with one '- id: ...' line per model.")
    common = {key: data.pop(key) for key in ("dtype", "context", "experts", "tokens") if key in data}
    models = tuple(read_model(e, path, common) for e in entries)
    names = [m.name for m in models]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise InputError(f"{path} names the model {twice[0]!r} twice: remove one, or give them different names.")
    same = {(m.local or m.id, m.revision or "main", m.dtype): m.name for m in reversed(models)}
    if twice := sorted(set(names) - set(same.values())):
        raise InputError(f"{path} lists the model {twice[0]!r} again under another name: remove one of the two.")
    return Family(**{"title": data["name"], **data, "models": models, "path": path})


def load_corpus(name_or_path):
    """A corpus by its name in `corpora/`, or by the path of a YAML file, of text or a folder of it; "-" is stdin."""
    if isinstance(name_or_path, Corpus):
        return name_or_path
    if str(name_or_path) == "-":
        return Corpus(name="stdin", title="standard input", path="-")
    path = Path(name_or_path).expanduser()
    is_text = str(name_or_path) and os.path.lexists(path) and path.suffix not in (".yml", ".yaml")
    if is_text and str(name_or_path) not in yaml_files("corpus"):
        return own_text(path)
    data, path = read_entry(name_or_path, "corpus", Corpus, digest=object)
    corpus = Corpus(**{**data, "file": path})
    check_choice(corpus.source, ("embedded", "hub", "file"), f"{path}: source")
    if bad := [k for k in ("documents", "first") if data.get(k, 1) < 1]:
        raise InputError(f"{path}: {bad[0]!r} must be at least 1, got {data[bad[0]]}.")
    if corpus.source == "hub" and not REPO_ID.match(corpus.id or ""):
        raise InputError(f"{path}: a hub corpus needs an 'id' like 'owner/name', got {corpus.id!r}.")
    return corpus


def own_text(path):
    """A text file or folder as a corpus; a hash sets its name apart from those in `corpora/` and from lost letters."""
    stem = path.resolve().stem
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")
    if name in yaml_files("corpus") or not name or not stem.isascii():
        name = f"{name or 'text'}-{sha256(os.fsencode(stem)).hexdigest()[:6]}"
    return Corpus(name=name, title=path.name, path=str(path.absolute()))


def default_corpora(family):
    """Names of corpora when none are given: an imported one's own, embedded ones, or the paper's."""
    source = "embedded" if family.embedded else "hub"
    return list(family.corpora) or [c.name for c in known("corpus") if c.default and c.source == source]
