"""An empty workbook as bytes, from which new files are made by the same editing as old ones.

Used by the handler of `create_spreadsheet`.
"""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import quoteattr

from envkit.harnesses.archipelago.servers.sheets.parts import MAIN, OFFICE_REL, REL

__all__ = ["blank_workbook"]

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
_SPREADSHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_SPREADSHEET}sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_SPREADSHEET}worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_SPREADSHEET}styles+xml"/>'
    f'<Override PartName="/xl/sharedStrings.xml" ContentType="{_SPREADSHEET}sharedStrings+xml"/></Types>'
)
_STYLES = (
    f'<styleSheet xmlns="{MAIN[1:-1]}"><fonts count="1"><font><sz val="11"/><name val="Calibri"/><family '
    'val="2"/></font>'
    '</fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/>'
    '</fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="1">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/></cellXfs><cellStyles count="1">'
    '<cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)


def blank_workbook(sheet: str) -> bytes:
    """A workbook with one empty sheet of a (checked) name."""
    from envkit.harnesses.archipelago.servers.sheets.tabs import BLANK_SHEET

    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": f'{_RELATIONS}<Relationship Id="rId1" Type="{OFFICE_REL}officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN[1:-1]}" xmlns:r="{REL[1:-1]}">'
        '<workbookPr defaultThemeVersion="124226"/>'
        '<bookViews><workbookView xWindow="0" yWindow="0" windowWidth="24000" windowHeight="12000"/></bookViews>'
        f'<sheets><sheet name={quoteattr(sheet)} sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{_RELATIONS}<Relationship Id="rId1" Type="{OFFICE_REL}worksheet" '
        f'Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="{OFFICE_REL}styles" Target="styles.xml"/>'
        f'<Relationship Id="rId3" Type="{OFFICE_REL}sharedStrings" Target="sharedStrings.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": BLANK_SHEET.replace("<sheetView ", '<sheetView tabSelected="1" '),
        "xl/styles.xml": _STYLES,
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN[1:-1]}" count="0" uniqueCount="0"/>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), _HEAD + text)
    return out.getvalue()
