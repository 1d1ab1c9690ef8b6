"""One list of dependencies: pyproject.toml; the lock, the constraints and environment.yml must agree with it."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED_EXTRAS = ("book", "flow", "test")


def pins(name):
    """{package: version} of a file with one `package==version` at the start of a line."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (ROOT / name).read_text(), re.M)
    assert found, f"{name} pins nothing"
    return {canonicalize_name(package): version for package, version in found}


def asked_for():
    """Every requirement that `make` must be able to install from the lock; torch stands apart."""
    lines = PROJECT["dependencies"] + [line for e in LOCKED_EXTRAS for line in PROJECT["optional-dependencies"][e]]
    return [Requirement(line) for line in lines]


def environment():
    return yaml.safe_load((ROOT / "environment.yml").read_text())


def test_the_lock_satisfies_every_requirement():
    locked = pins("requirements.lock")
    for requirement in asked_for():
        if requirement.name == "torch":
            continue
        version = locked.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is in pyproject.toml but not in requirements.lock; run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), str(requirement)


def test_torch_is_pinned_once_and_never_locked():
    torch = next(r for r in asked_for() if r.name == "torch")
    assert [s.operator for s in torch.specifier] == ["=="]
    assert "torch" not in pins("requirements.lock")
    conda_pip = next(d["pip"] for d in environment()["dependencies"] if isinstance(d, dict))
    assert str(torch) in conda_pip


def test_constraints_repeat_the_lock():
    assert pins("constraints.txt") == pins("requirements.lock")


def test_every_locked_file_has_a_hash_and_no_host():
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text and "/opt/" not in text


def test_conda_brings_only_python_and_pip():
    dependencies = environment()["dependencies"]
    conda = [d for d in dependencies if isinstance(d, str)]
    assert {d.split("=")[0] for d in conda} == {"python", "pip"}
    python = next(d.split("=")[1] for d in conda if d.startswith("python="))
    assert f"{python}.0" in SpecifierSet(PROJECT["requires-python"])
    conda_pip = next(d["pip"] for d in dependencies if isinstance(d, dict))
    assert f"-e .[{','.join(LOCKED_EXTRAS)}]" in conda_pip


def test_conda_can_parse_its_lines():
    rattler = pytest.importorskip("rattler")
    for line in (d for d in environment()["dependencies"] if isinstance(d, str)):
        rattler.MatchSpec(line)
