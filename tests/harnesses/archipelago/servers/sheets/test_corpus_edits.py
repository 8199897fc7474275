"""Random edits of real files change what was asked and nothing else, and LibreOffice computes the same from the result.

The comparison is the typed one of the diff, the other programs' view is LibreOffice told to compute everything anew.
"""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.problem import Unreadable
from envkit.office.workbook import Sheet, Unknown, Workbook, read_workbook, show_address
from envkit.office.workbook.values import ErrorValue, column_letters
from envkit.verifiers.diff import Finding, diff_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse">
<value>0</value></prop></item></oor:items>"""


def _readable(corpus: Path) -> list[Path]:
    out = []
    for path in [*sorted((corpus / "xlsx").iterdir()), *sorted((corpus / "xlsm").iterdir())]:
        try:
            book = read_workbook(path.read_bytes())
        except Unreadable:
            continue
        if any(sheet.kind == "worksheet" for sheet in book.sheets):
            out.append(path)
    return out


@dataclass
class _Plan:
    """Operations for one file, and where they may show."""

    sheet: Sheet
    operations: list[dict[str, Any]] = field(default_factory=list)
    cells: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    first_new_row: int = 0


def _plan(book: Workbook, rng: random.Random, picture: str) -> _Plan:
    sheets = [s for s in book.sheets if s.kind == "worksheet"]
    sheet = rng.choice([s for s in sheets if s.cells] or sheets)
    plan = _Plan(sheet)
    last = max((row for row, _ in sheet.cells), default=0)
    low = last + 4
    right = max((column for _, column in sheet.cells), default=1)
    plan.first_new_row = last + 1
    merged = [(t, le, b, r) for t, le, b, r in sheet.merged]
    numbers = [
        at
        for at, cell in sheet.cells.items()
        if cell.formula is None
        and isinstance(cell.value, float)
        and not any(t <= at[0] <= b and le <= at[1] <= r for t, le, b, r in merged)
        and not any(t.area[0] <= at[0] <= t.area[2] for t in sheet.tables)
    ]
    name = sheet.name

    def add(kind: str, **more: Any) -> None:
        plan.operations.append({"type": kind, "sheet": name, **more})

    if numbers:
        at = rng.choice(sorted(numbers))
        add("set_cell", cell=show_address(at), value=rng.choice([0, 1, -3.5, 1e6, 12345.678]))
        plan.cells.add(show_address(at))
        add("set_cell", cell=f"A{low}", value=f"=SUM({show_address(at)},1)")
    add("set_cell", cell=f"B{low}", value=rng.choice(["text & <more>", "007", " padded ", "ünïcode ☃"]))
    add("set_cell", cell=f"C{low}", value=rng.choice([True, False, "2024-02-29", "2024-02-29T13:45"]))
    add("append_rows", rows=[["new", 1, None, "=1+1"], ["row", 2.5]])
    menu: list[tuple[str, dict[str, Any], str]] = [
        ("format_cells", {"range": f"A{low}:C{low}", "font_bold": True, "fill_color": "FFEE00"}, "cell.style"),
        ("set_number_format", {"range": f"A{low}", "format": "#,##0.00"}, "cell.style"),
        ("merge_cells", {"range": f"E{low}:F{low + 1}"}, "merge"),
        ("set_column_width", {"column": column_letters(right + 2), "width": 31}, "column.width"),
        ("set_row_height", {"row": low + 9, "height": 40}, "row.height"),
        ("freeze_panes", {"cell": "B2"}, "freeze"),
        ("add_data_validation",
         {"range": f"A{low + 4}:A{low + 9}", "validation_type": "list", "formula1": "a,b"}, "valid"),
        (
            "add_conditional_formatting",
            {"range": f"B{low}:B{low + 5}", "rule_type": "cellIs", "operator": "lessThan", "formula": "3",
             "font_color": "FF0000"},
            "conditional",
        ),
        ("add_image", {"image_path": picture, "cell": f"H{low}"}, "picture"),
    ]  # fmt: skip
    for kind, fields, shows in rng.sample(menu, 5):
        add(kind, **fields)
        plan.kinds.add(shows)
    if rng.random() < 0.5:
        plan.operations.append({"type": "add_named_range", "name": "zz_new", "sheet": name, "range": f"A{low}:C{low}"})
        plan.kinds.add("name")
    return plan


def _unexpected(plan: _Plan, findings: list[Finding]) -> list[Finding]:
    """Findings that the plan does not account for."""
    out = []
    for finding in findings:
        sheet, _, place = finding.where.rpartition("!")
        if finding.kind.endswith(".derived"):
            continue
        if any(kind in finding.kind for kind in plan.kinds) or (finding.kind == "name" and "name" in plan.kinds):
            continue
        if sheet.strip("'") == plan.sheet.name.replace("'", "''") or sheet == plan.sheet.name:
            digits = "".join(c for c in place.partition(":")[0] if c.isdigit())
            if place in plan.cells or (digits and int(digits) >= plan.first_new_row):
                continue
        out.append(finding)
    return out


def _office(files: list[Path], out: Path, profile: Path) -> None:
    """The files as LibreOffice saves them after it computed every formula."""
    (profile / "user").mkdir(parents=True)
    (profile / "user/registrymodifications.xcu").write_text(_PROFILE)
    program = shutil.which("soffice")
    assert program is not None
    command = [
        program,
        f"-env:UserInstallation=file://{profile}",
        "--headless",
        "--convert-to",
        "xlsx",
        "--outdir",
        str(out),
    ]
    subprocess.run([*command, *map(str, files)], check=True, capture_output=True, timeout=570)


_TOUCHED = ("xl/worksheets/", "xl/drawings/", "xl/styles", "xl/sharedStrings", "xl/workbook", "xl/_rels", "[Content",
            "xl/charts/", "docProps")  # fmt: skip


def _kept(before: bytes, after: bytes) -> list[str]:
    """Parts that are gone, or that no operation of the plan touches and that changed."""
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        names = {name.lstrip("/").lower(): name for name in new.namelist()}
        out = []
        for info in old.infolist():
            name = info.filename.lstrip("/")
            if "calcchain" in name.lower():
                continue
            if name.lower() not in names:
                out.append(f"{name} is gone")
            elif (
                not name.startswith(_TOUCHED)
                and not name.endswith("/")
                and (old.read(info) != new.read(names[name.lower()]))
            ):
                out.append(f"{name} changed")
        return out


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))
    if isinstance(a, ErrorValue) or isinstance(b, ErrorValue):
        return isinstance(a, ErrorValue) and isinstance(b, ErrorValue)
    return bool(a == b) or str(a).strip() == str(b).strip()


def test_random_edits_of_real_files(desk: Any, corpus: Path, picture: bytes, tmp_path: Path) -> None:
    pictures = desk.put("dot.png", picture)
    files = _readable(corpus)
    assert len(files) >= 40
    edited: dict[str, tuple[bytes, bytes]] = {}
    wrong: list[str] = []
    for path in files:
        data = path.read_bytes()
        plan = _plan(read_workbook(data), random.Random(path.name), pictures)
        name = desk.put(path.name, data)
        try:
            result = desk.edit(name, *plan.operations)
        except ToolError as error:
            wrong.append(f"{path.name}: {error}")
            continue
        assert result.operations_applied == len(plan.operations)
        after = desk.bytes(name)
        edited[path.name] = (data, after)
        wrong += [f"{path.name}: {text}" for text in _kept(data, after)]
        wrong += [f"{path.name}: {f.where} {f.kind} {f.change} {f.before} -> {f.after}"
                  for f in _unexpected(plan, diff_bytes(path.name, data, after))]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    _compare_with_office(edited, tmp_path)


def _compare_with_office(edited: dict[str, tuple[bytes, bytes]], tmp_path: Path) -> None:
    """Where LibreOffice agrees with what a file stored before the edit, it agrees with what is stored after it."""
    for which in ("before", "after"):
        (tmp_path / which).mkdir()
    inputs = []
    for name, (data, after) in edited.items():
        for which, content in (("before", data), ("after", after)):
            path = tmp_path / which / f"{Path(name).stem}.{which}{Path(name).suffix}"
            path.write_bytes(content)
            inputs.append(path)
    _office(inputs, tmp_path / "out", tmp_path / "profile")
    wrong: list[str] = []
    compared = 0
    for name, (data, after) in edited.items():
        stem = Path(name).stem
        seen_after = tmp_path / f"out/{stem}.after.xlsx"
        assert seen_after.exists() == (tmp_path / f"out/{stem}.before.xlsx").exists(), (
            f"LibreOffice does not open {name}"
        )
        if not seen_after.exists():
            continue
        old, new = read_workbook(data), read_workbook(after)
        office_old = read_workbook((tmp_path / f"out/{stem}.before.xlsx").read_bytes())
        office_new = read_workbook(seen_after.read_bytes())
        for sheet in new.sheets:
            theirs, before, theirs_before = (
                office_new.sheet(sheet.name),
                old.sheet(sheet.name),
                office_old.sheet(sheet.name),
            )
            if theirs is None or before is None or theirs_before is None:
                continue
            for at, cell in sheet.cells.items():
                if cell.formula is None or isinstance(cell.value, Unknown | None):
                    continue
                first = before.cells.get(at)
                first_theirs = theirs_before.cells.get(at)
                if first is not None and (first_theirs is None or not _same(first.value, first_theirs.value)):
                    continue  # LibreOffice never agreed on this one
                found = theirs.cells.get(at)
                compared += 1
                if found is None or not _same(cell.value, found.value):
                    shown = None if found is None else found.value
                    wrong.append(
                        f"{name} {sheet.name}!{show_address(at)} {cell.formula[:60]}: {cell.value!r} here, "
                        f"{shown!r} there"
                    )
    assert compared > 1000
    assert not wrong, f"{len(wrong)} of {compared}\n" + "\n".join(wrong[:40])


def test_every_sheet_of_real_files_can_be_renamed_and_nothing_else_changes(desk: Any, corpus: Path) -> None:
    wrong: list[str] = []
    renamed = 0
    for path in _readable(corpus):
        data = path.read_bytes()
        before = read_workbook(data)
        if before.structure_locked or len({s.name.casefold() for s in before.sheets}) < len(before.sheets):
            continue
        name = desk.put(path.name, data)
        operations = [
            {"type": "rename_sheet", "sheet": sheet.name, "new_name": f"It's {index} new"}
            for index, sheet in enumerate(before.sheets)
        ]
        desk.edit(name, *operations)
        after = desk.book(name)
        assert [s.name for s in after.sheets] == [o["new_name"] for o in operations]
        for old, new in zip(before.sheets, after.sheets, strict=True):
            for at, cell in old.cells.items():
                if cell.formula is None or any(word in cell.formula.upper() for word in ("CELL(", "INDIRECT", "SHEET")):
                    continue
                renamed += 1
                one, other = before.value(old, at), after.value(new, at)
                if not _same(one, other) and not isinstance(other, Unknown):
                    wrong.append(f"{path.name} {old.name}!{show_address(at)} {cell.formula}: {one!r} -> {other!r}")
        # Back again: the file says what it said.
        desk.edit(name, *({"type": "rename_sheet", "sheet": o["new_name"], "new_name": o["sheet"]} for o in operations))
        wrong += [
            f"{path.name}: {f.where} {f.kind} {f.before} -> {f.after}"
            for f in diff_bytes(path.name, data, desk.bytes(name))
            if not f.kind.endswith(".derived")
        ]
    assert renamed > 1000
    assert not wrong, "\n".join(wrong[:50])


def test_sheets_of_real_files_can_be_added_charted_and_deleted(desk: Any, corpus: Path) -> None:
    wrong: list[str] = []
    for path in _readable(corpus):
        data = path.read_bytes()
        if read_workbook(data).structure_locked:
            continue
        name = desk.put(path.name, data)
        made = desk.add_tab(name, "zz new", {"headers": ["a", "b"], "rows": [["x", 1], ["y", "=B2+1"]]})
        desk.chart(name, sheet="zz new", data_range="A1:B3", chart_type="line", title="new")
        assert desk.book(name).sheets[-1].charts[0].chart.series[0].values == ("1", "2")
        desk.delete_tab(name, made.tab_index)
        wrong += [
            f"{path.name}: {f.where} {f.kind} {f.before} -> {f.after}"
            for f in diff_bytes(path.name, data, desk.bytes(name))
            if not f.kind.endswith(".derived")
        ]
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(io.BytesIO(desk.bytes(name))) as new:
            more = set(new.namelist()) - {n.lstrip("/") for n in old.namelist()} - set(old.namelist())
            wrong += [
                f"{path.name}: {part} was left behind" for part in more if not part.endswith(("styles.xml", ".rels"))
            ]
    assert not wrong, "\n".join(wrong[:50])
