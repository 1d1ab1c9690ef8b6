"""Published results: tables through the door, fits again by plain least squares, their noise."""

import os
import random
import shutil
from functools import cache

import numpy as np
import pytest
from scipy import stats

import rbplib
from paper import probes, published, recipes
from rbplib import table_losses
from rbplib.families import SUMS, InputError, held, load_family
from rbplib.models import family_sizes, folder_digest
from tests import stress

laws = cache(published.laws)


@pytest.mark.parametrize("quantity", published.QUANTITIES)
def test_every_published_fit_is_plain_least_squares(quantity):
    column = published.QUANTITIES[quantity][1]
    for law in laws(quantity).values():
        values = law.rows[column].to_numpy()
        x, y = np.log(law.rows["S"]), np.log(-np.log(values) if column == "accuracy" else values)
        line = stats.linregress(x, y)
        half = stats.t.ppf(0.975, len(x) - 2) * line.stderr
        theirs = [-line.slope, -line.slope - half, half - line.slope, line.rvalue**2]
        ours = [law.law.alpha, *law.law.ci_models, law.law.r2]
        assert ours == pytest.approx(theirs, nan_ok=True)
        if quantity == "-log acc":  # bars, by the delta method
            error = np.sqrt((1 - values) / values / law.rows["questions"])
            assert np.allclose(law.bars[2], 1.96 * error, rtol=0.07)


LADDERS = {  # in each table
    "lambada_by_size": 20,
    "lambada_along_training": 52,
    "humaneval_by_size": 16,
    "openlm_scaling": 3,
    "gpt2_wikipedia_counts": 25,
}


@pytest.mark.parametrize("name", LADDERS)
def test_a_published_table_goes_through_the_door_as_it_lies(name):
    assert len(table_losses(held("published", f"{name}.csv"))) == LADDERS[name]


RAW = np.genfromtxt(held("published", "gpt2_wikipedia_counts.csv"), delimiter=",", skip_header=1)
PRINTED = {1: 0.0560, 10: 0.0932, 100: 0.1257, 1000: 0.1225, 10_000: -0.0901}  # exponents


@pytest.mark.parametrize("k", PRINTED)
@pytest.mark.parametrize("N", [1, 5, 100])
def test_the_authors_counts_by_hand(k, N):
    """Refitted by NumPy from the file as it is."""
    S, hits, windows = RAW[(RAW[:, 3] == k) & (RAW[:, 4] == N)][:, [2, 5, 6]].T
    single = RAW[(RAW[:, 3] == k) & (RAW[:, 4] == 1)][:, 5] / 317_414
    rows = published.gpt2_counts().query("k == @k and N == @N")
    assert rows["times"].to_numpy() == pytest.approx(hits / windows / single**N)
    law = rbplib.fit(S=rows["S"], hits=rows["hits"], totals=windows[0])
    if len(set(hits)) == 1:  # runs of a hundred at k = 1
        assert law.status == "equal losses"
        return
    losses = np.log([-np.log(hits / windows), rows["cross_entropy"]])
    exponents = -np.polyfit(np.log(S), losses.T, 1)[0]
    assert law.alpha == pytest.approx(exponents[0], abs=1e-9)
    if N == 1:
        assert exponents.round(4).tolist() == [PRINTED[k], 0.0584]


def test_reference_points_are_where_a_family_file_names_them(tmp_path):
    points = published.reference_points("gpt2", "wikipedia")
    shares = np.array([132_065, 142_215, 147_050, 150_180]) / 317_414
    assert points["loss"].to_numpy() == pytest.approx(-np.log(shares))
    assert not len(published.reference_points("opt", "wikipedia"))
    (tmp_path / "mine.yml").write_text("published: {wikipedia: other}\nmodels: [gpt2]\n")
    with pytest.raises(InputError, match="'other' is not known"):
        published.reference_points(tmp_path / "mine.yml", "wikipedia")


@pytest.mark.parametrize("least", [0.1, 0])
def test_open_lm_leaves_out_shares_below_a_bound_and_no_other_that_has_a_loss(least):
    part = published.open_lm("acc_lambada_openai", least)
    by_name = published.read("openlm_scaling").set_index("model")["acc_lambada_openai"]
    assert {0.0} < set(by_name[by_name < 0.02])
    assert set(part.index) == set(by_name.index[(by_name >= least) & (by_name > 0)])
    assert np.allclose(np.exp(-part["loss"]), by_name[part.index])


def test_ratio_of_exponents_inverts_a_test_of_slope():
    """At the ends of the interval the slope of y2 - r y1 has p = 5%."""
    first, second = (laws(name)["rwkv-4"].law for name in ("-log acc", "log ppl"))
    ratio, ends = rbplib.exponent_ratio(first, second)
    assert ratio == pytest.approx(second.alpha / first.alpha)
    for r in ends:
        pvalue = stats.linregress(np.log(first.S), second.y - r * first.y).pvalue
        assert pvalue == pytest.approx(0.05, 1e-5)


READERS = {  # what reads one of each kind of kept file
    "published/openlm_scaling.csv": lambda path: published.read("openlm_scaling"),
    "published/lambada_by_size.csv": table_losses,
    "published/probes/nano-pythia-79k-42.csv": lambda path: probes.runs(),
    "published/vocabularies.csv": lambda path: recipes.by_vocabulary(),
    "published/ranks/nano-pythia-1m.json": lambda path: recipes.rate_steps(recipes.rates()),
    "published/ranks/nano-pythia-1m.yml": load_family,
    "models/checks.json": lambda path: recipes.rates(),
    "models/nano-pythia/1.9k/model.safetensors": lambda path: folder_digest(path.parent),
    "families/configs/gpt2.json": lambda path: family_sizes("gpt2"),
    "families/sizes.json": lambda path: family_sizes("pythia"),
}


@pytest.mark.parametrize("name", READERS)
def test_one_bit_of_a_kept_file_is_found_where_it_is_read(name, tmp_path, monkeypatch):
    for folder in ("published", "models", "families", "corpora"):
        shutil.copytree(held(folder), tmp_path / folder, copy_function=os.link)
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    path, sums = tmp_path / name, tmp_path / SUMS
    READERS[name](path)
    if path.suffix == ".json":  # as sha256sum and git may write them on Windows
        text = sums.read_text().replace("  ", " *")
        sums.unlink()
        sums.write_text(text, newline="\r\n")
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(stress.flipped(data, random.Random(0)))
    with pytest.raises(InputError, match=f"{name} is not the file .*git -C .* checkout .*{name}"):
        READERS[name](path)


def test_the_digests_are_of_every_kept_file_and_written_by_one_command(monkeypatch):
    written = []
    monkeypatch.setattr(published, "write_text", lambda path, text: written.append(text))
    published.keep()
    assert written == [held(SUMS).read_text()]
    assert {line.split("  ")[1] for line in written[0].splitlines()} >= {*READERS}
