"""The single edits of `workbook_files.py`: each finds something to edit in a part, edits it, and says what to find."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lxml import etree

from diff_edits.edit import Change, Edit, Expected
from diff_edits.zipped import edit_part, part_names, read_part

M = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
TC = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"
#: The order in which the format wants the elements of a sheet that edits add.
_ORDER = [
    "sheetPr",
    "dimension",
    "sheetViews",
    "sheetFormatPr",
    "cols",
    "sheetData",
    "sheetCalcPr",
    "sheetProtection",
    "protectedRanges",
    "scenarios",
    "autoFilter",
    "sortState",
    "dataConsolidate",
    "customSheetViews",
    "mergeCells",
    "phoneticPr",
    "conditionalFormatting",
    "dataValidations",
    "hyperlinks",
    "printOptions",
    "pageMargins",
    "pageSetup",
    "headerFooter",
    "rowBreaks",
    "colBreaks",
    "customProperties",
    "cellWatches",
    "ignoredErrors",
    "smartTags",
    "drawing",
    "legacyDrawing",
    "legacyDrawingHF",
    "picture",
    "oleObjects",
    "controls",
    "webPublishItems",
    "tableParts",
    "extLst",
]


def part_edit(pattern: str, change: Change) -> Edit:
    """An edit of the first part of such a name that has something to edit."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        for name in sorted(part_names(data)):
            if re.fullmatch(pattern, name):
                kinds: list[str] = []
                out = edit_part(data, name, lambda content, kinds=kinds: _edited(content, change, kinds))  # type: ignore[misc]
                if out is not None and kinds:
                    return out, [(kind, None) for kind in kinds]
        return None

    return edit


def _edited(content: bytes, change: Change, kinds: list[str]) -> bytes:
    root = etree.fromstring(content)
    if root.nsmap.get(root.prefix, "").startswith("http://purl.oclc.org/"):
        return content  # the strict format has other names
    found = change(root)
    if found is None:
        return content
    kinds += [found] if isinstance(found, str) else found
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)


def sheet_edit(change: Change) -> Edit:
    return part_edit(r"xl/worksheets/sheet\d*\.xml", change)


def book_edit(change: Change) -> Edit:
    return part_edit(r"xl/workbook\.xml", change)


def _put(root: Any, name: str, **attributes: str) -> Any:
    """A new element of a sheet, where the format wants it."""
    element = etree.Element(f"{M}{name}", attributes)
    later = {f"{M}{n}" for n in _ORDER[_ORDER.index(name) + 1 :]}
    after = next((i for i, child in enumerate(root) if child.tag in later), len(root))
    root.insert(after, element)
    return element


# --- cells ---


def _cells(root: Any) -> list[Any]:
    """Cells with something in them whose row and column have more, outside of array formulas and tables' heads."""
    filled = [c for c in root.iter(f"{M}c") if c.find(f"{M}v") is not None and c.get("r")]
    if any(f.get("t") in ("array", "dataTable") for f in root.iter(f"{M}f")) or len(filled) > 20_000:
        return []
    if root.find(f"{M}tableParts") is not None:
        return []
    rows: dict[str, int] = {}
    columns: dict[str, int] = {}
    for cell in filled:
        letters, digits = re.fullmatch(r"([A-Z]+)(\d+)", cell.get("r")).groups()  # type: ignore[union-attr]
        rows[digits], columns[letters] = rows.get(digits, 0) + 1, columns.get(letters, 0) + 1
    return [
        cell
        for cell in filled
        if rows[re.sub("[A-Z]", "", cell.get("r"))] > 2 and columns[re.sub("[0-9]", "", cell.get("r"))] > 2
    ]


def _plain(root: Any, kind: str) -> Any:
    return next((c for c in _cells(root) if c.get("t", "n") == kind and c.find(f"{M}f") is None), None)


def number(root: Any) -> str | None:
    cell = _plain(root, "n")
    if cell is None:
        return None
    cell.find(f"{M}v").text = repr(float(cell.find(f"{M}v").text) + 1234.5)
    return "cell.value"


def _inline(cell: Any, words: str) -> None:
    for child in list(cell):
        cell.remove(child)
    cell.set("t", "inlineStr")
    etree.SubElement(etree.SubElement(cell, f"{M}is"), f"{M}t").text = words


def text(root: Any) -> str | None:
    cell = _plain(root, "s")
    if cell is None:
        return None
    _inline(cell, "Zebras live in the zoo")
    return "cell.value"


def number_as_text(root: Any) -> str | None:
    cell = next(
        (c for c in _cells(root) if c.get("t", "n") == "n" and c.find(f"{M}f") is None and c.get("s", "0") == "0"), None
    )
    if cell is None:
        return None
    _inline(cell, f"{float(cell.find(f'{M}v').text):.12g}")
    return "cell.type"


