"""Launch buttons appear where CITATION.cff names a repository, lead to notebooks/, and nowhere else."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from notebookfiles import write_notebook

ROOT = Path(__file__).resolve().parents[2]
CONF = """
extensions = ["myst_nb", "rbplaunch"]
html_theme = "sphinx_book_theme"
html_theme_options = {"launch_buttons": {"notebook_interface": "jupyterlab"}}
nb_execution_mode = "off"
root_doc = "index"
"""


@pytest.mark.parametrize("address", ("", "https://github.com/someone/paper/"))
def test_buttons_follow_the_one_place_that_names_the_repository(tmp_path, address):
    page = tmp_path / "book/_executed/demo/02_top1_law.ipynb"
    page.parent.mkdir(parents=True)
    write_notebook(page, "1 + 1")
    (tmp_path / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'book/_ext')!r})\n{CONF}")
    (tmp_path / "index.md").write_text("# A book\n\n```{toctree}\nbook/_executed/demo/02_top1_law\n```\n")
    shutil.copy(ROOT / "CITATION.cff", tmp_path)
    assert "repository-code" not in (ROOT / "CITATION.cff").read_text()
    if address:
        with open(tmp_path / "CITATION.cff", "a") as citation:
            citation.write(f'repository-code: "{address}"\n')
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", tmp_path, tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    html = (tmp_path / "out/book/_executed/demo/02_top1_law.html").read_text()
    places = (
        "https://mybinder.org/v2/gh/someone/paper/main?urlpath=lab/tree/notebooks/02_top1_law.ipynb",
        "https://colab.research.google.com/github/someone/paper/blob/main/notebooks/02_top1_law.ipynb",
    )
    assert [place in html for place in places] == [bool(address)] * 2
    assert ("mybinder" in html) == ("colab" in html.lower()) == bool(address)
    prose = (tmp_path / "out/index.html").read_text()  # nothing on it can be run: at most it tells where the source is
    assert not re.search("mybinder|colab|launch-buttons", prose)
    assert ('title="Source repository"' in prose) == ("github.com/someone/paper" in prose) == bool(address)
