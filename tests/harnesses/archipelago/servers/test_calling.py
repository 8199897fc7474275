"""Arguments that models send, and what they are told: harmless mistakes are mended, the others named in plain words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envkit.harnesses.archipelago.servers import calling, catalog, schemas
from envkit.harnesses.archipelago.servers.context import ToolError

sys.path.insert(0, str(Path(__file__).parent))
from apps.trouble.declared import APP


def called(name, arguments, world):
    return calling.call_tool(APP, name, arguments, world)


SET = {"type": "set_cell", "cell": "A1", "value": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": {"file_path": "a", "operations": [SET]}},
        {"file_path": "a", "operations": [SET]},
        {"request": {"file_path": "a", "operations": [SET]}},
        {"input": '{"file_path": "a", "operations": [{"type": "set_cell", "cell": "A1", "value": 1}]}'},
        {"input": {"file_path": "a", "operations": SET}},
        {"input": {"file_path": "a", "operations": '[{"type": "set_cell", "cell": "A1", "value": 1}]'}},
        {"input": {"file_path": "a", "operations": ['{"type": "set_cell", "cell": "A1", "value": 1}']}},
        {"input": {"file_path": "a", "operations": [SET], "level": None, "tags": None}},
        {"input": {"file_path": "a", "operations": [SET], "level": "3", "kind": "Bar", "tags": "one"}},
        {"input": {"file_path": "a", "operations": [SET], "level": "3.0"}},
        {"input": {"file_path": "a", "operations": [{"type": "rename_sheet", "sheet": 2024, "new_name": 2025}]}},
        {"file_path": "a", "input": {"operations": [SET]}},
        {"input": {"request": {"input": {"file_path": "a", "operations": [SET]}}}},
    ],
)
def test_harmless_mistakes_are_mended(world, arguments):
    outcome = called("edit", arguments, world)
    assert not outcome.error, outcome.text
    assert outcome.structured == {"success": True, "applied": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["`file_path` is required", "`operations` is required", "takes file_path, operations (required)"]),
        ({"fil_path": "a", "operations": []}, ["there is no field `fil_path` (did you mean 'file_path'?)"]),
        ({"file_path": "a", "operations": [{}]}, ["`operations[0]` must have `type`"]),
        (
            {"file_path": "a", "operations": [{"type": "set_cel", "cell": "A1"}]},
            ["`operations[0]`: type 'set_cel' is not known (did you mean 'set_cell'?)", "rename_sheet"],
        ),
        ({"file_path": "a", "operations": [{"type": "set_cell", "cell": "A1"}]}, ["`operations[0].value` is required"]),
        (
            {"file_path": "a", "operations": [{**SET, "cel": 1}]},
            ["there is no field `operations[0].cel` (did you mean 'cell'?)"],
        ),
        ({"file_path": "a", "operations": "all"}, ["`operations"]),
        ({"file_path": "a", "operations": [SET], "level": "high"}, ['`level` must be a whole number, found "high"']),
        ({"file_path": "a", "operations": [SET], "kind": "bars"}, ["'bar' or 'line'", "did you mean 'bar'?"]),
        ({"file_path": {"x": 1}, "operations": [SET]}, ['`file_path` must be text, found {"x": 1}']),
        ("text", ["must be an object"]),
        ([1], ["must be an object"]),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(world, arguments, words):
    outcome = called("edit", arguments, world)
    assert outcome.error
    for word in words:
        assert word in outcome.text, outcome.text
    assert "pydantic" not in outcome.text
    assert "Input should" not in outcome.text


def test_a_meta_call_is_an_envelope_without_nulls(world):
    outcome = calling.call_meta(
        APP, "trouble", {"request": {"action": "edit", "path": "a", "operations": [SET]}}, world
    )
    assert outcome.structured == {"action": "edit", "edit": {"success": True, "applied": 1}}
    assert "null" not in outcome.text
    outcome = calling.call_meta(APP, "trouble", {"action": "Wait", "seconds": 0, "path": None, "operations": []}, world)
    assert outcome.structured == {"action": "wait", "wait": {"raw_output": "slept"}}
    outcome = calling.call_meta(APP, "trouble", {"action": "look", "size": 3}, world)
    assert [block["type"] for block in outcome.blocks] == ["image"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "`action` is required, one of help, wait, edit, say, look"),
        ({"action": "edits"}, "there is no action 'edits' (did you mean 'edit'?)"),
        ({"action": "wait"}, "trouble action wait: `seconds` is required. trouble action wait takes seconds."),
        ({"action": "wait", "seconds": 1, "path": "x"}, "does not take `path`. trouble action wait takes seconds."),
        ({"action": "edit", "path": "a", "operations": [{"type": "x"}]}, "type 'x' is not known"),
        ({"action": "wait", "secnds": 1}, "there is no field `secnds` (did you mean 'seconds'?)"),
    ],
)
def test_a_meta_call_that_does_not_fit_names_the_fields_of_its_action(world, request_, words):
    outcome = calling.call_meta(APP, "trouble", {"request": request_}, world)
    assert outcome.error
    assert words in outcome.text, outcome.text


def test_an_error_of_an_action_is_in_its_envelope_too(world):
    broken = calling.call_meta(APP, "trouble", {"action": "say", "size": "many"}, world)
    assert broken.error
    outcome = calling.prepare_meta(APP, APP.metas[0], {"action": "say", "size": 1}).failed("why")
    assert outcome.structured == {"action": "say", "error": "why"}


def test_help_names_every_action_with_its_fields(world):
    helped = calling.call_meta(APP, "trouble", {"action": "help"}, world).structured["help"]
    assert list(helped["actions"]) == ["wait", "edit", "say", "look"]
    assert helped["actions"]["edit"]["required"] == ["path", "operations"]
    assert "optional" not in helped["actions"]["wait"]


def test_the_companion_gives_full_schemas_and_names_what_it_knows(world):
    outcome = calling.call_meta(APP, "trouble_schema", {"request": {"model": "edit"}}, world)
    schema = outcome.structured["json_schema"]
    assert schema["required"] == ["action", "path", "operations"]
    variants = schema["properties"]["operations"]["items"]["anyOf"]
    assert [variant["properties"]["type"]["enum"] for variant in variants] == [["set_cell"], ["rename_sheet"]]
    assert calling.call_meta(APP, "trouble_schema", {"model": "setcell"}, world).structured["model"] == "SetCell"
    unknown = calling.call_meta(APP, "trouble_schema", {"model": "SetCells"}, world)
    assert unknown.error
    assert "did you mean 'SetCell'" in unknown.text
    assert "Rename" in unknown.text
    assert "SetCell" in calling.call_meta(APP, "trouble_schema", {}, world).structured["models"]


def test_schemas_are_written_out_without_what_says_nothing():
    schema = schemas.wire_schema(next(tool.arguments for tool in APP.tools if tool.name == "edit"), "input")
    text = str(schema)
    assert schema["required"] == ["input"]
    assert schema["properties"]["input"]["required"] == ["file_path", "operations"]
    for noise in ("$ref", "$defs", "'title'", "null", "discriminator"):
        assert noise not in text
    assert schema["properties"]["input"]["properties"]["level"] == {"type": "integer"}


def test_a_meta_tool_shows_variants_as_one_object_and_its_companion_in_full():
    app = catalog.load_app("sheets")
    meta, companion = catalog.build(app, "meta")
    shown = meta.input_schema["properties"]["request"]["properties"]["operations"]["items"]
    kinds = shown["properties"]["type"]["enum"]
    assert {"set_cell", "append_rows", "format_cells", "add_image"} <= set(kinds)
    assert shown["required"] == ["type"]
    assert "rename_sheet(sheet*, new_name*)" in shown["description"]
    assert companion.name == "sheets_schema"
    individual = next(entry for entry in catalog.build(app, "individual") if entry.name == "edit_spreadsheet")
    variants = individual.input_schema["properties"]["input"]["properties"]["operations"]["items"]["anyOf"]
    assert [variant["properties"]["type"]["enum"][0] for variant in variants] == kinds
    for variant in variants:  # every field of every variant is there
        assert set(variant["properties"]) <= set(shown["properties"])


def test_every_schema_of_every_app_is_typed():
    """No bare object and no bare list anywhere, in either mode."""

    def bare(node, place):
        if isinstance(node, list):
            return [found for item in node for found in bare(item, place)]
        if not isinstance(node, dict):
            return []
        found = []
        if node.get("type") == "object" and not node.get("properties") and "additionalProperties" not in node:
            found.append(place)
        if node.get("type") == "array" and not node.get("items"):
            found.append(place)
        for key, value in node.items():
            if key == "properties":
                for name, item in value.items():
                    if not set(item) & {"type", "anyOf", "enum"}:
                        found.append(f"{place}.{name}")
                    found += bare(item, f"{place}.{name}")
            elif key not in ("enum", "required", "default", "examples"):
                found += bare(value, place)
        return found

    problems = []
    for app in catalog.chosen(None):
        for mode in ("meta", "individual"):
            for entry in catalog.build(catalog.load_app(app), mode):
                if entry.input_schema["properties"]:
                    problems += bare(entry.input_schema, entry.name)
    assert problems == []


def test_apps_are_found_by_their_published_names_and_wrong_ones_are_corrected():
    assert catalog.chosen(["sheets_server", "code_execution_server", "filesystem"]) == ("filesystem", "code", "sheets")
    with pytest.raises(ValueError, match="did you mean 'sheets'"):
        catalog.chosen(["sheet"])


def test_a_tool_error_may_come_from_anywhere():
    with pytest.raises(ToolError):
        calling.prepare_tool(APP, APP.tools[0], {"seconds": "soon"})
