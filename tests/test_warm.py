"""Forks of a warm process behave as the programs they stand for."""

import json
import os
import subprocess
import sys
from contextlib import closing

import pytest
from warm import Warm

SAID = """import colorsys, json, os, sys
print(json.dumps([sys.argv[1:], os.environ["WORD"], os.getcwd(), "imported" in vars(colorsys)]))
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everything starts in the real way")
def test_a_fork_is_like_the_program_started_anew(tmp_path, tmp_path_factory):
    (tmp_path / "said.py").write_text(SAID)
    (tmp_path / "beforehand.py").write_text("import colorsys\ncolorsys.imported = True\n")
    own = os.environ | {"WORD": "a 'b", "PYTHONPATH": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        started = Warm(tmp_path_factory.mktemp("w"), ("beforehand",), ("said",), ("cold",))
    with closing(started) as warm:
        for given, forked in ((["3", "$x y"], True), (["0"], True), (["4", "cold"], False)):
            command = [warm.python, "-m", "said", *given]
            done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
            assert (done.returncode, json.loads(done.stdout)) == (int(given[0]), [given, "a 'b", str(tmp_path), forked])
        failed = subprocess.run([warm.python, "-m", "said", "x"], cwd=tmp_path, env=own, capture_output=True, text=True)
        assert failed.returncode == 1 and "ValueError: invalid literal" in failed.stderr
    assert warm.process.returncode == 0
