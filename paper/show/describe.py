"""Figures in words and in numbers, from figures themselves: panel by panel what is drawn."""

import html

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.ticker import FixedLocator

from paper.show.numbers import interval, number
from paper.show.plain import FORMULA

FEW = 8  # values that are all told; of more the two ends


def describe(figure):
    """One text for readers who cannot see a figure, made from what is drawn in it.

    An axis whose heights are names is told row by row with its intervals, any other by each named
    line.
    """
    panels = [figure.get_suptitle()]
    axes_before = set()
    for ax in seen_axes(figure):
        drawn = parts(ax)
        rows = row_values(ax, drawn)
        values = rows or line_values(drawn)
        labels = ["by row" if rows else ax.get_ylabel(), ax.get_xlabel()]
        between = ", " if rows else " against "
        axes = between.join(filter(None, labels))
        # labels of axes that panels share are told once
        head = [ax.get_title(), "" if axes in axes_before else axes]
        axes_before.add(axes)
        said = ", ".join(filter(None, head)), "; ".join(dict.fromkeys(filter(None, values)))
        panels.append(": ".join(filter(None, said)))
    return f"{'. '.join(filter(None, panels))}."


def seen_axes(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


def line_values(drawn):
    """Of each named line or set of points its values;
    of the first without a name where none has."""
    named, unnamed = [], []
    for part, name, points in drawn:
        if part == "points" or (part == "line" and len(points) > 2):
            points = np.asarray(points, float)
            y = points[np.isfinite(points).all(axis=1), 1]
            numbers = list(map(number, y)) or ["none"]
            text = f"from {numbers[0]} to {numbers[-1]}"
            text = ", ".join(numbers) if len(numbers) <= FEW else text
            (named if name else unnamed).append(f"{name}, {text}" if name else text)
    return named or unnamed[:1]


def row_values(ax, drawn):
    """Of an axis whose heights are names: each name, behind that of its group, with the points and
    intervals at its height."""
    if not isinstance(ax.yaxis.get_major_locator(), FixedLocator) or ax.get_yscale() == "log":
        return []
    # axes that share their rows hide the labels of all but one
    heights, rows, group = ax.get_yticks(), [], ""
    groups = {text.get_position()[1]: text.get_text() for text in ax.texts}  # from their first row
    labels = ax.yaxis.get_major_formatter().format_ticks(heights)
    for height, label in zip(heights, labels, strict=True):
        values, group = [], groups.get(height, group)
        for part, name, points in drawn:
            x, y = np.asarray(points, float).T
            here = np.isfinite(x) & (abs(y - height) < 0.5)
            if part == "interval" and name and here.all():
                values.append(f"{name} {interval(x)}")
            elif part in ("points", "bar"):
                values += [f"{name} {number(value)}".strip() for value in x[here]]
        rows.append(" ".join(f"{group} {label} {', '.join(values)}".split()))
    return rows


def drawn_data(figure):
    """What is drawn in a figure as CSV, a row a point: panel, what it is part of, its name, x,
    y."""
    rows = []
    for i, ax in enumerate(seen_axes(figure), 1):
        for part, name, points in parts(ax):
            rows += [(ax.get_title() or i, part, name, *point) for point in points]
    frame = pd.DataFrame(rows, columns=["panel", "part", "name", "x", "y"])
    text = frame.map(lambda cell: html.unescape(cell) if isinstance(cell, str) else cell)
    text = text.replace(FORMULA, "'", regex=True)
    return text.to_csv(index=False, float_format="%.6g") if rows else ""


def parts(ax):
    """[(part, name or "", points (n, 2))] of what stands on the scales of an axis."""
    # points with bars are named together, and the caps of their bars are no points
    names, caps = {}, []
    for container in ax.containers:
        artists = container.get_children()
        if hasattr(container, "has_xerr"):
            artists, caps = container[:1], [*caps, *container[1]]
        names |= dict.fromkeys(artists, container.get_label())

    drawn = []
    for line in ax.get_lines():
        if line.get_transform() == ax.transData and line not in caps:
            part = "points" if line.get_linestyle() == "None" else "line"
            name = names.get(line, line.get_label())
            drawn.append((part, name, line.get_xydata()))
    for bar in ax.patches:
        if hasattr(bar, "get_width") and bar.get_data_transform() == ax.transData:
            right = bar.get_x() + bar.get_width()
            top = bar.get_y() + bar.get_height()
            drawn.append(("bar", names.get(bar, ""), [(right, top)]))
    for collection in ax.collections:
        name = collection.get_label()
        if isinstance(collection, LineCollection):
            segments = collection.get_segments()
            drawn += [("interval", name, ends) for ends in segments if len(ends)]
        elif isinstance(collection, PolyCollection):
            drawn += [("band", name, path.vertices) for path in collection.get_paths()]
        elif isinstance(collection, QuadMesh):
            points = collection.get_coordinates()[:-1, :-1].reshape(-1, 2)
            values = np.ma.getdata(collection.get_array()).ravel().tolist()
            cells = zip(values, points, strict=True)
            drawn += [("map", f"{value:.3g}", [point]) for value, point in cells]
    # matplotlib's own names begin so
    return [(part, "" if name.startswith("_") else name, points) for part, name, points in drawn]
