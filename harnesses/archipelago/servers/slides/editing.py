"""edit_slides: a list of operations on a deck, applied in order, all or none.

The deck is changed in memory and written once, at the end; an operation that can't be done stops the call with its
index and type, and the file stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from lxml import etree
from pptx.opc.constants import RELATIONSHIP_TYPE as RT

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import operations as ops
from envkit.harnesses.archipelago.servers.slides import placeholders, results, texts
from envkit.harnesses.archipelago.servers.slides.creating import insert_slide
from envkit.harnesses.archipelago.servers.slides.deckfile import DeckFile, all_shapes
from envkit.harnesses.archipelago.servers.slides.filling import place_table
from envkit.harnesses.archipelago.servers.slides.slides import (
    delete_slide,
    duplicate_slide,
    notes_body,
    slide_elements,
)

__all__ = ["edit_slides"]

A = texts.A
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_SCHEMES = ("http", "https", "mailto", "ftp", "ftps", "tel", "file")


def edit_slides(arguments: args.EditSlides, context: Context) -> results.EditSlidesResult:
    """Applies the operations and says what each did."""
    deck = DeckFile(arguments.file_path, context)
    changes: list[str] = []
    for number, operation in enumerate(arguments.operations):
        try:
            changes.append(_APPLY[operation.type](deck, operation))
        except ToolError as error:
            raise ToolError(
                f"operations[{number}] ({operation.type}): {error}. None of the {len(arguments.operations)} operations "
                "was applied; the file is unchanged"
            ) from error
    named = deck.set_metadata(arguments.metadata)
    deck.save()
    count = len(arguments.operations)
    message = f"applied {count} operation" + ("" if count == 1 else "s") + f" to {deck.shown}"
    if named:
        message += f"; set {', '.join(named)} of the file"
    return results.EditSlidesResult(
        file_path=deck.shown,
        operations_applied=count,
        total_slides=len(deck.slides),
        changes=changes,
        message=message,
    )


def _clip(text: str) -> str:
    flat = " / ".join(text.split("\n"))
    return repr(flat if len(flat) <= 60 else flat[:57] + "...")


def _plain(body: Any) -> str:
    return "\n".join("".join(texts.run_texts(p)) for p in texts.paragraphs(body))


# --- text ---


def _title(deck: DeckFile, op: ops.UpdateSlideTitle) -> str:
    body = texts_of(deck, op.index, "title")
    old = _plain(body)
    texts.set_paragraphs(body, [op.title])
    return f"slide {op.index}: title {_clip(old)} is now {_clip(op.title)}"


def _subtitle(deck: DeckFile, op: ops.UpdateSlideSubtitle) -> str:
    body = texts_of(deck, op.index, "subtitle")
    old = _plain(body)
    texts.set_paragraphs(body, [op.subtitle])
    return f"slide {op.index}: subtitle {_clip(old)} is now {_clip(op.subtitle)}"


def texts_of(deck: DeckFile, index: int, where: str) -> Any:
    """The text body of a placeholder of a slide. Raises `ToolError`."""
    return placeholders.text_of(deck.slide(index, "index"), where)


def _set_bullets(deck: DeckFile, op: ops.SetBullets) -> str:
    body = texts_of(deck, op.index, op.placeholder)
    old = sum(bool("".join(texts.run_texts(p)).strip()) for p in texts.paragraphs(body))
    texts.set_paragraphs(body, op.items, levels=True)
    return f"slide {op.index}: {op.placeholder} has {len(op.items)} points in place of {old}"


def _append_bullets(deck: DeckFile, op: ops.AppendBullets) -> str:
    texts.append_paragraphs(texts_of(deck, op.index, op.placeholder), op.items)
    return f"slide {op.index}: added {len(op.items)} points to {op.placeholder}"


def _clear(deck: DeckFile, op: ops.ClearPlaceholder) -> str:
    body = texts_of(deck, op.index, op.placeholder)
    old = _plain(body)
    texts.clear(body)
    if not old.strip():
        return f"slide {op.index}: {op.placeholder} was empty already"
    return f"slide {op.index}: cleared {op.placeholder}, which said {_clip(old)}"


def _replace(deck: DeckFile, op: ops.ReplaceText) -> str:
    counts = [texts.replace_in(s.element, op.search, op.replace, op.match_case) for s in deck.slides]
    if not sum(counts):
        where = _elsewhere(deck, op)
        hint = f"; it occurs in {where}, which this operation doesn't change" if where else ""
        case = " (upper and lower case must match)" if op.match_case else ""
        raise ToolError(f"{op.search!r} is on no slide{case}{hint}")
    where = _elsewhere(deck, op)
    rest = f"; it also occurs in {where}, which is unchanged" if where else ""
    on = ", ".join(str(i) for i, count in enumerate(counts) if count)
    return f"replaced {_clip(op.search)} by {_clip(op.replace)} {sum(counts)} times, on slides {on}{rest}"


def _elsewhere(deck: DeckFile, op: ops.ReplaceText) -> str:
    """Where a text is that replace_text leaves alone."""
    pattern = re.compile(re.escape(op.search), 0 if op.match_case else re.IGNORECASE)
    found: list[str] = []
    for index, slide in enumerate(deck.slides):
        for relation in slide.part.rels.values():
            kind = relation.reltype.rsplit("/", 1)[-1]
            name = {"notesSlide": "notes", "chart": "a chart", "diagramData": "a diagram"}.get(kind)
            if name is None or relation.is_external:
                continue
            try:
                root = etree.fromstring(relation.target_part.blob)
            except etree.XMLSyntaxError:
                continue
            lines = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in root.iter(f"{A}p"))
            if any(pattern.search(line) for line in lines):
                found.append(f"{name} of slide {index}" if name == "notes" else f"{name} on slide {index}")
    return ", ".join(dict.fromkeys(found[:5]))


def _looks(deck: DeckFile, op: ops.ApplyTextFormatting) -> str:
    body = texts_of(deck, op.index, op.placeholder)
    if not _plain(body).strip():
        raise ToolError(f"the {op.placeholder} of slide {op.index} holds no text to format")
    what = texts.format_runs(
        body,
        paragraph_index=op.paragraph_index,
        run_index=op.run_index,
        bold=op.bold,
        italic=op.italic,
        underline=op.underline,
        size=op.font_size,
        colour=op.font_color,
        font=op.font_name,
        align=op.alignment,
    )
    return f"slide {op.index}: formatted {what} of {op.placeholder}"


def _hyperlink(deck: DeckFile, op: ops.AddHyperlink) -> str:
    url = op.url.strip()
    parts = urlsplit(url)
    if (
        parts.scheme.lower() not in _SCHEMES
        or not (parts.netloc or parts.path)
        or url != texts.clean(url)
        or " " in url
    ):
        raise ToolError(f"url must be a whole address such as https://example.com or mailto:a@b.com, found {op.url!r}")
    slide = deck.slide(op.index, "index")
    body = placeholders.text_of(slide, op.placeholder)
    paragraph = texts.chosen(body, op.paragraph_index or 0)[0]
    if op.paragraph_index is None:
        paragraph = next((p for p in texts.paragraphs(body) if "".join(texts.run_texts(p)).strip()), paragraph)
    runs = list(paragraph.iterfind(f"{A}r"))
    number = op.run_index or 0
    if number >= len(runs):
        said = "; ".join(f"{i}: {text[:40]!r}" for i, text in enumerate(texts.run_texts(paragraph)))
        raise ToolError(f"there is no run {number} to link; the paragraph's runs are {said or 'none (it is empty)'}")
    relation = slide.part.relate_to(url, RT.HYPERLINK, is_external=True)
    link = etree.Element(f"{A}hlinkClick", nsmap={"r": _R[1:-1]})
    link.set(f"{_R}id", relation)
    texts.put_in_run(texts.run_properties(runs[number]), link, ("hlinkClick",))
    return f"slide {op.index}: {_clip(texts.run_texts(paragraph)[number])} in {op.placeholder} leads to {url}"


def _notes(deck: DeckFile, op: ops.SetNotes) -> str:
    slide = deck.slide(op.index, "index")
    if not op.notes and not slide.has_notes_slide:
        return f"slide {op.index}: it had no notes"
    body = notes_body(slide)
    old = _plain(body)
    texts.set_paragraphs(body, op.notes.split("\n"))
    return f"slide {op.index}: notes set" + (f" in place of {_clip(old)}" if old.strip() else "")


# --- tables ---


def _append_table(deck: DeckFile, op: ops.AppendTable) -> str:
    slide = deck.slide(op.index, "index")
    said = place_table(slide, op.placeholder, op.rows, op.header)
    return "; ".join([f"slide {op.index}: added a table of {len(op.rows)} x {len(op.rows[0])} cells", *said])


def _cell(deck: DeckFile, index: int, table_idx: int, row: int, column: int) -> Any:
    """The element of a table's cell. Raises `ToolError`."""
    tables = [t for e in all_shapes(deck.slide(index, "index")) for t in e.iter(f"{A}tbl")]
    if table_idx >= len(tables):
        raise ToolError(f"slide {index} has no table {table_idx}; it has {len(tables)} (counted from 0)")
    rows = [list(r.iterfind(f"{A}tc")) for r in tables[table_idx].iterfind(f"{A}tr")]
    if row >= len(rows) or column >= len(rows[row]):
        width = max((len(r) for r in rows), default=0)
        raise ToolError(
            f"table {table_idx} has no cell in row {row}, column {column}: it has {len(rows)} rows and {width} columns "
            "(counted from 0)"
        )
    cell = rows[row][column]
    if cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true"):
        raise ToolError(f"the cell in row {row}, column {column} is covered by a merged cell above or left of it")
    return cell


