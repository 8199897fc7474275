"""PDFs: pages with words, paragraphs in reading order and tables; outline, forms, annotations, attachments, metadata.

`read.py` gets words, rules and pictures out of the file (pdfium), `layout.py` puts words into lines, columns and
paragraphs, `tables.py` finds ruled and borderless tables, `pictures.py` takes pictures out and renders pages,
`model.py` is what readers get. Used by verifiers, the diff and the tool servers.
"""

from envkit.office.pdf.model import (
    Annotation,
    Attachment,
    Block,
    FormField,
    OutlineItem,
    Page,
    Pdf,
    PdfTable,
    Picture,
    Word,
)
from envkit.office.pdf.pictures import MAX_PIXELS, picture, rendered
from envkit.office.pdf.read import MAX_PAGES, read_pdf

__all__ = [
    "MAX_PAGES", "MAX_PIXELS", "Annotation", "Attachment", "Block", "FormField", "OutlineItem", "Page", "Pdf",
    "PdfTable", "Picture", "Word", "picture", "read_pdf", "rendered",
]  # fmt: skip
