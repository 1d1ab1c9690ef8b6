"""Published points are found for the one family and corpus they belong to."""

import numpy as np
import pytest

from paper.published import reference_points
from rbplib.families import InputError, load_family
from rbplib.model_sizes import family_sizes


def test_gpt2_on_wikipedia():
    found = reference_points("gpt2", "wikipedia")
    assert found.S.tolist() == [r["nonembedding_params"] for r in family_sizes("gpt2")]
    assert found.loss.tolist() == [0.8769, 0.8028, 0.7694, 0.7484]


def test_refit_as_printed():
    found = reference_points(load_family("gpt2"), "wikipedia")
    x, y = np.log(found.S), np.log(found.loss)
    slope, intercept = np.polyfit(x, y, 1)
    r2 = 1 - np.sum((y - slope * x - intercept) ** 2) / np.sum((y - y.mean()) ** 2)
    assert round(slope, 3) == -0.056 and round(r2, 3) == 0.983


@pytest.mark.parametrize(
    "family, corpus, k", [("gpt2", "humaneval", 1), ("gpt2", "wikipedia", 10), ("opt", "wikipedia", 1)]
)
def test_nothing_elsewhere(family, corpus, k):
    assert reference_points(family, corpus, k) is None


def test_unknown_table(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("published: {wikipedia: other}\nmodels: [gpt2]\n")
    with pytest.raises(InputError, match="not carried"):
        reference_points(path, "wikipedia")
