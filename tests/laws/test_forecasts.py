"""Forecasts of models left out: intervals hold on planted ladders, straight and bent; trials are counted by hand."""

import numpy as np
import pytest
from planted import bent, broken, straight

from paper.forecasts import by_horizon, held_out_forecasts, published_losses, tried


@pytest.mark.parametrize("law", [straight, bent])
def test_intervals_hold_on_planted_laws_that_a_form_knows(law):
    rng = np.random.default_rng(0)
    ladders = [law(rng) for _ in range(80)]
    for held in (1, 2):
        found = held_out_forecasts(ladders, [held])
        assert len(found) == 80 * held and found["inside"].mean() >= 0.93
        assert np.log(found["high"] / found["low"]).median() < 0.55 * np.ptp(ladders[0].y)  # to lean on, not any


def test_intervals_nearly_hold_where_the_last_steps_break_and_those_of_the_line_do_not():
    rng = np.random.default_rng(0)
    found = held_out_forecasts([broken(rng) for _ in range(80)], [1])
    assert found["inside"].mean() >= 0.9 and found["line_inside"].mean() < 0.75
    missed = found[~found["inside"]]
    assert (missed["measured"] > missed["high"]).all() and (found["error"] < 0).mean() > 0.9


def test_trials_are_counted_by_hand():
    rng = np.random.default_rng(3)
    frame = held_out_forecasts([broken(rng) for _ in range(5)])
    (case,), rows = tried(frame), by_horizon(frame)
    inside = (frame["low"] <= frame["measured"]) & (frame["measured"] <= frame["high"])
    assert case.share == inside.mean() and case.held == f"{inside.sum()} of 15" and case.left_out == len(frame) == 15
    assert case.worst_error == np.abs(frame["forecast"] / frame["measured"] - 1).max()
    assert list(rows["decades beyond"]) == ["0.6 to 1", "1 to 2", "all"] and list(rows["left out"]) == [10, 5, 15]
    assert frame["horizon"].unique() == pytest.approx(np.array([2, 4]) / 3)
    assert rows["inside 95% interval"].iloc[1] == inside[frame["horizon"] > 1].mean()
    far = frame[frame["horizon"] > 1]
    assert case.line_far == f"{far['line_inside'].sum()} of {len(far)}" and len(far) == 5
    assert case.line_low == f"{(far['line_error'] < 0).sum()} of {len(far)}"
    assert tried(frame[:0]) == []


def test_published_ladders_are_as_carried():
    losses = {(loss.family, loss.corpus, loss.name): loss for loss in published_losses()}
    gpt2 = losses["GPT-2", "Wikipedia", "loss"]
    assert gpt2.values == pytest.approx([0.8769, 0.8028, 0.7694, 0.7484]) and gpt2.S[0] == 85_056_000
    one = losses["open_lm rpj, x1", "openlm", "loss"]
    assert len(one.S) == 6 and one.values[0] > one.values[-1] > 1 and len(losses) > 80
    line = np.polyval(np.polyfit(np.log(gpt2.S[:3]), gpt2.y[:3], 1), np.log(gpt2.S[3]))
    (row,) = held_out_forecasts([gpt2]).to_dict("records")  # two left out leave too few
    assert row["line_error"] == pytest.approx(np.expm1(line - gpt2.y[3])) and row["forecast"] == pytest.approx(
        np.exp(line)
    )


def test_a_page_shows_whether_an_interval_held_and_leaves_numbers_alone():
    from paper.show.tables import held_out_table

    frame = held_out_forecasts([straight(np.random.default_rng(8))], [1]).assign(k=1, error=1.0, line_inside=False)
    (row,) = held_out_table(frame).to_dict("records")
    assert (row["k"], row["error"], row["line: inside"]) == (1, 1.0, "no") and row["inside"] in ("yes", "no")
    assert row["interval: low"] < row["forecast"] < row["interval: high"]
