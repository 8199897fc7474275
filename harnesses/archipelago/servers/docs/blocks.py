"""What documents are made of: typed blocks and metadata. Used by the docs app's declaration and by `building.py`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from envkit.harnesses.archipelago.servers.app import Arguments
from envkit.harnesses.archipelago.servers.lenient import as_text, cleared, listed

__all__ = [
    "Block", "BulletList", "Content", "Heading", "Metadata", "NumberedList", "PageBreak", "Paragraph", "SectionBreak",
    "SideContent", "Table", "Text",
]  # fmt: skip


def _allowed(text: str) -> str:
    """Vertical tabs and form feeds become line feeds. Raises `ValueError` for what XML can't hold."""
    plain = text.replace("\x0b", "\n").replace("\x0c", "\n")
    for char in plain:
        code = ord(char)
        if (code < 0x20 and char not in "\t\n\r") or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF):
            raise ValueError(f"the text holds the control character U+{code:04X}, which a document can't hold")
    return plain


#: A text; numbers are taken as their text.
Text = Annotated[str, BeforeValidator(as_text), AfterValidator(_allowed)]
_Filled = Annotated[Text, Field(min_length=1)]
_Row = Annotated[list[Text], BeforeValidator(listed)]
_Items = Annotated[list[_Filled], BeforeValidator(listed)]


class Paragraph(Arguments):
    """A paragraph."""

    type: Literal["paragraph"] = Field(description="The kind of block.")
    text: _Filled = Field(description="Its text; a line feed begins a new line.")
    style: str | None = Field(None, description="Name of a paragraph style, for example Quote; Normal when left out.")
    bold: bool = Field(False, description="All of it in bold.")
    italic: bool = Field(False, description="All of it in italics.")


class Heading(Arguments):
    """A heading."""

    type: Literal["heading"] = Field(description="The kind of block.")
    text: _Filled = Field(description="Its text.")
    level: int = Field(1, ge=1, le=4, description="1 (largest) to 4.")
    style: str | None = Field(None, description="Name of another paragraph style in place of Heading 1 to 4.")


class BulletList(Arguments):
    """A list with bullets."""

    type: Literal["bullet_list"] = Field(description="The kind of block.")
    items: _Items = Field(min_length=1, description="One text per item.")
    style: str | None = Field(None, description="Name of another paragraph style in place of List Bullet.")


class NumberedList(Arguments):
    """A numbered list; each begins at 1."""

    type: Literal["numbered_list"] = Field(description="The kind of block.")
    items: _Items = Field(min_length=1, description="One text per item.")
    style: str | None = Field(None, description="Name of another paragraph style in place of List Number.")


class Table(Arguments):
    """A table."""

    type: Literal["table"] = Field(description="The kind of block.")
    rows: Annotated[list[_Row], BeforeValidator(listed)] = Field(
        min_length=1, description="Rows of cell texts; shorter rows are filled with blanks."
    )
    style: str | None = Field(None, description="Name of a table style; Table Grid (ruled) when left out.")
    header: bool = Field(True, description="The first row is a header: bold, and repeated on each page.")
    width: float | None = Field(None, gt=0, le=22, description="Width in inches; that of the text when left out.")


class PageBreak(Arguments):
    """What follows begins on a new page."""

    type: Literal["page_break"] = Field(description="The kind of block.")


class SectionBreak(Arguments):
    """A new section begins, with page layout, headers and footers of its own."""

    type: Literal["section_break"] = Field(description="The kind of block.")
    start_type: Literal["new_page", "continuous", "odd_page", "even_page"] = Field(
        "new_page", description="Where the new section starts."
    )


Block = Annotated[
    Annotated[
        Paragraph | Heading | BulletList | NumberedList | Table | PageBreak | SectionBreak, Field(discriminator="type")
    ],
    BeforeValidator(cleared),
]
Content = Annotated[list[Block], BeforeValidator(listed)]
#: What headers and footers are made of.
SideBlock = Annotated[
    Annotated[Paragraph | Heading | BulletList | NumberedList | Table, Field(discriminator="type")],
    BeforeValidator(cleared),
]
SideContent = Annotated[list[SideBlock], BeforeValidator(listed)]


class Metadata(Arguments):
    """What the document says about itself."""

    title: Text | None = Field(None, description="Its title.")
    subject: Text | None = Field(None, description="Its subject.")
    author: Text | None = Field(None, description="Its author.")
    comments: Text | None = Field(None, description="Remarks about it.")
