"""Figures in words and in numbers, from figures themselves: panel by panel what is drawn."""

import html

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh

from paper.show.numbers import interval, number
from paper.show.plain import FORMULA

FEW = 8  # values that are all told; of more the two ends


def describe(figure):
    """One text for readers who cannot see a figure, made from what is drawn in it.

    An axis whose heights are names is told row by row with its intervals, any other by each named line.
    What an artist has to say itself stands in its attribute `told`.
    """
    panels, named_axes = list(filter(None, [figure.get_suptitle()])), set()
    for ax in figure.axes:
        if not ax.get_visible():
            continue
        rows = row_values(ax)
        parts = rows or line_values(ax)
        parts += [artist.told for artist in ax.get_children() if hasattr(artist, "told")]
        axes = " against ".join(filter(None, [ax.get_ylabel(), ax.get_xlabel()]))
        if rows:
            axes = f"by row, {ax.get_xlabel()}"
        # labels of axes that panels share are told once
        head = [ax.get_title()] if axes in named_axes else [ax.get_title(), axes]
        named_axes.add(axes)
        text = "; ".join(dict.fromkeys(filter(None, parts)))
        panels.append(": ".join(filter(None, [", ".join(filter(None, head)), text])))
    return f"{'. '.join(filter(None, panels))}."


def line_values(ax):
    """Of each named line or set of points its values; of the first without a name where none has."""
    named, unnamed = [], []
    lines = [container[0] for container in ax.containers if hasattr(container, "has_xerr")]
    labels = [
        container.get_label() for container in ax.containers if hasattr(container, "has_xerr")
    ]
    lines += [line for line in ax.get_lines() if line not in lines and len(line.get_xdata()) > 2]
    labels += [line.get_label() for line in lines[len(labels) :]]
    for line, label in zip(lines, labels, strict=True):
        points = np.asarray(line.get_xydata(), float)
        text = values(points[np.isfinite(points).all(axis=1), 1])
        if str(label).startswith("_"):
            unnamed.append(text)
        else:
            named.append(f"{label}, {text}")
    return named or unnamed[:1]


def values(y):
    """A few values as they are, of many both ends."""
    numbers = [number(float(value)) for value in y] or ["none"]
    return ", ".join(numbers) if len(numbers) <= FEW else f"from {numbers[0]} to {numbers[-1]}"


def row_values(ax):
    """Of an axis whose heights are names: each name with the points and intervals at its height."""
    fixed = type(ax.yaxis.get_major_locator()).__name__ == "FixedLocator"
    if not fixed or ax.get_yscale() == "log":
        return []
    # points that have one on each row, and bars with what they are over
    heights = ax.get_yticks()
    errors = [container for container in ax.containers if hasattr(container, "has_xerr")]
    caps = [line for container in errors for line in container[1]]
    names = {}
    for container in ax.containers:
        if not container.get_label().startswith("_"):
            names |= dict.fromkeys(container, f"{container.get_label()} ")
    lines = [line for line in ax.get_lines() if line not in caps]
    points = [(names.get(line, ""), line.get_xydata()) for line in lines]
    points = [(name, xy) for name, xy in points if len(xy) == len(heights)]
    bars = []
    for collection in ax.collections:
        if hasattr(collection, "get_segments"):
            segments = [part for part in collection.get_segments() if len(part)]
            bars += [(collection.get_label(), part) for part in segments]
    # axes that share their rows hide the labels of all but one
    rows, labels = [], ax.yaxis.get_major_formatter().format_ticks(heights)
    for height, label in zip(heights, labels, strict=True):
        parts = []
        for name, xy in points:
            parts += [name + number(float(x)) for x, y in xy if abs(y - height) < 0.5]
        for bar in ax.patches:
            if abs(bar.get_y() + bar.get_height() / 2 - height) < 0.5:
                parts.append(names.get(bar, "") + number(float(bar.get_width())))
        for name, part in bars:
            named = not name.startswith("_")
            if named and abs(part[:, 1] - height).max() < 0.5 and np.isfinite(part).all():
                parts.append(f"{name} {interval(part[:, 0])}")
        rows.append(" ".join([*label.split(), ", ".join(parts)]))
    return rows


# ---- the same as numbers


def drawn_data(figure):
    """What is drawn in a figure as CSV, a row a point: panel, what it is part of, its name, x, y."""
    rows = []
    for i, ax in enumerate((ax for ax in figure.axes if ax.get_visible()), 1):
        for part, name, points in parts(ax):
            name = "" if str(name).startswith("_") else name
            rows += [(ax.get_title() or i, part, name, *point) for point in points]
    frame = pd.DataFrame(rows, columns=["panel", "part", "name", "x", "y"])
    text = frame.map(lambda cell: html.unescape(cell) if isinstance(cell, str) else cell)
    text = text.replace(FORMULA, "'", regex=True)
    return text.to_csv(index=False, float_format="%.6g") if rows else ""


def parts(ax):
    """[(part, name, points (n, 2))] of what stands on the scales of an axis."""
    labels = {c[0]: c.get_label() for c in ax.containers if hasattr(c, "has_xerr")}
    found = [
        (
            "points" if line.get_linestyle() == "None" else "line",
            labels.get(line, line.get_label()),
            line.get_xydata(),
        )
        for line in ax.get_lines()
        if line.get_transform() == ax.transData
    ]
    for bar in ax.patches:
        if hasattr(bar, "get_width"):
            corner = (bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height())
            found.append(("bar", bar.get_label(), [corner]))
    for collection in ax.collections:
        label = collection.get_label()
        if isinstance(collection, LineCollection):
            found += [("interval", label, segment) for segment in collection.get_segments()]
        elif isinstance(collection, PolyCollection):
            found += [("band", label, path.vertices) for path in collection.get_paths()]
        elif isinstance(collection, QuadMesh):
            points = collection.get_coordinates()[:-1, :-1].reshape(-1, 2)
            for value, point in zip(collection.get_array().ravel(), points, strict=True):
                found.append(("map", f"{value:.3g}", [point]))
    return found
