"""The authors' raw ranks: a repository of their layout with planted ranks, made here, fetched with
git and imported."""

import json
import subprocess
from functools import partial

import numpy as np
import pandas as pd
import pytest

from paper import authors, gpt2
from rbplib import InputError, load_family
from rbplib.measuring import measured
from tests.commands import ROOT, refusal
from tests.pagerunner import run_page, words

MODELS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
RANKS = "eval_N/wikimedia/wikipedia/openai-community/{}/top1/ranks.json"
KS, NS = (1, 10, 100, 1000, 10_000), (1, 5, 10)


def planted():
    """{model: rows of its ranks.json}: articles unlike one another, ranks to the end of the
    vocabulary, lower in larger models but for the last."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(12, 60, 40)
    hard = np.repeat(rng.normal(size=40), lengths) + rng.normal(size=lengths.sum())
    position = np.concatenate([np.arange(1, n + 1) for n in lengths])
    rows = {}
    for i, model in enumerate(MODELS):
        own = 1.2 + 1.8 * hard - 0.4 * i + 0.5 * rng.normal(size=len(hard))
        rank = np.clip(np.ceil(np.exp(own)), 1, 50_257).astype(int)
        rank[:: 90 - 20 * i] = 20_000  # at k = 10,000 the larger model misses more
        nats = np.log(rank) + rng.random(len(rank))
        rows[model] = list(zip(rank.tolist(), position.tolist(), nats.tolist(), strict=True))
    return rows


ROWS = planted()


def counted():
    """The counts of planted ranks, one window after another."""
    records = []
    for model, rows in ROWS.items():
        rank, position, nats = np.array(rows).T
        articles = np.split(rank, np.flatnonzero(position == 1)[1:])
        for N in NS:
            runs = np.array([max(a[i : i + N]) for a in articles for i in range(len(a) - N + 1)])
            records += [(model, k, N, (runs <= k).sum(), len(runs), nats.mean()) for k in KS]
    return pd.DataFrame(records, columns=["model", "k", "N", "hits", "windows", "cross_entropy"])


def repository(folder, **changed):
    """(url, commit, {model: blob}) of planted ranks, some models' text changed: files of one
    commit, deleted by the next one as the authors did."""

    def git(*words):
        command = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    for model, rows in ROWS.items():
        path = folder / RANKS.format(model)
        path.parent.mkdir(parents=True)
        path.write_text(changed.get(model, json.dumps(rows)))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "ranks")
    commit = git("rev-parse", "HEAD")
    blobs = {model: git("rev-parse", f"HEAD:{RANKS.format(model)}") for model in MODELS}
    git("rm", "-rq", "eval_N")
    git("commit", "-qm", "deleted")
    return folder.as_uri(), commit, blobs


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return repository(tmp_path_factory.mktemp("theirs"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder of results."""
    monkeypatch.setenv("RBP_ROOT", str(ROOT))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    return tmp_path


def test_their_ranks_become_a_family_with_articles_as_sources(here, theirs):
    path = authors.take(*theirs, counts=counted())
    assert path == here / "results" / "imported" / "gpt2-authors.yml"
    (tables,) = measured("gpt2-authors").values()
    sizes = [model.nonembedding_params for model in load_family("gpt2").models]
    assert [table.record["nonembedding_params"] for table in tables] == sizes
    for model, table in zip(MODELS, tables, strict=True):
        rank, position, nats = np.array(ROWS[model]).T
        starts = np.flatnonzero(position == 1)
        assert table.documents == len(starts) == len(set(table.source))
        hits = np.add.reduceat(rank[:, None] <= KS, starts, dtype=int)
        assert table.hits(KS).tolist() == hits.tolist()
        assert table.nll == pytest.approx(np.add.reduceat(nats, starts), rel=1e-6)
        assert table.record["definition"] == "greater+1"
    # the page of their counts judges by them what it says that they would show
    text = words(run_page("10_gpt2", n_bootstrap=100))
    assert "With 40 articles resampled" in text and "judged by intervals of other text" in text
    for claim in ("GPT-2's reversed slope is", "GPT-2's points on Wikipedia rest on"):
        (line,) = (line for line in text.splitlines() if line.startswith(f"- *The paper:* {claim}"))
        assert line.endswith("**differs**"), line
    # the histogram of page 09 is theirs, rank by rank
    assert gpt2.gpt2_ranks(authors.NAME).count.sum() == len(ROWS["gpt2"])
    # they are not exported
    exported = here / "gpt2.counts"
    assert "state no licence" in refusal(f"export --family gpt2-authors -o {exported}")
    assert not exported.exists()
    # what is named or damaged is not taken as not fetched
    next(here.glob("results/ranks/*/gpt2-xl/*.parquet")).unlink()
    for raw, message in ((authors.NAME, "of gpt2-xl: it is imported"), ("other", "'other'")):
        for read in (partial(run_page, "10_gpt2"), gpt2.gpt2_ranks):
            with pytest.raises(InputError, match=message):
                read(raw=raw)


def test_ranks_of_others_are_one_sentence_and_nothing_is_imported(
    here, theirs, capsys, monkeypatch
):
    url, _, blobs = theirs
    # no hit at k = 1
    harder = json.dumps([[rank + 1, *row] for rank, *row in ROWS["gpt2-xl"]])
    other = repository(here / "other", **{"gpt2-xl": harder})
    with pytest.raises(InputError, match="windows of 1 at k = 1, not"):
        authors.take(*other, counted())
    with pytest.raises(InputError, match="lacks the ranks of gpt2-xl, blob"):
        authors.take(*other[:2], blobs, counted())
    # the command, with the paper's own commit, of a repository without it and of none
    for address in (url, str(here / "none")):
        assert authors.main(["--url", address]) == 2
        assert capsys.readouterr().err.startswith("rbp: commit 6cdfd15 could not be fetched from ")
    monkeypatch.setenv("PATH", str(here))  # a machine without git
    assert authors.main([]) == 2 and "install it" in capsys.readouterr().err
    assert not list((here / "results").rglob("*gpt2-authors*"))


def test_ties_that_top_k_broke_the_other_way_are_let_pass(here, theirs):
    counts = counted()
    first = counts.k == 1
    counts.loc[first, "hits"] -= authors.TIES * counts.N  # a token lies in N windows
    authors.take(*theirs, counts=counts)
    counts.loc[first, "hits"] -= 1
    with pytest.raises(InputError, match="they are not those that were counted"):
        authors.take(*theirs, counts=counts)
