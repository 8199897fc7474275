"""What judges of several kinds count and look up: things, headings, cells of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envkit.verifiers.compare import misses_of_cell
from envkit.verifiers.phrases import Miss, fold
from envkit.verifiers.places import locate, place_text
from envkit.verifiers.schema import TableCell
from envkit.verifiers.values import Alternatives

__all__ = ["Rows", "count_misses", "ordered_misses", "table_misses"]


def count_misses(
    count: int, what: str, exact: int | None, least: int | None, most: int | None, where: str | None = None
) -> list[Miss]:
    """What is amiss with a count; `what` names the things counted."""
    if exact is not None and count != exact:
        return [Miss(f"{exact} {what}", str(count), f"{count} {what}, must be {exact}", where)]
    if least is not None and count < least:
        return [Miss(f"at least {least} {what}", str(count), f"{count} {what}, must be at least {least}", where)]
    if most is not None and count > most:
        return [Miss(f"at most {most} {what}", str(count), f"{count} {what}, must be at most {most}", where)]
    return []


Rows = Sequence[Sequence[str]]


def table_misses(cells: Sequence[TableCell], tables: Sequence[Rows], where: str) -> list[Miss]:
    """What is amiss with cells that a check asks for: each is sought in the first table that has its labels."""
    grids = [
        {(r, c): text for r, row in enumerate(rows) for c, text in enumerate(row) if text.strip()} for rows in tables
    ]
    out: list[Miss] = []
    for cell in cells:
        for number, grid in enumerate(grids, start=1):
            address = locate(grid, cell)
            if address is not None:
                place = f"{where} table {number} ({place_text(cell)})"
                out += misses_of_cell(cell, grid.get(address), place, typed=False)
                break
        else:
            label = place_text(cell)
            out.append(Miss(f"a table with {label}", f"{len(grids)} tables", f"{where} has no table with {label}"))
    return out


def _unnumbered(heading: str) -> str:
    return re.sub(r"^(?:\d+(?:\.\d+)*[.)]?|[ivxlc]+\.|[a-z][.)])\s+", "", fold(heading))


def ordered_misses(
    wanted: Sequence[Alternatives], found: Sequence[str], in_order: bool, what: str, where: str
) -> list[Miss]:
    """Which of the wanted headings or titles are not among those found, or not in order."""
    have = [fold(f) for f in found]
    plain = [_unnumbered(f) for f in found]
    places: list[int] = []
    out: list[Miss] = []
    for entry in wanted:
        spellings = [fold(s) for s in ((entry,) if isinstance(entry, str) else entry)]
        at = next((i for i in range(len(have)) if have[i] in spellings or plain[i] in spellings), None)
        if at is None:
            shown = entry if isinstance(entry, str) else entry[0]
            out.append(Miss(f"{what} {shown!r}", "; ".join(found)[:300], f"{where} has no {what} {shown!r}"))
        else:
            places.append(at)
    if in_order and not out and places != sorted(places):
        out.append(Miss(f"{what}s in order", "; ".join(found)[:300], f"the {what}s of {where} stand in another order"))
    return out
