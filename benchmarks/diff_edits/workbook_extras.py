"""Generated workbooks with what no library writes: a pivot table, threads of comments, macros. Used by
`workbook_files.py`."""

# ruff: noqa: E501 - XML reads better uncut
from __future__ import annotations

import io
import struct
import zipfile

import xlsxwriter

from diff_edits.zipped import read_part

__all__ = ["compound", "macros", "project", "with_macros", "with_pivot", "with_threads"]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TC = "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"
_ROWS = [("Region", "Quarter", "Sales")] + [
    (region, quarter, 100 * (i + 1) + 7 * j)
    for i, region in enumerate(("North", "South", "East"))
    for j, quarter in enumerate(("Q1", "Q2"))
]


def _book(macros: bytes | None = None) -> bytes:
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    data, report = book.add_worksheet("Data"), book.add_worksheet("Report")
    for number, row in enumerate(_ROWS):
        data.write_row(number, 0, row)
    report.write("A1", "Sales by region")
    if macros is not None:
        book.add_vba_project(io.BytesIO(macros), True)
    book.close()
    return out.getvalue()


def _with_parts(
    data: bytes, parts: dict[str, str], related: list[tuple[str, str, str]], types: dict[str, str]
) -> bytes:
    """The file with more parts. `related` are (part, type of relation, target as the part sees it)."""
    changed: dict[str, str] = dict(parts)
    content = read_part(data, "[Content_Types].xml").decode()
    overrides = "".join(f'<Override PartName="/{part}" ContentType="{kind}"/>' for part, kind in types.items())
    changed["[Content_Types].xml"] = content.replace("</Types>", overrides + "</Types>")
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        names = source.namelist()
        for number, (part, kind, target) in enumerate(related, start=900):
            folder, _, base = part.rpartition("/")
            rels = f"{folder}/_rels/{base}.rels"
            old = changed.get(rels) or (source.read(rels).decode() if rels in names else "")
            old = (
                old
                or '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"></Relationships>'
            )
            one = f'<Relationship Id="rId{number}" Type="{kind}" Target="{target}"/>'
            changed[rels] = old.replace("</Relationships>", one + "</Relationships>")
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target_zip:
            for name in dict.fromkeys([*names, *changed]):
                target_zip.writestr(name, changed[name].encode() if name in changed else source.read(name))
    return out.getvalue()


def with_pivot() -> bytes:
    """Sales by region and quarter, from the sheet beside it."""
    cache = "".join(
        f'<cacheField name="{name}" numFmtId="0"><sharedItems>'
        + "".join(
            f'<s v="{v}"/>' if isinstance(v, str) else f'<n v="{v}"/>' for v in dict.fromkeys(r[i] for r in _ROWS[1:])
        )
        + "</sharedItems></cacheField>"
        for i, name in enumerate(_ROWS[0])
    )
    fields = (
        '<pivotField axis="axisRow" showAll="0"><items count="4"><item x="0"/><item x="1"/><item x="2"/><item t="default"/>'
        '</items></pivotField><pivotField axis="axisCol" showAll="0"><items count="3"><item x="0"/><item x="1"/><item t='
        '"default"/></items></pivotField><pivotField dataField="1" showAll="0"/>'
    )
    pivot = (
        f'<pivotTableDefinition xmlns="{_MAIN}" name="Sales pivot" cacheId="1" dataCaption="Values"><location ref="A3:D8" '
        f'firstHeaderRow="1" firstDataRow="2" firstDataCol="1"/><pivotFields count="3">{fields}</pivotFields><rowFields count='
        '"1"><field x="0"/></rowFields><colFields count="1"><field x="1"/></colFields><dataFields count="1"><dataField name='
        '"Sum of Sales" fld="2"/></dataFields></pivotTableDefinition>'
    )
    definition = (
        f'<pivotCacheDefinition xmlns="{_MAIN}" refreshOnLoad="1" recordCount="6"><cacheSource type="worksheet">'
        f'<worksheetSource ref="A1:C7" sheet="Data"/></cacheSource><cacheFields count="3">{cache}</cacheFields>'
        "</pivotCacheDefinition>"
    )
    data = _with_parts(
        _book(),
        {"xl/pivotTables/pivotTable1.xml": pivot, "xl/pivotCache/pivotCacheDefinition1.xml": definition},
        [
            ("xl/worksheets/sheet2.xml", f"{_REL}/pivotTable", "../pivotTables/pivotTable1.xml"),
            (
                "xl/pivotTables/pivotTable1.xml",
                f"{_REL}/pivotCacheDefinition",
                "../pivotCache/pivotCacheDefinition1.xml",
            ),
            ("xl/workbook.xml", f"{_REL}/pivotCacheDefinition", "pivotCache/pivotCacheDefinition1.xml"),
        ],
        {
            "xl/pivotTables/pivotTable1.xml": "application/vnd.openxmlformats-officedocument.spreadsheetml.pivotTable+xml",
            "xl/pivotCache/pivotCacheDefinition1.xml": "application/vnd.openxmlformats-officedocument.spreadsheetml.pivotCacheDefinition+xml",
        },
    )
    number = 902  # the relation of the workbook, counted as above
    book = read_part(data, "xl/workbook.xml").decode()
    caches = f'<pivotCaches><pivotCache cacheId="1" r:id="rId{number}"/></pivotCaches>'
    head, _, tail = book.partition("</workbook>")
    return _with_parts(data, {"xl/workbook.xml": head + caches + "</workbook>" + tail}, [], {})


