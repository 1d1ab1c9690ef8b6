"""The form of the house: arrows point one way, heavy packages load late, and nothing grows without a word."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("rbplib", "paper", "workflow")  # each imports itself and those before it
PENDING = {  # imports against the arrows that are still to go; nothing may be added
    ("rbplib/cli.py", "paper"),
    ("rbplib/cli.py", "workflow"),
    ("rbplib/command.py", "paper"),
    ("rbplib/command.py", "workflow"),
    ("rbplib/forecasting.py", "paper"),
    ("rbplib/texts.py", "corpora"),
    ("paper/evidence.py", "corpora"),
    ("paper/show/reference.py", "workflow"),
}
BUDGETS = {  # Python tokens outside docstrings and comments; a number only goes down
    "rbplib": 51_600,
    "paper": 62_000,
    "workflow": 4_700,
    "corpora": 2_000,
    "book": 13_000,
    "training": 16_600,
    "benchmarks": 23_200,
    "tests": 219_000,
}
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef)


def python_files(folder):
    return sorted(p for p in (ROOT / folder).rglob("*.py") if "_executed" not in p.parts)


def token_rows(path):
    """The row of each token of a file that is neither docstring nor comment."""
    text = path.read_text(encoding="utf-8")
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    rows = [token.start[0] for token in tokens if token.type not in SILENT]
    return [row for row in rows if row not in documented]


def imported_names(path):
    """Full names of everything a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_stays_within_its_tokens(folder):
    count = sum(len(token_rows(path)) for path in python_files(folder))
    assert count <= BUDGETS[folder], f"{folder} has {count} tokens: what leaves for what came?"


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_one_way(floor):
    above = {"paper", "workflow", "corpora", "training"} - set(FLOORS[: FLOORS.index(floor) + 1])
    above -= {"training"} if floor != "rbplib" else set()
    for path in python_files(floor):
        place = path.relative_to(ROOT).as_posix()
        for name in imported_names(path):
            top = name.split(".")[0]
            assert top not in above or (place, top) in PENDING, f"{place} imports {name}"


def loaded_after(statement):
    """Names of the modules that a statement loads in a fresh Python."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_importing_the_package_costs_nothing():
    heavy = {"numpy", "torch", "transformers", "pandas", "matplotlib", "pyarrow", "datasets"}
    assert not heavy & loaded_after("import rbplib")


def test_fitting_and_showing_need_no_torch():
    modules = [p.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for p in python_files("paper/show")]
    loaded = loaded_after("import rbplib.law, rbplib.table, " + ", ".join(modules))
    assert not {"torch", "transformers", "datasets"} & loaded
