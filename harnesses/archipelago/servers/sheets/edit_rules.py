"""The operations on rules: data validation, conditional formats, filter buttons.

Used by `editing.py`.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.sheets.areas import (
    a1,
    absolute,
    area_of,
    first_cell,
    is_block,
    overlaps,
    sqref,
    subtract,
)
from envkit.harnesses.archipelago.servers.sheets.book import Book, SheetEntry
from envkit.harnesses.archipelago.servers.sheets.formulas import for_file, quoted
from envkit.harnesses.archipelago.servers.sheets.grid import insert, place
from envkit.harnesses.archipelago.servers.sheets.operations import (
    AddConditionalFormatting,
    AddDataValidation,
    SetAutoFilter,
)
from envkit.harnesses.archipelago.servers.sheets.parts import MAIN
from envkit.harnesses.archipelago.servers.sheets.storing import moment_of, serial_of
from envkit.harnesses.archipelago.servers.sheets.styles import argb
from envkit.office.workbook import parse_area
from envkit.office.workbook.sheets import areas_of
from envkit.office.workbook.styles import number as whole
from envkit.office.workbook.values import MAX_COLUMN, MAX_ROW

__all__ = ["add_conditional_formatting", "add_data_validation", "set_auto_filter"]

_TWO = ("between", "notBetween")
#: Excel's limit for choices written into a rule.
MAX_CHOICES = 255
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?$")
_REFERENCE = re.compile(r"(?:'[^']+'!|[\w.]+!)?\$?[A-Za-z]{1,3}\$?[0-9]+(?::\$?[A-Za-z]{1,3}\$?[0-9]+)?$")


def _limit(book: Book, text: str, what: str) -> str:
    """A limit of a rule as the format writes it: a number, an ISO date as its number, or a formula."""
    plain = text.strip()
    if plain.startswith("="):
        return for_file(plain, what)
    moment = moment_of(plain)
    if moment is not None:
        serial = serial_of(moment[0], book.date1904)
        if serial is not None:
            return f"{serial:.15g}" if isinstance(serial, float) else str(serial)
    clock = _TIME.match(plain)
    if clock:
        seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
        return f"{seconds / 86400:.15g}"
    return plain


def add_data_validation(book: Book, op: AddDataValidation) -> str:
    entry = book.find(op.sheet)
    area = area_of(op.range, entry.name)
    root = book.grid(entry).root
    element = etree.Element(f"{MAIN}dataValidation")
    if op.validation_type in ("list", "custom"):
        if not op.formula1:
            what = "the choices, separated by commas, or a range" if op.validation_type == "list" else "the formula"
            raise ToolError(f"a {op.validation_type} validation needs formula1: {what}")
        if op.formula2 or (op.operator and op.operator != "between"):
            raise ToolError(f"a {op.validation_type} validation takes formula1 alone, no operator and no formula2")
        first = _choices(op.formula1) if op.validation_type == "list" else for_file(op.formula1, "formula1")
        second = None
    else:
        operator = op.operator or "between"
        if not op.formula1:
            raise ToolError(
                f"a {op.validation_type} validation needs formula1: the {'lower ' if operator in _TWO else ''}limit"
            )
        if operator in _TWO and not op.formula2:
            raise ToolError(f"{operator} needs formula2, the upper limit, beside formula1")
        if operator not in _TWO and op.formula2:
            raise ToolError(f"{operator} takes formula1 alone; formula2 belongs to between and notBetween")
        first = _limit(book, op.formula1, "formula1")
        second = _limit(book, op.formula2, "formula2") if op.formula2 else None
        for name, text in (("formula1", first), ("formula2", second)):
            if text is not None and op.validation_type in ("whole", "textLength") and re.fullmatch(r"-?\d+\.\d+", text):
                raise ToolError(f"{name} {text} is no whole number, which {op.validation_type} compares with")
        if operator != "between":
            element.set("operator", operator)
    element.set("type", op.validation_type)
    for name, value in (
        ("allowBlank", op.allow_blank), ("showInputMessage", op.show_input_message or bool(op.input_message)),
        ("showErrorMessage", op.show_error_message),
    ):  # fmt: skip
        if value:
            element.set(name, "1")
    for name, text in (
        ("errorTitle", op.error_title), ("error", op.error_message), ("promptTitle", op.input_title),
        ("prompt", op.input_message),
    ):  # fmt: skip
        if text:
            element.set(name, text)
    element.set("sqref", a1(area))
    etree.SubElement(element, f"{MAIN}formula1").text = first
    if second is not None:
        etree.SubElement(element, f"{MAIN}formula2").text = second
    replaced = _without(root, area)
    holder = place(root, "dataValidations")
    holder.append(element)
    holder.set("count", str(len(holder)))
    note = f" in place of the rule on {replaced}" if replaced else ""
    return f"{op.validation_type} validation on {entry.name}!{a1(area)}{note}"


def _choices(text: str) -> str:
    plain = text.strip()
    if plain.startswith("="):
        return for_file(plain, "formula1")
    if _REFERENCE.match(plain):
        return plain
    if plain.startswith('"') and plain.endswith('"') and len(plain) > 1:
        plain = plain[1:-1].replace('""', '"')
    choices = ",".join(item.strip() for item in plain.split(","))
    if len(choices) > MAX_CHOICES:
        raise ToolError(
            f"the choices have {len(choices)} characters together; Excel takes {MAX_CHOICES}. Put them into cells and "
            "give the range, such as =Lists!$A$1:$A$40"
        )
    return '"' + choices.replace('"', '""') + '"'


def _without(root: Any, area: tuple[int, int, int, int]) -> str:
    """Takes an area out of the rules that apply to it: a cell has one rule. Returns what was taken."""
    taken: list[str] = []
    holder = root.find(f"{MAIN}dataValidations")
    for element in list(holder) if holder is not None else ():
        areas = areas_of(element.get("sqref"))
        if not any(overlaps(area, other) for other in areas):
            continue
        left = [piece for other in areas for piece in subtract(other, area)]
        taken += [a1(other) for other in areas if overlaps(area, other)]
        if left:
            element.set("sqref", sqref(left))
        else:
            holder.remove(element)
    return ", ".join(taken[:5])


_TEXT_RULES = {
    "containsText": ("containsText", "NOT(ISERROR(SEARCH({text},{cell})))"),
    "notContainsText": ("notContains", "ISERROR(SEARCH({text},{cell}))"),
    "beginsWith": ("beginsWith", "LEFT({cell},LEN({text}))={text}"),
    "endsWith": ("endsWith", "RIGHT({cell},LEN({text}))={text}"),
}


def add_conditional_formatting(book: Book, op: AddConditionalFormatting) -> str:
    entry = book.find(op.sheet)
    area = area_of(op.range, entry.name)
    grid = book.grid(entry)
    rule = etree.Element(f"{MAIN}cfRule", type=op.rule_type)
    _check_fields(op)
    cell = first_cell((area[0], area[1], area[0], area[1]))
    if op.rule_type == "colorScale":
        _color_scale(rule, op)
    elif op.rule_type == "dataBar":
        bar = etree.SubElement(rule, f"{MAIN}dataBar")
        etree.SubElement(bar, f"{MAIN}cfvo", type="min")
        etree.SubElement(bar, f"{MAIN}cfvo", type="max")
        etree.SubElement(bar, f"{MAIN}color", rgb=argb(op.data_bar_color or op.fill_color or "638EC6"))
    else:
        look = _look(op)
        if look is None:
            raise ToolError(f"a {op.rule_type} rule needs a look: fill_color, font_color, font_bold or font_italic")
        rule.set("dxfId", str(book.styles.conditional(look)))
    for formula in _rule_formulas(book, op, rule, cell):
        etree.SubElement(rule, f"{MAIN}formula").text = formula
    used = [whole(e.get("priority")) for e in grid.root.iter(f"{MAIN}cfRule")]
    rule.set("priority", str(max(used, default=0) + 1))
    block = etree.Element(f"{MAIN}conditionalFormatting", sqref=a1(area))
    block.append(rule)
    insert(grid.root, block)
    return f"{op.rule_type} rule on {entry.name}!{a1(area)}"


#: Field -> the rule types that take it.
_TAKEN_BY = {
    "operator": ("cellIs",), "formula": ("cellIs", "expression"), "formula2": ("cellIs",),
    "color_scale_colors": ("colorScale",), "data_bar_color": ("dataBar",), "rank": ("top10",), "percent": ("top10",),
    "text": tuple(_TEXT_RULES),
}  # fmt: skip


def _check_fields(op: AddConditionalFormatting) -> None:
    for name, kinds in _TAKEN_BY.items():
        if getattr(op, name) is not None and op.rule_type not in kinds:
            if name == "formula" and op.rule_type in _TEXT_RULES:
                continue  # some give the formula that Excel would write itself
            raise ToolError(f"{name} belongs to {', '.join(kinds)} rules, not to {op.rule_type}; leave it out")
    if op.rule_type == "cellIs" and (op.operator is None or op.formula is None):
        raise ToolError("a cellIs rule needs operator and formula, such as operator=greaterThan, formula=100")
    if op.rule_type == "cellIs" and (op.operator in _TWO) != (op.formula2 is not None):
        raise ToolError("between and notBetween need formula and formula2; other operators take formula alone")
    if op.rule_type == "expression" and not op.formula:
        raise ToolError("an expression rule needs formula, written for the first cell of the range, such as =$B2>100")
    if op.rule_type in _TEXT_RULES and not op.text:
        raise ToolError(f"a {op.rule_type} rule needs text")


def _color_scale(rule: Any, op: AddConditionalFormatting) -> None:
    colors = op.color_scale_colors or ["F8696B", "FFEB84", "63BE7B"]
    scale = etree.SubElement(rule, f"{MAIN}colorScale")
    etree.SubElement(scale, f"{MAIN}cfvo", type="min")
    if len(colors) == 3:
        etree.SubElement(scale, f"{MAIN}cfvo", type="percentile", val="50")
    etree.SubElement(scale, f"{MAIN}cfvo", type="max")
    for color in colors:
        etree.SubElement(scale, f"{MAIN}color", rgb=argb(color))


def _look(op: AddConditionalFormatting) -> Any:
    """The look of a rule, None where nothing of it is given."""
    if op.fill_color is None and op.font_color is None and op.font_bold is None and op.font_italic is None:
        return None
    element = etree.Element(f"{MAIN}dxf")
    if op.font_color is not None or op.font_bold is not None or op.font_italic is not None:
        font = etree.SubElement(element, f"{MAIN}font")
        for tag, on in (("b", op.font_bold), ("i", op.font_italic)):
            if on is not None:
                etree.SubElement(font, f"{MAIN}{tag}", **({} if on else {"val": "0"}))
        if op.font_color is not None:
            etree.SubElement(font, f"{MAIN}color", rgb=argb(op.font_color))
    if op.fill_color is not None:
        fill = etree.SubElement(etree.SubElement(element, f"{MAIN}fill"), f"{MAIN}patternFill")
        etree.SubElement(fill, f"{MAIN}bgColor", rgb=argb(op.fill_color))
    return element


def _rule_formulas(book: Book, op: AddConditionalFormatting, rule: Any, cell: str) -> list[str]:
    kind = op.rule_type
    if kind == "cellIs":
        rule.set("operator", op.operator or "equal")
        return [_compared(book, text) for text in (op.formula, op.formula2) if text is not None]
    if kind == "expression":
        return [for_file(op.formula or "", "formula")]
    if kind == "top10":
        rule.set("rank", str(op.rank or 10))
        if op.percent:
            rule.set("percent", "1")
    elif kind in _TEXT_RULES:
        operator, pattern = _TEXT_RULES[kind]
        rule.set("operator", operator)
        rule.set("text", op.text or "")
        text = '"' + (op.text or "").replace('"', '""') + '"'
        return [pattern.format(text=text, cell=cell)]
    elif kind == "containsBlanks":
        return [f"LEN(TRIM({cell}))=0"]
    elif kind == "notContainsBlanks":
        return [f"LEN(TRIM({cell}))>0"]
    return []


def _compared(book: Book, text: str) -> str:
    """What a cell is compared with: a bare word is text, not a name."""
    limit = _limit(book, text, "formula")
    if text.strip().startswith("=") or re.fullmatch(
        r'-?[\d.]+(?:[eE][-+]?\d+)?|"(?:[^"]|"")*"|TRUE|FALSE', limit, re.IGNORECASE
    ):
        return limit
    names = {(e.get("name") or "").casefold() for e in book.name_list()}
    if _REFERENCE.match(limit) or limit.casefold() in names or re.search(r"[(+*/&]", limit):
        return for_file(limit, "formula")
    return '"' + limit.replace('"', '""') + '"'


def set_auto_filter(book: Book, op: SetAutoFilter) -> str:
    entry = book.find(op.sheet)
    grid = book.grid(entry)
    old = grid.root.find(f"{MAIN}autoFilter")
    if op.range is None:
        if old is None:
            return f"{entry.name} had no filter"
        shown = _drop_filter(book, entry, grid.root, old)
        return f"took the filter off {entry.name}{shown}"
    area = area_of(op.range, entry.name)
    if area[2] == MAX_ROW or area[3] == MAX_COLUMN:
        used = grid.used()
        if used is None:
            raise ToolError(f"{entry.name} is empty; there is nothing to filter")
        area = (max(area[0], used[0]), max(area[1], used[1]), min(area[2], used[2]), min(area[3], used[3]))
    if not is_block(area):
        raise ToolError(f"{op.range!r} is one cell; give the block with its header row, such as A1:D20")
    for table in book.tables(entry):
        if overlaps(area, table.area):
            raise ToolError(
                f"{a1(area)} overlaps table {table.name} ({a1(table.area)}), which has filter buttons of its own"
            )
    shown = _drop_filter(book, entry, grid.root, old) if old is not None else ""
    element = place(grid.root, "autoFilter")
    element.set("ref", a1(area))
    names = book.names(make=True)
    index = str(book.sheets.index(entry))
    name = etree.Element(f"{MAIN}definedName", name="_xlnm._FilterDatabase", localSheetId=index, hidden="1")
    name.text = f"{quoted(entry.name)}!{absolute(area)}"
    names.insert(0, name)
    return f"filter buttons on {entry.name}!{a1(area)}{shown}"


def _drop_filter(book: Book, entry: SheetEntry, root: Any, old: Any) -> str:
    """Takes a filter away; the rows that it hid are shown again."""
    shown = 0
    if len(old.findall(f"{MAIN}filterColumn")):
        try:
            area = parse_area(old.get("ref", ""))
        except ValueError:
            area = (0, 0, 0, 0)
        grid = book.grid(entry)
        for number in grid.rows_within(area):
            row = grid.row(number)
            if row.attrib.pop("hidden", None) is not None:
                shown += 1
    root.remove(old)
    index = str(book.sheets.index(entry))
    for name in book.name_list():
        if name.get("name") == "_xlnm._FilterDatabase" and name.get("localSheetId") == index:
            name.getparent().remove(name)
    book.prune_names()
    return f"; {shown} rows that the old filter hid are shown again" if shown else ""