def cleared(root: Any) -> str | None:
    cell = _plain(root, "s")
    if cell is None:
        return None
    cell.remove(cell.find(f"{M}v"))
    del cell.attrib["t"]
    return "cell.value"


def _formulas(root: Any) -> list[Any]:
    return [c for c in _cells(root) if (f := c.find(f"{M}f")) is not None and (f.text or "").strip() and not f.attrib]


def formula(root: Any) -> str | None:
    found = _formulas(root)
    if not found:
        return None
    element = found[0].find(f"{M}f")
    element.text = f'({element.text})&"x"'
    return "cell.formula"


def formula_gone(root: Any) -> str | None:
    found = [c for c in _formulas(root) if c.get("t", "n") == "n"]
    if not found:
        return None
    found[0].remove(found[0].find(f"{M}f"))
    return "cell.formula"


# --- looks ---


def style_edit(table: str, change: Callable[[Any, Any], None], kind: str = "cell.style") -> Edit:
    """Gives the first plain cell of a workbook a look of its own. `change` gets the new `xf` and, where a `table` of
    the styles is named (`font`), a copy there of the entry that the cell had."""

    def edit(data: bytes) -> tuple[bytes, Expected] | None:
        names = [n for n in sorted(part_names(data)) if re.fullmatch(r"xl/worksheets/sheet\d*\.xml", n)]
        if "xl/styles.xml" not in part_names(data):
            return None
        styles = etree.fromstring(read_part(data, "xl/styles.xml"))
        cells = styles.find(f"{M}cellXfs")
        if cells is None:
            return None
        for name in names:
            root = etree.fromstring(read_part(data, name))
            merged = root.find(f"{M}mergeCells") is not None
            cell = next((c for c in _cells(root) if c.get("t") == "s"), None)
            if kind == "cell.format":
                cell = (
                    _plain(root, "n")
                    if _plain(root, "n") is not None and not _dated(styles, _plain(root, "n"))
                    else None
                )
            if cell is None or merged:
                continue
            xf = etree.fromstring(etree.tostring(cells[int(cell.get("s", "0"))]))
            cells.append(xf)
            entry = None
            if table:
                holder = styles.find(f"{M}{table}s")
                entry = etree.fromstring(etree.tostring(holder[int(xf.get(f"{table}Id", "0"))]))
                holder.append(entry)
                xf.set(f"{table}Id", str(len(holder) - 1))
            change(xf, entry)
            cell.set("s", str(len(cells) - 1))
            out = edit_part(data, name, lambda _, root=root: etree.tostring(root, encoding="UTF-8"))  # type: ignore[misc]
            out = edit_part(out or data, "xl/styles.xml", lambda _: etree.tostring(styles, encoding="UTF-8"))
            return (out, [(kind, None)]) if out is not None else None
        return None

    return edit


def _dated(styles: Any, cell: Any) -> bool:
    """Whether a cell's number is shown otherwise than as a plain number."""
    return bool(
        styles.find(f"{M}cellXfs")[int(cell.get("s", "0"))].get("numFmtId", "0") not in ("0", "1", "2", "3", "4")
    )


def bold(_: Any, font: Any) -> None:
    found = font.find(f"{M}b")
    if found is not None:
        font.remove(found)
    else:
        font.insert(0, etree.Element(f"{M}b"))


def fill(_: Any, entry: Any) -> None:
    for child in list(entry):
        entry.remove(child)
    pattern = etree.SubElement(entry, f"{M}patternFill", patternType="solid")
    etree.SubElement(pattern, f"{M}fgColor", rgb="FF12AB56")


def border(_: Any, entry: Any) -> None:
    for old in entry.findall(f"{M}left"):
        entry.remove(old)
    entry.insert(0, etree.Element(f"{M}left", style="double"))


def percent(xf: Any, _: Any) -> None:
    xf.set("numFmtId", "10")


def aligned(**attributes: str) -> Callable[[Any, Any], None]:
    def change(xf: Any, _: Any) -> None:
        alignment = xf.find(f"{M}alignment")
        if alignment is None:
            alignment = etree.Element(f"{M}alignment")
            xf.insert(0, alignment)
        for name, value in attributes.items():
            alignment.set(
                name, value if alignment.get(name) != value else {"top": "center", "45": "30"}.get(value, "right")
            )

    return change


# --- sheets ---


def row_hidden(root: Any) -> str | None:
    cells = _cells(root)
    row = cells[0].getparent() if cells else None
    if row is None or row.get("hidden") in ("1", "true"):
        return None
    row.set("hidden", "1")
    return "row.hidden"


def column_hidden(root: Any) -> str | None:
    if root.find(f"{M}cols") is not None or not _cells(root):
        return None
    number = sum((ord(x) - 64) * 26**i for i, x in enumerate(reversed(re.sub("[0-9]", "", _cells(root)[0].get("r")))))
    columns = _put(root, "cols")
    etree.SubElement(columns, f"{M}col", min=str(number), max=str(number), width="9.14", hidden="1")
    return "column.hidden"


