"""Reading a document for the model: every block in reading order beside its identifier, in pages of 40,000 characters.

The content comes from the model of `envkit.office.document`; identifiers from walking its XML in the same order. A line
shows the text as it is with all tracked changes accepted, which is what edit_content_text compares with; what else a
person would see (tracked changes, links, comments, pictures, text boxes, notes) stands on lines of its own below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, Image, ToolError
from envkit.harnesses.archipelago.servers.docs.declared import Overview, ReadContent, ReadImage
from envkit.harnesses.archipelago.servers.docs.drawn import Drawn, drawn_in, paragraphs_below, pick, pictures
from envkit.harnesses.archipelago.servers.docs.names import W, local
from envkit.harnesses.archipelago.servers.docs.opened import Reading, for_reading
from envkit.harnesses.archipelago.servers.docs.places import (
    blocks_of,
    body_of,
    boxes_of,
    grid_of,
    sections_of,
    side_part,
)
from envkit.harnesses.archipelago.servers.docs.words import groups, marks, text_of
from envkit.office.document import Block, Comment, Paragraph, Run, Table

__all__ = ["Listing", "get_document_overview", "paged", "read_document_content", "read_image"]

#: Characters of one page.
PAGE = 40_000
_MAX_RUNS = 24
_RUN_TEXT = 60
_INDENT = "    "


class Listing:
    """The lines of one document."""

    def __init__(self, reading: Reading) -> None:
        self.model = reading.model
        self.edited = reading.edited
        self.pictures = pictures(self.edited)
        self._notes = self._by_paragraph(self.model.notes)
        self._comments = self._by_paragraph(self.model.remarks)
        self._controls = self._by_paragraph(self.model.controls)
        self._section = 0
        part = self.edited.related(self.edited.main, "styles")
        styles = self.edited.xml(part).findall(f"{W}style") if part is not None else []
        self._style_nodes = {s.get(f"{W}styleId", ""): s for s in styles if s.get(f"{W}type") == "paragraph"}
        defaults = self.edited.xml(part).iterfind(f"{W}docDefaults/{W}rPrDefault/{W}rPr/*") if part is not None else ()
        self._everywhere = {local(mark) for mark in defaults}
        self._default = next((k for k, s in self._style_nodes.items() if s.get(f"{W}default") in ("1", "true")), "")

    @staticmethod
    def _by_paragraph(items: tuple[Any, ...]) -> dict[int, list[tuple[int, Any]]]:
        out: dict[int, list[tuple[int, Any]]] = {}
        for number, item in enumerate(items):
            out.setdefault(item.paragraph, []).append((number, item))
        return out

    def lines(self) -> Iterator[tuple[str, str]]:
        """Lines, each with what heads it on a page that begins with it (a table's first line)."""
        for section, model in enumerate(self.model.sections[: len(sections_of(self.edited))]):
            for side in model.sides:
                _, owner = side_part(self.edited, side.side, section, side.pages)
                if owner != section:
                    continue
                kind = "" if side.pages == "default" else f" ({side.pages} pages)"
                yield "", f"{side.side} of section {section}{kind}:"
                yield from (("", line) for line in self.side(section, side.side, side.pages))
        yield from self._area("body", body_of(self.edited), self.model.blocks, "", main=True)

    def side(self, section: int, side: str, pages: str) -> list[str]:
        """The lines of a header or footer, as section `section` shows it."""
        part, _ = side_part(self.edited, side, section, pages)
        if part is None:
            return []
        label = f"{side}.s.{section}" + ("" if pages == "default" else f".{pages}")
        root = self.edited.xml(part)
        shown = self.model.sections[section].sides if section < len(self.model.sections) else ()
        model = next((s for s in shown if (s.side, s.pages) == (side, pages)), None)
        if model is None:  # empty, or for pages that are not told apart here
            return [f"{_INDENT}[{label}.p.{n}] {text_of(p)}".rstrip() for n, p in enumerate(blocks_of(root))]
        return [line for _, line in self._area(label, root, model.blocks, _INDENT, main=False)]

    def _area(
        self, label: str, node: Any, blocks: tuple[Block, ...], indent: str, main: bool
    ) -> Iterator[tuple[str, str]]:
        paragraphs = tables = 0
        for element, block in zip(blocks_of(node), blocks, strict=True):
            if isinstance(block, Table):
                yield from self._table(f"{label}.tbl.{tables}", element, block, indent, main)
                tables += 1
            else:
                yield from self._paragraph(f"{label}.p.{paragraphs}", element, block, indent, main)
                paragraphs += 1

    # -- paragraphs

    def _styled(self, node: Any) -> set[str]:
        """The marks (`b`, `i`, ...) that a paragraph's style, and those it is based on, give to its text."""
        name = node.find(f"{W}pPr/{W}pStyle")
        key = self._default if name is None else name.get(f"{W}val", "")
        out, seen = set(self._everywhere), set[str]()
        while key in self._style_nodes and key not in seen:
            seen.add(key)
            style = self._style_nodes[key]
            out |= {local(mark) for mark in style.iterfind(f"{W}rPr/*")}
            based = style.find(f"{W}basedOn")
            key = "" if based is None else based.get(f"{W}val", "")
        return out

    def _paragraph(self, label: str, node: Any, block: Paragraph, indent: str, main: bool) -> Iterator[tuple[str, str]]:
        stretches = groups(node)
        styled = self._styled(node)
        looks = [marks(g.runs[0].find(f"{W}rPr"), styled) for g in stretches]
        style = "" if block.style == "Normal" else f" {block.style}"
        same = f" | {looks[0]}" if len(stretches) == 1 and looks[0] else ""
        mark = f"{block.list.label} " if block.list is not None and block.list.label else ""
        text = block.text.replace("\f", "[page break]")
        yield "", f"{indent}[{label}{style}{same}] {mark}{text}".rstrip()
        for line in self._details(label, node, block, stretches, looks, main):
            yield "", indent + _INDENT + line
        for number, (box, inner) in enumerate(zip(boxes_of(node), block.boxes, strict=True)):
            name = f"{label}.box.{number}"
            yield "", f"{indent}{_INDENT}text box {name}:"
            yield from self._area(name, box, inner, indent + 2 * _INDENT, main)
        if block.ends_section and main:
            yield "", f"{indent}{_INDENT}(section {self._section} ends here)"
            self._section += 1

    def _details(
        self, label: str, node: Any, block: Paragraph, stretches: list[Any], looks: list[str], main: bool
    ) -> Iterator[str]:
        yield from _tracked(block)
        if len(stretches) > 1 and len(set(looks)) > 1:
            yield _runs(stretches, looks)
        links = dict.fromkeys((r.link, _joined(block.runs, r.link)) for r in block.runs if r.link)
        for target, text in links:
            if not target.startswith("#_Toc"):
                yield f"link {text!r} -> {target}"
        names = dict.fromkeys(r.field for r in block.runs if r.field and r.field.split()[0].upper() not in _QUIET)
        for name in names:
            yield f"field {{{name}}} shows {''.join(r.text for r in block.runs if r.field == name)!r}"
        yield from self._pictures(node, block)
        for chart in block.charts:
            series = "; ".join(f"{s.name or '(no name)'}: {', '.join(s.values[:24])}" for s in chart.series[:12])
            categories = ", ".join(chart.series[0].categories[:24]) if chart.series else ""
            yield f"chart ({', '.join(chart.kinds)}) {chart.title!r}; categories: {categories}; {series}"
        for diagram in block.diagrams:
            yield f"diagram: {' / '.join(diagram.texts)}"
        for held in block.objects:
            yield f"embedded object: {held.split()[0] if held.split() else 'unknown'}"
        if not main:
            return
        for _, comment in self._comments.get(block.number, ()):
            yield _comment(comment)
        for number, note in self._notes.get(block.number, ()):
            first = sum(n.kind == note.kind for n in self.model.notes[: number + 1])
            yield f"{note.kind}.{first}: {note.text}"
        for _, control in self._controls.get(block.number, ()):
            state = "" if control.checked is None else (" (checked)" if control.checked else " (not checked)")
            title = control.title or control.tag
            yield f"content control {control.kind}{f' {title!r}' if title else ''}: {control.text!r}{state}"

    def _pictures(self, node: Any, block: Paragraph) -> Iterator[str]:
        found = drawn_in(node)
        for index, image in enumerate(block.images):
            drawn = self._drawn(found[index]) if index < len(found) else None
            size = f", {image.width / 72:.2f} x {image.height / 72:.2f} in" if image.width and image.height else ""
            alt = f", alt text {image.alt!r}" if image.alt else ""
            source = f", linked to {image.source}" if image.source else ""
            name = f"image {drawn.index} (annotation @{drawn.annotation})" if drawn is not None else "image"
            yield f"{name}{size}{alt}{source}"

    def _drawn(self, node: Any) -> Drawn | None:
        return next((d for d in self.pictures if d.node is node), None)

    # -- tables

    def _table(self, label: str, node: Any, block: Table, indent: str, main: bool) -> Iterator[tuple[str, str]]:
        rows = grid_of(node)
        width = max((c.column + c.span for _, cells in rows for c in cells), default=0)
        style = f" {block.style}" if block.style else ""
        merged = any(c.span > 1 or c.top is not None for _, cells in rows for c in cells)
        head = f"{indent}[{label}{style}] table, {len(rows)} x {width} (rows x columns; cells {label}.r.R.c.C)"
        if merged:
            head += "; < and ^ belong to the merged cell left of or above them"
        yield "", head
        again = f"{indent}[{label}] (continued)"
        for number, (_, cells) in enumerate(rows):
            texts = [""] * width
            models = {c.column: c for c in block.cells[number]} if number < len(block.cells) else {}
            more: list[tuple[str, str]] = []
            for cell in cells:
                for column in range(cell.column + 1, cell.column + cell.span):
                    texts[column] = "<"
                if cell.top is not None:
                    texts[cell.column] = "^"
                    continue
                held = models.get(cell.column)
                if held is None:
                    continue
                texts[cell.column] = _cell_text(held.blocks)
                name = f"{label}.r.{number}.c.{cell.column}"
                more += self._in_cell(name, cell.node, held.blocks, indent + 2 * _INDENT, main)
            change = block.tracked[number] if number < len(block.tracked) else ()
            told = "".join(f" (row {t.kind}{_by(t.author)})" for t in change)
            yield again, f"{indent}{_INDENT}r.{number} | " + " | ".join(texts) + f" |{told}"
            yield from ((again, line) for _, line in more)

    def _in_cell(
        self, label: str, node: Any, blocks: tuple[Block, ...], indent: str, main: bool
    ) -> Iterator[tuple[str, str]]:
        """What the row's line doesn't tell of a cell: nested tables, pictures, comments, lists, tracked changes."""
        paragraphs = tables = 0
        for element, block in zip(blocks_of(node), blocks, strict=True):
            if isinstance(block, Table):
                yield from self._table(f"{label}.tbl.{tables}", element, block, indent, main)
                tables += 1
                continue
            name = f"{label}.p.{paragraphs}"
            paragraphs += 1
            stretches = groups(element)
            looks = [marks(g.runs[0].find(f"{W}rPr")) for g in stretches]
            for line in self._details(name, element, block, stretches, looks, main):
                yield "", f"{indent}{name}: {line}"
            for number, (box, inner) in enumerate(zip(boxes_of(element), block.boxes, strict=True)):
                yield "", f"{indent}text box {name}.box.{number}:"
                yield from self._area(f"{name}.box.{number}", box, inner, indent + _INDENT, main)


_QUIET = ("TOC", "HYPERLINK", "PAGEREF", "SEQ", "XE")


def _by(author: str) -> str:
    return f" by {author}" if author else ""


def _joined(runs: tuple[Run, ...], link: str) -> str:
    return "".join(r.text for r in runs if r.link == link and r.shown("final"))


def _tracked(block: Paragraph) -> Iterator[str]:
    """A paragraph's tracked changes: its text with marks, and who made them."""
    authors: dict[str, None] = {}
    for run in block.runs:
        for change in run.tracked:
            authors[change.author] = None
    if authors:
        names = ", ".join(a for a in authors if a)
        yield f"tracked changes{' by ' + names if names else ''}: {block.view('marked')}"
    for change in block.mark:
        yield f"tracked: the paragraph's end is {change.kind}{_by(change.author)}"


def _runs(stretches: list[Any], looks: list[str]) -> str:
    out = []
    for number, (group, look) in enumerate(zip(stretches[:_MAX_RUNS], looks, strict=False)):
        text = group.text if len(group.text) <= _RUN_TEXT else f"{group.text[: _RUN_TEXT // 2]}...{group.text[-20:]}"
        out.append(f"r.{number}{f' ({look})' if look else ''} " + (repr(text) if group.leaves else "(drawing)"))
    if len(stretches) > _MAX_RUNS:
        out.append(f"and {len(stretches) - _MAX_RUNS} more")
    return "runs: " + " | ".join(out)


def _comment(comment: Comment) -> str:
    on = f" on {comment.anchor!r}" if comment.anchor else ""
    state = " (resolved)" if comment.resolved else ""
    answer = f" in reply to {comment.reply_to!r}" if comment.reply_to else ""
    return f"comment {comment.id}{_by(comment.author)}{on}{answer}{state}: {comment.text}"


def _cell_text(blocks: tuple[Block, ...]) -> str:
    pieces = []
    for block in blocks:
        if isinstance(block, Table):
            pieces.append("(table)")
        else:
            label = f"{block.list.label} " if block.list is not None and block.list.label and block.text else ""
            pieces.append(label + block.text)
    while pieces and not pieces[-1].strip():
        pieces.pop()
    return " ¶ ".join(pieces).replace("\n", " / ").replace("|", "\\|")


def paged(lines: Iterator[tuple[str, str]]) -> list[str]:
    """Pages of whole lines, some 40,000 characters each; a table that goes on is named again."""
    pages: list[list[str]] = [[]]
    size = 0
    for head, line in lines:
        if size and size + len(line) > PAGE:
            pages.append([head] if head else [])
            size = 0
        pages[-1].append(line)
        size += len(line) + 1
    return ["\n".join(page) for page in pages]


def read_document_content(arguments: ReadContent, context: Context) -> str:
    """One page."""
    reading = for_reading(context, arguments.file_path)
    pages = paged(Listing(reading).lines())
    index = arguments.page_index
    count = f"{len(pages)} page{'s' * (len(pages) != 1)}"
    if not 0 <= index < len(pages):
        last = f"0 to {len(pages) - 1}" if len(pages) > 1 else "0"
        raise ToolError(f"{reading.shown} has {count} of text: page_index is {last}, found {index}")
    head = f"{reading.shown}: page_index {index} of {count} (total_pages={len(pages)}"
    head += f", some {PAGE:,} characters each)"
    if index + 1 < len(pages):
        head += f"; go on with page_index={index + 1}"
    if reading.converted:
        head += f"\nRead by way of docx from a {reading.converted} file: it can be read, not edited."
    return f"{head}\n\n{pages[index] or '(the document is empty)'}"


def get_document_overview(arguments: Overview, context: Context) -> str:
    """Headings with identifiers, tables, pictures, sections, and counts of the rest."""
    reading = for_reading(context, arguments.file_path)
    model, listing = reading.model, Listing(reading)
    pages = len(paged(listing.lines()))
    named = dict(zip((p.number for p in _in_order(model.blocks)), _labels(reading), strict=True))
    out = [f"{reading.shown}: total_pages={pages} (for read_document_content: page_index 0 to {pages - 1})"]
    if reading.converted:
        out[0] += f"; read by way of docx from a {reading.converted} file"
    out += [f"{key}: {value}" for key, value in model.properties]
    words = len(model.body.split())
    changes = f"{len(model.insertions)} insertions, {len(model.deletions)} deletions"
    out.append(
        f"Paragraphs: {len(model.paragraphs)}; words: {words:,}; tables: {len(model.tables)}; images: "
        f"{len(listing.pictures)}; comments: {len(model.remarks)}; tracked changes: {changes}; notes: "
        f"{len(model.notes)}; content controls: {len(model.controls)}; sections: {len(model.sections)}"
    )
    if model.protection:
        out.append(f"Protected: people may only change it as {model.protection!r} allows.")
    out.append(f"\nHeadings ({len(model.headings)}):" if model.headings else "\nNo headings.")
    for heading in model.headings:
        label = f"{heading.list.label} " if heading.list is not None and heading.list.label else ""
        level = heading.level or 0
        name = named.get(heading.number, "")
        out.append(f"{'  ' * max(level, 1)}[{name}] {heading.style}: {label}{' '.join(heading.text.split())}")
    out += _tables(reading)
    out += _sections(reading)
    if listing.pictures:
        out.append("\nImages:")
        out += [f"  image {d.index}: annotation @{d.annotation}" for d in listing.pictures]
    return "\n".join(out)


def _in_order(blocks: tuple[Block, ...]) -> Iterator[Paragraph]:
    for block in blocks:
        if isinstance(block, Table):
            for row in block.cells:
                for cell in row:
                    yield from _in_order(cell.blocks)
        else:
            yield block
            for box in block.boxes:
                yield from _in_order(box)


def _labels(reading: Reading) -> list[str]:
    return [label for label, _ in paragraphs_below(body_of(reading.edited), "body")]


def _tables(reading: Reading) -> list[str]:
    tables = [b for b in reading.model.blocks if isinstance(b, Table)]
    if not tables:
        return []
    out = ["\nTables:"]
    for number, table in enumerate(tables):
        first = " | ".join(" ".join(c.split()) for c in table.rows[0]) if table.rows else ""
        width = len(table.rows[0]) if table.rows else 0
        out.append(f"  [body.tbl.{number}] {len(table.rows)} x {width}: {first[:120]}")
    return out


def _sections(reading: Reading) -> list[str]:
    out = ["\nSections:"]
    for number, section in enumerate(reading.model.sections):
        top, right, bottom, left = (m / 72 for m in section.margins)
        sides = sorted({s.side + ("" if s.pages == "default" else f" ({s.pages})") for s in section.sides})
        out.append(
            f"  {number}: {section.width / 72:.2f} x {section.height / 72:.2f} in, "
            f"{'landscape' if section.landscape else 'portrait'}, margins top {top:.2f}, bottom {bottom:.2f}, left "
            f"{left:.2f}, right {right:.2f} in" + (f", {section.columns} columns" if section.columns > 1 else "")
            + (f", {', '.join(sides)}" if sides else "")
        )  # fmt: skip
    return out


def read_image(arguments: ReadImage, context: Context) -> Image:
    """One picture, as PNG or JPEG no side of which is longer than 2,000 pixels."""
    from envkit.harnesses.archipelago.servers.docs.pictures import shown_image

    reading = for_reading(context, arguments.file_path)
    drawn = pick(pictures(reading.edited), arguments.annotation)
    target = reading.edited.target(drawn.part, drawn.relation)
    if target is None:
        raise ToolError(f"the picture {drawn.annotation} is linked to and not in {reading.shown}")
    return shown_image(reading.edited.data(target), target, drawn.annotation)
