"""The app behind a real server process and MCP client: both modes, results, errors in words, concurrent edits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.sheets import APP
from envkit.office.workbook import read_workbook

SHEETS = [{"name": "Data", "headers": ["Region", "Q1"], "rows": [["North", 10], ["South", 5], ["All", "=SUM(B2:B3)"]]}]


async def test_a_piece_of_work_through_the_meta_tool(tools: Any) -> None:
    made = await tools.call("sheets", {"action": "create", "directory": "/r", "file_name": "a.xlsx", "sheets": SHEETS})
    assert made.data["create"]["status"] == "success"
    assert made.data["create"]["sheets_created"] == 1
    path = "/r/a.xlsx"
    assert (
        "'Data'"
        in (await tools.call("sheets", {"action": "list_tabs", "file_path": path})).data["list_tabs"]["raw_output"]
    )
    read = await tools.call(
        "sheets", {"action": "read_tab", "file_path": path, "tab_index": 0, "include_formulas": True}
    )
    assert "15 (=SUM(B2:B3))" in read.data["read_tab"]["raw_output"]
    operations = [
        {"type": "set_cell", "sheet": "Data", "cell": "B2", "value": 100},
        {"type": "freeze_panes", "sheet": "Data", "cell": "A2"},
    ]
    edited = await tools.call("sheets", {"action": "edit", "file_path": path, "operations": operations})
    assert edited.data["edit"]["operations_applied"] == 2
    assert "Data!B2: 10 -> 100" in edited.data["edit"]["changes"]
    for action, more in {
        "add_tab": {"tab_name": "More", "sheet_data": {"rows": [[1, 2]]}},
        "add_content": {"tab_index": 1, "cell": "C1", "value": 5},
        "delete_content": {"tab_index": 1, "cell": "A1"},
        "create_chart": {"sheet": "Data", "data_range": "A1:B3", "chart_type": "pie"},
        "filter_tab": {"tab_index": 0, "filters": [{"column": "Q1", "operator": "greater_than", "value": 50}]},
        "delete_tab": {"tab_index": 1},
    }.items():
        answer = await tools.call("sheets", {"action": action, "file_path": path, **more})
        assert not answer.error, (action, answer.text)
        assert answer.data[action]
    assert read_workbook((tools.root / "r/a.xlsx").read_bytes()).sheets[0].charts[0].chart.kinds == ("pie",)
    (tools.root / "t.csv").write_text("a,b\n1,2\n")
    assert (
        "1\t1\t2"
        in (await tools.call("sheets", {"action": "read_csv", "file_path": "/t.csv"})).data["read_csv"]["raw_output"]
    )
    gone = await tools.call("sheets", {"action": "delete", "file_path": path})
    assert gone.data["delete"]["status"] == "success"
    assert not (tools.root / "r/a.xlsx").exists()
    assert [p.name for p in tools.root.rglob("*") if p.name.startswith(".")] == []


async def test_errors_are_in_words(tools: Any) -> None:
    (tools.root / "bad.xlsx").write_bytes(b"no workbook")
    for action, more in {
        "read_tab": {"tab_index": 0}, "list_tabs": {}, "delete_tab": {"tab_index": 0}, "add_tab": {"tab_name": "x"},
        "edit": {"operations": [{"type": "set_cell", "cell": "A1", "value": 1}]},
        "filter_tab": {"tab_index": 0, "filters": []}, "add_content": {"tab_index": 0, "cell": "A1", "value": "x"},
        "delete_content": {"tab_index": 0, "cell": "A1"}, "create_chart": {"sheet": "S", "data_range": "A1:B2"},
    }.items():  # fmt: skip
        answer = await tools.call("sheets", {"action": action, "file_path": "/bad.xlsx", **more})
        assert answer.error, action
        assert "bad.xlsx" in answer.text, answer.text
        assert "Traceback" not in answer.text
    wrong = await tools.call(
        "sheets", {"action": "edit", "file_path": "/bad.xlsx", "operations": [{"type": "set_cel", "cell": "A1"}]}
    )
    assert wrong.error
    assert "set_cell" in wrong.text
    wrong = await tools.call("sheets", {"action": "read_tab", "file_path": "/../../etc/passwd", "tab_index": 0})
    assert wrong.error
    assert "root:" not in wrong.text


async def test_operations_are_typed_in_the_schema(tools: Any) -> None:
    answer = await tools.call("sheets_schema", {"request": {"model": "set_cell"}})
    assert "cell" in json.dumps(answer.data or answer.json)


async def test_individual_mode(start_tools: Any) -> None:
    tools = await start_tools(apps=("sheets",), mode="individual")
    assert {tool.name for tool in APP.tools} == set(tools.listed)
    made = await tools.call("create_spreadsheet", {"input": {"directory": "/", "file_name": "a", "sheets": SHEETS}})
    assert "/a.xlsx" in made.text
    assert not made.error
    assert "15" in (await tools.call("read_tab", {"input": {"file_path": "/a.xlsx", "tab_index": 0}})).text
    edit = {"file_path": "/a.xlsx", "operations": json.dumps([{"type": "set_cell", "cell": "B2", "value": 1}])}
    assert not (await tools.call("edit_spreadsheet", {"input": edit})).error  # a list sent as text


async def test_many_edits_of_one_file_at_once(tools: Any) -> None:
    await tools.call("sheets", {"action": "create", "directory": "/", "file_name": "c.xlsx", "sheets": SHEETS})

    async def edit(number: int) -> Any:
        operations = [{"type": "set_cell", "sheet": "Data", "cell": f"D{number}", "value": number}]
        return await tools.call("sheets", {"action": "edit", "file_path": "/c.xlsx", "operations": operations})

    answers = await asyncio.gather(*(edit(n) for n in range(1, 6)))
    assert not [a.text for a in answers if a.error]
    sheet = read_workbook((tools.root / "c.xlsx").read_bytes()).sheets[0]
    assert [sheet.cells[n, 4].value for n in range(1, 6)] == list(range(1, 6))


@pytest.mark.parametrize("tool", APP.tools, ids=lambda t: t.name)
def test_every_field_that_a_model_sees_is_described(tool: Any) -> None:
    schema = tool.arguments.model_json_schema()
    for name, model in {"": schema, **schema.get("$defs", {})}.items():
        for field, about in model.get("properties", {}).items():
            if field == "type" and "const" in about:
                continue
            kinds = [about, *about.get("anyOf", [])]
            assert any("description" in kind or "$ref" in kind for kind in kinds), (name, field)
