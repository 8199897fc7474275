"""The app behind the real server process, spoken to with the official client."""

from __future__ import annotations

import json

import pytest

SLIDES = [{"layout": "title", "title": "T", "subtitle": "S"}, {"title": "Points", "bullets": {"items": ["a"]}}]


async def test_the_meta_tool_wrapped_and_flat(tools) -> None:
    made = await tools.call(
        "slides", {"request": {"action": "create", "directory": "/", "file_name": "d.pptx", "slides": SLIDES}}
    )
    assert not made.error, made.text
    assert made.data["action"] == "create"
    assert made.data["create"]["slides"] == 2
    flat = await tools.session.call_tool(tools.name("slides"), {"action": "read_deck", "file_path": "/d.pptx"})
    slides = flat.structuredContent["read_deck"]["slides"]
    assert slides[1]["content"] == "## Points\n- a", "objects, not JSON in JSON"
    added = await tools.call(
        "slides", {"action": "add_slide", "input_data": {"file_path": "/d.pptx", "index": 0, "title": "First"}}
    )
    assert added.data["add_slide"]["total_slides"] == 3
    edited = await tools.call(
        "slides", {"action": "edit", "file_path": "/d.pptx", "operations": [{"type": "delete_slide", "index": 0}]}
    )
    assert edited.data["edit"]["total_slides"] == 2


async def test_errors_name_what_there_is(tools, sample_deck) -> None:
    unknown = await tools.call("slides", {"action": "help"})
    assert unknown.error
    assert "create, delete, add_slide, edit" in unknown.text
    missing = await tools.call("slides", {"action": "read_deck", "file_path": "/none.pptx"})
    assert missing.error
    assert "/none.pptx" in missing.text
    (tools.root / "cut.pptx").write_bytes(sample_deck[:5000])
    cut = await tools.call("slides", {"action": "read_deck", "file_path": "/cut.pptx"})
    assert cut.error
    assert "cut.pptx" in cut.text
    assert "corrupt" in cut.text
    wrong = await tools.call(
        "slides", {"action": "edit", "file_path": "/d.pptx", "operations": [{"type": "set_bulets"}]}
    )
    assert wrong.error
    assert "set_bullets" in wrong.text
    outside = await tools.call("slides", {"action": "read_deck", "file_path": "/../../etc/x.pptx"})
    assert outside.error
    assert "leads out" in outside.text


@pytest.mark.slow
async def test_keys_of_pictures_hold_in_a_fresh_process(start_tools, sample_deck) -> None:
    first = await start_tools(("slides",), mode="individual")
    (first.root / "d.pptx").write_bytes(sample_deck)
    second = await start_tools(("slides",), mode="individual")
    shown = await second.call("read_image", {"file_path": "/d.pptx", "annotation": "slide4_img1"})
    assert not shown.error
    assert shown.images[0].startswith(b"\x89PNG")
    read = await second.call("read_individualslide", {"file_path": "/d.pptx", "slide_index": 4})
    assert [i["annotation"] for i in read.data["images"]] == ["slide4_img0", "slide4_img1"]


async def test_every_operation_has_its_schema(tools) -> None:
    listed = await tools.call("slides_schema", {"schema_name": "edit"})
    text = json.dumps(listed.data)
    for name in ("duplicate_slide", "format_table_cell", "apply_text_formatting", "bg_color"):
        assert name in text
    one = await tools.call("slides_schema", {"schema_name": "DuplicateSlide"})
    assert one.data["json_schema"]["properties"]["position"]["enum"] == ["after", "end"]
