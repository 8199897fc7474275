"""Types of the fields that slide tools share: texts and lists that forgive harmless slips, colours, layouts, positions.

A number where a text is meant is taken as its text, one text where a list is meant as a list of one. Used by the
argument models of the tools and of the edit operations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from envkit.harnesses.archipelago.servers.app import Arguments

__all__ = [
    "COLUMN_COUNT", "Bullets", "Colour", "Columns", "DeckPath", "Items", "Layout", "Metadata", "Part", "Placeholder",
    "Rows", "SlideBlock", "SlideIndex", "SlideModel", "Table",
]  # fmt: skip

Layout = Literal["title", "title_and_content", "section_header", "two_content", "title_only", "blank"]
Placeholder = Literal["body", "left", "right"]
#: The same with the title.
Part = Literal["title", "body", "left", "right"]
#: Columns beyond which a table is not a table.
COLUMN_COUNT = 100
_COLOUR = re.compile(r"#?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{3})$")


class SlideModel(Arguments):
    """Base of the models of this app: numbers are taken where texts are meant."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, coerce_numbers_to_str=True)

    #: The published tools spell these in two ways; either is taken everywhere.
    also: ClassVar[Mapping[str, str]] = {
        "slide_index": "index", "index": "slide_index", "table_index": "table_idx", "table_idx": "table_index",
        "file_path": "presentation_path", "presentation_path": "file_path", "row_index": "row", "col": "column",
        "column_index": "column", "content": "bullets", "body": "bullets",
    }  # fmt: skip


def _colour(text: str) -> str:
    match = _COLOUR.match(text.strip())
    if match is None:
        raise ValueError(f"expected a colour of six hex digits such as 1F77B4 or #1F77B4, found {text!r}")
    digits = match[1].upper()
    return digits if len(digits) == 6 else "".join(d * 2 for d in digits)


def _items(value: Any) -> Any:
    """One text, or `{"items": [...]}`, where a list of texts is meant."""
    if isinstance(value, dict) and set(value) == {"items"}:
        value = value["items"]
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _bullets(value: Any) -> Any:
    return {"items": _items(value)} if isinstance(value, list | str) else value


def _table(value: Any) -> Any:
    return {"rows": value} if isinstance(value, list) else value


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return ("TRUE" if value else "FALSE") if isinstance(value, bool) else value


def _even(rows: list[list[str]]) -> list[list[str]]:
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        first = len(rows[0])
        odd = next(i for i, row in enumerate(rows) if len(row) != first)
        raise ValueError(
            f"every row needs the same number of cells: row 0 has {first}, row {odd} has {len(rows[odd])}; "
            'use "" for an empty cell'
        )
    if not rows[0]:
        raise ValueError("the rows have no cells; give at least one column")
    if len(rows[0]) > COLUMN_COUNT:
        raise ValueError(f"a table on a slide can have {COLUMN_COUNT} columns at most, found {len(rows[0])}")
    return rows


Colour = Annotated[str, AfterValidator(_colour)]
Items = Annotated[list[str], BeforeValidator(_items), Field(min_length=1)]
Rows = Annotated[
    list[list[Annotated[str, BeforeValidator(_cell)]]], Field(min_length=1, max_length=500), AfterValidator(_even)
]
DeckPath = Annotated[str, Field(description="Path of the deck (.pptx), e.g. /reports/q3.pptx")]
SlideIndex = Annotated[int, Field(ge=0, description="Index of the slide; the first slide is 0")]


class Bullets(SlideModel):
    """Bullet points."""

    items: Items = Field(description="One text per bullet point; a leading tab makes it a sub-point")


class Columns(SlideModel):
    """Bullet points in two columns."""

    left: Annotated[Bullets, BeforeValidator(_bullets)] | None = Field(None, description="The left column")
    right: Annotated[Bullets, BeforeValidator(_bullets)] | None = Field(None, description="The right column")


class Table(SlideModel):
    """A table."""

    rows: Rows = Field(description="Rows of cell texts, all of the same length")
    header: bool = Field(True, description="Whether the first row is a header row")


class Metadata(SlideModel):
    """Properties of the file."""

    title: str | None = Field(None, max_length=255, description="Title of the document")
    subject: str | None = Field(None, max_length=255, description="Subject")
    author: str | None = Field(None, max_length=255, description="Author")
    comments: str | None = Field(None, max_length=255, description="Remarks about the document")


class SlideBlock(SlideModel):
    """A slide to make: its layout and what goes into it."""

    layout: Layout = Field("title_and_content", description="The kind of slide")
    title: str | None = Field(None, description="Its title (every layout but blank)")
    subtitle: str | None = Field(None, description="Text below the title (layouts title and section_header)")
    bullets: Annotated[Bullets, BeforeValidator(_bullets)] | None = Field(
        None, description="Bullet points (layouts title_and_content and two_content)"
    )
    table: Annotated[Table, BeforeValidator(_table)] | None = Field(
        None, description="A table (not on layouts title and section_header)"
    )
    columns: Columns | None = Field(None, description="Bullet points in two columns (layout two_content)")
    notes: str | None = Field(None, description="Speaker notes")
