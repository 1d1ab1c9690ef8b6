"""The list of planted faults, tests/faults.yml, names texts and tests that are here."""

import yaml

from tests.faults import ROOT, copy, faults, planted


def test_each_fault_stands_once_in_its_file_and_its_tests_are_here():
    names = [entry["name"] for entry in yaml.safe_load((ROOT / "tests/faults.yml").read_text())]
    assert len(set(names)) == len(names) >= 60
    for name, fault in faults().items():
        text = (ROOT / fault["file"]).read_text()
        assert text.count(fault["old"]) == 1, f"mend {name}"
        for test in fault["tests"].split():
            path, _, function = test.partition("::")
            assert f"def {function}" in (ROOT / path).read_text(), f"{name}: no {test}"


def test_a_planted_fault_is_found(tmp_path):
    code, line = planted(copy(tmp_path), faults(names=["interval_of_90_percent"]).popitem()[1])
    assert code == 1 and "FAILED tests/laws/test_bootstrap.py" in line
