"""What a sheet says beside its cells: merged ranges, hidden columns, panes, filters, protection, validations,
conditional formats, hyperlinks. Reads the sheet's XML without its rows. Used by `read.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from envkit.office.package import Package
from envkit.office.workbook.model import ConditionalFormat, Validation
from envkit.office.workbook.styles import CellStyle, Styles, number
from envkit.office.workbook.values import MAX_COLUMN, Area, parse_area, show_area

__all__ = ["areas_of", "page_facts", "sheet_facts"]

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_REL = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_X14 = "{http://schemas.microsoft.com/office/spreadsheetml/2009/9/main}"
_XM = "{http://schemas.microsoft.com/office/excel/2006/main}"
#: Ranges of one rule beyond which the rest is left out.
MAX_AREAS = 2_000
_RULE_FACTS = {
    "cellIs": ("operator",),
    "containsText": ("text",),
    "notContainsText": ("text",),
    "beginsWith": ("text",),
    "endsWith": ("text",),
    "top10": ("rank", "percent", "bottom"),
    "aboveAverage": ("aboveAverage", "equalAverage", "stdDev"),
    "timePeriod": ("timePeriod",),
}
_TRUE = ("1", "true", "on")


def sheet_facts(root: Any, package: Package, part: str, styles: Styles) -> dict[str, Any]:
    """The fields of `Sheet` that stand in the sheet's own part."""
    hidden, widths = _columns(root)
    filters = root.find(f"{_MAIN}autoFilter")
    return {
        "hidden_columns": frozenset(hidden),
        "widths": widths,
        "default_width": _default_width(root),
        "merged": tuple(_merged(root)),
        "frozen": _frozen(root),
        "filter": _area(filters.get("ref")) if filters is not None else None,
        **page_facts(root),
        "validations": tuple(_validations(root)),
        "conditional": tuple(_conditional(root, styles)),
        "hyperlinks": _hyperlinks(root, package, part),
    }


def page_facts(root: Any) -> dict[str, Any]:
    """What a chart sheet has as well: protection, orientation, header and footer, the colour of its tab."""
    protection, setup = root.find(f"{_MAIN}sheetProtection"), root.find(f"{_MAIN}pageSetup")
    color = root.find(f"{_MAIN}sheetPr/{_MAIN}tabColor")
    return {
        "protected": protection is not None and any(protection.get(name) in _TRUE for name in ("sheet", "content")),
        "landscape": setup is not None and setup.get("orientation") == "landscape",
        "header": _running(root, "Header"),
        "footer": _running(root, "Footer"),
        "tab_color": "" if color is None else (color.get("rgb", "")[-6:] or f"theme {color.get('theme', '')}"),
    }


def _area(text: str | None) -> Area | None:
    try:
        return parse_area((text or "").replace("$", ""))
    except ValueError:
        return None


def areas_of(text: str | None) -> tuple[Area, ...]:
    """A list of ranges as the format writes it, those that name no cells left out, in one order."""
    found = (_area(piece) for piece in (text or "").split()[:MAX_AREAS])
    return tuple(sorted({area for area in found if area is not None}))


def _columns(root: Any) -> tuple[set[int], dict[int, float]]:
    hidden: set[int] = set()
    widths: dict[int, float] = {}
    for element in root.iterfind(f"{_MAIN}cols/{_MAIN}col"):
        first, last = max(number(element.get("min")), 1), min(number(element.get("max")), MAX_COLUMN)
        if element.get("hidden") in _TRUE:
            hidden.update(range(first, last + 1))
        elif last - first < 256:
            try:
                widths.update(dict.fromkeys(range(first, last + 1), float(element.get("width", ""))))
            except ValueError:
                continue
    return hidden, widths


def _default_width(root: Any) -> float:
    element = root.find(f"{_MAIN}sheetFormatPr")
    try:
        return float(element.get("defaultColWidth", "9.14")) if element is not None else 9.14
    except ValueError:
        return 9.14


def _merged(root: Any) -> Iterator[Area]:
    for element in root.iterfind(f"{_MAIN}mergeCells/{_MAIN}mergeCell"):
        area = _area(element.get("ref"))
        if area is not None:  # a merge that names no cells merges nothing
            yield area


def _frozen(root: Any) -> tuple[int, int]:
    pane = root.find(f"{_MAIN}sheetViews/{_MAIN}sheetView/{_MAIN}pane")
    if pane is None or not pane.get("state", "").startswith("frozen"):
        return 0, 0
    try:
        return int(float(pane.get("ySplit", "0"))), int(float(pane.get("xSplit", "0")))
    except (ValueError, OverflowError):
        return 0, 0


def _running(root: Any, which: str) -> str:
    texts = [e.text or "" for e in root.iterfind(f"{_MAIN}headerFooter/{_MAIN}odd{which}")]
    return " ".join(texts).strip()


