"""The figure of the README: the law at k = 1 on every family, as page 11 of this run draws it.

`python -m paper.front` takes it out of the executed page.
"""

import json

from rbplib.families import root, write_text

SVG = "image/svg+xml"


def law_figure(path):
    """Write the first figure of RBP of the executed page 11 as SVG, and return its path."""
    page = root() / "book" / "_executed" / "all" / "11_families.ipynb"
    if not page.is_file():
        raise SystemExit("rbp: page 11 was not run here: run `make book`.")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    # one that is described as such
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        if "RBP" in output.get("metadata", {}).get(SVG, {}).get("alt", ""):
            write_text(path, "".join(output["data"][SVG]))
            return path
    raise SystemExit("rbp: no figure of RBP is on page 11 of this run.")


if __name__ == "__main__":
    print(law_figure(root() / "book" / "_static" / "law.svg"))
