"""Sentences of the pages of the law (01 to 05): what depends on a result says what the result is, whatever it is."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from planted import planted_curve, planted_loss
from ranktables import VOCABULARY, write_family

from paper.examples import greedy
from paper.show import figures, moving, prose, tables
from paper.show.law_tables import crossing_words, narrower_words
from paper.steps import local_exponents, noise_floor
from rbplib.families import InputError, root
from rbplib.law import fit

X = np.log(np.geomspace(1e4, 1e6, 6))


def said_by(*names):
    return tables.explained_words([SimpleNamespace(explained_by=name, n_sources=4, n_models=6) for name in names])


def test_what_explains_is_counted_and_the_untested_are_no_failures():
    """Page 03 once counted a case that could not be tested as one that was not rejected."""
    text = said_by("documents", "sources", "trainings", "none of these", "not tested")
    assert "Of 4 cases tested" in text and "1 more could not be tested" in text
    assert "enough in 2" in text and "needed, and enough, in 1" in text and "together are not enough in 1" in text
    unknown = said_by("not sources; trainings unknown")
    assert "training noise is not known" in unknown and "together" not in unknown and "could not" not in unknown
    assert said_by("not tested", "not tested") == "None of the 2 cases could be tested: too few sources."


def test_whose_trainings_they_are_is_said():
    own = fit(planted_loss(-0.1 * X, 0.02), n_bootstrap=50)
    assert "*planted*" in tables.training_words([own]) and "taken over" not in tables.training_words([own])
    other = replace(own, loss=replace(own.loss, family="else"))
    lent, both = tables.training_words([other]), tables.training_words([own, other])
    assert "models of *planted*, 12 of them trained again; taken over from there for else, trained once" in lent
    assert lent.count("else") == 1
    assert both.count("models of *planted*") == 1 and "taken over from there for else, trained once" in both
    alone = fit(planted_loss(-0.1 * X, again=0), n_bootstrap=50)
    assert "not known here" in tables.training_words([alone]) and "taken over" not in tables.training_words([alone])


def test_the_frame_of_laws_holds_what_is_known_and_no_more():
    trained, alone = (fit(planted_loss(-0.1 * X, 0.02, again=n), n_bootstrap=50) for n in (3, 0))
    frame = tables.law_frame([trained])
    assert frame["largest residual, %"][0] == pytest.approx(100 * trained.worst_residual)
    assert frame["documents: low"][0] == trained.over_documents.ci_tokens[0] != frame["other text: low"][0]
    assert {"and trainings: low", "p, sources and trainings", "explained by"} <= set(frame)
    both = tables.law_frame([trained, fit(planted_loss(-0.12 * X, 0.03, again=3), n_bootstrap=50)])
    both = both.assign(corpus=["a", "b"], k=[1, 10], status="ok")  # a page's table of six columns
    shown, _ = prose.choose(list(map(prose.joined, both.to_dict("records"))), None, ())
    assert shown == ["corpus", "k", "alpha", "intervals", "R²", "p, sources and trainings"]  # not documents' alone
    own_source = fit(replace(planted_loss(-0.1 * X, again=0), source=None), n_bootstrap=50)
    assert not [c for c in tables.law_frame([own_source]) if "documents" in c or "trainings" in c]
    assert np.isnan(tables.law_frame([trained, alone])["p, sources and trainings"][1])


def test_the_first_crossing_is_named_and_a_later_return_apart():
    """Page 05 named the largest k above 0.9 as if the line had stayed above it."""
    ks, r2 = np.array([1, 10, 100, 1000]), np.array([0.99, 0.8, 0.95, np.nan])
    text = crossing_words(ks, r2, 1000)
    assert "first $k$ where it is not above 0.9 is 10" in text and "largest $k$ at which it is above is 100" in text
    assert "largest" not in crossing_words(ks, np.array([0.99, 0.95, 0.8, 0.7]), 1000)
    assert "every $k$" in crossing_words(ks, np.full(4, 0.95), 1000)
    assert "at no $k$" in crossing_words(ks, np.full(4, 0.5), 1000)
    assert "no $R^2$" in crossing_words(ks, np.full(4, np.nan), 1000)


def test_the_interval_of_a_difference_is_compared_not_praised():
    """Page 05 called it much narrower than either; it was wider than that at k = 1 everywhere."""
    laws = {"c": [SimpleNamespace(corpus="c", k=k, ci_tokens=(0, width)) for k, width in ((1, 0.1), (100, 0.3))]}
    text = narrower_words({"c": (0.1, (0.0, 0.2))}, laws, 1, 100)
    assert "at $k = 1$ in 0 of 1" in text and "at $k = 100$ in 1" in text
    assert "no interval" in narrower_words({}, laws, 1, 100)


def test_the_last_step_is_put_beside_the_others():
    steps = local_exponents(planted_loss(-0.1 * X + 0.05 * (X - X[4]) * (X > X[4]), 0.001, 0.001), n_bootstrap=100)
    text = tables.bend_words([steps])
    assert "last step is 0.05" in text and "before it 0.10" in text and "smaller in 1 of 1" in text
    assert "too few sizes" in tables.bend_words([local_exponents(planted_loss(-0.1 * X[:2]), n_bootstrap=50)])


def test_a_greedy_decoder_does_what_the_ranks_say():
    """Page 01 said that it fails at the first place, even with the true token ranked first there."""
    table = SimpleNamespace(greater=np.array([0, 0, 2]), ties=np.array([1, 2, 1]))
    assert [greedy(table, row) for row in range(3)] == ["succeeds", "is left to a tie", "fails"]


def test_training_noise_widens_what_an_exact_law_would_show():
    """Models scattered by their training alone: sources are not enough for so low an R², sources and trainings are."""
    found = [noise_floor(planted_loss(-0.1 * X, 0.03, 0.01, seed=s), 0.1, n_bootstrap=300) for s in range(30)]
    assert all(f.trained_band[0] < f.r2_band[0] for f in found)
    assert np.mean([f.worse < 0.05 for f in found]) > 0.8 and np.mean([f.trained_worse < 0.05 for f in found]) < 0.2
    alone = noise_floor(planted_loss(-0.1 * X, 0.03, 0.01, again=0), 0.1, n_bootstrap=100)
    assert np.isnan(alone.trained_band).all() and alone.explained_by == "not sources; trainings unknown"


def test_points_stand_where_they_are_shifted_to_and_floats_dust_is_zero():
    law, (_, (one, two)) = fit(planted_loss(-0.1 * X, 0.02), n_bootstrap=0), plt.subplots(1, 2)
    figures.draw_fit(one, law, shift=0.1, color="C0")
    assert one.get_lines()[0].get_xdata() == pytest.approx(law.S * 10**0.1)
    assert law.S.min() / 1.25 == pytest.approx(one.get_lines()[-1].get_xdata()[0])  # the line stays where it is
    rows = pd.DataFrame({"precision": "bf16", "definition": "greater", "change": [3e-13, -2e-10, 1e-4]})
    assert list(figures.draw_shifts(two, rows).get_lines()[0].get_xdata()) == [0, 0, 1e-4]
    plt.close("all")


def test_the_second_bars_stand_only_where_trainings_are_known():
    for again, labels in ((3, [figures.SOURCES, figures.TRAININGS]), (0, [])):
        fig, ax = plt.subplots()
        for seed in range(2):  # two fits, one entry each
            figures.draw_fit(ax, fit(planted_loss(-0.1 * X, 0.02, again=again, seed=seed), n_bootstrap=50))
            figures.draw_steps(ax, local_exponents(planted_loss(-0.1 * X, 0.02, again=again), n_bootstrap=50))
        assert ax.get_legend_handles_labels()[1] == labels
        plt.close(fig)


def test_the_second_band_of_points_holds_both_noises():
    law = fit(planted_loss(-0.1 * X, 0.02, again=30), n_bootstrap=500)
    wide, narrow = (np.diff(band, axis=0)[0] for band in (law.training_band, law.token_band))
    assert wide == pytest.approx(np.hypot(narrow, 2 * 1.97 * law.training_sd), rel=0.02)


def run_cells(monkeypatch, page, **parameters):
    """Everything that a page says and shows, its cells run here."""
    said = []
    monkeypatch.setattr(
        figures, "show", lambda fig, alt, **about: (said.append(alt + about.get("see", "")), plt.close(fig))
    )
    monkeypatch.setattr(prose, "say", lambda text, **how: said.append(text))

    def shown(frame, caption="", *a, **k):
        return said.append(caption + re.sub("<[^>]*>", " ", prose.table_html(frame)))

    monkeypatch.setattr(prose, "table", shown)
    monkeypatch.setattr(moving, "show", lambda chart, caption: said.append(caption))
    text, place = (root() / "notebooks" / f"{page}.md").read_text(encoding="utf-8"), {}
    for cell in re.findall(r"```\{code-cell\} ipython3\n(.*?)```", text, re.S):
        exec(re.sub(r"^:tags:.*\n", "", cell), place)
        place.update(parameters if "[parameters]" in cell else {})
    return "\n".join(said)


@pytest.fixture(scope="module", params=[1, -1], ids=["falling", "rising"])
def family(request, tmp_path_factory):
    """Three models, one corpus, another vocabulary; larger models are better, or worse."""
    place = write_family(tmp_path_factory.mktemp("lines"), sizes=(2_000, 40_000, 800_000), trend=request.param)
    for name in ("book", "notebooks"):
        (place / name).symlink_to(root() / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(place))
        patch.setenv("RBP_RESULTS", str(place / "results"))
        yield {"family": "synthetic", "corpora": ["prose"], "n_bootstrap": 60}, request.param


PAGES = {
    "02_top1_law": [[10], []],
    "03_moderate_k": [[3]],
    "04_large_k": [[VOCABULARY], [200, 300]],
    "05_k_dependence": [[3], [3, 7], []],
}


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_the_law_run_whole_on_any_family_and_any_k(family, page, monkeypatch):
    given, trend = family
    for ks in PAGES[page]:
        text = run_cells(monkeypatch, page, ks=ks, **given)
        assert not re.search(r"\bnan\b", text) and "training noise is not known here" in text
        assert (
            figures.TRAININGS not in text and "falls with k and size" not in text and "narrower than either" not in text
        )
        assert "0 of 0" not in text
        if page == "04_large_k" and ks == [200, 300]:
            assert f"along it in {2 if trend < 0 else 0}, fewer in {0 if trend < 0 else 2}" in text


def test_a_page_without_any_k_says_so(family, monkeypatch):
    with pytest.raises(InputError, match="at least one k"):
        run_cells(monkeypatch, "03_moderate_k", ks=[], **family[0])


def test_the_papers_vocabulary_is_named_as_whose_it_is():
    for page in ("03_moderate_k", "05_k_dependence"):
        text = " ".join((root() / "notebooks" / f"{page}.md").read_text(encoding="utf-8").split())
        assert text.count("50,257") == len(re.findall(r"GPT-2's (?:vocabulary, )?50,257", text)) > 0


def test_curves_of_two_sources_are_told_apart_from_their_documents():
    curve = planted_curve(documents=300)
    law = fit(replace(curve.loss(1), source=np.arange(300) // 10), n_bootstrap=100)
    assert law.n_sources == 30 and law.over_documents.ci_tokens != law.ci_tokens
