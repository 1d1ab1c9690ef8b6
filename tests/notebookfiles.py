"""Notebooks written for a test."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_notebook(
    path, *code, parameters="family: str = 'nano-pythia'  # a name\nn: int = 2", heading="# A page"
):
    cells = [
        new_markdown_cell(heading),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
    ]
    nb = new_notebook(cells=cells + [new_code_cell(c) for c in code], metadata=KERNEL)
    nbformat.write(nb, path)
    return path
