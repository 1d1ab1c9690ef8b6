"""Faults of a static figure: texts over each other, cut at the figure's edge, crossed by what is drawn; what is pale.

Run as `python tests/figureboxes.py HTML_FOLDER`: the faults of every static figure of a built book, by figure.
Figures are matplotlib's SVG with letters as shapes: a text is a group that uses shapes of a font, and its box is that
of its ink. What is drawn of data is clipped to its axes; frames, ticks and legends are not.
"""

import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.path import Path as Curve
from matplotlib.transforms import Affine2D, Bbox

SLACK = 0.6  # points
GRID = "#dddddd"
BANDS = 0.45  # what is fainter is the band of an interval behind what is drawn of it
LEAST = 3  # contrast against white that WCAG 2.2 asks of what a figure draws
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
LETTER = re.compile(r"#[A-Za-z]\w*(?:-[A-Z][a-z]+)*-([0-9a-f]+)$")
GLYPHS = {glyph: chr(code) for code, glyph in FT2Font(findfont("DejaVu Sans")).get_charmap().items()}
CODES = {"M": Curve.MOVETO, "L": Curve.LINETO, "Q": Curve.CURVE3, "C": Curve.CURVE4}


def curve(d):
    """A path's `d` as the library keeps it, absolute; None for an empty one."""
    points, codes = [], []
    for letter, numbers in re.findall(r"([MLQCz])([^MLQCz]*)", d or ""):
        if letter == "z":
            points.append(points[-1])
            codes.append(Curve.CLOSEPOLY)
        else:
            numbers = list(map(float, numbers.split()))
            points += zip(numbers[::2], numbers[1::2], strict=True)
            codes += [CODES[letter]] * (len(numbers) // 2)
    return Curve(points, codes) if points else None


@cache
def ink(d):
    """The corners of the box that a letter fills, (4, 2), or None for a space."""
    if (shape := curve(d)) is None:
        return None
    (x0, y0), (x1, y1) = shape.get_extents().get_points()
    return np.array([[x0, y0], [x0, y1], [x1, y0], [x1, y1]])


def pieces(path):
    """The connected parts of a path."""
    starts = [*np.flatnonzero(path.codes == Curve.MOVETO), len(path.codes)]
    return [Curve(path.vertices[a:b], path.codes[a:b]) for a, b in pairwise(starts)]


@cache
def transform(text):
    """Of `translate(..) rotate(..) scale(..)`, the last of them applied first."""
    found = Affine2D()
    for name, inside in reversed(re.findall(r"(\w+)\(([^)]*)\)", text or "")):
        numbers = [float(x) for x in re.split(r"[ ,]+", inside.strip())]
        if name == "translate":
            found = found.translate(*numbers)
        elif name == "rotate":
            found = found.rotate_deg(numbers[0])
        elif name == "scale":
            found = found.scale(*numbers)
        else:
            raise ValueError(f"a transform that matplotlib did not write: {name}")
    return found


def at_of(use):
    return float(use.get("x", 0)), float(use.get("y", 0))


def box(points):
    """(left, right, one end, the other) of points (n, 2)."""
    return [points[:, 0].min(), points[:, 0].max(), points[:, 1].min(), points[:, 1].max()]


def common(a, b):
    """The box in which boxes lie that both lie in; a side is negative where there is none. Arrays (..., 4)."""
    low, high = np.maximum(a, b), np.minimum(a, b)
    return np.stack([low[..., 0], high[..., 1], low[..., 2], high[..., 3]], axis=-1)


def least_side(a):
    return np.minimum(a[..., 1] - a[..., 0], a[..., 3] - a[..., 2])


class Figure:
    """texts: [(what it says, its box, whether it is turned by other than a right angle)]; drawn: [(curve, box)]."""

    def __init__(self, svg):
        root = ElementTree.fromstring(svg)
        x, y, wide, high = map(float, root.get("viewBox").split())
        self.whole = np.array([x, x + wide, y, y + high])
        self.shapes = {f"#{p.get('id')}": p for p in root.iter(f"{SVG}path") if p.get("id")}
        self.clips = {c.get("id"): self._clip(c[0]) for c in root.iter(f"{SVG}clipPath")}
        self.texts, self.drawn, self.styles = [], [], set()
        self._walk(root, Affine2D(), None)

    @staticmethod
    def _clip(shape):
        if shape.tag == f"{SVG}path":
            return np.array(box(curve(shape.get("d")).vertices))
        x, y, wide, high = (float(shape.get(n)) for n in ("x", "y", "width", "height"))
        return np.array([x, x + wide, y, y + high])

    def _walk(self, node, place, clip):
        place = transform(node.get("transform")) + place
        if node.get("clip-path"):
            clip = self.clips[node.get("clip-path")[5:-1]]
        if clip is not None and node.get("style"):
            self.styles.add(node.get("style"))
        if letters := [u for u in node if u.tag == f"{SVG}use" and LETTER.match(u.get(LINK))]:
            return self._text(node, letters, place)
        if clip is not None and node.tag == f"{SVG}path" and stroked(node):
            self._draw(curve(node.get("d")), place, clip)
        elif clip is not None and node.tag == f"{SVG}use" and node.get(LINK) in self.shapes:
            moved = Affine2D().translate(*at_of(node)) + place
            self._draw(curve(self.shapes[node.get(LINK)].get("d")), moved, clip)
        for child in node:
            if child.tag not in (f"{SVG}defs", f"{SVG}clipPath"):
                self._walk(child, place, clip)

    def _text(self, node, letters, place):
        corners = []
        for use in letters:
            shape = self.shapes[use.get(LINK)]
            if (at := ink(shape.get("d"))) is not None:
                moved = transform(use.get("transform")) + Affine2D().translate(*at_of(use))
                where = transform(shape.get("transform")) + moved + place
                corners.append(where.transform(at))
        said = "".join(GLYPHS.get(int(LETTER.match(u.get(LINK))[1], 16), "?") for u in letters)
        turned = re.search(r"rotate\((?!-?(?:0|90|180|270)\))", node.get("transform", ""))
        if corners:
            self.texts.append((said, box(np.concatenate(corners)), bool(turned)))

    def _draw(self, path, place, clip):
        if path is not None:
            path = path.transformed(place)
            self.drawn.append((path, common(np.array(box(path.vertices)), clip), clip))

    def faults(self):
        """Sentences, none for a clean figure."""
        pale = sorted(its[1] for its in map(seen, self.styles) if its and its[0] < LEAST)
        found = [f"what is drawn in {colour} is too pale on white" for colour in pale]
        drawn = np.array([its for _, its, _ in self.drawn]).reshape(-1, 4)
        for i, (said, place, turned) in enumerate(self.texts):
            inner = np.array(place) + np.array([1, -1, 1, -1]) * SLACK
            if not np.allclose(common(inner, self.whole), inner):
                found.append(f"{said!r} is cut at the edge of the figure")
            if turned:
                continue
            for other, its, also in self.texts[i + 1 :]:
                if not also and least_side(common(np.array(place), np.array(its))) > SLACK:
                    found.append(f"{said!r} and {other!r} overlap")
            near = np.flatnonzero(least_side(common(drawn, inner)) >= 0)
            if n := sum(self._crosses(inner, *self.drawn[j]) for j in near):
                found.append(f"{said!r} is crossed by {n} of what is drawn")
        return found

    @staticmethod
    def _crosses(inner, path, _, clip):
        left, right, low, high = common(inner, clip)
        seen = Bbox([[left, low], [right, high]])
        return any(part.intersects_bbox(seen, filled=False) for part in pieces(path))


def contrast(colour):
    """Of a colour against white, from 1 to 21, as WCAG 2.2 defines it."""
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 1.05 / (np.dot(light, (0.2126, 0.7152, 0.0722)) + 0.05)


@cache
def seen(style):
    """(contrast, colour) of what a style draws, by the darker of edge and face; None for a band, a grid, white."""
    said = dict(re.findall(r"([\w-]+): ([^;]+)", style))
    found = []
    for of in ("stroke", "fill"):
        share = float(said.get("opacity", 1)) * float(said.get(f"{of}-opacity", 1))
        colour = said.get(of, "none")  # or url(..), of a hatch
        if colour.startswith("#") and colour not in (GRID, "#ffffff") and share > BANDS:
            found.append((contrast([1 - share * (1 - c) for c in to_rgb(colour)]), colour))
    return max(found, default=None)


def stroked(path):
    found = re.search(r"stroke: ([^;]+)", path.get("style", ""))
    return bool(found) and found[1] not in ("none", GRID)


def figures_of(html):
    """{"PAGE, figure N": SVG text} of a built book."""
    found = {}
    for page in sorted(p for p in Path(html).rglob("*.html") if "_static" not in p.parts):
        links = re.findall(r'<img\b[^>]*\bsrc="((?:(?!/still-)[^"])+\.svg)"', page.read_text(encoding="utf-8"))
        for n, link in enumerate(dict.fromkeys(links), 1):
            found[f"{page.parent.name}/{page.stem}, figure {n}"] = (page.parent / link).read_text(encoding="utf-8")
    return found


if __name__ == "__main__":
    every = figures_of(sys.argv[1])
    bad = {name: said for name, svg in every.items() if (said := Figure(svg).faults())}
    for name in sorted(bad, key=lambda n: n.split("/")[1]):
        print(name, *bad[name], sep="\n    ")
    print(f"{len(bad)} of {len(every)} figures with faults")
