"""Which models verdicts rest on, and how much of a document they read."""

from types import SimpleNamespace

import pytest

from paper.show import grid_tables
from tests.conftest import ROOT


def table(family, model, columns):
    return SimpleNamespace(record={"family": family, "model": model, "columns_sha256": columns})


def test_repeats_and_grid_are_counted_and_no_model_twice(monkeypatch):
    """The first page once said 30 models where verdicts rest on 71; then it counted six of the ladder's twice."""
    ladder = {("nano-pythia", c): [table("nano-pythia", "1.9k", "a"), table("nano-pythia", "22k", "b")] for c in "xy"}
    again = {"x": [table("nano-pythia-seeds", "1.9k", "a"), table("nano-pythia-seeds", "1.9k-43", "c")]}
    wide = {("nano-pythia-8m", "docs"): [table("nano-pythia-8m", "1.9M", "d")]}
    for corpus in (
        "docs",
        "x",
    ):  # a training of the ladder's, once on a text that the ladder was not measured on
        wide["nano-pythia-4m", corpus] = [table("nano-pythia-4m", "1.9k", "a" if corpus == "x" else "e")]
    monkeypatch.setattr(grid_tables, "repeated", lambda *_: again)
    monkeypatch.setattr(grid_tables, "measured_families", lambda *_: wide)
    parts, records, tokens = zip(*grid_tables.models_behind(ladder), strict=True)
    assert parts == ("ladder", "ladder", "repeat", "grid")
    assert [r["model"] for r in records] == ["1.9k", "22k", "1.9k-43", "1.9M"]
    assert tokens == (4_096_000, 4_096_000, 4_096_000, 8_192_000)


@pytest.mark.parametrize("page", sorted((ROOT / "notebooks").glob("*.md")), ids=lambda p: p.stem)
def test_no_page_says_512_tokens_where_the_models_may_hold_less(page):
    text = page.read_text(encoding="utf-8")
    assert "first 512 tokens" not in text and ("protocol: str" not in text or "less where a model holds less" in text)
