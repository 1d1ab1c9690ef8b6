"""The page of rbplib's public names, from the docstrings in its source: nothing of it is run."""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import rbplib


def entries():
    """(name, how it is written, docstring) of each public name, and of the methods of classes."""
    for name, module in rbplib._WHERE.items():
        path = Path(rbplib.__file__).with_name(f"{module}.py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        node = next(part for part in tree.body if getattr(part, "name", "") == name)
        yield name, written(node, name), ast.get_docstring(node)
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            words = ast.get_docstring(part) if isinstance(part, ast.FunctionDef) else None
            if words and part.name[0] != "_":
                full = f"{name}.{part.name}"
                yield full, written(part, full), words


def written(node, name):
    """A class with its fields, an attribute by its name, or a function with its arguments."""
    if isinstance(node, ast.ClassDef):
        fields = (part for part in node.body if isinstance(part, ast.AnnAssign))
        return "\n    ".join([f"class {name}", *map(ast.unparse, fields)])
    if any(ast.unparse(mark).endswith("property") for mark in node.decorator_list):
        return name
    return f"{name}({ast.unparse(node.args)})"


class Docstrings(SphinxDirective):
    """A section for each name, in alphabetical order."""

    def run(self):
        sections = []
        for name, code, words in sorted(entries()):
            section = nodes.section("", nodes.title("", name), ids=[nodes.make_id(f"api-{name}")])
            section += nodes.literal_block(code, code, language="python")
            section += nodes.literal_block(words, words, language="text")
            sections.append(section)
        return sections


def setup(app):
    app.add_directive("docstrings", Docstrings)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
