"""What is given away: a source distribution is the whole checkout; a wheel has numbers, ranks and a
command that work from an empty folder."""

import json
import os
import re
import shutil
import subprocess
import zipfile

import pytest
from commands import ROOT, python
from smallmodels import save_model

from tests.test_notebooks import python_of

LINES = """
import rbplib as rbp, sys
heavy = {"numpy", "torch", "transformers", "pandas", "matplotlib", "pyarrow", "datasets"}
assert not heavy & set(sys.modules)
S, hits = [85e6, 302e6, 708e6, 1476e6], [132065, 142215, 147050, 150180]
law = rbp.fit(S=S, hits=hits, totals=317414)
import numpy as np
from rbplib.cli import main
slope, start = np.polyfit(np.log(S), np.log(-np.log(np.array(hits) / 317414)), 1)
assert abs(law.alpha + slope) < 1e-9 and law.r2 > 0.9, (law.alpha, slope)
assert main(["corpora"]) == 0 and main(["book"]) == main(["fit", "nano-pythia"]) == 2
print(rbp.__file__, rbp.load_family("pythia").models[0].id)
{readme}
assert "torch" not in sys.modules
print(*(getattr(rbp, name).__name__ for name in rbp.__all__[:-1]))
"""

TORCH = """
import rbplib as rbp, torch
greater, ties, logprob = rbp.token_ranks(torch.tensor([[1.0, 3.0, 3.0, 0.0]]), torch.tensor([2]))
assert (greater.item(), ties.item()) == (0, 2)
"""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout says what is tracked")
def test_a_source_distribution_is_the_whole_checkout(tmp_path):
    python("setup.py", "-q", "egg_info", "-e", tmp_path)
    sources = (tmp_path / "rbplib.egg-info/SOURCES.txt").read_text().splitlines()
    # git lists no files of a folder that is another user's
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip(f"git does not say what is tracked: {tracked.stderr.strip()}")
    missing = set(tracked.stdout.splitlines()) - {os.path.normpath(name) for name in sources}
    assert not missing, f"MANIFEST.in takes no {sorted(missing)}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder that has the wheel alone, laid out as pip does; the names in it."""
    folder = tmp_path_factory.mktemp("wheel")
    source, site = folder / "source", folder / "site"
    for name in ("rbplib", "families", "corpora", "published", "book", "paper"):
        left_out = shutil.ignore_patterns("__pycache__", "_executed", "*.safetensors")
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('made'))"
    built = python("-c", code, cwd=source)
    assert built.returncode == 0, built.stdout + built.stderr
    with zipfile.ZipFile(source / "made" / built.stdout.split()[-1]) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        wheel.extractall(site)
    return site, names


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_folder(tmp_path, site):
    site, names = site
    # the library, its command, and the YAML of the hub's families and corpora, nothing else
    modules = {f"rbplib/{path.name}" for path in (ROOT / "rbplib").glob("*.py")}
    data = ("rank.cu", "families/gpt2.yml", "families/configs/gpt2.json", "corpora/wikipedia.yml")
    assert modules | {f"rbplib/{name}" for name in data} <= set(names)
    assert all(re.match(r"rbplib/(families/|corpora/|\w+\.(py|cu))", name) for name in names), names
    assert not any(re.search("nano-|docs", name) for name in names), names

    # from an empty folder
    empty = tmp_path

    def run(*arguments):
        return python(*arguments, cwd=empty, PYTHONPATH=str(site))

    # without torch, the first lines of the README too
    first = (ROOT / "README.md").read_text().split("## In Python")[1].split(">>> import pandas")[0]
    code = "\n".join(line[4:] for line in first.splitlines() if line.startswith(">>> "))
    public = run("-c", LINES.replace("{readme}", code))
    assert public.returncode == 0 and public.stderr.count("checkout") == 2, public.stderr
    words = public.stdout.split()
    assert "0.0560" in words and "wikipedia" in words
    assert f"{site / 'rbplib/__init__.py'} EleutherAI/pythia-14m\n" in public.stdout
    assert {"measure", "RankTable", "Loss", "forecast", "InputError"} <= set(words)
    assert {path.name for path in empty.iterdir()} <= {"results"}


BOOK = re.compile(r"(from|import) paper|\bbook\.")  # of the lines that a copied cell goes without


def code_of_cells(name, **parameters):
    """The cells of Python of a notebook up to its first figure, as one text with these parameters,
    without the two lines that name the book, if any."""
    parts, left_out = [], []
    for cell in python_of(ROOT / f"notebooks/{name}.ipynb"):
        if "book.show(" in cell.source:  # what is drawn above
            break
        for line in cell.source.splitlines():
            (left_out if BOOK.search(line) else parts).append(line)
        if "parameters" in cell.metadata.get("tags", []):
            parts += [f"{key} = {value!r}" for key, value in parameters.items()]
    assert len(left_out) in (0, 2)
    return "\n".join([*parts, "print([law.alpha for law in laws.values()], rbp.__file__)"])


@pytest.mark.slow
def test_a_copied_page_and_the_template_need_the_wheel_alone(tmp_path, site):
    """On a family of three models by its path, whose ranks they measure."""
    for scale in (1, 2, 4):
        save_model(tmp_path / f"m{scale}", scale=scale)
    (tmp_path / "mine.yml").write_text("title: Mine\nmodels: [m1, m2, m4]\n")
    # a model whose input and output tables are one says a token again, the wider the surer
    lines = []
    for i in range(30):
        letters = [chr(97 + i * j * 7 % 26) * (2 + j % 3) for j in range(i % 5, 14)]
        lines.append(json.dumps({"text": "".join(letters)}))
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    empty = tmp_path / "empty"
    empty.mkdir()
    given = {"family": "../mine.yml", "corpora": ["../notes.jsonl"], "n_bootstrap": 100}
    template = code_of_cells("template", other="../mine.yml", **given)
    assert "from paper" not in template and "rbp.backtest" in template
    # each on its own, in one process
    codes = [template, code_of_cells("02_top1_law", **given)]
    code = f"for code in {codes!r}: exec(code, {{}})\n{TORCH}"
    done = python("-c", code, cwd=empty, PYTHONPATH=str(site[0]), MPLBACKEND="Agg")
    assert not done.returncode, done.stderr
    exponents = re.findall(rf"^(\[.*\]) {re.escape(str(site[0]))}", done.stdout, re.M)
    first, second = exponents
    assert first == second and "nan" not in first
