"""A built book in a browser: it asks for nothing from outside, and all that moves or sorts does."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import browser

AXE = Path(os.environ.get("RBP_AXE") or browser.ROOT / "node_modules/axe-core/axe.min.js")


def without_network():
    """A prefix that takes the network away, where this user may do that."""
    up = 'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"'
    prefix = ["unshare", "-r", "-n", "sh", "-c", up, "_"]
    works = shutil.which("unshare") and not subprocess.run([*prefix, "true"]).returncode
    return prefix if works else []


def opened(prefix, *arguments):
    """What tests/browser.py tells of the pages that it opened, {page: faults or counts}."""
    command = [str(c) for c in (*prefix, sys.executable, browser.__file__, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_a_browser_finds_no_fault(built_html):
    """One page of each kind, as browsers are slow: console, requests, formulas, tables, figures,
    switch of texts."""
    if not all(browser.find()):
        pytest.skip("no Chromium with its driver is installed")
    names = sorted(path.relative_to(built_html).as_posix() for path in built_html.rglob("*.html"))
    kinds = {Path(n).name if "_executed" in n else n: n for n in reversed(names)}
    of_sphinx = re.compile("genindex|search|_static/")
    chosen = [name for kind, name in kinds.items() if not of_sphinx.match(kind)]
    visits = opened(without_network(), built_html, *chosen)
    assert {name: visit["faults"] for name, visit in visits.items() if visit["faults"]} == {}
    # something to look at
    for part in ("math", "figures", "texts", "previews", "drawn later", "unfolded"):
        assert sum(visit[part] for visit in visits.values()) > 1
    if AXE.is_file():  # no part of this project: `npm pack axe-core`, RBP_AXE=.../axe.min.js
        audits = opened([], "--axe", AXE, built_html, *chosen)
        assert {name: faults for name, faults in audits.items() if faults} == {}
