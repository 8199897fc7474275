"""The operations of `edit_slides`, one model each, told apart by `type`.

Indices count from 0 and are those at the time the operation runs: deleting slide 2 makes slide 3 slide 2 for the
operations after it. Used by the tool's arguments, its handler, and the schema companion.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from envkit.harnesses.archipelago.servers.slides.fields import (
    Colour,
    Items,
    Layout,
    Part,
    Placeholder,
    Rows,
    SlideIndex,
    SlideModel,
)

__all__ = [
    "VARIANTS", "AddHyperlink", "AddSlideOperation", "AppendBullets", "AppendTable", "ApplyTextFormatting",
    "ClearPlaceholder", "DeleteSlide", "DuplicateSlide", "FormatTableCell", "Operation", "ReplaceText", "SetBullets",
    "SetNotes", "UpdateSlideSubtitle", "UpdateSlideTitle", "UpdateTableCell",
]  # fmt: skip

_TABLE = Field(ge=0, description="Which table of the slide, counted from 0 in drawing order, through groups")
_ROW = Field(ge=0, description="Row, from 0")
_COLUMN = Field(ge=0, description="Column, from 0")
_WHERE = "Where on the slide: `body` is the main content, `left` and `right` the halves of a two-column slide"
_PARAGRAPH = Field(None, ge=0, description="Paragraph, from 0")
_RUN = Field(None, ge=0, description="Run (stretch of one look) in the paragraph, from 0; read_individualslide shows")


class UpdateSlideTitle(SlideModel):
    """Sets the title of a slide; its look stays."""

    type: Literal["update_slide_title"]
    index: SlideIndex
    title: str = Field(description="The new title")


class UpdateSlideSubtitle(SlideModel):
    """Sets the subtitle of a slide; its look stays."""

    type: Literal["update_slide_subtitle"]
    index: SlideIndex
    subtitle: str = Field(description="The new subtitle")


class SetBullets(SlideModel):
    """Replaces the bullet points of a placeholder; their look stays."""

    type: Literal["set_bullets"]
    index: SlideIndex
    placeholder: Placeholder = Field("body", description=_WHERE)
    items: Items = Field(description="One text per bullet point; a leading tab makes it a sub-point")


class AppendBullets(SlideModel):
    """Adds bullet points after those of a placeholder."""

    type: Literal["append_bullets"]
    index: SlideIndex
    placeholder: Placeholder = Field("body", description=_WHERE)
    items: Items = Field(description="One text per bullet point; a leading tab makes it a sub-point")


class ClearPlaceholder(SlideModel):
    """Empties a placeholder of its text."""

    type: Literal["clear_placeholder"]
    index: SlideIndex
    placeholder: Placeholder = Field("body", description=_WHERE)


class ReplaceText(SlideModel):
    """Replaces a text everywhere on the slides, tables and groups included; the looks of runs stay."""

    type: Literal["replace_text"]
    search: str = Field(min_length=1, description="The text to find, within a paragraph")
    replace: str = Field(description='What takes its place; "" deletes it')
    match_case: bool = Field(False, description="Whether upper and lower case must match")


class AppendTable(SlideModel):
    """Adds a table where a placeholder stands; an empty one is taken by it."""

    type: Literal["append_table"]
    index: SlideIndex
    placeholder: Placeholder = Field("body", description=_WHERE)
    rows: Rows = Field(description="Rows of cell texts, all of the same length")
    header: bool = Field(True, description="Whether the first row is a header row")


class UpdateTableCell(SlideModel):
    """Sets the text of a table's cell; its look stays."""

    type: Literal["update_table_cell"]
    index: SlideIndex
    table_idx: int = _TABLE
    row: int = _ROW
    column: int = _COLUMN
    text: Annotated[str, BeforeValidator(lambda v: "" if v is None else v)] = Field(description="The new text")


