"""The figure of the README: the law at k = 1 on every family, as page 11 of this run draws it.

`python -m paper.front` takes it out of the executed page, with its title in words.
"""

import json

from rbplib.families import root, write_text

SVG = "image/svg+xml"


def law_figure(path):
    """Write the first figure of RBP of the executed page 11 as SVG, and return its path."""
    page = root() / "book" / "_executed" / "all" / "11_families.ipynb"
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"] if page.is_file() else []
    # one that is described as such
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        alt = output.get("metadata", {}).get(SVG, {}).get("alt", "")
        if "RBP" in alt:
            head, whole, rest = "".join(output["data"][SVG]).partition("<defs>")
            title = " ".join(alt.partition(". ")[0].split())
            write_text(path, f"{head}<title>{title}</title>{whole}{rest}")
            return path
    raise SystemExit("rbp: no figure of RBP is on page 11 of this run: `make book` makes it.")


if __name__ == "__main__":
    print(law_figure(root() / "book" / "_static" / "law.svg"))
