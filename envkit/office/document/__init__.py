"""Word documents (docx) as blocks in reading order, with notes, comments, tracked changes, sections and styles.

`read_document` walks the XML itself, in its own order. `Document.paragraphs`, `.tables` and `.body` read tracked
changes as accepted: inserted text counts, deleted text does not (and is kept apart); `Document.view` gives the text as
it was, as it will be, or with marks. Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

from envkit.office.document.model import (
    Block,
    Bookmark,
    Cell,
    Comment,
    Control,
    Document,
    ListItem,
    Note,
    Paragraph,
    ParagraphFormat,
    Run,
    Section,
    SideText,
    Style,
    Table,
    Tracked,
    View,
)
from envkit.office.document.reader import read_document

__all__ = [
    "Block", "Bookmark", "Cell", "Comment", "Control", "Document", "ListItem", "Note", "Paragraph", "ParagraphFormat",
    "Run", "Section", "SideText", "Style", "Table", "Tracked", "View", "read_document",
]  # fmt: skip
