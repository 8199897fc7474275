"""The diff of PDFs: paragraphs and tables in reading order over all pages, and what stands beside the text.

Where a line or a page breaks, ids, dates of saving, fonts and positions are noise; page numbers in headers and footers
are read as what they mean. A page that came or went whole is one finding. Kinds: `page`, `page.size`, `page.scanned`,
`page.pictures`, `paragraph`, `paragraph.text`, `paragraph.order`, `table`, `table.row`, `table.cell`, `annotation`,
`annotation.<field>`, `field`, `field.<field>`, `outline`, `outline.<field>`, `attachment`, `attachment.<kind>`,
`metadata.<name>`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from envkit.office.pdf import Annotation, Attachment, FormField, OutlineItem, Page, Pdf, PdfTable
from envkit.verifiers.diff.align import align
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.nested import nested
from envkit.verifiers.diff.sequences import Items, lone_pairs, one
from envkit.verifiers.diff.wording import alikeness

__all__ = ["diff_pdf"]

_ENDS = (".", "!", "?", ":", ";", "”", '"')


@dataclass(frozen=True, slots=True)
class _Piece:
    """A paragraph of the whole document; `page` and `number` say where it begins."""

    text: str
    page: int
    number: int

    @property
    def place(self) -> str:
        return f"p.{self.page} ¶{self.number}"


def diff_pdf(before: Pdf, after: Pdf) -> list[Finding]:
    """The differences of two PDFs."""
    out = _paragraphs(before, after) + _tables(before, after) + _pages(before, after)
    out = _whole_pages(out, before, after)
    out += Items[FormField](
        "field", lambda _, f: f"field {f.name}", lambda f: (f.name, f.kind),
        {"value": lambda f: f.value}, lambda f: f"{f.name}: {f.value}", similar=False, ordered=False,
    ).diff(before.fields, after.fields)  # fmt: skip
    out += Items[OutlineItem](
        "outline", lambda _, o: f"outline {o.title!r}", lambda o: o.title,
        {"title": lambda o: o.title, "level": lambda o: o.level}, lambda o: o.title, threshold=0.3,
    ).diff(before.outline, after.outline)  # fmt: skip
    old, new = (dict(p.metadata) for p in (before, after))
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            change = Change.ADDED if name not in old else Change.REMOVED if name not in new else Change.CHANGED
            out.append(one(f"metadata.{name.lower()}", change, name, name, old.get(name), new.get(name)))
    return out + _annotations(before, after) + _attachments(before, after)


def _pieces(pdf: Pdf) -> list[_Piece]:
    out: list[_Piece] = []
    total = len(pdf.pages)
    for page in pdf.pages:
        number = 0
        for place, block in enumerate(page.blocks):
            number += 1
            text = " ".join(block.text.split())
            if not 0.08 * page.height < block.box[3] < 0.92 * page.height:
                text = _numbered(text, page.number, total)
            elif place == 0 or (place == 1 and out and out[-1].page == page.number):
                # A paragraph that goes on from the page before.
                last = next((i for i in range(len(out) - 1, -1, -1) if "\0" not in out[i].text), None)
                if last is not None and out[last].page == page.number - 1 and _goes_on(out[last].text, text):
                    out[last] = _Piece(f"{out[last].text} {text}", out[last].page, out[last].number)
                    continue
            out.append(_Piece(text, page.number, number))
    return out


def _goes_on(first: str, second: str) -> bool:
    return not first.endswith(_ENDS) and second[:1].islower() and len(first) > 40


def _numbered(text: str, page: int, total: int) -> str:
    """A header or footer with its page number marked as such, so that a page inserted before changes nothing."""

    def mark(match: re.Match[str]) -> str:
        if int(match[0]) == page:
            return "\0page"
        return "\0pages" if int(match[0]) == total else match[0]

    return re.sub(r"(?<![\d.,])\d{1,5}(?![\d.,]\d|\d)", mark, text)


def _paragraphs(before: Pdf, after: Pdf) -> list[Finding]:
    a, b = _pieces(before), _pieces(after)
    texts = [[p.text for p in side] for side in (a, b)]
    common = Counter(texts[0]) + Counter(texts[1])
    found = align(
        texts[0], texts[1], similarity=lambda i, j: alikeness(texts[0][i], texts[1][j]), threshold=0.4,
        # Headers and footers stand on every page; they move with it.
        movable=lambda text: len(str(text)) > 3 and common[str(text)] == 2,
    )  # fmt: skip
    found = lone_pairs(found)
    out: list[Finding] = []

    def add(kind: str, change: Change, i: int | None, j: int | None) -> None:
        x, y = (None if i is None else a[i]), (None if j is None else b[j])
        old, new = (None if p is None else p.text.replace("\0", "#") for p in (x, y))
        out.append(one(kind, change, x.place if x else None, y.place if y else None, old, new))

    for i, j in found.changed:
        add("paragraph.text", Change.CHANGED, i, j)
    for i, j in found.moved:
        add("paragraph.order", Change.MOVED, i, j)
    for i in found.removed:
        if "\0" not in a[i].text or a[i].page <= len(after.pages):
            add("paragraph", Change.REMOVED, i, None)
    for j in found.added:
        if "\0" not in b[j].text or b[j].page <= len(before.pages):
            add("paragraph", Change.ADDED, None, j)
    return out


def _table_text(table: PdfTable) -> str:
    return " ".join(cell for row in table.rows for cell in row)


def _tables(before: Pdf, after: Pdf) -> list[Finding]:
    sides = [[(p.number, n, t) for p in pdf.pages for n, t in enumerate(p.tables, 1)] for pdf in (before, after)]
    texts = [[_table_text(t) for _, _, t in side] for side in sides]
    found = align(
        [t.rows for *_, t in sides[0]], [t.rows for *_, t in sides[1]],
        similarity=lambda i, j: alikeness(texts[0][i], texts[1][j]), threshold=0.3,
    )  # fmt: skip
    out: list[Finding] = []

    def place(side: int, index: int) -> str:
        page, number, _ = sides[side][index]
        return f"p.{page} table {number}"

    for i, j in found.changed:
        out += _rows(sides[0][i][2], sides[1][j][2], place(0, i), place(1, j))
    out += [
        one("table.order", Change.MOVED, place(0, i), place(1, j), texts[0][i], texts[1][j]) for i, j in found.moved
    ]
    out += [one("table", Change.REMOVED, place(0, i), None, texts[0][i]) for i in found.removed]
    out += [one("table", Change.ADDED, None, place(1, j), None, texts[1][j]) for j in found.added]
    return out


def _rows(a: PdfTable, b: PdfTable, where: str, to: str) -> list[Finding]:
    if len(a.rows[0]) != len(b.rows[0]):
        columns = [list(zip(*t.rows, strict=True)) for t in (a, b)]
        found = align(columns[0], columns[1], similarity=lambda i, j: alikeness(
            " ".join(columns[0][i]), " ".join(columns[1][j])))  # fmt: skip
        kept = found.pairs
        out = [
            one("table.column", Change.REMOVED, f"{where} column {i + 1}", None, columns[0][i]) for i in found.removed
        ]
        out += [
            one("table.column", Change.ADDED, None, f"{to} column {j + 1}", None, columns[1][j]) for j in found.added
        ]
        ours = [tuple(row[i] for i, _ in kept) for row in a.rows]
        theirs = [tuple(row[j] for _, j in kept) for row in b.rows]
    else:
        out, ours, theirs = [], list(a.rows), list(b.rows)

    def likeness(i: int, j: int) -> float:
        same = sum(x == y for x, y in zip(ours[i], theirs[j], strict=True)) / max(len(ours[i]), 1)
        return max(same, alikeness(" ".join(ours[i]), " ".join(theirs[j])))

    rows = align(ours, theirs, similarity=likeness, threshold=0.4)
    for i, j in rows.changed:
        for n, (x, y) in enumerate(zip(ours[i], theirs[j], strict=True), 1):
            if x != y:
                cells = (f"{where} row {i + 1} column {n}", f"{to} row {j + 1} column {n}")
                out.append(one("table.cell", Change.CHANGED, *cells, x, y))
    for i, j in rows.moved:
        out.append(
            one("table.row.order", Change.MOVED, f"{where} row {i + 1}", f"{to} row {j + 1}", ours[i], theirs[j])
        )
    out += [one("table.row", Change.REMOVED, f"{where} row {i + 1}", None, ours[i]) for i in rows.removed]
    out += [one("table.row", Change.ADDED, None, f"{to} row {j + 1}", None, theirs[j]) for j in rows.added]
    return out


def _page_pairs(before: Pdf, after: Pdf) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    texts = [[p.by_blocks for p in pdf.pages] for pdf in (before, after)]
    together = len(texts[0]) == len(texts[1])

    def likeness(i: int, j: int) -> float:
        return max(alikeness(texts[0][i], texts[1][j]), 0.35 if together and i == j else 0.0)

    found = align(texts[0], texts[1], similarity=likeness, threshold=0.3)
    return list(found.pairs), list(found.removed), list(found.added)


def _pages(before: Pdf, after: Pdf) -> list[Finding]:
    pairs, removed, added = _page_pairs(before, after)
    out: list[Finding] = []
    for i, j in pairs:
        a, b = before.pages[i], after.pages[j]
        where, to = f"p.{a.number}", f"p.{b.number}"
        if abs(a.width - b.width) > 1 or abs(a.height - b.height) > 1:
            sizes = [f"{p.width:.0f} x {p.height:.0f} pt" for p in (a, b)]
            out.append(one("page.size", Change.CHANGED, where, to, *sizes))
        if a.scanned != b.scanned:
            out.append(one("page.scanned", Change.CHANGED, where, to, a.scanned, b.scanned))
        if len(a.pictures) != len(b.pictures):
            out.append(one("page.pictures", Change.CHANGED, where, to, len(a.pictures), len(b.pictures)))
    if len(before.pages) != len(after.pages):
        out += [one("page", Change.REMOVED, f"p.{i + 1}", None, _start(before.pages[i])) for i in removed]
        out += [one("page", Change.ADDED, None, f"p.{j + 1}", None, _start(after.pages[j])) for j in added]
    return out


def _start(page: Page) -> str:
    return " ".join(page.by_blocks.split())


def _whole_pages(found: list[Finding], before: Pdf, after: Pdf) -> list[Finding]:
    """Without what is on pages that came or went whole: those are a finding themselves."""
    whole = {f.change: {g.where for g in found if g.kind == "page" and g.change is f.change} for f in found}
    out: list[Finding] = []
    for finding in found:
        page = finding.where.partition(" ")[0]
        if finding.kind.startswith(("paragraph", "table")) and page in whole.get(finding.change, ()):
            continue
        out.append(finding)
    return out


def _annotations(before: Pdf, after: Pdf) -> list[Finding]:
    out: list[Finding] = []
    items = [[(p.number, x) for p in pdf.pages for x in p.annotations] for pdf in (before, after)]

    def text(item: tuple[int, Annotation]) -> str:
        x = item[1]
        return " ".join(filter(None, (x.kind, x.author, x.text, x.target)))

    out += Items[tuple[int, Annotation]](
        "annotation",
        lambda _, item: f"p.{item[0]} {item[1].kind}",
        lambda item: (item[1].kind, item[1].text, item[1].author, item[1].target),
        {
            "kind": lambda item: item[1].kind,
            "text": lambda item: item[1].text,
            "author": lambda item: item[1].author,
            "target": lambda item: item[1].target,
        },
        text,
        threshold=0.3,
        ordered=False,
    ).diff(items[0], items[1])
    return out


def _attachments(before: Pdf, after: Pdf) -> list[Finding]:
    def details(a: Attachment, b: Attachment, where: str, to: str) -> list[Finding]:
        if a.sha256 == b.sha256:
            return []
        if a.data is None or b.data is None:
            return [one("attachment.content", Change.CHANGED, where, to, f"{a.size} bytes", f"{b.size} bytes")]
        found = nested(a.name, a.data, b.data, other=b.name)
        return [f.model_copy(update={"kind": f"attachment.{f.kind}", "where": f"{where} / {f.where}",
                                     "to": f"{to} / {f.to or f.where}" if f.to or where != to else None})
                for f in found]  # fmt: skip

    return Items[Attachment](
        "attachment", lambda _, x: f"attachment {x.name}", lambda x: x.name, {"name": lambda x: x.name},
        lambda x: x.name, similar=False, ordered=False, details=details,
    ).diff(before.attachments, after.attachments)  # fmt: skip
