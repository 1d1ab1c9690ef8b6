"""The figure of the README: the law at k = 1 on every family, as page 11 of this run draws it.

`python -m paper.front` takes it out of the executed page.
"""

import json

from rbplib.families import root, write_text

SVG = "image/svg+xml"


def law_figure(path):
    """Write the first figure of the executed page 11 as SVG, and return its path."""
    page = root() / "book" / "_executed" / "all" / "11_families.ipynb"
    if not page.is_file():
        raise SystemExit("rbp: page 11 was not run here: run `make book`.")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    write_text(path, "".join(next(data[SVG] for data in shown if SVG in data)))
    return path


if __name__ == "__main__":
    print(law_figure(root() / "book" / "_static" / "law.svg"))
