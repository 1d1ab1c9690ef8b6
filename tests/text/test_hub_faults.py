"""Whatever the hub does wrong: one sentence that says so, nothing wrong is kept, and the second run succeeds."""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hubserver import point_to
from smallmodels import add_to_config, save_model

from rbplib import network
from rbplib.cli import main
from rbplib.families import InputError, load_family
from rbplib.measuring import measure
from rbplib.model_files import hub_model
from rbplib.models import load_model
from rbplib.stored import read_ranks
from rbplib.text_rows import draw

TEXT = "some words, and others\n" * 30
ID, SET = "owner/name", "owner/set"
WEIGHTS, CONFIG, PARQUET, LINES = "model.safetensors", "config.json", "train-0.parquet", "all.jsonl.gz"
N_ROWS = 60
CORPORA = {
    "streamed": {"split": "train", "streaming": True},
    "whole": {"split": "train"},
    "lines": {"data_files": LINES},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The folders that the hub serves, as they should be: a model, a dataset, and what they give when all is well."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = tmp_path_factory.mktemp("served")
    save_model(place / "model", "gpt_neox")
    texts = [f"row {i} " + "some words " * (i % 7) for i in range(N_ROWS)]
    (place / "set").mkdir()
    pq.write_table(pa.table({"text": texts}), place / "set" / PARQUET, row_group_size=10)
    with pa.output_stream(str(place / "set" / LINES), compression="gzip") as f:
        f.write("".join(json.dumps({"text": t}) + "\n" for t in texts).encode())
    (place / "text.txt").write_text(TEXT)
    family = load_family(family_of(place / "model", place))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_RESULTS", str(place / "results"))
        (path,) = measure(family, corpora=[str(place / "text.txt")], progress=False)
    expected = {asked: [texts[i] for i in draw(N_ROWS, 5, 42)] for asked in CORPORA}
    return SimpleNamespace(model=place / "model", set=place / "set", ranks=read_ranks(path), expected=expected)


def family_of(ident, place, revision=None):
    path = place / "mine.yml"
    entry = {"id": str(ident), "name": "it"} | ({"revision": revision} if revision else {})
    path.write_text(json.dumps({"models": [entry]}))
    return path


class Scene:
    """A hub, a cache and a user who measures a model of the hub, or a corpus of the hub with a model of their own."""

    def __init__(self, hub, served, place, patch):
        self.hub, self.served, self.place, self.patch = hub, served, place, patch
        self.cache, self.results = place / "cache", place / "results"
        self.folder, self.data = place / "served" / "model", place / "served" / "set"
        shutil.copytree(served.model, self.folder)
        shutil.copytree(served.set, self.data)
        self.id, self.revision, self.trust, self.undo = ID, None, False, lambda: None
        self.publish()

    def publish(self):
        """Serve what the two folders hold now."""
        self.hub.repos.clear()
        self.sha = self.hub.add("models", ID, self.folder)
        self.hub.add("datasets", SET, self.data)

    def measure(self, asked):
        """(exit code, tables) of `rbp measure` for the model of the hub ("model"), or for one of CORPORA."""
        own = asked != "model"
        family = family_of(self.served.model if own else self.id, self.place, None if own else self.revision)
        corpus = self.place / "text.txt"
        corpus.write_text(TEXT)
        if asked != "model":
            corpus = self.place / "text.yml"
            request = {"source": "hub", "id": SET, "documents": 5, "revision": self.revision, **CORPORA[asked]}
            corpus.write_text(json.dumps(request))
        command = ["measure", "--quiet", "--family", family, "--corpus", corpus]
        code = main([*map(str, command), *(["--trust-remote-code"] if self.trust else [])])
        return code, sorted((self.results / "ranks").rglob("*.parquet"))

    def succeeds(self, asked):
        """Measure with nothing measured or drawn before: it must give what it gives when all is well."""
        shutil.rmtree(self.results, ignore_errors=True)
        code, tables = self.measure(asked)
        assert code == 0 and len(tables) == 1
        if asked == "model":
            found, true = read_ranks(tables[0]), self.served.ranks
            for column in ("document", "position", "token", "greater", "ties"):
                assert np.array_equal(getattr(found, column), getattr(true, column))
        else:
            (sample,) = (self.results / "corpora").glob("*.json")
            assert json.loads(sample.read_text())["texts"] == self.served.expected[asked]
        assert not self.wrong()

    def wrong(self):
        """Files of the cache that are not as the hub's folders hold them now, are half there, or lie outside."""
        found = [p for p in self.place.rglob("*evil*") if self.cache not in p.parents]
        found += self.cache.rglob("*.incomplete")
        published = {s.sha for revisions in self.hub.repos.values() for s in revisions.values()}
        for snapshot in (p for p in self.cache.glob("*--*/snapshots/*") if p.name in published):
            true = self.folder if "models--" in str(snapshot) else self.data
            for path in (p for p in snapshot.rglob("*") if p.is_file()):
                same = true / path.relative_to(snapshot)
                if not same.is_file() or path.read_bytes() != same.read_bytes():
                    found.append(path)
        return found

    def replace(self, name, content):
        """Let a file of the model's or the dataset's folder be this, where it is served from."""
        folder = self.data if name in (PARQUET, LINES) else self.folder
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        self.publish()

    def mend(self):
        """The hub, the network and the disk are as they should be."""
        self.patch.undo()
        self.undo()
        self.hub.heal()
        for folder, true in ((self.folder, self.served.model), (self.data, self.served.set)):
            shutil.rmtree(folder)
            shutil.copytree(true, folder)
        self.id, self.revision, self.trust = ID, None, False
        self.publish()


@pytest.fixture
def scene(hub, served, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub import constants

    short = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.01)))
    monkeypatch.setattr(huggingface_hub.utils._http, "time", short)
    monkeypatch.setattr(huggingface_hub.file_download, "time", short)
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(constants, name, 0.3)
    with pytest.MonkeyPatch.context() as patch:
        made = Scene(hub, served, tmp_path, patch)
        yield made
        made.undo()


