"""Differences of whole workbooks: sheets that came, went, moved or were renamed, names, protection, macros; and, sheet
by sheet, cells and parts."""

from __future__ import annotations

import re
from urllib.parse import unquote

from envkit.office.workbook import Name, Sheet, Workbook
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.show import joined
from envkit.verifiers.diff.wording import excerpts
from envkit.verifiers.diff.workbook.cells import diff_cells, diff_derived, shown_cell
from envkit.verifiers.diff.workbook.pairs import Books, pair_books, sheet_order
from envkit.verifiers.diff.workbook.parts import diff_parts

__all__ = ["diff_workbook"]


def diff_workbook(before: Workbook, after: Workbook) -> list[Finding]:
    """All differences, in the order of sheets; direct edits before what follows from them."""
    books = pair_books(before, after)
    out = [*_sheets(books), *_names(books), *_book(books)]
    formulas = []
    for pair in books.pairs:
        changes = diff_cells(books, pair)
        out += changes.findings
        formulas.append((pair, changes.formulas))
    if any(finding.kind not in _NO_INFLUENCE for finding in out):
        for pair, same in formulas:
            out += diff_derived(books, pair, same)
    for pair in books.pairs:
        out += diff_parts(books, pair)
    return out


#: Kinds that change no value.
_NO_INFLUENCE = frozenset(["sheet.order", "sheet.visibility", "sheet.name", "cell.style", "cell.format"])


def _one(
    where: str, kind: str, change: Change, before: str | None, after: str | None, to: str | None = None
) -> Finding:
    return Finding(where=where, kind=kind, change=change, before=before, after=after, to=to)


def _about(sheet: Sheet) -> str:
    first = joined(shown_cell(sheet.cells[at]) for at in sheet.ordered[:12])
    return f"{len(sheet.cells)} cells: {first}" if sheet.cells else sheet.kind


def _sheets(books: Books) -> list[Finding]:
    out = [_one(s.name, "sheet", Change.REMOVED, _about(s), None) for s in books.removed]
    out += [_one(s.name, "sheet", Change.ADDED, None, _about(s)) for s in books.added]
    for pair in books.pairs:
        a, b = pair.first, pair.second
        if a.name != b.name:
            out.append(pair.finding("sheet.name", "", "", a.name, b.name))
        if a.state != b.state:
            out.append(pair.finding("sheet.visibility", "", "", a.state, b.state))
        if a.kind != b.kind:
            out.append(pair.finding("sheet.kind", "", "", a.kind, b.kind))
    return [*out, *sheet_order(books)]


def _meant(name: Name) -> bool:
    """Whether a name is somebody's, and not a program's note about filters and views."""
    return not name.hidden and ".wvu." not in name.name and not name.name.startswith("_")


def _names(books: Books) -> list[Finding]:
    renamed = {pair.first.name: pair.second.name for pair in books.pairs}

    def key(name: Name, names: dict[str, str]) -> tuple[str, str]:
        return name.name.upper(), names.get(name.sheet or "", name.sheet or "")

    def where(name: Name) -> str:
        return f"{name.sheet}!name {name.name}" if name.sheet else f"name {name.name}"

    ours = {key(n, renamed): n for n in books.first.all_names if _meant(n)}
    theirs = {key(n, {}): n for n in books.second.all_names if _meant(n)}
    out: list[Finding] = []
    for at, name in ours.items():
        other = theirs.get(at)
        if other is None:
            out.append(_one(where(name), "name", Change.REMOVED, name.refers_to, None))
        elif not books.same_formula(name.refers_to, name.sheet or "", other.refers_to, other.sheet or ""):
            to = where(other) if where(other) != where(name) else None
            out.append(_one(where(name), "name", Change.CHANGED, name.refers_to, other.refers_to, to))
    new = [name for at, name in theirs.items() if at not in ours]
    return [*out, *(_one(where(n), "name", Change.ADDED, None, n.refers_to) for n in new)]


def _book(books: Books) -> list[Finding]:
    a, b = books.first, books.second
    out: list[Finding] = []
    if a.structure_locked != b.structure_locked:
        states = ["protected" if book.structure_locked else "not protected" for book in (a, b)]
        out.append(_one("workbook", "workbook.protection", Change.CHANGED, *states))
    out += _macros(a, b)
    links = [{_file(link): link for link in book.links} for book in (a, b)]
    gone, come = ([links[s][k] for k in sorted(links[s].keys() - links[1 - s].keys())] for s in (0, 1))
    out += [_one("workbook", "workbook.link", Change.REMOVED, link, None) for link in gone]
    return [*out, *(_one("workbook", "workbook.link", Change.ADDED, None, link) for link in come)]


def _file(link: str) -> str:
    """A linked file however the way to it is written: from the root, or from where the workbook happens to be."""
    path = unquote(link).removeprefix("file:").replace("\\", "/")
    return re.sub(r"^(?:\.{1,2}/|/)+", "", path)


def _macros(a: Workbook, b: Workbook) -> list[Finding]:
    """Macros module by module where both can be read; what was compiled from them says nothing."""
    if a.macros == b.macros:
        return []
    if a.macro_code is None or b.macro_code is None or bool(a.macros) != bool(b.macros):
        change = Change.ADDED if not a.macros else Change.REMOVED if not b.macros else Change.CHANGED
        return [_one("workbook", "workbook.macros", change, a.macros[:12] or None, b.macros[:12] or None)]
    out: list[Finding] = []
    for name in sorted(a.macro_code.keys() | b.macro_code.keys()):
        left, right = a.macro_code.get(name), b.macro_code.get(name)
        if left != right:
            change = Change.ADDED if left is None else Change.REMOVED if right is None else Change.CHANGED
            shown = excerpts(left or "", right or "")
            before, after = (None if x is None else s for x, s in zip((left, right), shown, strict=True))
            out.append(_one(f"macros {name}", "workbook.macros", change, before, after))
    return out
