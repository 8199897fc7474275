"""The docs app as data: arguments, tools and the meta tool, with the published names. Loads no document library."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool
from envkit.harnesses.archipelago.servers.docs.blocks import (
    BulletList,
    Content,
    Heading,
    Metadata,
    NumberedList,
    PageBreak,
    Paragraph,
    SectionBreak,
    SideContent,
    Table,
    Text,
)

__all__ = [
    "APP", "AddImage", "AddText", "Comments", "CreateDocument", "DeleteDocument", "DeleteText", "DocsRequest",
    "EditText", "Format", "HeaderFooter", "ModifyImage", "Overview", "PageMargins", "PageOrientation", "ReadContent",
    "ReadImage",
]  # fmt: skip


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


_FILE = "Path of the document, for example /reports/plan.docx."
_IDENTIFIER = (
    "What to work on, as read_document_content shows it: body.p.3 (paragraph), body.p.3.r.0 (run), "
    "body.tbl.0.r.1.c.2 (cell), header.s.0.p.0."
)
_BLANK_LINE = " A line feed is a line break; a blank line (two line feeds) begins a new paragraph."
Position = Annotated[Literal["start", "end", "before", "after"], BeforeValidator(_lower)]
Scope = Annotated[Literal["content", "element"], BeforeValidator(_lower)]
Operation = Annotated[Literal["rotate", "flip", "brightness", "contrast"], BeforeValidator(_lower)]
Flip = Annotated[Literal["horizontal", "vertical"], BeforeValidator(_lower)]
Area = Annotated[Literal["header", "footer"], BeforeValidator(_lower)]
HeaderAction = Annotated[Literal["read", "set", "clear", "link"], BeforeValidator(_lower)]
ReadSet = Annotated[Literal["read", "set"], BeforeValidator(_lower)]
CommentsAction = Annotated[Literal["read", "add", "delete"], BeforeValidator(_lower)]
Orientation = Annotated[Literal["portrait", "landscape"], BeforeValidator(_lower)]
Factor = Annotated[float, Field(gt=0, le=20)]
Inches = Annotated[float, Field(gt=0, le=22)]
Margin = Annotated[float, Field(ge=0, le=22)]
Section = Annotated[int, Field(ge=0)]


class CreateDocument(Arguments):
    """A new document."""

    directory: str = Field(description="Folder to create it in, for example /reports; made if it doesn't exist.")
    file_name: str = Field(description="Its name, for example plan.docx; no slash.")
    content: Content = Field(min_length=1, description="Blocks from top to bottom, at least one.")
    metadata: Metadata | None = Field(None, description="Title, subject, author and comments.")


class DeleteDocument(Arguments):
    """A document to delete."""

    file_path: str = Field(description=_FILE)


class Overview(Arguments):
    """A document to look over."""

    file_path: str = Field(description=_FILE)


class ReadContent(Arguments):
    """A document to read."""

    file_path: str = Field(description=_FILE)
    page_index: int = Field(0, description="Which part of the text, from 0; a page has some 40,000 characters.")


class ReadImage(Arguments):
    """A picture to look at."""

    file_path: str = Field(description=_FILE)
    annotation: str = Field(description="Its key as read_document_content shows it, for example body_p_3_r0.")


class AddText(Arguments):
    """A text to add."""

    file_path: str = Field(description=_FILE)
    identifier: str = Field(description=_IDENTIFIER)
    text: Text = Field(min_length=1, description="The text to add." + _BLANK_LINE)
    position: Position = Field("end", description="start (or before), or end (or after) of what is there.")


class EditText(Arguments):
    """A text to change."""

    file_path: str = Field(description=_FILE)
    identifier: str = Field(description=_IDENTIFIER)
    new_text: Text = Field(
        description="The whole new text of it; what is the same stays as it is, with its look." + _BLANK_LINE
    )


class DeleteText(Arguments):
    """Something to delete."""

    file_path: str = Field(description=_FILE)
    identifier: str = Field(description=_IDENTIFIER)
    scope: Scope = Field(
        "content", description="content: the text goes, what holds it stays. element: all of it goes (not for cells)."
    )
    collapse_whitespace: bool = Field(
        False, description="For cells, with scope content: only one empty paragraph is left."
    )


class AddImage(Arguments):
    """A picture to add."""

    file_path: str = Field(description=_FILE)
    image_path: str = Field(description="Path of the picture: png, jpg, gif, bmp, tiff or webp.")
    identifier: str = Field(description=_IDENTIFIER)
    position: Position = Field("end", description="start (or before), or end (or after) of what is there.")
    width: Inches | None = Field(None, description="In inches; with the height left out, in proportion.")
    height: Inches | None = Field(None, description="In inches; with the width left out, in proportion.")


class ModifyImage(Arguments):
    """A picture to change."""

    file_path: str = Field(description=_FILE)
    image_index: int = Field(ge=0, description="The picture's index as read_document_content shows it, from 0.")
    operation: Operation = Field(description="What to do with it; rotation, flip, brightness or contrast says how.")
    rotation: int | None = Field(None, ge=-360, le=360, description="rotate: degrees clockwise.")
    flip: Flip | None = Field(None, description="flip: horizontal (left and right change) or vertical.")
    brightness: Factor | None = Field(None, description="brightness: factor, 1 leaves it, 2 is brighter, 0.5 darker.")
    contrast: Factor | None = Field(None, description="contrast: factor, 1 leaves it.")


class Format(Arguments):
    """A look to give; what is left out stays as it is."""

    file_path: str = Field(description=_FILE)
    identifier: str = Field(description=_IDENTIFIER)
    bold: bool | None = Field(None, description="true: on, false: off.")
    italic: bool | None = Field(None, description="true: on, false: off.")
    underline: bool | None = Field(None, description="true: on, false: off.")
    strikethrough: bool | None = Field(None, description="true: on, false: off.")
    font_size: Annotated[float, Field(ge=1, le=1638)] | None = Field(None, description="In points.")
    font_color: str | None = Field(None, description="Six hex digits, for example FF0000, or a name such as red.")


class HeaderFooter(Arguments):
    """A header or footer to read or change."""

    file_path: str = Field(description=_FILE)
    action: HeaderAction = Field(
        description="read; set: replace by content; clear: empty it; link: to the section before, or not."
    )
    area: Area = Field(description="header or footer.")
    section_index: Section = Field(0, description="The section, from 0.")
    content: SideContent | None = Field(None, description="set: blocks from top to bottom.")
    link_to_previous: bool | None = Field(
        None, description="link: true: show what the section before shows; false: have a copy of its own."
    )


class PageMargins(Arguments):
    """Margins to read or set, in inches; what is left out stays."""

    file_path: str = Field(description=_FILE)
    action: ReadSet = Field(description="read or set.")
    section_index: Section = Field(0, description="The section, from 0.")
    top: Margin | None = Field(None, description="In inches.")
    bottom: Margin | None = Field(None, description="In inches.")
    left: Margin | None = Field(None, description="In inches.")
    right: Margin | None = Field(None, description="In inches.")


class PageOrientation(Arguments):
    """An orientation to read or set."""

    file_path: str = Field(description=_FILE)
    action: ReadSet = Field(description="read or set.")
    section_index: Section = Field(0, description="The section, from 0.")
    orientation: Orientation | None = Field(None, description="set: portrait or landscape.")


class Comments(Arguments):
    """Comments to read, add or delete."""

    file_path: str = Field(description=_FILE)
    action: CommentsAction = Field(description="read, add or delete.")
    identifier: str | None = Field(None, description="add: " + _IDENTIFIER)
    text: Text | None = Field(None, description="add: the comment's text.")
    author: Text | None = Field(None, description="add: who says it.")
    comment_id: int | None = Field(None, description="delete: the comment's id as read shows it.")


class DocsRequest(Arguments):
    """One action on documents."""

    action: Literal[
        "help", "create", "delete", "overview", "read_content", "read_image", "add_text", "edit_text", "delete_text",
        "add_image", "modify_image", "format", "header_footer", "page_margins", "page_orientation", "comments",
    ] = Field(description="What to do; help lists the actions and the fields that each takes.")  # fmt: skip
    file_path: str | None = Field(None, description=_FILE + " For all actions but create.")
    directory: str | None = Field(None, description="create: folder, for example /reports.")
    file_name: str | None = Field(None, description="create: name ending in .docx.")
    content: Content | None = Field(None, description="create, header_footer (set): blocks from top to bottom.")
    metadata: Metadata | None = Field(None, description="create: title, subject, author, comments.")
    identifier: str | None = Field(
        None, description="add_text, edit_text, delete_text, add_image, format, comments (add): " + _IDENTIFIER
    )
    text: Text | None = Field(None, description="add_text: the text." + _BLANK_LINE)
    new_text: Text | None = Field(None, description="edit_text: the whole new text." + _BLANK_LINE)
    position: Position | None = Field(None, description="add_text, add_image: start (or before), end (or after).")
    scope: Scope | None = Field(None, description="delete_text: content (default) or element.")
    collapse_whitespace: bool | None = Field(None, description="delete_text in cells: leave one empty paragraph.")
    page_index: int | None = Field(None, description="read_content: which part of the text, from 0.")
    section_index: Section | None = Field(None, description="header_footer, page_margins, page_orientation: from 0.")
    annotation: str | None = Field(None, description="read_image: a key such as body_p_3_r0.")
    image_path: str | None = Field(None, description="add_image: path of the picture.")
    image_index: int | None = Field(None, ge=0, description="modify_image: the picture's index, from 0.")
    operation: Operation | None = Field(None, description="modify_image: what to do.")
    rotation: int | None = Field(None, ge=-360, le=360, description="modify_image rotate: degrees clockwise.")
    flip: Flip | None = Field(None, description="modify_image flip: horizontal or vertical.")
    brightness: Factor | None = Field(None, description="modify_image brightness: factor, 1 leaves it.")
    contrast: Factor | None = Field(None, description="modify_image contrast: factor, 1 leaves it.")
    width: Inches | None = Field(None, description="add_image: in inches.")
    height: Inches | None = Field(None, description="add_image: in inches.")
    bold: bool | None = Field(None, description="format: true on, false off.")
    italic: bool | None = Field(None, description="format: true on, false off.")
    underline: bool | None = Field(None, description="format: true on, false off.")
    strikethrough: bool | None = Field(None, description="format: true on, false off.")
    font_size: Annotated[float, Field(ge=1, le=1638)] | None = Field(None, description="format: in points.")
    font_color: str | None = Field(None, description="format: six hex digits, or a name such as red.")
    hf_action: HeaderAction | None = Field(None, description="header_footer: read, set, clear or link.")
    area: Area | None = Field(None, description="header_footer: header or footer.")
    link_to_previous: bool | None = Field(None, description="header_footer link: true or false.")
    pm_action: ReadSet | None = Field(None, description="page_margins: read or set.")
    margin_top: Margin | None = Field(None, description="page_margins set: in inches.")
    margin_bottom: Margin | None = Field(None, description="page_margins set: in inches.")
    margin_left: Margin | None = Field(None, description="page_margins set: in inches.")
    margin_right: Margin | None = Field(None, description="page_margins set: in inches.")
    po_action: ReadSet | None = Field(None, description="page_orientation: read or set.")
    orientation: Orientation | None = Field(None, description="page_orientation set: portrait or landscape.")
    comments_action: CommentsAction | None = Field(None, description="comments: read, add or delete.")
    comment_text: Text | None = Field(None, description="comments add: the text.")
    comment_author: Text | None = Field(None, description="comments add: who says it.")
    comment_id: int | None = Field(None, description="comments delete: the comment's id.")


class ReadResult(BaseModel):
    """What was read."""

    raw_output: str


class WriteResult(BaseModel):
    """What was done."""

    status: Literal["success"]
    message: str


class FileResult(BaseModel):
    """A file was created or deleted."""

    status: Literal["success"]
    file_path: str
    message: str


class StateResult(BaseModel):
    """What a tool that reads and sets says."""

    status: Literal["success"]
    raw_output: str


def _file(text: str) -> dict[str, Any]:
    found = re.match(r"(?:Created|Replaced|Deleted) (/.+?\.\w+)[:.]", text)
    return {"status": "success", "file_path": found[1] if found else "", "message": text}


def _written(text: str) -> dict[str, Any]:
    return {"status": "success", "message": text}


def _state(text: str) -> dict[str, Any]:
    return {"status": "success", "raw_output": text}


def _same(*names: str, **others: str) -> dict[str, str]:
    return {**{name: name for name in names}, **others}


def _tool(
    name: str, arguments: type[Arguments], handler: str, description: str, *, wrapped: bool = False,
    writes: bool = False, lock: str | None = None,
) -> Tool:  # fmt: skip
    return Tool(
        name, description, arguments, handler, wrapper="input" if wrapped else None, writes=writes,
        lock="file_path" if writes and lock is None else lock,
    )  # fmt: skip


_TOOLS = (
    Tool(
        "create_document", "Create a Word document (docx) from blocks: paragraphs, headings, lists, tables, page and "
        "section breaks.", CreateDocument, "creating:create_document", wrapper="input", writes=True,
    ),
    _tool("delete_document", DeleteDocument, "creating:delete_document", "Delete a document.", writes=True),
    _tool("get_document_overview", Overview, "reading:get_document_overview",
          "Headings with their identifiers, tables, images, sections; counts of comments, tracked changes and more."),
    _tool("read_document_content", ReadContent, "reading:read_document_content",
          "Read a document in reading order, each paragraph and table with its identifier: text, tracked changes, "
          "comments, links, text boxes, notes, images. docx, docm; doc, odt and rtf where LibreOffice is there.",
          wrapped=True),
    _tool("read_image", ReadImage, "reading:read_image", "Look at one picture of a document, by its annotation."),
    _tool("add_content_text", AddText, "editing:add_content_text",
          "Add text to a paragraph, run or cell, or new paragraphs beside it.", writes=True),
    _tool("edit_content_text", EditText, "editing:edit_content_text",
          "Replace the text of a paragraph, run or cell; only what differs is changed, the rest keeps its look.",
          writes=True),
    _tool("delete_content_text", DeleteText, "editing:delete_content_text",
          "Delete the text of a paragraph, run, cell, row or table, or (scope element) all of it.", writes=True),
    _tool("add_image", AddImage, "pictures:add_image", "Put a picture into a paragraph or cell.", wrapped=True,
          writes=True),
    _tool("modify_image", ModifyImage, "pictures:modify_image",
          "Rotate, flip, brighten or darken one picture of a document, or change its contrast.", wrapped=True,
          writes=True),
    _tool("apply_formatting", Format, "formatting:apply_formatting",
          "Give a paragraph, run, cell, row or table bold, italics, underline, strikethrough, a size or a colour.",
          wrapped=True, writes=True),
    _tool("header_footer", HeaderFooter, "sides:header_footer",
          "Read, set, clear or link the header or footer of a section.", wrapped=True, writes=True),
    _tool("page_margins", PageMargins, "pages:page_margins", "Read or set the margins of a section, in inches.",
          wrapped=True, writes=True),
    _tool("page_orientation", PageOrientation, "pages:page_orientation",
          "Read or set the orientation of a section's pages.", wrapped=True, writes=True),
    _tool("comments", Comments, "remarks:comments", "Read, add or delete comments.", wrapped=True, writes=True),
)  # fmt: skip

APP = App(
    name="docs",
    server="docs_server",
    package="docs",
    tools=_TOOLS,
    metas=(
        Meta(
            "docs",
            "Document operations: create, read, edit and manage Word documents.",
            DocsRequest,
            {
                "create": Action(
                    "create_document", _same("directory", "file_name", "content", "metadata"), wrap=_file
                ),
                "delete": Action("delete_document", _same("file_path"), wrap=_file),
                "overview": Action("get_document_overview", _same("file_path")),
                "read_content": Action("read_document_content", _same("file_path", "page_index")),
                "read_image": Action("read_image", _same("file_path", "annotation")),
                "add_text": Action(
                    "add_content_text", _same("file_path", "identifier", "text", "position"), wrap=_written
                ),
                "edit_text": Action(
                    "edit_content_text", _same("file_path", "identifier", "new_text"), wrap=_written
                ),
                "delete_text": Action(
                    "delete_content_text", _same("file_path", "identifier", "scope", "collapse_whitespace"),
                    wrap=_written,
                ),
                "add_image": Action(
                    "add_image", _same("file_path", "image_path", "identifier", "position", "width", "height"),
                    wrap=_written,
                ),
                "modify_image": Action(
                    "modify_image",
                    _same("file_path", "image_index", "operation", "rotation", "flip", "brightness", "contrast"),
                    wrap=_written,
                ),
                "format": Action(
                    "apply_formatting",
                    _same("file_path", "identifier", "bold", "italic", "underline", "strikethrough", "font_size",
                          "font_color"),
                    wrap=_written,
                ),
                "header_footer": Action(
                    "header_footer",
                    _same("file_path", "area", "section_index", "content", "link_to_previous", hf_action="action"),
                    wrap=_state,
                ),
                "page_margins": Action(
                    "page_margins",
                    _same("file_path", "section_index", pm_action="action", margin_top="top", margin_bottom="bottom",
                          margin_left="left", margin_right="right"),
                    wrap=_state,
                ),
                "page_orientation": Action(
                    "page_orientation", _same("file_path", "section_index", "orientation", po_action="action"),
                    wrap=_state,
                ),
                "comments": Action(
                    "comments",
                    _same("file_path", "identifier", "comment_id", comments_action="action", comment_text="text",
                          comment_author="author"),
                    wrap=_state,
                ),
            },
        ),
    ),
    models={
        "input": DocsRequest,
        "CreateResult": FileResult,
        "DeleteResult": FileResult,
        "OverviewResult": ReadResult,
        "ReadContentResult": ReadResult,
        "WriteResult": WriteResult,
        "StateResult": StateResult,
        "paragraph": Paragraph,
        "heading": Heading,
        "bullet_list": BulletList,
        "numbered_list": NumberedList,
        "table": Table,
        "page_break": PageBreak,
        "section_break": SectionBreak,
    },
)  # fmt: skip