def always(ending, kind, **how):
    return lambda s: s.hub.fault(ending, kind, **how)


def once(ending, kind, times=1, **how):
    return lambda s: s.hub.fault(ending, kind, times, **how)


def at(url):
    """The hub is looked for at this address."""
    return lambda s: point_to(url, s.patch)


def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listed(*names, trust=True):
    def arrange(s):
        s.hub.extra, s.trust = list(names), trust

    return arrange


def holds(name, content):
    return lambda s: s.replace(name, content)


def revision(name):
    return lambda s: setattr(s, "revision", name)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
HTML = "<html><body>Sign in to the network of this hotel</body></html>"
NOWHERE = f"http://127.0.0.1:{closed_port()}"


def gated(code, ident=ID):
    return lambda s: s.hub.gated.update({ident: code})


def no_weights(s, *others):
    (s.folder / WEIGHTS).unlink()
    for name, content in others:
        (s.folder / name).write_bytes(content)
    s.publish()


def index(*shards):
    content = json.dumps({"metadata": {}, "weight_map": {f"t{i}": name for i, name in enumerate(shards)}})
    return lambda s: no_weights(s, (f"{WEIGHTS}.index.json", content.encode()))


def remote_code(s):
    add_to_config(s.folder, model_type="own", auto_map={"AutoConfig": "own.C"})
    (s.folder / "own.py").write_text("raise SystemExit('this ran')")
    s.publish()


def token_refused(s):
    s.patch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    s.hub.fault("", "status", code=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})


def small_disk(s):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    s.undo = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))


def no_cache(s):
    from huggingface_hub import constants

    (s.place / "file").write_text("")
    s.patch.setattr(constants, "HF_HUB_CACHE", str(s.place / "file" / "cache"))


def filled(then):
    """The cache holds the model before the fault begins."""

    def arrange(s):
        s.succeeds("model")
        shutil.rmtree(s.results)
        then(s)

    return arrange


