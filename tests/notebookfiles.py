"""Notebooks written for a test."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_notebook(path, code, parameters):
    cells = [
        new_markdown_cell("# A page"),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
    ]
    nbformat.write(new_notebook(cells=[*cells, new_code_cell(code)], metadata=KERNEL), path)
