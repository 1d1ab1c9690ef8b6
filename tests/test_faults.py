"""The harness of planted faults; tests/test_form.py holds its list to the files."""

import pytest

from tests.faults import ROOT, copy, faults, planted


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout says what is tracked")
def test_a_planted_fault_is_found(tmp_path):
    code, line = planted(copy(tmp_path), faults(names=["interval_of_90_percent"]).popitem()[1])
    assert code == 1 and "FAILED tests/laws/test_bootstrap.py" in line