def _table_cell(deck: DeckFile, op: ops.UpdateTableCell) -> str:
    body = _body(_cell(deck, op.index, op.table_idx, op.row, op.column))
    old = _plain(body)
    texts.set_paragraphs(body, op.text.split("\n"))
    place = f"table {op.table_idx} row {op.row} column {op.column}"
    return f"slide {op.index}: {place} was {_clip(old)} and is now {_clip(op.text)}"


def _body(cell: Any) -> Any:
    return cell.get_or_add_txBody()


def _format_cell(deck: DeckFile, op: ops.FormatTableCell) -> str:
    cell = _cell(deck, op.index, op.table_idx, op.row, op.column)
    texts.format_runs(
        _body(cell), bold=op.bold, italic=op.italic, underline=op.underline, size=op.font_size, colour=op.font_color
    )
    if op.bg_color is not None:
        properties = cell.get_or_add_tcPr()
        fills = ("noFill", "solidFill", "gradFill", "blipFill", "pattFill", "grpFill")
        for old in [e for e in properties if e.tag in {f"{A}{name}" for name in fills}]:
            properties.remove(old)
        fill = etree.Element(f"{A}solidFill")
        etree.SubElement(fill, f"{A}srgbClr", val=op.bg_color)
        borders = {f"{A}{name}" for name in ("lnL", "lnR", "lnT", "lnB", "lnTlToBr", "lnBlToTr", "cell3D")}
        properties.insert(sum(e.tag in borders for e in properties), fill)
    return f"slide {op.index}: formatted table {op.table_idx} row {op.row} column {op.column}"


