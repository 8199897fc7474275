"""What a new PDF is made of: typed blocks, metadata and the size of the page. Used by declaration and handlers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from envkit.harnesses.archipelago.servers.app import Arguments
from envkit.harnesses.archipelago.servers.lenient import as_text, cleared, listed

__all__ = [
    "Block", "BulletList", "Content", "Heading", "Metadata", "NumberedList", "PageBreak", "PageSize", "Paragraph",
    "Spacer", "Table", "Text"
]  # fmt: skip


#: A text; numbers are taken as their text.
Text = Annotated[str, BeforeValidator(as_text)]
_Filled = Annotated[Text, Field(min_length=1)]
_Row = Annotated[list[Text], BeforeValidator(listed)]


class _Block(Arguments):
    model_config = ConfigDict(extra="forbid", title="Block")


class Paragraph(_Block):
    """A paragraph."""

    type: Literal["paragraph"] = Field(description="The kind of block.")
    text: _Filled = Field(description="Its text; a line feed begins a new line.")
    bold: bool = Field(False, description="All of it in bold.")
    italic: bool = Field(False, description="All of it in italics.")


class Heading(_Block):
    """A heading; it also enters the outline (bookmarks) of the PDF."""

    type: Literal["heading"] = Field(description="The kind of block.")
    text: _Filled = Field(description="Its text.")
    level: int = Field(1, ge=1, le=4, description="1 (largest) to 4.")


class BulletList(_Block):
    """A list with bullets."""

    type: Literal["bullet_list"] = Field(description="The kind of block.")
    items: Annotated[list[Text], BeforeValidator(listed)] = Field(min_length=1, description="One text per item.")


class NumberedList(_Block):
    """A list numbered from 1."""

    type: Literal["numbered_list"] = Field(description="The kind of block.")
    items: Annotated[list[Text], BeforeValidator(listed)] = Field(min_length=1, description="One text per item.")


class Table(_Block):
    """A table with rules; it continues on further pages, its header repeated."""

    type: Literal["table"] = Field(description="The kind of block.")
    rows: Annotated[list[_Row], BeforeValidator(listed)] = Field(
        min_length=1, description="Rows of cell texts; shorter rows are filled with blanks."
    )
    header: bool = Field(True, description="The first row is a header: bold, shaded, repeated on each page.")


class PageBreak(_Block):
    """What follows begins on a new page."""

    type: Literal["page_break"] = Field(description="The kind of block.")


class Spacer(_Block):
    """Free space."""

    type: Literal["spacer"] = Field(description="The kind of block.")
    height: float = Field(12.0, gt=0, le=700, description="In points.")


Block = Annotated[
    Annotated[
        Paragraph | Heading | BulletList | NumberedList | Table | PageBreak | Spacer, Field(discriminator="type")
    ],
    BeforeValidator(cleared),
]
Content = Annotated[list[Block], BeforeValidator(listed)]


class Metadata(Arguments):
    """What the PDF says about itself."""

    title: str | None = Field(None, description="Its title.")
    subject: str | None = Field(None, description="Its subject.")
    author: str | None = Field(None, description="Its author.")


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


PageSize = Annotated[Literal["letter", "a4"], BeforeValidator(_lower)]
