"""The form of the house: arrows point one way, heavy packages load late, and nothing grows without
a word."""

import ast
import io
import re
import tokenize

import pytest
import yaml
from commands import ROOT, python

FLOORS = ("rbplib", "paper", "workflow")  # each imports itself and those before it
BUDGETS = {  # Python tokens outside docstrings and comments; a number only goes down
    "rbplib": 57_355,
    "paper": 38_930,
    "workflow": 8_640,  # with the Snakefile
    "corpora": 1_910,
    "book": 10_760,
    "training": 12_900,
    "benchmarks": 9_215,
    "tests": 100_735,
}
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef)


def python_files(folder):
    return sorted(p for p in (ROOT / folder).rglob("*.py") if "_executed" not in p.parts)


def token_rows(path):
    """The row of each token of a file that is neither docstring nor comment."""
    text = path.read_text()
    documented = set()
    # of a Snakefile, which has none, only the tokens are Python's
    for node in ast.walk(ast.parse(text if path.suffix else "")):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    rows = [token.start[0] for token in tokens if token.type not in SILENT]
    return [row for row in rows if row not in documented]


def names_in(source):
    """Full names of everything that Python text imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import of {node.names[0].name}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_stays_within_its_tokens(folder):
    paths = [*python_files(folder), *(ROOT / folder).glob("Snakefile")]
    count = sum(len(token_rows(path)) for path in paths)
    assert count <= BUDGETS[folder], f"{folder} has {count} tokens: what leaves for what came?"


def test_no_comprehension_stands_inside_another():
    kinds = ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
    for folder in BUDGETS.keys() - {"tests"}:
        for path in python_files(folder):
            nodes = [node for node in ast.walk(ast.parse(path.read_text())) if type(node) in kinds]
            for node in nodes:
                inside = sum(type(other) in kinds for other in ast.walk(node))
                assert inside == 1, f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_one_way(floor):
    above = {"paper", "workflow", "corpora", "training"} - set(FLOORS[: FLOORS.index(floor) + 1])
    above -= {"training", "corpora"} if floor != "rbplib" else set()
    for path in python_files(floor):
        for name in names_in(path.read_text()):
            top = name.split(".")[0]
            assert top not in above, f"{path} imports {name}"


def test_fitting_showing_and_listing_need_no_torch():
    paths = [path.relative_to(ROOT).with_suffix("") for path in python_files("paper")]
    modules = ["sys", "rbplib.cli", "rbplib.table", *(".".join(path.parts) for path in paths)]
    listed = "rbplib.cli.main(['families'])"
    run = python("-c", f"import {', '.join(modules)}\n{listed}\nprint(*sys.modules)")
    assert run.returncode == 0 and "qwen3" in run.stdout, run.stderr
    heavy = {"torch", "transformers", "datasets", "scipy.stats"}
    assert not heavy & set(run.stdout.split())


def test_every_module_of_paper_serves_a_page_or_a_step():
    """Imported, directly or not, by a notebook, the workflow or the book; or the README runs it."""
    from workflow import pages

    modules = set(re.findall(r"python -m (paper[\w.]+)", (ROOT / "README.md").read_text()))
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in modules]
    files += [*(ROOT / "notebooks").glob("*.ipynb"), *python_files("workflow")]
    reached = set().union(*map(pages.follows, [*files, *python_files("book")]))
    unused = {path for path in python_files("paper") if path.name != "__init__.py"} - reached
    assert not unused, f"no page and no step of the workflow imports {sorted(unused)}"


def test_each_planted_fault_stands_once_in_its_file_and_its_tests_are_here():
    listed = yaml.safe_load((ROOT / "tests/faults.yml").read_text())
    assert len({fault["name"] for fault in listed}) == len(listed) >= 60
    for fault in listed:
        count = (ROOT / fault["file"]).read_text().count(fault["old"])
        assert count == 1, f"in tests/faults.yml {fault['name']} is {count} times in its file"
        for test in fault["tests"].split():
            path, _, function = test.partition("::")
            assert f"def {function}" in (ROOT / path).read_text(), f"{fault['name']}: no {test}"