def blob(s, name):
    return next(s.cache.glob(f"models--*/snapshots/*/{name}")).resolve()


def part_of_it(s):
    blob(s, "tokenizer.json").unlink()
    point_to(NOWHERE, s.patch)


def flipped(s):
    data = bytearray(blob(s, WEIGHTS).read_bytes())
    data[len(data) // 2] ^= 1
    blob(s, WEIGHTS).write_bytes(data)


def flipped_and_away(s):
    flipped(s)
    point_to(NOWHERE, s.patch)


def renamed(s):
    s.id = "Owner/NAME"
    s.hub.renamed["Owner/NAME"] = ID


REFUSED = [  # (what the fault is, what is asked for, how it comes about, what the sentence must say)
    ("503 for ever", "model", always("", "status", code=503), "the hub answers 503 for model 'owner/name'"),
    ("503 for the weights", "model", always(WEIGHTS, "status", code=503), "answers 503 for model"),
    ("503 for the listing", "model", lambda s: s.hub.fault(f"tree/{s.sha}", "status", code=503), "answers 503"),
    ("503 for the rows", "streamed", always(PARQUET, "status", code=503), "answers 503 for dataset 'owner/set'"),
    ("503 for a dataset's file", "lines", always(LINES, "status", code=503), "answers 503 for dataset"),
    ("500 for ever", "model", always("", "status", code=500), "answers 500 for model"),
    (
        "429 for an hour",
        "model",
        always("", "status", code=429, headers={"Retry-After": "3600"}),
        "answers 429 for model",
    ),
    (
        "a hub that does not answer",
        "model",
        always("", "slow", seconds=0.6),
        "did not answer in time .* HF_HUB_DOWNLOAD_TIMEOUT",
    ),
    (
        "weights that do not come",
        "model",
        always(WEIGHTS, "slow", seconds=0.6),
        "did not answer in time .* HF_HUB_DOWNLOAD_TIMEOUT",
    ),
    (
        "rows that do not come",
        "streamed",
        always(PARQUET, "slow", seconds=0.6),
        "did not answer in time .* HF_HUB_DOWNLOAD_TIMEOUT",
    ),
    ("weights of 0 bytes at their source", "model", holds(WEIGHTS, ""), f"{WEIGHTS} is empty at its source"),
    ("rows of 0 bytes at their source", "streamed", holds(PARQUET, ""), f"{PARQUET} .*size is 0 bytes"),
    ("lines of 0 bytes at their source", "lines", holds(LINES, ""), f"{LINES} is empty at its source"),
    ("0 bytes sent", "model", always(WEIGHTS, "empty"), "should be of size .* but has size 0"),
    ("0 bytes of lines sent", "lines", always(LINES, "empty"), "should be of size .* but has size 0"),
    ("wrong weights", "model", always(WEIGHTS, "corrupt"), f"{WEIGHTS} .* does not match its published hash, twice"),
    ("a wrong tokenizer", "model", always("tokenizer.json", "corrupt"), "does not match its published hash"),
    ("a wrong whole file", "whole", always(PARQUET, "corrupt"), "does not match its published hash"),
    ("wrong lines", "lines", always(LINES, "corrupt"), "does not match its published hash"),
    ("too few bytes", "model", always(WEIGHTS, "short"), "should be of size"),
    ("too many bytes", "model", always(WEIGHTS, "long"), "should be of size"),
    ("cut for ever", "model", always(WEIGHTS, "cut"), "kept breaking off"),
    ("lines cut for ever", "lines", always(LINES, "cut"), "kept breaking off"),
    ("rows cut for ever", "streamed", always(PARQUET, "cut"), "kept breaking off"),
    ("ranges that are ignored", "streamed", always(PARQUET, "no_range"), "no readable Parquet"),
    ("a redirect in a circle", "model", always(WEIGHTS, "redirect", to="/a/" + WEIGHTS), "round in redirects"),
    ("a listing redirected in a circle", "model", always(ID, "redirect", to="/api/models/" + ID), "round in redirects"),
    ("a redirect to nowhere", "model", always(WEIGHTS, "redirect", to=NOWHERE, methods=("GET",)), "cannot be reached"),
    ("rows redirected to nowhere", "streamed", always(PARQUET, "redirect", to=NOWHERE), "cannot be reached"),
    ("weights that are gone", "model", always(WEIGHTS, "status", code=410), "answers 410 for a file"),
    ("gated for strangers", "model", gated(401), "is gated: accept its terms"),
    ("gated for this user", "model", gated(403), "is gated: accept its terms"),
    ("a gated dataset", "streamed", gated(403, SET), "dataset 'owner/set' is gated"),
    ("no such repository", "model", lambda s: setattr(s, "id", "owner/none"), "model 'owner/none' does not exist"),
    ("other capitals", "model", lambda s: setattr(s, "id", "Owner/NAME"), "'Owner/NAME' does not exist .*spelling"),
    ("no such revision", "model", revision("none"), "has no revision 'none'"),
    ("a revision of a dataset", "lines", revision("none"), "has no revision 'none'"),
    (
        "a file that is listed and not there",
        "model",
        always("tokenizer.json", "status", code=404, error="EntryNotFound"),
        "lacks",
    ),
    ("a revision that climbs", "model", revision("../../evil"), "revision '../../evil'"),
    ("a revision of two words", "model", revision("a b"), "revision 'a b'"),
    ("a revision with a NUL", "model", revision("a\0b"), "revision"),
    ("a revision of 300 letters", "model", revision("evil" * 75), "revision"),
    ("a revision that is an option", "lines", revision("--evil"), "revision '--evil'"),
    ("a listed name that climbs", "model", listed("../../evil.py"), "'../../evil.py'"),
    ("an absolute listed name", "model", listed("/tmp/evil.py"), "'/tmp/evil.py'"),
    ("a listed name with backslashes", "model", listed("..\\evil.py"), "evil.py"),
    ("a listed name with a NUL", "model", listed("ev\0il.py"), "cannot be kept .*embedded null"),
    ("a listed name of 300 letters", "model", listed("evil" * 75 + ".py"), "cannot be kept .*too long"),
    ("a listed name below a file", "model", listed("config.json/evil.py"), "cannot be kept .*exists"),
    (
        "pickled weights",
        "model",
        lambda s: no_weights(s, ("pytorch_model.bin", b"cos\nsystem\n(S'x'\ntR.")),
        "refused|damaged",
    ),
    (
        "weights of another program",
        "model",
        lambda s: no_weights(s, ("flax_model.msgpack", b"x")),
        "cannot be read here",
    ),
    ("a shard that is not there", "model", index("model-00001-of-00002.safetensors"), "lacks the weight file"),
    ("an index that climbs", "model", index("../../evil.safetensors"), "'../../evil.safetensors'"),
    ("an index of numbers", "model", index(7), "lacks the weight file 7"),
    ("code of its own", "model", remote_code, "--trust-remote-code"),
    ("a configuration that is a page", "model", holds(CONFIG, HTML), "config"),
    ("a page in place of every answer", "model", always("", "text", body=HTML), "does not answer .* as the hub does"),
    (
        "half a tokenizer",
        "model",
        lambda s: s.replace("tokenizer.json", (s.folder / "tokenizer.json").read_bytes()[:999]),
        "token",
    ),
    ("a pointer in place of the weights", "model", holds(WEIGHTS, POINTER), "pointer"),
    ("a pointer in place of rows", "streamed", holds(PARQUET, POINTER), "Parquet"),
    ("a page in place of rows", "whole", holds(PARQUET, HTML), "Parquet"),
    (
        "a listing that is no JSON",
        "model",
        lambda s: s.hub.fault(f"tree/{s.sha}", "text", body="["),
        "does not answer .* as the hub does",
    ),
    ("an empty listing", "model", lambda s: setattr(s.hub, "hidden", os.listdir(s.folder)), "has no config.json"),
    ("an empty listing of a dataset", "lines", lambda s: setattr(s.hub, "hidden", os.listdir(s.data)), "has no file"),
    (
        "a listing of other than names",
        "model",
        always(ID, "text", body='{"sha": 7, "siblings": 7}'),
        "does not answer .* as the hub does",
    ),
    ("a hub that is down", "model", at(NOWHERE), "cannot be reached and model 'owner/name' is not wholly in the cache"),
    ("a hub without an address", "model", at("http://no-such-host.invalid"), "cannot be reached"),
    (
        "a hub without encryption",
        "model",
        lambda s: point_to(s.hub.url.replace("http:", "https:"), s.patch),
        "cannot be reached safely",
    ),
    ("a hub that hangs up", "model", always("", "hang_up"), "kept breaking off"),
    ("a token that is refused", "model", token_refused, "refuses your token"),
    ("a length that is too long", "model", always(WEIGHTS, "length", by=9), "breaking off"),
    ("a length that is too short", "model", always(WEIGHTS, "length", by=-9), "published hash|should be of size"),
    ("no tag", "model", always(CONFIG, "no_etag"), "names no hash"),
    ("a full disk", "model", small_disk, "the disk is too full"),
    ("down with a part of it kept", "model", filled(part_of_it), "is not wholly in the cache: connect"),
    ("down with a flipped byte in what is kept", "model", filled(flipped_and_away), "damaged and was removed: connect"),
    ("a cache that cannot be written", "model", no_cache, "cannot be kept .*Not a directory.*HF_HOME"),
]


@pytest.mark.parametrize(("asked", "arrange", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_in_one_sentence_and_mended(scene, asked, arrange, says, capfd):
    arrange(scene)
    code, tables = scene.measure(asked)
    said = capfd.readouterr().err
    words = [line for line in said.splitlines() if line and "it/s]" not in line]  # besides the library's bars
    assert code == 2 and not tables
    assert len(words) == 1 and words[0].startswith("rbp: ") and re.search(says, words[0]), words
    assert not scene.wrong()
    scene.mend()
    scene.succeeds(asked)


SURVIVED = [  # (what the fault is, what is asked for, how it comes about)
    ("503 twice", "model", once("", "status", times=2, code=503)),
    (
        "503 twice for each file",
        "model",
        lambda s: [s.hub.fault(n, "status", 2, code=503) for n in os.listdir(s.folder)],
    ),
    ("503 twice for the rows", "streamed", once(PARQUET, "status", times=2, code=503)),
    ("429 for a second", "model", once("", "status", code=429, headers={"Retry-After": "1"})),
    ("a slow first byte", "model", once(WEIGHTS, "slow", seconds=0.6)),
    ("a slow first byte of rows", "streamed", once(PARQUET, "slow", seconds=0.6)),
    ("a slow first byte of the repository", "model", once(ID, "slow", seconds=0.6)),
    ("weights that drip", "model", always(WEIGHTS, "drip", seconds=0.5)),
    ("wrong weights once", "model", once(WEIGHTS, "corrupt")),
    ("wrong lines once", "lines", once(LINES, "corrupt")),
    ("too few bytes once", "model", once(WEIGHTS, "short")),
    ("too many bytes once", "model", once(WEIGHTS, "long")),
    ("0 bytes once", "lines", once(LINES, "empty")),
    ("cut once", "model", once(WEIGHTS, "cut")),
    ("lines cut once", "lines", once(LINES, "cut")),
    ("rows cut once", "streamed", once(PARQUET, "cut")),
    ("a line that is hung up once", "model", once("", "hang_up")),
    ("a listing in pages of two", "model", lambda s: setattr(s.hub, "page", 2)),
    ("a dataset's listing in pages of one", "whole", lambda s: setattr(s.hub, "page", 1)),
    (
        "strange names that nobody asks for",
        "model",
        listed("../../evil", "/tmp/evil", "ev\0il", "evil" * 99, trust=False),
    ),
    ("other capitals, redirected", "model", renamed),
    ("down with all of it kept", "model", filled(at(NOWHERE))),
    ("503 with all of it kept", "model", filled(always("", "status", code=503))),
    ("a page of the network with all of it kept", "model", filled(always("", "text", body=HTML))),
    ("a flipped byte in what is kept", "model", filled(flipped)),
    ("a part of it kept", "model", filled(lambda s: blob(s, WEIGHTS).unlink())),
]


@pytest.mark.parametrize(("asked", "arrange"), [row[1:] for row in SURVIVED], ids=[row[0] for row in SURVIVED])
def test_survived(scene, asked, arrange):
    arrange(scene)
    scene.succeeds(asked)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"kind": "status", "code": 503}, "it answers 503, try [2-5] of 5"),
        ({"kind": "slow", "seconds": 0.9}, "no answer yet, try [1-5]"),
        ({"kind": "drip", "seconds": 2, "times": 1}, "[0-9,]+ bytes of a file came so far"),
    ],
    ids=["503", "slow", "drip"],
)
def test_a_silence_is_explained(scene, monkeypatch, capfd, fault, says):
    monkeypatch.setattr(network, "SILENCE", 0.25)
    monkeypatch.setattr(network, "WAIT", 0.2)
    scene.hub.fault(WEIGHTS if fault["kind"] == "drip" else ID, **fault)
    scene.measure("model")
    said = [line for line in capfd.readouterr().err.splitlines() if "waiting for" in line]
    assert said and all(f"waiting for {scene.hub.url[7:]}: " in line for line in said)
    assert any(re.search(says, line) for line in said), said


