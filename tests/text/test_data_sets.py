"""Corpora of the hub, read over HTTP by `datasets`: any of its formats, the authors' sample, and
what goes wrong."""

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
    "rows that fit": (
        {"where": {"meta.set": "B"}, "min_characters": 190},
        [t for t in TEXTS[1::2] if len(t) >= 190],
    ),
    "the first rows": (
        {"id": "owner/again", "first": 20, "where": {"meta.set": "A"}},
        TEXTS[:40:2],
    ),
}
BAD = {  # what a corpus asks for in vain
    "no such data set": {"id": "owner/none"},
    "no such configuration": {"config": "fr"},
    "no such split": {"split": "dev"},
    "no such revision": {"revision": "v9"},
    "a gated one": {"id": "owner/shut"},
    "no such field": {"template": "{txt}"},
}
ASK = """
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

    def __init__(self, place):
        super().__init__()
        self.place = place
        for name in ("en", "de"):
            (place / "set" / name).mkdir(parents=True)
        (place / "set/README.md").write_text(CARD)
        for part in range(3):
            pq.write_table(
                pa.Table.from_pylist(ROWS[part * 30 : part * 30 + 30]),
                place / f"set/en/{part}.parquet",
            )
        pq.write_table(pa.table({"text": ["ein Satz"]}), place / "set/de/0.parquet")
        pq.write_table(pa.table({"text": ["first", "second"]}), place / "set/few.parquet")
        (place / "set/few.csv").write_text("text,by\nfirst,1\nsecond,2\n")
        with pa.output_stream(str(place / "set/all.jsonl.gz"), compression="gzip") as file:
            file.write("".join(json.dumps(row) + "\n" for row in ROWS).encode())
        for name in ("set", "again", "shut"):
            self.sha = self.add("datasets", f"owner/{name}", place / "set")
        self.gated["owner/shut"] = 403

    def ask(self, entries):
        """{name: (texts, units, source) or a sentence} of corpora."""
        paths = {}
        for name, entry in entries.items():
            paths[name] = str(self.place / f"{name.replace(' ', '-')}.yml")
            Path(paths[name]).write_text(
                json.dumps({"source": "hub", "id": "owner/set", "config": "en", **entry})
            )
        # in a process of the user's own
        here = {"HF_ENDPOINT": self.url, "HF_HOME": str(self.place / "hf"), "HF_TOKEN": ""}
        here |= {"RBP_RESULTS": str(self.place / "results"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = python("-c", ASK, *paths.values(), **here)
        assert not done.returncode, done.stderr
        answers = json.loads(done.stdout)
        return {name: answers[path] for name, path in paths.items()}


SAMPLE = {"sample": {"documents": 40}, "grouped": {"group": "{meta.set}{by}"}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with Hub(tmp_path_factory.mktemp("hub")) as server:
        server.answers = server.ask({n: entry for n, (entry, _) in GOOD.items()} | BAD | SAMPLE)
        yield server


def test_the_sample_is_that_of_a_seeded_shuffle(hub):
    texts, units, source = hub.answers["sample"]
    assert (
        texts == SHUFFLED[:40]
        and units == []
        and source == {"id": "owner/set", "revision": hub.sha}
    )
    texts, units, _ = hub.answers["grouped"]
    assert texts == SHUFFLED
    assert dict(zip(texts, units, strict=True)) == {
        r["text"]: f"{r['meta']['set']}{r['by']}" for r in ROWS
    }


@pytest.mark.parametrize("name", GOOD)
def test_any_data_set_is_some_lines_of_yaml(hub, name):
    entry, expected = GOOD[name]
    assert sorted(hub.answers[name][0]) == sorted(expected)
    fetched = hub.asked("again/en/0.parquet"), hub.asked("again/en/2.parquet")
    assert name != "the first rows" or not fetched[1]


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_had_is_one_sentence_that_names_it(hub, name):
    said = hub.answers[name]
    assert "\n" not in said and all(
        str(value).strip("{}") in said for value in list(BAD[name].values())[:1]
    )


def test_a_sample_is_kept_and_a_damaged_one_is_named(hub):
    (kept,) = hub.place.glob("results/corpora/sample-*.json")
    hub.log.clear()
    assert hub.ask({"sample": SAMPLE["sample"]})["sample"][0] == SHUFFLED[:40] and not hub.log
    kept.write_text(kept.read_text().replace('"units": []', '"units": ["x"]'))
    assert f"{kept} is damaged" in hub.ask({"sample": SAMPLE["sample"]})["sample"]
