"""Corpora of the hub, read over HTTP by `datasets`: any of its formats, the authors' sample, and
what goes wrong."""

import gzip
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import python
from hubserver import HubServer

TEXTS = [f"row {i} " + "é<b> " * (i * 37 % 40) for i in range(90)]
ROWS = [{"text": text, "meta": {"set": "AB"[i % 2]}, "by": i // 10} for i, text in enumerate(TEXTS)]
SHUFFLED = datasets.Dataset.from_list(ROWS).shuffle(seed=42)["text"]
CARD = """---
configs:
- config_name: de
  data_files: [{split: train, path: de/*}]
- config_name: en
  data_files: [{split: train, path: en/*}, {split: test, path: few.parquet}]
---
"""
GOOD = {  # what a corpus asks for, and the texts that it gets
    "a split": ({"split": "test"}, ["first", "second"]),
    "a configuration": ({"config": "de"}, ["ein Satz"]),
    "a table by its pattern": ({"data_files": "few.c*", "template": "{by}"}, ["1", "2"]),
    "JSON lines": ({"data_files": "all.jsonl.gz", "where": {"by": 3}}, TEXTS[30:40]),
    "long rows": ({"min_characters": 190}, [text for text in TEXTS if len(text) >= 190]),
    "first rows": ({"id": "owner/again", "first": 20, "where": {"meta.set": "A"}}, TEXTS[:40:2]),
}
BAD = {  # what a corpus asks for in vain
    "no such data set": {"id": "owner/none"},
    "no such configuration": {"config": "fr"},
    "no such split": {"split": "dev"},
    "no such revision": {"revision": "v9"},
    "a gated one": {"id": "owner/shut"},
    "no such field": {"template": "{txt}"},
}
SAMPLE = {"sample": {"documents": 40}, "grouped": {"group": "{meta.set}{by}"}}
READ = """
import json, sys
from rbplib.families import InputError
from rbplib.texts import load_documents
answers = {}
for path in sys.argv[1:]:
    try:
        documents = load_documents(path)
        answers[path] = documents.texts, documents.units, documents.source
    except InputError as error:
        answers[path] = str(error)
print(json.dumps(answers))
"""


class Hub(HubServer):
    """A hub with data sets, and a user with an empty cache."""

    def __init__(self, root):
        super().__init__()
        self.root, files = root, root / "set"
        tables = {f"en/{i}": ROWS[i * 30 : i * 30 + 30] for i in range(3)}
        tables |= {"de/0": [{"text": "ein Satz"}], "few": [{"text": "first"}, {"text": "second"}]}
        for name, rows in tables.items():
            (files / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), files / f"{name}.parquet")
        (files / "README.md").write_text(CARD)
        (files / "few.csv").write_text("text,by\nfirst,1\nsecond,2\n")
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        (files / "all.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        for name in ("set", "again", "shut"):
            self.sha = self.add("datasets", f"owner/{name}", files)
        self.gated["owner/shut"] = 403

    def read(self, entries):
        """{name: (texts, units, source) or a sentence} of corpora, in a process of the user's."""
        paths = {name: self.root / f"{name.replace(' ', '-')}.yml" for name in entries}
        for name, path in paths.items():
            entry = {"source": "hub", "id": "owner/set", "config": "en"} | entries[name]
            Path(path).write_text(json.dumps(entry))
        here = {"HF_ENDPOINT": self.url, "HF_HOME": str(self.root / "hf"), "HF_TOKEN": ""}
        here |= {"RBP_RESULTS": str(self.root / "results"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = python("-c", READ, *paths.values(), **here)
        assert not done.returncode, done.stderr
        return dict(zip(entries, json.loads(done.stdout).values(), strict=True))


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with Hub(tmp_path_factory.mktemp("hub")) as server:
        server.answers = server.read({n: entry for n, (entry, _) in GOOD.items()} | BAD | SAMPLE)
        yield server


def test_the_sample_is_that_of_a_seeded_shuffle(hub):
    source = {"id": "owner/set", "revision": hub.sha}
    assert hub.answers["sample"] == [SHUFFLED[:40], [], source]
    texts, units, _ = hub.answers["grouped"]
    assert texts == SHUFFLED
    groups = {row["text"]: f"{row['meta']['set']}{row['by']}" for row in ROWS}
    assert units == [groups[text] for text in texts]


@pytest.mark.parametrize("name", GOOD)
def test_any_data_set_is_some_lines_of_yaml(hub, name):
    assert sorted(hub.answers[name][0]) == sorted(GOOD[name][1])
    # of the first rows no more is fetched than is read
    assert not hub.requests("again/en/2.parquet")


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_had_is_one_sentence_that_names_it(hub, name):
    (value,), said = BAD[name].values(), hub.answers[name]
    assert "\n" not in said and value.strip("{}") in said


def test_a_sample_is_kept_and_a_damaged_one_is_named(hub):
    (kept,) = hub.root.glob("results/corpora/grouped-*.json")
    kept.write_text(kept.read_text().replace("B8", "B7"))
    hub.log.clear()
    answers = hub.read(SAMPLE)
    assert answers["sample"][0] == SHUFFLED[:40] and not hub.log
    assert f"{kept} is damaged" in answers["grouped"]
