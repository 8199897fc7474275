"""Making a PDF from blocks, with ReportLab: laid out in memory, written whole or not at all."""

from __future__ import annotations

import io
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.pdf.blocks import (
    BulletList,
    Heading,
    Metadata,
    NumberedList,
    PageBreak,
    Paragraph,
    Spacer,
    Table,
)
from envkit.harnesses.archipelago.servers.pdf.declared import CreatePdf
from envkit.harnesses.archipelago.servers.pdf.fonts import Fonts

__all__ = ["create_pdf"]

_MARGIN = 72.0
_SIZE = 11.0
_HEADINGS = {1: 20.0, 2: 16.0, 3: 13.5, 4: 12.0}
_MAX_BLOCKS = 5_000
_MAX_CELLS = 100_000
_MAX_COLUMNS = 60


def create_pdf(arguments: CreatePdf, context: Context) -> str:
    """Creates the file; says how many pages it has and what could not be shown."""
    name = arguments.file_name.strip()
    if "/" in name or not name:
        raise ToolError(f"file_name is a name without slashes, such as report.pdf; found {arguments.file_name!r}. "
                        "The folder goes into directory")  # fmt: skip
    if not name.lower().endswith(".pdf"):
        if "." in name.strip("."):
            raise ToolError(f"file_name must end in .pdf, found {name!r}")
        name += ".pdf"
    folder = context.path(arguments.directory)
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{context.shown(folder)} is a file, not a folder; give a folder as directory")
    path = context.path(f"{context.shown(folder)}/{name}")
    _check(arguments)
    existed = path.exists()
    fonts = Fonts()
    data, pages = _Layout(arguments, fonts).made()
    context.write(path, data)
    done = "Replaced" if existed else "Created"
    size = "letter (8.5 x 11 in)" if arguments.page_size == "letter" else "A4"
    said = [f"{done} {context.shown(path)}: {pages} page{'s' * (pages != 1)} of {size}, "
            f"{len(arguments.content)} block{'s' * (len(arguments.content) != 1)}, {len(data):,} bytes."]  # fmt: skip
    padded = [n for n, b in enumerate(arguments.content) if isinstance(b, Table) and len({len(r) for r in b.rows}) > 1]
    if padded:
        said.append(f"Rows of unequal length were filled with blank cells in content[{padded[0]}]"
                    + (f" and {len(padded) - 1} more." if len(padded) > 1 else "."))  # fmt: skip
    if fonts.missing:
        shown = " ".join(f"{c} (U+{ord(c):04X})" if c.isprintable() else f"U+{ord(c):04X}"
                         for c in list(fonts.missing)[:20])  # fmt: skip
        said.append(f"No font here has these characters, a placeholder stands for each: {shown}.")
    if fonts.borrowed:
        said.append("No font here has its East Asian characters: they are in the file as text and show where a viewer "
                    "has a font for them.")  # fmt: skip
    return " ".join(said)


def _check(arguments: CreatePdf) -> None:
    if len(arguments.content) > _MAX_BLOCKS:
        raise ToolError(f"content has {len(arguments.content)} blocks; at most {_MAX_BLOCKS} go into one PDF")
    cells = 0
    for number, block in enumerate(arguments.content):
        if isinstance(block, Table):
            columns = max(len(row) for row in block.rows)
            cells += columns * len(block.rows)
            if columns == 0:
                raise ToolError(f"content[{number}]: the table's rows are empty; give at least one cell")
            if columns > _MAX_COLUMNS:
                raise ToolError(f"content[{number}]: the table has {columns} columns, at most {_MAX_COLUMNS} fit")
    if cells > _MAX_CELLS:
        raise ToolError(f"the tables have {cells:,} cells; at most {_MAX_CELLS:,} go into one PDF")


