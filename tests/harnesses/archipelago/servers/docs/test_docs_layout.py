"""Pictures, headers and footers, pages, comments: read, set and taken away, and nothing else changes."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from PIL import Image as Picture


def kinds(docs: Any, before: bytes) -> set[tuple[str, str]]:
    return {(f.kind, f.change.value) for f in docs.changes(before)}


def media(docs: Any) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(docs.data)) as package:
        return {n: package.read(n) for n in package.namelist() if "/media/" in n}


@pytest.fixture
def pictured(docs: Any, png: Any) -> Any:
    """Two paragraphs that show one and the same file, and one that shows another."""
    docs.put(png(), "red.png")
    docs.put(png((0, 0, 200)), "blue.png")
    docs.create("one", "two", "three")
    docs.text("add_image", image_path="/red.png", identifier="body.p.0")
    docs.text("add_image", image_path="/blue.png", identifier="body.p.2")
    # The second paragraph refers to the file of the first.
    data = docs.data
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            part = source.read(info)
            if info.filename == "word/document.xml":
                start = part.index(b"<w:r><w:drawing>")
                run = part[start : part.index(b"</w:r>", start) + 6]
                part = part.replace(b"two</w:t></w:r>", b"two</w:t></w:r>" + run)
            target.writestr(info, part)
    docs.put(out.getvalue())
    return docs


# --- pictures


def test_a_picture_is_put_in_at_its_size(docs: Any, png: Any) -> None:
    docs.put(png(size=(192, 96)), "p.png")
    docs.put(png(size=(3000, 300), kind="JPEG"), "wide.jpg")
    docs.put(png(kind="WEBP"), "w.webp")
    docs.create("text here")
    before = docs.data
    told = docs.text("add_image", image_path="/p.png", identifier="body.p.0", position="start")
    assert "2.00 x 1.00 in; it is image 0, annotation @body_p_0_r0" in told
    assert kinds(docs, before) == {("image", "added")}
    assert "made to fit the width of the text" in docs.text(
        "add_image", image_path="/wide.jpg", identifier="body.p.0.r.1"
    )
    assert "1.50 x 0.75 in" in docs.text("add_image", image_path="/w.webp", identifier="body.p.0", width=1.5)
    assert [round(i.width / 72, 2) for i in docs.model.images] == [2.0, 6.0, 1.5]
    assert len(media(docs)) == 3
    docs.put(b"no picture", "bad.png")
    assert "no picture that can be read" in docs.error("add_image", image_path="/bad.png", identifier="body.p.0")
    assert "there is no /gone.png" in docs.error("add_image", image_path="/gone.png", identifier="body.p.0")


def test_a_shared_file_is_split_and_changed_once(pictured: Any) -> None:
    before = pictured.data
    told = pictured.text("modify_image", image_index=1, operation="rotate", rotation=90)
    assert "96 x 48 -> 48 x 96 pixels" in told
    assert "Its file is shown elsewhere too" in told
    assert {(f.kind, f.where) for f in pictured.changes(before)} == {("image.content", "¶2"), ("image.size", "¶2")}
    first, second, third = pictured.model.images
    assert first.hash != second.hash != third.hash
    assert (second.width, second.height) == (first.height, first.width)


def test_operations_do_what_they_say(docs: Any) -> None:
    image = Picture.new("RGBA", (20, 10), (100, 100, 100, 0))
    image.putpixel((0, 0), (200, 0, 0, 255))
    out = io.BytesIO()
    image.save(out, "PNG")
    docs.put(out.getvalue(), "p.png")
    docs.create("x")
    docs.text("add_image", image_path="/p.png", identifier="body.p.0")

    def now() -> Any:
        (data,) = media(docs).values()
        return Picture.open(io.BytesIO(data)).convert("RGBA")

    docs.text("modify_image", image_index=0, operation="flip", flip="Horizontal")
    assert now().getpixel((19, 0)) == (200, 0, 0, 255)
    docs.text("modify_image", image_index=0, operation="rotate", rotation=90)
    assert now().size == (10, 20)
    assert now().getpixel((9, 19)) == (200, 0, 0, 255)
    docs.text("modify_image", image_index=0, operation="brightness", brightness=0.5)
    assert now().getpixel((9, 19)) == (100, 0, 0, 255)
    assert now().getpixel((0, 0))[3] == 0
    docs.text("modify_image", image_index=0, operation="contrast", contrast=1.5)
    docs.text("modify_image", image_index=0, operation="rotate", rotation=45)
    assert now().size[0] > 20
    assert "takes flip" in docs.error("modify_image", image_index=0, operation="flip")
    assert "does not take flip" in docs.error(
        "modify_image", image_index=0, operation="contrast", contrast=2, flip="vertical"
    )
    assert "it has 1, 0 to 0" in docs.error("modify_image", image_index=5, operation="flip", flip="vertical")


# --- headers and footers


def test_headers_are_set_cleared_linked_and_unlinked(docs: Any) -> None:
    docs.create("one", {"type": "section_break"}, "two")
    before = docs.data
    content = [{"type": "paragraph", "text": "Draft"}, {"type": "table", "rows": [["a", "b"]], "width": 3}]
    told = docs.text("header_footer", action="set", area="header", content=content)
    assert "Set the header of section 0: '' -> 'Draft" in told
    assert "linked to it show the same" in told
    assert {k for k, _ in kinds(docs, before)} <= {"header", "header.table", "table"}
    assert "[header.s.1.p.0 header] Draft" in docs.text("header_footer", action="read", area="header", section_index=1)
    assert "(linked to section 0's)" in docs.text("header_footer", action="read", area="header", section_index=1)
    told = docs.text("edit_content_text", identifier="header.s.1.p.0", new_text="Final")
    assert "The header is section 0's" in told
    docs.text("header_footer", action="link", area="header", section_index=1, link_to_previous=False)
    docs.text("header_footer", action="set", area="header", section_index=1, content=["Own"])
    sides = [[s.text.split("\n")[0] for s in section.sides] for section in docs.model.sections]
    assert sides == [["Final"], ["Own"]]
    docs.text("header_footer", action="link", area="header", section_index=1, link_to_previous=True)
    assert docs.model.sections[1].sides[0].text.startswith("Final")
    docs.text("header_footer", action="clear", area="header")
    assert docs.model.sections[0].sides == ()
    assert "has no footer; nothing was changed" in docs.text("header_footer", action="clear", area="footer")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "set"}, "takes content"),
        ({"action": "set", "content": [{"type": "page_break"}]}, "page_break"),
        ({"action": "link"}, "takes link_to_previous"),
        ({"action": "link", "link_to_previous": True}, "section 0 has no section before it"),
        ({"action": "read", "section_index": 3}, "there is no section 3"),
        ({"action": "clear", "content": ["x"]}, "does not take content"),
        ({"action": "set", "content": [{"type": "paragraph", "text": "x", "style": "Nonsense"}]}, "no paragraph style"),
    ],
)
def test_mistakes_about_headers(docs: Any, arguments: dict[str, Any], told: str) -> None:
    docs.create("one")
    assert told in docs.error("header_footer", area="header", **arguments)


# --- pages


def test_margins_and_orientation(docs: Any) -> None:
    docs.create("one")
    before = docs.data
    assert "top 1.00, bottom 1.00, left 1.25, right 1.25" in docs.text("page_margins", action="read")
    assert "-> top 0.50, bottom 1.00, left 2.00" in docs.text("page_margins", action="set", top=0.5, left="2")
    assert kinds(docs, before) == {("section.margins", "changed")}
    between = docs.data
    assert "landscape now" in docs.text("page_orientation", action="set", orientation="Landscape")
    assert kinds(docs, between) == {("section.page", "changed")}
    assert docs.model.sections[0].landscape
    assert "nothing was changed" in docs.text("page_orientation", action="set", orientation="landscape")
    assert "at least one of" in docs.error("page_margins", action="set")
    assert "leave no room" in docs.error("page_margins", action="set", left=6, right=6)
    assert "does not take top" in docs.error("page_margins", action="read", top=1)
    assert "takes orientation" in docs.error("page_orientation", action="set")
    assert "there is no section 2" in docs.error("page_margins", action="read", section_index=2)


# --- comments


def test_comments_are_anchored_read_and_deleted(docs: Any) -> None:
    docs.create("one", {"type": "paragraph", "text": "two bold", "bold": True}, {"type": "table", "rows": [["c"]]})
    before = docs.data
    told = docs.text("comments", action="add", identifier="body.p.1", text="Why?\nReally?", author="Ann Lee")
    assert "Added comment id 0 by Ann Lee to body.p.1, about 'two bold'" in told
    assert kinds(docs, before) == {("comment", "added")}
    assert "id 1" in docs.text("comments", action="add", identifier="body.tbl.0.r.0.c.0", text="Cell")
    assert "id 2" in docs.text("comments", action="add", identifier="body.p.1.r.0", text="Run")
    read = docs.text("comments", action="read")
    assert "3 comments" in read
    assert "at body.p.1 on 'two bold': Why?\nReally?" in read
    assert "at body.tbl.0.r.0.c.0.p.0 on 'c': Cell" in read
    assert "Deleted comment id 1" in docs.text("comments", action="delete", comment_id=1)
    docs.text("comments", action="delete", comment_id="0")
    docs.text("comments", action="delete", comment_id=2)
    assert docs.changes(before) == []
    assert b"comment" not in docs.part("word/document.xml")


def test_deleting_a_paragraph_takes_its_comments_along(docs: Any) -> None:
    docs.create("one", "two")
    docs.text("comments", action="add", identifier="body.p.0", text="x")
    assert "With it went comment 0" in docs.text("delete_content_text", identifier="body.p.0", scope="element")
    assert docs.model.remarks == ()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "add", "text": "x"}, "takes identifier"),
        ({"action": "add", "identifier": "body.p.0", "text": " "}, "neither empty"),
        ({"action": "add", "identifier": "body.p.7", "text": "x"}, "there is no body.p.7"),
        ({"action": "delete"}, "takes comment_id"),
        ({"action": "delete", "comment_id": 4}, "has no comment 4; it has none"),
        ({"action": "read", "text": "x"}, "does not take text"),
    ],
)
def test_mistakes_about_comments(docs: Any, arguments: dict[str, Any], told: str) -> None:
    docs.create("one")
    assert told in docs.error("comments", **arguments)
