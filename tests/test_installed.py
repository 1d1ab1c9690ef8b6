"""Installed without a checkout: what the wheel and the sdist hold, and where the command reads and writes."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNBUILT = shutil.ignore_patterns("__pycache__", "_executed", "*.safetensors", "*.egg-info")


def build(kind, source):
    """The archive that setuptools builds of a folder: "wheel" or "sdist"."""
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}('made'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return source / "made" / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder of the wheel's files, as pip lays them."""
    source = tmp_path_factory.mktemp("source")
    for name in ("rbplib", "families", "corpora", "published", "book"):
        shutil.copytree(ROOT / name, source / name, ignore=UNBUILT)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    site = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(build("wheel", source)).extractall(site)
    return site


@pytest.fixture
def python(installed, tmp_path):
    """Run Python with the installed package in an empty folder: (exit code, output, errors)."""

    def run(*arguments):
        own = {k: v for k, v in os.environ.items() if not k.startswith("RBP_")} | {"PYTHONPATH": str(installed)}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return run


def test_the_wheel_carries_families_and_corpora_without_weights(installed):
    held = {p.relative_to(installed).as_posix() for p in installed.rglob("*") if p.is_file()}
    assert not [name for name in held if not name.startswith("rbplib")]
    for what in ("families", "corpora"):
        tracked = {f"rbplib/{what}/{p.name}" for p in (ROOT / what).glob("*.yml") if not p.name.startswith("nano-")}
        assert tracked == {name for name in held if name.startswith(f"rbplib/{what}/") and name.endswith(".yml")}
    assert {f"rbplib/{n}" for n in ("families/configs/pythia.json", "book/claims.yml", "published/lambada.csv")} <= held


def test_what_pages_compare_with_is_read_from_the_wheel(python, installed, tmp_path):
    code = "from paper.show.claims import all_claims; from rbplib.laws import published; "
    code += "print(len(all_claims()) > 5, len(published.read('lambada')) > 9)"
    assert python("-c", code) == (0, "True True\n", "")
    for name in ("families", "corpora"):  # also beside a root of the user's own
        (tmp_path / name).mkdir()
    assert python("-c", code) == (0, "True True\n", "")


def test_the_command_names_what_the_wheel_holds_and_where_it_looks(python, installed, tmp_path):
    code, out, err = python("-m", "rbplib", "families")
    assert (code, err) == (0, "") and "EleutherAI/pythia-70m" in out
    assert (
        f"looked for in {installed}/rbplib/families" in out and "embedded models, nano-..., come with a checkout" in out
    )
    code, _, err = python("-m", "rbplib", "fit", "--family", "nano-pythia", "--corpus", "docs", "--k", "1")
    assert code == 2 and f"in {installed}/rbplib/families" in err and len(err.splitlines()) == 1
    assert "docs" in python("-m", "rbplib", "corpora")[1]
    assert {p.name for p in tmp_path.iterdir()} <= {"results"}


def test_results_and_families_are_written_to_the_current_folder(python, tmp_path):
    code = "from rbplib.families import results_dir, root; print(results_dir(), root(writing=True))"
    assert python("-c", code)[1].split() == [f"{tmp_path}/results", str(tmp_path)]
    for name in ("families", "corpora"):
        (tmp_path / name).mkdir()
    said = python("-m", "rbplib", "families")[1]  # a root of the user's own comes before the package
    assert said.startswith(f"Families are looked for in {tmp_path}/families") and "checkout" not in said


def test_a_family_just_written_is_found(python, tmp_path):
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "zz.yml").write_text("models: [EleutherAI/pythia-14m]\n")
    assert "zz" in python("-c", "from rbplib.families import *; print(load_family('zz'), load_corpus('docs'))")[1]


def test_without_the_packages_of_the_book(python, tmp_path):
    blocked = "nbformat papermill jupytext snakemake nbclient".split()
    code = f"import sys; sys.modules |= dict.fromkeys({blocked}); from rbplib.cli import main; sys.exit(main())"
    (tmp_path / "results" / "ranks").mkdir(parents=True)
    done, out, err = python("-c", code, "check")
    assert (done, err) == (0, "") and "0 tables and 0 pages checked, 0 problems" in out
    done, out, err = python("-c", code, "book")
    assert done == 2 and "this needs nbformat" in err and len(err.splitlines()) == 1


def test_a_book_without_a_checkout_is_one_sentence(python, tmp_path):
    code, out, err = python("-m", "rbplib", "book", "--family", "pythia")
    assert (code, out) == (2, "") and "in a checkout of the repository" in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_source_distribution_is_the_whole_checkout(tmp_path):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    tracked = {name for name in listed.stdout.splitlines() if not name.endswith(".safetensors")}
    for name in tracked:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    with tarfile.open(build("sdist", tmp_path)) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert not tracked - held
    assert {name for name in held - tracked if "egg-info" not in name} == {"PKG-INFO", "setup.cfg"}
