"""Finding a cell by the labels of its row and column, in any grid of texts. Used for sheets and for tables."""

from __future__ import annotations

from collections.abc import Mapping

from envkit.verifiers.phrases import fold
from envkit.verifiers.values import Alternatives, Place

__all__ = ["find_labels", "locate", "place_text"]

Address = tuple[int, int]


def find_labels(cells: Mapping[Address, str], label: Alternatives) -> list[Address]:
    """The cells whose text is the label (or one of its spellings), in reading order."""
    wanted = {fold(s) for s in ((label,) if isinstance(label, str) else label)}
    return sorted(address for address, text in cells.items() if fold(text) in wanted)


def locate(cells: Mapping[Address, str], place: Place) -> Address | None:
    """The address that the labels of `place` point at, as `values.Place` defines it; None where they don't stand so."""
    rows = find_labels(cells, place.row_label) if place.row_label is not None else None
    columns = find_labels(cells, place.column_label) if place.column_label is not None else None
    if rows is not None and columns is not None:
        for row, label_column in rows:
            above = [(r, c) for r, c in columns if r < row and c > label_column]
            if above:
                nearest = max(r for r, _ in above)
                return row, min(c for r, c in above if r == nearest)
        return None
    if rows is not None:
        for row, label_column in rows:
            right = [c for r, c in cells if r == row and c > label_column and cells[r, c].strip()]
            return row, min(right, default=label_column + 1)
        return None
    for label_row, column in columns or ():
        below = [r for r, c in cells if c == column and r > label_row and cells[r, c].strip()]
        return min(below, default=label_row + 1), column
    return None


def place_text(place: Place) -> str:
    """The labels as a message names them: `'Total' x '2025'`."""
    shown = [
        repr(label if isinstance(label, str) else label[0])
        for label in (place.row_label, place.column_label)
        if label is not None
    ]
    return " x ".join(shown)