def with_threads() -> bytes:
    """A thread of two comments at a cell, and one that is resolved."""
    people = (
        f'<personList xmlns="{_TC}"><person displayName="Ann" id="{{1}}" userId="a" providerId="None"/><person displayName='
        '"Bo" id="{2}" userId="b" providerId="None"/></personList>'
    )
    threads = (
        f'<ThreadedComments xmlns="{_TC}"><threadedComment ref="C3" dT="2026-01-05T10:00:00.00" personId="{{1}}" id="{{11}}">'
        '<text>Is this with tax?</text></threadedComment><threadedComment ref="C3" dT="2026-01-05T11:00:00.00" personId="{2}" '
        'id="{12}" parentId="{11}"><text>No, without.</text></threadedComment><threadedComment ref="A5" dT='
        '"2026-01-06T10:00:00.00" personId="{2}" id="{13}" done="1"><text>Spelling?</text></threadedComment></ThreadedComments>'
    )
    return _with_parts(
        _book(),
        {"xl/persons/person.xml": people, "xl/threadedComments/threadedComment1.xml": threads},
        [
            (
                "xl/workbook.xml",
                "http://schemas.microsoft.com/office/2017/10/relationships/person",
                "persons/person.xml",
            ),
            (
                "xl/worksheets/sheet1.xml",
                "http://schemas.microsoft.com/office/2017/10/relationships/threadedComment",
                "../threadedComments/threadedComment1.xml",
            ),
        ],
        {
            "xl/persons/person.xml": "application/vnd.ms-excel.person+xml",
            "xl/threadedComments/threadedComment1.xml": "application/vnd.ms-excel.threadedcomments+xml",
        },
    )


# --- macros ---

_CODE = 'Sub Greet()\r\n    Range("A1").Value = "Good morning"\r\nEnd Sub\r\n'


def macros(code: str = _CODE, module: str = "Module1", more: str | None = None) -> bytes:
    """A macro project of one module, or two."""
    return project({module: code} if more is None else {module: code, "Module2": more})


def with_macros(code: str = _CODE, module: str = "Module1", more: str | None = None) -> bytes:
    """A workbook with these macros."""
    return _book(macros=macros(code, module, more))


def _packed(text: bytes) -> bytes:
    """A compressed container in which nothing is compressed away: chunks of literal letters."""
    out = bytearray(b"\x01")
    for start in range(0, len(text), 3000):
        chunk = bytearray()
        piece = text[start : start + 3000]
        for at in range(0, len(piece), 8):
            chunk += b"\0" + piece[at : at + 8]
        out += struct.pack("<H", (len(chunk) - 1) | 0xB000) + chunk
    return bytes(out)


def project(modules: dict[str, str]) -> bytes:
    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HI", kind, len(data)) + data

    directory = (
        record(0x0001, struct.pack("<I", 1)) + record(0x0003, struct.pack("<H", 1252)) + record(0x0004, b"VBAProject")
    )
    directory += record(0x000F, struct.pack("<H", len(modules))) + record(0x0013, struct.pack("<H", 0xFFFF))
    cache = 4096  # where a module's source begins: before it stands what was compiled
    streams: dict[str, bytes] = {}
    for name, code in modules.items():
        directory += (
            record(0x0019, name.encode()) + record(0x001A, name.encode()) + record(0x0032, name.encode("utf-16-le"))
        )
        directory += record(0x0031, struct.pack("<I", cache)) + record(0x0021, b"") + record(0x002B, b"")
        source = f'Attribute VB_Name = "{name}"\r\n{code}'.encode("cp1252")
        streams[name] = bytes(cache) + _packed(source)
    streams["dir"] = _packed(directory + record(0x0010, b"")).ljust(4096, b"\0")
    return compound(streams)


def compound(streams: dict[str, bytes]) -> bytes:
    """A compound file with these streams, all too large for small sectors, in a folder `VBA`."""
    sector, end, free = 512, 0xFFFFFFFE, 0xFFFFFFFF
    body = bytearray()
    chain: list[int] = []
    starts: dict[str, int] = {}

    def add(data: bytes) -> int:
        start = len(chain)
        count = max((len(data) + sector - 1) // sector, 1)
        chain.extend([*range(start + 1, start + count), end])
        body.extend(data.ljust(count * sector, b"\0"))
        return start

    for name, data in streams.items():
        starts[name] = add(data)

    def entry(name: str, kind: int, right: int, child: int, start: int, size: int) -> bytes:
        text = name.encode("utf-16-le") + b"\0\0"
        head = text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text), kind, 1, free, right, child)
        return head.ljust(116, b"\0") + struct.pack("<IQ", start, size)

    names = list(streams)
    entries = entry("Root Entry", 5, free, 1, end, 0) + entry("VBA", 1, free, 2, 0, 0)
    for number, name in enumerate(names, start=2):
        right = number + 1 if number - 1 < len(names) else free
        entries += entry(name, 2, right, free, starts[name], len(streams[name]))
    directory = add(entries)
    tables = (len(chain) + 1 + sector // 4 - 1) // (sector // 4)
    first_table = len(chain)
    chain += [0xFFFFFFFD] * tables
    body += struct.pack(f"<{len(chain)}I", *chain).ljust(tables * sector, b"\xff")
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIIIIIII", 0, tables, directory, 0, 4096, end, 0, end, 0)
    places = [first_table + i for i in range(tables)]
    return head + struct.pack("<109I", *places, *[free] * (109 - tables)) + bytes(body)
