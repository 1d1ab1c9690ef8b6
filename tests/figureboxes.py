"""Texts of a static figure that lie over each other or are cut at its edge.

Figures are matplotlib's SVG with letters as shapes: a text is a group that uses shapes of a font,
and its box is that of its ink.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.transforms import Affine2D

SLACK = 0.6  # points
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
LETTER = re.compile(r"#[A-Za-z]\w*(?:-[A-Z][a-z]+)*-([0-9a-f]+)$")
GLYPHS = {
    glyph: chr(code) for code, glyph in FT2Font(findfont("DejaVu Sans")).get_charmap().items()
}


def transform(text):
    """Of `translate(..) rotate(..) scale(..)`, the last of them applied first."""
    whole = Affine2D()
    for name, inside in reversed(re.findall(r"(\w+)\(([^)]*)\)", text or "")):
        numbers = [float(x) for x in re.split(r"[ ,]+", inside.strip())]
        step = {"translate": whole.translate, "rotate": whole.rotate_deg, "scale": whole.scale}[
            name
        ]
        whole = step(*numbers)
    return whole


def texts(svg):
    """(words of each text, its box (low x, low y, high x, high y), the figure's own box)."""
    root = ElementTree.fromstring(svg)
    x, y, width, height = map(float, root.get("viewBox").split())
    shapes = {f"#{p.get('id')}": p for p in root.iter(f"{SVG}path") if p.get("id")}
    words, boxes = [], []

    def walk(node, moves):
        moves = transform(node.get("transform")) + moves
        letters = [u for u in node if u.tag == f"{SVG}use" and LETTER.match(u.get(LINK))]
        corners = []
        for use in letters:
            # the ink of a letter: the numbers of its path are points x, y
            shape = shapes[use.get(LINK)]
            points = np.array(re.findall(r"-?[\d.]+", shape.get("d") or ""), float).reshape(-1, 2)
            moved = transform(use.get("transform"))
            moved = moved.translate(float(use.get("x", 0)), float(use.get("y", 0)))
            moved = transform(shape.get("transform")) + moved + moves
            corners.extend(moved.transform(points))
        turned = re.search(r"rotate\((?!-?(?:0|90|180|270)\))", node.get("transform", ""))
        if corners and not turned:
            codes = [int(LETTER.match(use.get(LINK))[1], 16) for use in letters]
            words.append("".join(GLYPHS.get(code, "?") for code in codes))
            boxes.append([*np.min(corners, axis=0), *np.max(corners, axis=0)])
        for child in node:
            if child.tag not in (f"{SVG}defs", f"{SVG}clipPath"):
                walk(child, moves)

    walk(root, Affine2D())
    return words, np.array(boxes).reshape(-1, 4), np.array([x, y, x + width, y + height])


def faults(svg):
    """Sentences, none for a clean figure."""
    words, boxes, whole = texts(svg)
    sentences = []
    for i, (text, box) in enumerate(zip(words, boxes, strict=True)):
        if (box[:2] < whole[:2] - SLACK).any() or (box[2:] > whole[2:] + SLACK).any():
            sentences.append(f"{text!r} is cut at the edge of the figure")
        # two boxes overlap where both sides of what they share are positive
        sides = np.minimum(box[2:], boxes[i + 1 :, 2:]) - np.maximum(box[:2], boxes[i + 1 :, :2])
        for j in np.flatnonzero((sides > SLACK).all(axis=1)):
            sentences.append(f"{text!r} and {words[i + 1 + j]!r} overlap")
    return sentences


def figures_of(html):
    """{"PAGE, figure N": SVG text} of a built book."""
    figures = {}
    for page in sorted(p for p in Path(html).rglob("*.html") if "_static" not in p.parts):
        text = page.read_text()
        links = re.findall(r'<img\b[^>]*\bsrc="((?:(?!/still-)[^"])+\.svg)"', text)
        for n, link in enumerate(dict.fromkeys(links), 1):
            name = f"{page.parent.name}/{page.stem}, figure {n}"
            figures[name] = (page.parent / link).read_text()
    return figures