def test_a_hub_that_was_tried_in_vain_is_not_waited_for_again_for_each_model(scene, tmp_path):
    scene.hub.fault("", "status", code=503)
    several = [{"id": f"owner/m{i}"} for i in range(6)]
    (tmp_path / "six.yml").write_text(json.dumps({"models": several}))
    (tmp_path / "text.txt").write_text(TEXT)
    assert (
        main(["measure", "--quiet", "--family", str(tmp_path / "six.yml"), "--corpus", str(tmp_path / "text.txt")]) == 2
    )
    asked = [path for _, path, _ in scene.hub.log]
    assert [asked.count(path) for path in dict.fromkeys(asked)][0] in (5, 6) and len(asked) <= 5 + 6


def test_a_users_own_session_and_log_are_left_as_they_were(scene):
    import logging

    import huggingface_hub

    scene.measure("model")
    hooks = huggingface_hub.get_session().event_hooks
    assert hooks["request"].count(network.asking) == 1 and hooks["response"].count(network.answered) == 1
    assert logging.getLogger("huggingface_hub").level == logging.WARNING


def test_a_pointer_in_a_folder_cloned_without_its_large_files(scene):
    (scene.folder / WEIGHTS).write_text(POINTER)
    with pytest.raises(InputError, match="pointer of Git LFS.*git lfs pull"):
        load_model(hub_model(str(scene.folder)))


@pytest.mark.slow
def test_a_busy_hub_with_waits_as_they_are(hub, served, tmp_path):
    """In a process of its own: a line within ten seconds, then the sentence, after five or six tries."""
    hub.add("models", ID, served.model)
    hub.fault(WEIGHTS, "status", code=503)
    (tmp_path / "text.txt").write_text(TEXT)
    command = ["measure", "--quiet", "--family", family_of(ID, tmp_path), "--corpus", tmp_path / "text.txt"]
    places = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "RBP_RESULTS": str(tmp_path / "results")}
    done = subprocess.run(
        [sys.executable, "-m", "rbplib", *map(str, command)], capture_output=True, text=True, env=os.environ | places
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and "answers 503" in last and "it answers 503, try" in done.stderr, done.stderr
    assert 5 <= sum(status == 503 for _, _, status in hub.log) <= 6
