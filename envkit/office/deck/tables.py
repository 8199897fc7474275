"""What a table's style makes of its cells: fill, and colour and weight of the text.

Styles stand in the deck's `tableStyles.xml`, but PowerPoint knows its own ones by their id alone, and decks made by
libraries refer to them without spelling them out; those are known here. Borders are not read. Used by `shapes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lxml import etree

from envkit.office.deck.looks import A, Looks
from envkit.office.package import Package

__all__ = ["CellLook", "TableStyle", "style_of", "table_styles"]

_FLAGS = ("firstRow", "lastRow", "firstCol", "lastCol", "bandRow", "bandCol")


def table_styles(package: Package) -> dict[str, Any]:
    """The styles that a deck spells out, by id."""
    out: dict[str, Any] = {}
    for part in package.related(package.main, "tableStyles"):
        for element in package.xml(part).iterfind(f"{A}tblStyle"):
            out[element.get("styleId", "").upper()] = element
    return out


@dataclass(frozen=True)
class CellLook:
    """What the style gives one cell: its fill ("" for none said, `none`, or a colour) and how its text looks, as
    changes to a `Format`."""

    fill: str = ""
    text: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableStyle:
    """The style of one table. `flags` are the kinds of cells that it treats apart there (`firstRow`, `bandRow`)."""

    id: str = ""
    name: str = ""
    flags: tuple[str, ...] = ()
    element: Any = None

    def look(self, row: int, rows: int, column: int, columns: int, looks: Looks) -> CellLook:
        if self.element is None:
            return CellLook()
        fill = ""
        text: dict[str, Any] = {}
        for name in self._parts(row, rows, column, columns):
            part = self.element.find(f"{A}{name}")
            if part is None:
                continue
            fill = _fill(part.find(f"{A}tcStyle"), looks) or fill
            text |= _text(part.find(f"{A}tcTxStyle"), looks)
        return CellLook(fill, text)

    def _parts(self, row: int, rows: int, column: int, columns: int) -> Sequence[str]:
        """The parts of the style that count for a cell, the most general first."""
        first_row, last_row = "firstRow" in self.flags and row == 0, "lastRow" in self.flags and row == rows - 1
        first, last = "firstCol" in self.flags and column == 0, "lastCol" in self.flags and column == columns - 1
        out = ["wholeTbl"]
        if "bandCol" in self.flags and not (first or last):
            out.append("band2V" if (column - ("firstCol" in self.flags)) % 2 else "band1V")
        if "bandRow" in self.flags and not (first_row or last_row):
            out.append("band2H" if (row - ("firstRow" in self.flags)) % 2 else "band1H")
        out += [n for n, on in (("lastCol", last), ("firstCol", first), ("lastRow", last_row)) if on]
        out += [n for n, on in (("seCell", last_row and last), ("swCell", last_row and first)) if on]
        out += ["firstRow"] if first_row else []
        return out + [n for n, on in (("neCell", first_row and last), ("nwCell", first_row and first)) if on]


def style_of(table: Any, styles: dict[str, Any]) -> TableStyle:
    """The style that an `a:tbl` names."""
    properties = table.find(f"{A}tblPr")
    named = properties.find(f"{A}tableStyleId") if properties is not None else None
    identity = (named.text or "").strip().upper() if named is not None else ""
    if not identity:
        return TableStyle()
    flags = tuple(f for f in _FLAGS if properties.get(f) in ("1", "true"))
    element = styles.get(identity)
    if element is None:
        element = _builtin(identity)
    name = element.get("styleName", "") if element is not None else ""
    return TableStyle(identity, name or identity, flags, element)


def _fill(style: Any, looks: Looks) -> str:
    if style is None:
        return ""
    reference = style.find(f"{A}fillRef")
    if reference is not None:
        return (looks.colour(reference) or "") if reference.get("idx") == "1" else ""
    fill = style.find(f"{A}fill")
    if fill is None:
        return ""
    if fill.find(f"{A}noFill") is not None:
        return "none"
    return looks.colour(fill.find(f"{A}solidFill")) or ""


def _text(style: Any, looks: Looks) -> dict[str, Any]:
    if style is None:
        return {}
    out: dict[str, Any] = {}
    for key, name in (("b", "bold"), ("i", "italic")):
        if style.get(key) in ("on", "off"):
            out[name] = style.get(key) == "on"
    reference = style.find(f"{A}fontRef")
    if reference is not None and reference.get("idx") in ("major", "minor"):
        out["font"] = looks.theme.major if reference.get("idx") == "major" else looks.theme.minor
    colour = looks.colour(style) or (looks.colour(reference) if reference is not None else None)
    if colour is not None:
        out["colour"] = "" if colour == "000000" else colour
    return out


# --- PowerPoint's own styles ---

#: Their ids, per family: without accent, then accents 1 to 6. Empty where a family has no such style.
_FAMILIES = {
    "No Style, No Grid": "2D5ABB26-0587-4C30-8999-92F81FD0307C",
    "No Style, Table Grid": "5940675A-B579-460E-94D1-54222C63F5DA",
    "Themed Style 1": " 3C2FFA5D-87B4-456A-9821-1D502468CF0F 284E427A-3D55-4303-BF80-6455036E1DE7 "
    "69C7853C-536D-4A76-A0AE-DD22124D55A5 775DCB02-9BB8-47FD-8907-85C794F793BA 35758FB7-9AC5-4552-8A53-C91805E547FA "
    "08FB837D-C827-4EFA-A057-4D05807E0F7C",
    "Light Style 1": "9D7B26C5-4107-4FEC-AEDC-1716B250A1EF 3B4B98B0-60AC-42C2-AFA5-B58CD77FA1E5 "
    "0E3FDE45-AF77-4B5C-9715-49D594BDF05E C083E6E3-FA7D-4D7B-A595-EF9225AFEA82 D27102A9-8310-4765-A935-A1911B00CA55 "
    "5FD0F851-EC5A-4D38-B0AD-8093EC10F338 68D230F3-CF80-4859-8CE7-A43EE81993B5",
    "Light Style 2": "7E9639D4-E3E2-4D34-9284-5A2195B3D0D7 69012ECD-51FC-41F1-AA8D-1B2483CD663E "
    "72833802-FEF1-4C79-8D5D-14CF1EAF98D9 F2DE63D5-997A-4646-A377-4702673A728D 17292A2E-F333-43FB-9621-5CBBE7FDCDCB "
    "5A111915-BE36-4E01-A7E5-04B1672EAD32 912C8C85-51F0-491E-9774-3900AFEF0FD7",
    "Light Style 3": "616DA210-FB5B-4158-B5E0-FEB733F419BA BC89EF96-8CEA-46FF-86C4-4CE0E7609802 "
    "5DA37D80-6434-44D0-A028-1B22A696006F 8799B23B-EC83-4686-B30A-512413B5E67A ED083AE6-46FA-4A59-8FB0-9F97EB10719F "
    "BDBED569-4797-4DF1-A0F4-6AAB3CD982D8 E8B1032C-EA38-4F05-BA0D-38AFFFC7BED3",
    "Medium Style 1": "793D81CF-94F2-401A-BA57-92F5A7B2D0C5 B301B821-A1FF-4177-AEE7-76D212191A09 "
    "9DCAF9ED-07DC-4A11-8D7F-57B35C25682E 1FECB4D8-DB02-4DC6-A0A2-4F2EBAE1DC90 1E171933-4619-4E11-9A3F-F7608DF75F80 "
    "FABFCF23-3B69-468F-B69F-88F6DE6A72F2 10A1B5D5-9B99-4C35-A422-299274C87663",
    "Medium Style 2": "073A0DAA-6AF3-43AB-8588-CEC1D06C72B9 5C22544A-7EE6-4342-B048-85BDC9FD1C3A "
    "21E4AEA4-8DFA-4A89-87EB-49C32662AFE0 F5AB1C69-6EDB-4FF4-983F-18BD219EF322 00A15C55-8517-42AA-B614-E9B94910E393 "
    "7DF18680-E054-41AD-8BC1-D1AEF772440D 93296810-A885-4BE3-A3E7-6D5BEEA58F35",
    "Medium Style 3": "8EC20E35-A176-4012-BC5E-935CFFF8708E 6E25E649-3F16-4E02-A733-19D2CDBF48F0 "
    "85BE263C-DBD7-4A20-BB59-AAB30ACAA65A EB344D84-9AFB-497E-A393-DC336BA19D2E EB9631B5-78F2-41C9-869B-9F39066F8104 "
    "74C1A8A3-306A-4EB7-A6B1-4F7E0EB9C5D6 2A488322-F2BA-4B5B-9748-0D474271808F",
    "Medium Style 4": "D7AC3CCA-C797-4891-BE02-D94E43425B78 69CF1AB2-1976-4502-BF36-3FF5EA218861 "
    "8A107856-5554-42FB-B03E-39F5DBC370BA 0505E3EF-67EA-436B-97B2-0124C06EBD24 C4B1156A-380E-4F78-BDF5-A606A8083BF9 "
    "22838BEF-8BB2-4498-84A7-C5851F593DF1 16D9F66E-5EB9-4882-86FB-DCBF35E3C3E4",
    "Dark Style 1": "E8034E78-7F5D-4C2E-B375-FC64B27BC917 125E5076-3810-47DD-B79F-674D7AD40C01 "
    "37CE84F3-28C3-443E-9E96-99CF82512B78 D03447BB-5D67-496B-8E87-E561075AD55C E929F9F4-4A8F-4326-A1B4-22849713DDAB "
    "8FD4443E-F989-4FC4-A0C8-D5A2AF1F390B AF606853-7671-496A-8E4F-DF71F8EC918B",
    "Dark Style 2": "5202B0CA-FC54-4496-8BCA-5EF66A818D29 0660B408-B3CF-4A94-85FC-2B1E0A45F4A2 "
    " 91EBBBCC-DAD2-459C-BE2E-F6DE35CF9A28  46F890A9-2807-4EBB-B81D-B2AA78EC7F39",
}
_BOLD_EDGES = "lastCol b; firstCol b; "
#: What each gives its cells: `part [b] [colour of the text] [/ fill]`; `@` is the accent, `dk1` where there is none.
_LOOKS = {
    "No Style, No Grid": "wholeTbl tx1 /none",
    "No Style, Table Grid": "wholeTbl tx1 /none",
    "Themed Style 1": f"wholeTbl dk1 /none; band1H /@; band1V /@; {_BOLD_EDGES}lastRow b /none; firstRow b lt1 /@",
    "Light Style 1": f"wholeTbl tx1 /none; band1H /@; band1V /@; {_BOLD_EDGES}lastRow b /none; firstRow b /none",
    "Light Style 2": f"wholeTbl tx1 /none; {_BOLD_EDGES}lastRow b; firstRow b bg1 /@",
    "Light Style 3": f"wholeTbl tx1 /none; band1H /@; band1V /@; {_BOLD_EDGES}lastRow b /none; firstRow b /none",
    "Medium Style 1": f"wholeTbl dk1 /lt1; band1H /@:tint:20000; band1V /@:tint:20000; {_BOLD_EDGES}lastRow b /lt1; "
    "firstRow b lt1 /@",
    "Medium Style 2": "wholeTbl dk1 /@:tint:20000; band1H /@:tint:40000; band1V /@:tint:40000; lastCol b lt1 /@; "
    "firstCol b lt1 /@; lastRow b lt1 /@; firstRow b lt1 /@",
    "Medium Style 3": "wholeTbl dk1 /lt1; band1H /dk1:tint:20000; band1V /dk1:tint:20000; lastCol b lt1 /@; "
    "firstCol b lt1 /@; lastRow b /lt1; seCell b dk1; swCell b dk1; firstRow b lt1 /@",
    "Medium Style 4": f"wholeTbl dk1 /@:tint:20000; band1H /@:tint:40000; band1V /@:tint:40000; {_BOLD_EDGES}"
    "lastRow b /@:tint:20000; firstRow b /@:tint:20000",
    "Dark Style 1": "wholeTbl lt1 /@; band1H /@:shade:60000; band1V /@:shade:60000; lastCol b /@:shade:60000; "
    "firstCol b /@:shade:60000; lastRow b /@:shade:40000; firstRow b /dk1",
    "Dark Style 2": f"wholeTbl dk1 /@:tint:20000; band1H /@:tint:40000; band1V /@:tint:40000; {_BOLD_EDGES}"
    "lastRow b /@:tint:20000; firstRow b lt1 /+",
}


@cache
def _builtin(identity: str) -> Any:
    for family, ids in _FAMILIES.items():
        for number, text in enumerate(ids.split(" ")):
            if text and identity.strip("{}") == text:
                return _spelt(family, number)
    return None


def _spelt(family: str, number: int) -> Any:
    """A style of PowerPoint's as the file would spell it out."""
    accent = f"accent{number}" if number else "dk1"
    after = f"accent{number + 1}" if number else "dk1"  # the second accent of families that have two
    root = etree.Element(f"{A}tblStyle", styleName=family + (f" - Accent {number}" if number else ""))
    for line in _LOOKS[family].split(";"):
        words = line.split()
        part = etree.SubElement(root, f"{A}{words[0]}")
        text = etree.SubElement(part, f"{A}tcTxStyle")
        style = etree.SubElement(part, f"{A}tcStyle")
        for word in words[1:]:
            if word == "b":
                text.set("b", "on")
            elif word == "/none":
                etree.SubElement(etree.SubElement(style, f"{A}fill"), f"{A}noFill")
            elif word.startswith("/"):
                name, *change = word[1:].split(":")
                solid = etree.SubElement(etree.SubElement(style, f"{A}fill"), f"{A}solidFill")
                colour = etree.SubElement(solid, f"{A}schemeClr", val={"@": accent, "+": after}.get(name, name))
                if change:
                    etree.SubElement(colour, f"{A}{change[0]}", val=change[1])
            else:
                etree.SubElement(text, f"{A}schemeClr", val=word)
    return root