# --- slides ---


def _add(deck: DeckFile, op: ops.AddSlideOperation) -> str:
    said = insert_slide(deck, op.index, op.layout, op.title, op.subtitle, op.bullets, "index")
    return "; ".join([f"put a {op.layout} slide in at index {op.index}", *said])


def _delete(deck: DeckFile, op: ops.DeleteSlide) -> str:
    slide = deck.slide(op.index, "index")
    title = slide.shapes.title
    named = f" ({_clip(title.text_frame.text)})" if title is not None and title.text_frame.text.strip() else ""
    delete_slide(deck.presentation, op.index)
    return f"deleted slide {op.index}{named}; {len(slide_elements(deck.presentation))} slides are left"


def _duplicate(deck: DeckFile, op: ops.DuplicateSlide) -> str:
    deck.slide(op.index, "index")
    at = op.index + 1 if op.position == "after" else len(slide_elements(deck.presentation))
    duplicate_slide(deck.presentation, op.index, at)
    return f"copied slide {op.index} to index {at}"


_APPLY: dict[str, Callable[[DeckFile, Any], str]] = cast(
    "dict[str, Callable[[DeckFile, Any], str]]",
    {
        "update_slide_title": _title,
        "update_slide_subtitle": _subtitle,
        "set_bullets": _set_bullets,
        "append_bullets": _append_bullets,
        "clear_placeholder": _clear,
        "replace_text": _replace,
        "append_table": _append_table,
        "update_table_cell": _table_cell,
        "format_table_cell": _format_cell,
        "apply_text_formatting": _looks,
        "add_hyperlink": _hyperlink,
        "set_notes": _notes,
        "add_slide": _add,
        "delete_slide": _delete,
        "duplicate_slide": _duplicate,
    },
)