class _Looks(SlideModel):
    bold: bool | None = Field(None, description="Bold or not; left out: as it is")
    italic: bool | None = Field(None, description="Italic or not")
    underline: bool | None = Field(None, description="Underlined or not")
    font_size: float | None = Field(None, ge=1, le=4000, description="Size in points")
    font_color: Colour | None = Field(None, description="Colour, six hex digits")

    @model_validator(mode="after")
    def _something(self) -> _Looks:
        fields = set(type(self).model_fields) - _ADDRESS
        if all(getattr(self, name) is None for name in fields):
            raise ValueError(f"nothing to change: give at least one of {', '.join(sorted(fields))}")
        return self


#: Fields that say where, not how.
_ADDRESS = {"type", "index", "table_idx", "row", "column", "placeholder", "paragraph_index", "run_index"}


class FormatTableCell(_Looks):
    """Changes the look of a table's cell."""

    type: Literal["format_table_cell"]
    index: SlideIndex
    table_idx: int = _TABLE
    row: int = _ROW
    column: int = _COLUMN
    bg_color: Colour | None = Field(None, description="Colour of the cell, six hex digits")


class ApplyTextFormatting(_Looks):
    """Changes the look of text in a placeholder: all of it, one paragraph, or one run."""

    type: Literal["apply_text_formatting"]
    index: SlideIndex
    placeholder: Part = Field("body", description=_WHERE + ", `title` the title")
    paragraph_index: int | None = _PARAGRAPH
    run_index: int | None = _RUN
    font_name: str | None = Field(None, min_length=1, description="Font, e.g. Arial")
    alignment: Literal["left", "center", "right", "justify"] | None = Field(None, description="Of whole paragraphs")


class AddHyperlink(SlideModel):
    """Makes a run of text a link."""

    type: Literal["add_hyperlink"]
    index: SlideIndex
    placeholder: Part = Field("body", description=_WHERE + ", `title` the title")
    url: str = Field(min_length=1, description="Where it leads, e.g. https://example.com or mailto:a@example.com")
    paragraph_index: int | None = _PARAGRAPH
    run_index: int | None = _RUN


class SetNotes(SlideModel):
    """Sets the speaker notes of a slide."""

    type: Literal["set_notes"]
    index: SlideIndex
    notes: str = Field(description='The notes; "" empties them')


class AddSlideOperation(SlideModel):
    """Puts a new slide in."""

    type: Literal["add_slide"]
    index: int = Field(ge=0, description="Where: 0 is before the first; the number of slides is after the last")
    layout: Layout = Field("title_and_content", description="The kind of slide")
    title: str | None = Field(None, description="Its title")
    subtitle: str | None = Field(None, description="Text below the title (layouts title and section_header)")
    bullets: Items | None = Field(None, description="Bullet points")


class DeleteSlide(SlideModel):
    """Deletes a slide."""

    type: Literal["delete_slide"]
    index: SlideIndex


class DuplicateSlide(SlideModel):
    """Copies a slide with all that is on it, its notes included."""

    type: Literal["duplicate_slide"]
    index: SlideIndex
    position: Literal["after", "end"] = Field("after", description="Right after the slide, or at the end of the deck")


Operation = Annotated[
    UpdateSlideTitle
    | UpdateSlideSubtitle
    | SetBullets
    | AppendBullets
    | ClearPlaceholder
    | ReplaceText
    | AppendTable
    | UpdateTableCell
    | FormatTableCell
    | ApplyTextFormatting
    | AddHyperlink
    | SetNotes
    | AddSlideOperation
    | DeleteSlide
    | DuplicateSlide,
    Field(discriminator="type"),
]

VARIANTS: tuple[type[SlideModel], ...] = (
    UpdateSlideTitle, UpdateSlideSubtitle, SetBullets, AppendBullets, ClearPlaceholder, ReplaceText, AppendTable,
    UpdateTableCell, FormatTableCell, ApplyTextFormatting, AddHyperlink, SetNotes, AddSlideOperation, DeleteSlide,
    DuplicateSlide,
)  # fmt: skip