def _validations(root: Any) -> Iterator[Validation]:
    rules: dict[tuple[str, str, str], set[Area]] = defaultdict(set)
    elements: list[tuple[Any, str | None, list[str]]] = [
        (e, e.get("sqref"), [(e.findtext(f"{_MAIN}formula{i}") or "").strip() for i in (1, 2)])
        for e in root.iterfind(f"{_MAIN}dataValidations/{_MAIN}dataValidation")
    ]
    for e in root.iter(f"{_X14}dataValidation"):
        formulas = [(e.findtext(f"{_X14}formula{i}/{_XM}f") or "").strip() for i in (1, 2)]
        elements.append((e, e.findtext(f"{_XM}sqref"), formulas))
    for element, ranges, (first, second) in elements:
        kind = element.get("type", "none")
        if kind in ("list", "custom", "none"):
            rule = f"{kind} {first}".strip()
        else:
            operator = element.get("operator", "between")
            rule = f"{kind} {operator} {first}" + (f" and {second}" if second else "")
        prompt = ": ".join(filter(None, [element.get("promptTitle"), element.get("prompt")]))
        error = ": ".join(filter(None, [element.get("errorTitle"), element.get("error")]))
        rules[rule, prompt, error].update(areas_of(ranges))
    for (rule, prompt, error), areas in rules.items():
        yield Validation(joined(areas), rule, prompt, error)


#: Errors in formulas, which some programs write in lower case.
_ERRORS = re.compile(r"#(?:ref|div/0|value|num|null|name)[!?]|#n/a", re.IGNORECASE)


def _conditional(root: Any, styles: Styles) -> Iterator[ConditionalFormat]:
    rules: dict[tuple[str, str], set[Area]] = defaultdict(set)
    for block in root.iterfind(f"{_MAIN}conditionalFormatting"):
        areas = areas_of(block.get("sqref"))
        for element in block.iterfind(f"{_MAIN}cfRule"):
            kind = element.get("type", "")
            formulas = [
                _ERRORS.sub(lambda m: m[0].upper(), (f.text or "").strip()) for f in element.iterfind(f"{_MAIN}formula")
            ]
            # Some programs write attributes that the kind of rule does not use.
            facts = [
                f"{key} {element.get(key)}"
                for key in _RULE_FACTS.get(kind, ())
                if element.get(key) not in (None, "0", "false") or (key == "aboveAverage" and element.get(key) == "0")
            ]
            dxf = element.get("dxfId")
            look = looks(styles.conditional(None if dxf is None else number(dxf, -1)))
            if kind in ("colorScale", "dataBar", "iconSet"):
                look = _scale(element)
            rules[" ".join([kind, *facts, *formulas]), look].update(areas)
    for (rule, look), found in rules.items():
        yield ConditionalFormat(joined(found), rule, look)


def _scale(element: Any) -> str:
    points = [f"{e.get('type', '')} {e.get('val', '')}".strip() for e in element.iter(f"{_MAIN}cfvo")]
    colors = [(e.get("rgb") or f"theme {e.get('theme', '')}")[-6:] for e in element.iter(f"{_MAIN}color")]
    return "; ".join([*points, *colors])


def looks(style: CellStyle) -> str:
    """A style of a conditional format in one line."""
    words = [word for word in ("bold", "italic", "underline", "strike") if getattr(style, word)]
    if style.color:
        words.append(f"text {style.color}")
    if style.fill:
        words.append(f"fill {style.fill}")
    return ", ".join(words)


def _hyperlinks(root: Any, package: Package, part: str) -> dict[Area, str]:
    out: dict[Area, str] = {}
    targets: dict[str, str] | None = None
    for element in root.iterfind(f"{_MAIN}hyperlinks/{_MAIN}hyperlink"):
        area = _area(element.get("ref"))
        if area is None:
            continue
        target = ""
        if element.get(f"{_REL}id"):
            if targets is None:
                targets = package.external(part)
            target = targets.get(element.get(f"{_REL}id"), "")
        place = element.get("location", "").lstrip("#")
        link = f"{target}#{place}" if place else target
        top, left, bottom, right = area
        if not link:
            continue
        if (bottom - top + 1) * (right - left + 1) > MAX_AREAS:
            out[area] = link
        else:  # programs write one link for a range, or one for each cell of it
            out.update(
                dict.fromkeys(((r, c, r, c) for r in range(top, bottom + 1) for c in range(left, right + 1)), link)
            )
    return out


def joined(areas: Iterable[Area]) -> tuple[Area, ...]:
    """The same cells as few ranges: neighbours in a column, then in a row, are joined, since programs cut them
    differently."""
    found = sorted(set(areas))
    for across in (False, True):
        key = (lambda a: (a[0], a[2], a[1])) if across else (lambda a: (a[1], a[3], a[0]))
        out: list[Area] = []
        for area in sorted(found, key=key):
            last = out[-1] if out else None
            if last is not None and across and last[0::2] == area[0::2] and last[3] + 1 >= area[1]:
                out[-1] = (last[0], last[1], last[2], max(last[3], area[3]))
            elif last is not None and not across and last[1::2] == area[1::2] and last[2] + 1 >= area[0]:
                out[-1] = (last[0], last[1], max(last[2], area[2]), last[3])
            else:
                out.append(area)
        found = out
    return tuple(sorted(found))


def shown_areas(areas: Iterable[Area]) -> str:
    return " ".join(show_area(area) for area in areas)
