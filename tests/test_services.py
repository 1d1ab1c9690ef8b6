"""Files that services of others read: valid, of the lock's versions, and naming only commands that
are there."""

import re

import pytest
import yaml

from rbplib.families import read_yaml
from tests.commands import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, *(ROOT / n for n in (".pre-commit-config.yaml", "CITATION.cff"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_is_a_mapping_without_a_key_twice(path):
    assert read_yaml(path)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_is_here(path):
    jobs = yaml.safe_load(path.read_text())["jobs"]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for job in jobs.values():
        assert job["runs-on"] and set(job.get("needs", "").split()) <= set(jobs)
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + 40 * "0"))
            assert set(re.findall(r"\bmake (\w+)", step.get("run", ""))) <= targets
    text = path.read_text()
    keys = re.findall(r"hashFiles\((.*?)\)", text)
    assert "actions/cache@" in text and "'requirements*.lock'" in keys[0]
    for name in re.findall(r"'(.*?)'", ", ".join(keys)):
        assert any(ROOT.glob(name)), name


def test_the_changelog_is_short_and_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (\d+\.\d+\.\d+) \((?:unreleased|\d{4}-\d\d-\d\d)\)$", text, re.M)
    assert len(heads) == text.count("\n## ") and text.count("\n") < 60
    version = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert (
        f'version = "{heads[0]}"' in (ROOT / "pyproject.toml").read_text() and heads[0] == version
    )