class _Layout:
    """Lays the blocks out."""

    def __init__(self, arguments: CreatePdf, fonts: Fonts) -> None:
        from reportlab.lib import pagesizes
        from reportlab.lib.styles import ParagraphStyle

        self.arguments = arguments
        self.fonts = fonts
        self.page = pagesizes.LETTER if arguments.page_size == "letter" else pagesizes.A4
        self.width = self.page[0] - 2 * _MARGIN
        self.style: Any = ParagraphStyle
        self.body = self._style(_SIZE, after=6.0)

    def _style(self, size: float, *, bold: bool = False, italic: bool = False, after: float = 0.0, before: float = 0.0,
               **more: Any) -> Any:  # fmt: skip
        return self.style(
            "s", fontName=self.fonts.name(bold, italic), fontSize=size, leading=size * 1.3, spaceAfter=after,
            spaceBefore=before, splitLongWords=1, **more,
        )  # fmt: skip

    def made(self) -> tuple[bytes, int]:
        from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate

        levels = [0]

        given = self.arguments.metadata or Metadata.model_validate({})

        class Template(BaseDocTemplate):  # type: ignore[misc]
            def beforeDocument(self) -> None:
                # Left alone, it claims to be "untitled", by "anonymous".
                self.canv.setTitle(given.title or "")
                self.canv.setSubject(given.subject or "")
                self.canv.setAuthor(given.author or "")

            def afterFlowable(self, flowable: Any) -> None:
                entry = getattr(flowable, "envkit_entry", None)
                if entry is not None:
                    # The outline may not skip a level on its way down.
                    level = min(entry[0] - 1, levels[-1])
                    levels[-1] = level + 1
                    key = f"h{self.canv.getPageNumber()}-{id(flowable)}"
                    self.canv.bookmarkPage(key)
                    self.canv.addOutlineEntry(entry[1], key, level, closed=False)

        out = io.BytesIO()
        document = Template(
            out, pagesize=self.page, leftMargin=_MARGIN, rightMargin=_MARGIN, topMargin=_MARGIN, bottomMargin=_MARGIN,
            creator="envkit", invariant=1,
        )  # fmt: skip
        frame = Frame(_MARGIN, _MARGIN, self.width, self.page[1] - 2 * _MARGIN, 0, 0, 0, 0)
        document.addPageTemplates([PageTemplate("page", [frame], pagesize=self.page)])
        story: list[Any] = []
        for block in self.arguments.content:
            story += self._flowables(block)
        document.build(story or [])
        return out.getvalue(), document.page

    def _flowables(self, block: Any) -> list[Any]:
        from reportlab import platypus

        match block:
            case Paragraph():
                style = self._style(_SIZE, bold=block.bold, italic=block.italic, after=6.0)
                return [platypus.Paragraph(self.fonts.marked(block.text, block.bold, block.italic), style)]
            case Heading():
                size = _HEADINGS[block.level]
                style = self._style(size, bold=True, after=size * 0.4, before=size * 0.7, keepWithNext=1)
                flowable = platypus.Paragraph(self.fonts.marked(block.text, bold=True), style)
                flowable.envkit_entry = (block.level, " ".join(block.text.split()))
                return [flowable]
            case BulletList() | NumberedList():
                return self._list(block)
            case Table():
                return [self._table(block), platypus.Spacer(1, 8)]
            case PageBreak():
                return [platypus.PageBreak()]
            case Spacer():
                return [platypus.Spacer(1, block.height)]
        raise TypeError(type(block))

    def _list(self, block: BulletList | NumberedList) -> list[Any]:
        from reportlab import platypus

        numbered = isinstance(block, NumberedList)
        indent = 18.0 + (max(len(str(len(block.items))) - 1, 0) * 6.0 if numbered else 0.0)
        style = self._style(_SIZE, after=3.0, leftIndent=indent, bulletIndent=4.0,
                            bulletFontName=self.fonts.name(), bulletFontSize=_SIZE)  # fmt: skip
        out = []
        for number, item in enumerate(block.items, 1):
            mark = f"{number}." if numbered else "•"
            out.append(platypus.Paragraph(self.fonts.marked(item), style, bulletText=mark))
        return [*out, platypus.Spacer(1, 3)]

    def _table(self, block: Table) -> Any:
        from reportlab import platypus
        from reportlab.lib import colors

        columns = max(len(row) for row in block.rows)
        size = _SIZE - 1.5 if columns <= 6 else max(4.5, 9.0 - 0.35 * (columns - 6))
        pad = 4.0 if columns <= 10 else 2.0
        rows: list[list[Any]] = []
        for number, row in enumerate(block.rows):
            bold = block.header and number == 0
            style = self._style(size, bold=bold)
            cells = [*row, *[""] * (columns - len(row))]
            rows.append([platypus.Paragraph(self.fonts.marked(c, bold), style) if c else "" for c in cells])
        table = platypus.Table(
            rows, colWidths=self._widths(block, columns, size, pad), repeatRows=1 if block.header else 0,
            splitByRow=1, splitInRow=1, hAlign="LEFT",
        )  # fmt: skip
        commands: list[Any] = [
            ("GRID", (0, 0), (-1, -1), 0.5, colors.Color(0.5, 0.5, 0.5)), ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LEFTPADDING", (0, 0), (-1, -1), pad), ("RIGHTPADDING", (0, 0), (-1, -1), pad),
            ("TOPPADDING", (0, 0), (-1, -1), 2.5), ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
        ]  # fmt: skip
        if block.header:
            commands.append(("BACKGROUND", (0, 0), (-1, 0), colors.Color(0.91, 0.92, 0.94)))
        table.setStyle(platypus.TableStyle(commands))
        return table

    def _widths(self, block: Table, columns: int, size: float, pad: float) -> list[float]:
        """As wide as the contents where all fit; else each its longest word, and the rest by what is missing."""
        from reportlab.pdfbase.pdfmetrics import stringWidth

        font = self.fonts.name(bold=True)
        full, least = [0.0] * columns, [0.0] * columns
        for row in block.rows[:400]:
            for index, text in enumerate(row):
                for line in text.split("\n"):
                    full[index] = max(full[index], stringWidth(line[:400], font, size))
                for word in text.split():
                    least[index] = max(least[index], stringWidth(word[:60], font, size))
        extra = 2 * pad + 1.0
        full, least = [max(f, 8.0) + extra for f in full], [max(w, 8.0) + extra for w in least]
        if sum(full) <= self.width:
            return full
        # A word too long for its share is broken.
        share = max(self.width / columns, 50.0)
        least = [min(w, share) for w in least]
        if sum(least) >= self.width:
            return [self.width * w / sum(least) for w in least]
        spare, wanted = self.width - sum(least), sum(f - w for f, w in zip(full, least, strict=True))
        return [w + spare * (f - w) / wanted for f, w in zip(full, least, strict=True)]
