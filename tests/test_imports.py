"""Who may import whom. A helper module belongs to a room and has that room's rights."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rbplib"

ROOMS = {  # room: rooms it may import from
    "settings": set(),
    "tables": {"settings"},
    "bootstrap": set(),
    "ranks": set(),
    "corpora": {"settings", "tables"},
    "windows": {"corpora", "tables", "settings"},
    "measure": {"windows", "ranks", "tables", "corpora", "settings"},
    "curves": {"tables", "settings"},
    "laws": {"tables", "bootstrap", "settings", "curves"},
    "distributions": {"tables", "bootstrap", "settings", "curves"},
    "theory": set(),
    "style": set(),
    "prose": set(),
    "figures": {"style", "curves", "laws", "distributions"},
    "pages": {"settings", "tables", "corpora", "windows", "measure", "curves", "laws", "distributions", "bootstrap"}
    | {"theory", "figures", "style", "prose", "ranks"},
    "book": {"settings", "tables", "pages", "prose"},
    "cli": {"settings", "tables", "corpora", "measure", "curves", "laws", "book"},
}
HELPERS = {  # module: the room it is a part of
    "heads": "ranks",
    "tiles": "ranks",
    "rows": "corpora",
    "templates": "corpora",
    "hub_errors": "corpora",
    "hub": "corpora",
    "embedded": "corpora",
    "loading": "measure",
    "parts": "measure",
    "sharing": "measure",
    "devices": "measure",
    "model_files": "measure",
    "fetch": "corpora",
    "sizes": "measure",
    "plan": "measure",
    "precision": "measure",
    "newfamily": "measure",
    "contest": "distributions",
    "pivots": "distributions",
    "rank_laws": "distributions",
    "figures_theory": "figures",
    "coverage": "laws",
    "entropies": "laws",
    "estimators": "laws",
    "extrapolation": "laws",
    "noise": "laws",
    "pooled": "laws",
    "emergence": "pages",
    "ties": "pages",
    "examples": "pages",
    "fits": "pages",
    "frontpage": "pages",
    "rank_pages": "pages",
    "appendix": "pages",
    "findings": "pages",
    "evidence": "pages",
    "open_questions": "pages",
    "published_fits": "pages",
    "published": "tables",
    "reference": "tables",
    "hypothesis": "theory",
    "flow": "book",
    "__main__": "cli",
}
HEAVY = {
    "torch": {"ranks", "measure"},
    "transformers": {"corpora", "windows", "measure"},
    "datasets": {"corpora", "windows", "measure"},
    "matplotlib": {"style", "figures", "book", "pages"},
    "papermill": {"book"},
}


def room(module):
    return HELPERS.get(module, module)


def imports(path):
    """Full names of everything a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports by a relative name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_import_direction(path):
    own = room(path.stem)
    assert own in ROOMS, f"{path.name} belongs to no room: name its room in {Path(__file__).name}"
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "rbplib" and rest and (PACKAGE / f"{rest[0]}.py").is_file():
            other = room(rest[0])
            assert other == own or other in ROOMS[own], f"{path.name} may not import rbplib.{rest[0]}"
        for package, rooms in HEAVY.items():
            assert top != package or own in rooms, f"{path.name} may not import {package}"


def test_nothing_imports_itself_in_a_circle():
    edges = {p.stem: set() for p in MODULES}
    for p in MODULES:
        tree = ast.parse(p.read_text(encoding="utf-8"))
        for node in tree.body:  # at the top level only: an import inside a function runs later
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rbplib"):
                names = [node.module.split(".")[1]] if "." in node.module else [a.name for a in node.names]
                edges[p.stem] |= {n for n in names if n in edges}

    done, open_ = set(), set()

    def visit(n, path):
        assert n not in open_, " -> ".join([*path, n])
        if n in done:
            return
        open_.add(n)
        for other in edges[n]:
            visit(other, [*path, n])
        open_.discard(n)
        done.add(n)

    for n in edges:
        visit(n, [])


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    return set(found.stdout.split())


def test_importing_the_package_costs_nothing():
    assert not {"numpy", "torch", "transformers", "pandas", "matplotlib", "pyarrow"} & loaded_after("import rbplib")


@pytest.mark.parametrize("module", ["curves", "laws", "distributions", "theory", "figures", "book", "pages", "cli"])
def test_reading_fitting_drawing_and_building_need_no_torch(module):
    assert not {"torch", "transformers", "datasets"} & loaded_after(f"import rbplib.{module}")