def merged(root: Any) -> str | None:
    if root.find(f"{M}mergeCells") is not None or not _cells(root):
        return None
    etree.SubElement(_put(root, "mergeCells", count="1"), f"{M}mergeCell", ref="AX900:AY901")
    return "merge"


def unmerged(root: Any) -> str | None:
    block = root.find(f"{M}mergeCells")
    if block is None:
        return None
    block.remove(block[0])
    if not len(block):
        root.remove(block)
    return "merge"


def panes(root: Any) -> str | None:
    view = root.find(f"{M}sheetViews/{M}sheetView")
    if view is None or view.find(f"{M}pane") is not None:
        return None
    view.insert(0, etree.Element(f"{M}pane", ySplit="1", topLeftCell="A2", activePane="bottomLeft", state="frozen"))
    return "sheet.freeze"


def landscape(root: Any) -> str | None:
    setup = root.find(f"{M}pageSetup")
    if setup is None:
        setup = _put(root, "pageSetup")
    if setup.get("orientation") == "landscape":
        return None
    setup.set("orientation", "landscape")
    return "sheet.orientation"


def header(root: Any) -> str | None:
    if root.find(f"{M}headerFooter") is not None:
        return None
    etree.SubElement(_put(root, "headerFooter"), f"{M}oddHeader").text = "&CFor the board alone"
    return "sheet.header"


def protected(root: Any) -> str | None:
    if root.find(f"{M}sheetProtection") is not None:
        return None
    _put(root, "sheetProtection", sheet="1")
    return "sheet.protection"


def tab_colour(root: Any) -> str | None:
    properties = root.find(f"{M}sheetPr")
    if properties is None:
        properties = etree.Element(f"{M}sheetPr")
        root.insert(0, properties)
    if properties.find(f"{M}tabColor") is not None:
        return None
    properties.insert(0, etree.Element(f"{M}tabColor", rgb="FFCC1122"))
    return "sheet.tab_color"


def validation(root: Any) -> str | None:
    if root.find(f"{M}dataValidations") is not None:
        return None
    block = _put(root, "dataValidations", count="1")
    rule = etree.SubElement(block, f"{M}dataValidation", type="whole", operator="between", sqref="AX900")
    for name, value in (("formula1", "1"), ("formula2", "9")):
        etree.SubElement(rule, f"{M}{name}").text = value
    return "validation"


def conditional(root: Any) -> str | None:
    block = _put(root, "conditionalFormatting", sqref="AX900:AX910")
    rule = etree.SubElement(block, f"{M}cfRule", type="cellIs", priority="99", operator="greaterThan")
    etree.SubElement(rule, f"{M}formula").text = "4711"
    return "conditional_format"


def conditional_formula(root: Any) -> str | None:
    for rule in root.iterfind(f"{M}conditionalFormatting/{M}cfRule"):
        found = rule.find(f"{M}formula")
        alone = (
            sum((r.findtext(f"{M}formula") == found.text) for r in root.iter(f"{M}cfRule")) if found is not None else 0
        )
        if found is not None and alone == 1 and rule.get("type") in ("cellIs", "expression"):
            found.text = "4711" if rule.get("type") == "cellIs" else f"NOT({found.text})"
            return "conditional_format.rule"
    return None


def link_edit(data: bytes) -> tuple[bytes, Expected] | None:
    """Another target for a link that one cell alone has."""
    for name in sorted(part_names(data)):
        if not re.fullmatch(r"xl/worksheets/_rels/sheet\d*\.xml\.rels", name):
            continue
        sheet = "xl/worksheets/" + name.rpartition("/")[2].removesuffix(".rels")
        uses = re.findall(rb'<hyperlink [^>]*r:id="(\w+)"[^>]*>', read_part(data, sheet))
        areas = dict(re.findall(rb'<hyperlink [^>]*ref="([A-Z0-9:]+)"[^>]*r:id="(\w+)"', read_part(data, sheet)))
        single = {key.decode() for area, key in areas.items() if b":" not in area and uses.count(key) == 1}

        def change(root: Any, single: set[str] = single) -> str | None:
            for element in root:
                if element.get("TargetMode") == "External" and element.get("Id") in single:
                    element.set("Target", "https://example.net/zebra")
                    return "hyperlink"
            return None

        done = part_edit(re.escape(name), change)(data)
        if done is not None:
            return done
    return None


def comment(root: Any) -> str | None:
    found = next(root.iter(f"{M}comment"), None)
    if found is None:
        return None
    texts = list(found.iter(f"{M}t"))
    if not texts:
        return None
    texts[-1].text = "Nobody has checked this, said the zebra"
    return "comment.text"
