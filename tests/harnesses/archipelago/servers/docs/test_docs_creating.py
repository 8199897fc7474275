"""Making and deleting documents, the meta tool, and schemas without holes."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.harnesses.archipelago.servers.docs import APP

BLOCKS: list[Any] = [
    {"type": "heading", "text": "Report €", "level": 1},
    {"type": "paragraph", "text": "Bold\nand italic", "bold": True, "italic": True},
    {"type": "paragraph", "text": "Said", "style": "Quote"},
    {"type": "bullet_list", "items": ["a", 2]},
    {"type": "numbered_list", "items": ["one", "two"]},
    {"type": "table", "rows": [["Name", "Amount"], ["Rent", 1200.5], ["Fuel"]]},
    {"type": "page_break"},
    {"type": "section_break", "start_type": "continuous"},
    "Plain text is a paragraph",
    {"type": "numbered_list", "items": ["again one"]},
]


def test_every_kind_of_block(docs: Any) -> None:
    metadata = {"title": "T", "subject": "S", "author": "Ann", "comments": "C"}
    told = docs.create(*BLOCKS, metadata=metadata)
    assert told.startswith("Created /a.docx: 11 paragraphs (body.p.0 to body.p.10), 1 table, 2 sections, ")
    assert "Rows of unequal length" in told
    model = docs.model
    assert dict(model.properties) == {"title": "T", "subject": "S", "creator": "Ann", "description": "C"}
    assert [(p.level, p.text) for p in model.headings] == [(1, "Report €")]
    run = model.paragraphs[1].runs[0]
    assert (run.text, run.format.bold, run.format.italic) == ("Bold\nand italic", True, True)
    assert model.paragraphs[2].style == "Quote"
    labels = [(p.list.label, p.text) for p in model.paragraphs if p.list]
    assert labels[2:] == [("1.", "one"), ("2.", "two"), ("1.", "again one")]
    assert model.tables[0].rows == (("Name", "Amount"), ("Rent", "1200.5"), ("Fuel", ""))
    assert model.tables[0].cells[0][0].blocks[0].runs[0].format.bold
    assert [s.start for s in model.sections] == ["nextPage", "continuous"]
    assert b"tblHeader" in docs.part("word/document.xml")


def test_a_file_that_was_there_is_replaced_and_said_so(docs: Any) -> None:
    docs.create("one")
    assert docs.create("two").startswith("Replaced /a.docx: 1 paragraph (body.p.0)")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"content": []}, "content"),
        ({"content": ["ok", {"type": "headin", "text": "x"}]}, "heading"),
        ({"content": ["ok", {"type": "paragraph"}]}, "text"),
        ({"content": ["ok", {"type": "paragraph", "text": "x", "styl": "y"}]}, "style"),
        ({"content": ["ok", {"type": "paragraph", "text": "x", "style": "Qote"}]}, "did you mean 'Quote'"),
        ({"content": ["ok", {"type": "table", "rows": [[]]}]}, "rows are empty"),
        ({"content": ["ok", {"type": "heading", "text": "x", "level": 7}]}, "level"),
        ({"content": ["ok", {}]}, "type"),
        ({"file_name": "a/b.docx"}, "without slashes"),
        ({"file_name": "a.pdf"}, "must end in .docx"),
    ],
)
def test_mistakes_write_nothing(docs: Any, change: dict[str, Any], told: str) -> None:
    docs.put(b"was here before")
    made = docs.outcome("create_document", {"directory": "/", "file_name": "a.docx", "content": ["x"], **change})
    assert made.error
    assert made.fault is None, made.fault
    assert told in made.text
    assert docs.data == b"was here before"
    assert [p.name for p in docs.root.iterdir()] == ["a.docx"]


def test_deleting(docs: Any, png: Any) -> None:
    docs.create("one")
    docs.put(png(), "p.png")
    refused = docs.outcome("delete_document", {"file_path": "/p.png"})
    assert refused.error
    assert "is no document" in refused.text
    assert docs.text("delete_document").startswith("Deleted /a.docx: ")
    assert [p.name for p in docs.root.iterdir()] == ["p.png"]
    assert "there is no /a.docx" in docs.error("delete_document")


def test_the_meta_tool_says_what_happened_in_every_action(docs: Any, png: Any) -> None:
    docs.put(png(), "p.png")
    made = docs.meta(action="create", directory="/", file_name="a.docx", content=["one", "two"])
    assert made.structured["create"]["file_path"] == "/a.docx"
    path = {"file_path": "/a.docx"}
    writes: list[dict[str, Any]] = [
        {"action": "add_text", "identifier": "body.p.0", "text": "!"},
        {"action": "edit_text", "identifier": "body.p.0", "new_text": "One!"},
        {"action": "delete_text", "identifier": "body.p.1", "scope": "element"},
        {"action": "add_image", "identifier": "body.p.0", "image_path": "/p.png"},
        {"action": "modify_image", "image_index": 0, "operation": "flip", "flip": "vertical"},
        {"action": "format", "identifier": "body.p.0", "bold": True},
        {"action": "header_footer", "hf_action": "set", "area": "footer", "content": ["f"]},
        {"action": "page_margins", "pm_action": "set", "margin_top": 2},
        {"action": "page_orientation", "po_action": "set", "orientation": "landscape"},
        {"action": "comments", "comments_action": "add", "identifier": "body.p.0", "comment_text": "c"},
    ]
    for request in writes:
        made = docs.meta(**path, **request)
        assert not made.error, made.text
        payload = made.structured[request["action"]]
        assert payload["status"] == "success"
        assert payload.get("message") or payload.get("raw_output")
    for action in ("overview", "read_content"):
        assert docs.meta(action=action, **path).structured[action]["raw_output"]
    assert docs.meta(action="read_image", annotation="0", **path).blocks[-1]["type"] == "image"
    assert docs.meta(action="delete", **path).structured["delete"]["file_path"] == "/a.docx"
    refused = docs.meta(action="edit_text", identifier="body.p.0", **path)
    assert refused.error
    assert "new_text" in refused.text


def test_blocks_are_typed_in_both_schemas() -> None:
    """The original's schemas left the items of `content` without a type: models sent empty objects."""
    kinds = {"paragraph", "heading", "bullet_list", "numbered_list", "table", "page_break", "section_break"}
    create, side = (next(t for t in APP.tools if t.name == n).arguments for n in ("create_document", "header_footer"))
    for model, wanted in (
        (create, kinds),
        (APP.metas[0].request, kinds),
        (side, kinds - {"page_break", "section_break"}),
    ):
        schema = model.model_json_schema()
        found = {d["properties"]["type"]["const"] for d in schema["$defs"].values() if "type" in d["properties"]}
        assert found == wanted
