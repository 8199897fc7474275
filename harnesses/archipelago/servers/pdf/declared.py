"""The pdf app as data: arguments, tools and the meta tool, with the published names. Loads no PDF library."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool
from envkit.harnesses.archipelago.servers.pdf.blocks import Content, Metadata, PageSize

__all__ = [
    "APP", "CreatePdf", "CreateResult", "Layout", "PdfRequest", "ReadImage", "ReadPageAsImage", "ReadPages",
    "ReadPagesResult", "SearchPdf", "SearchResult",
]  # fmt: skip

_FILE = "Path of the PDF, for example /reports/annual.pdf."


def _page_numbers(value: Any) -> Any:
    """A list of page numbers where one number or a text such as `1-3, 7` was given."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if isinstance(value, str) and re.fullmatch(r"[\d\s,\-\[\]]+", value):
        out: list[int] = []
        for piece in re.findall(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", value):
            first, last = int(piece[0]), int(piece[1] or piece[0])
            if last < first or last - first > 10_000:
                return value
            out += range(first, last + 1)
        return out
    return value


Pages = Annotated[list[int], BeforeValidator(_page_numbers)]
Layout = Literal["reading", "text"]
_LAYOUT = (
    "reading (default): paragraphs in reading order, columns one after the other, tables as tables. text: plain lines "
    "across the page, aligned as they stand."
)


class CreatePdf(Arguments):
    """A new PDF."""

    directory: str = Field(description="Folder to create it in, for example /reports; made if it doesn't exist.")
    file_name: str = Field(description="Its name, for example annual.pdf; no slash.")
    content: Content = Field(min_length=1, description="Blocks from top to bottom, at least one.")
    metadata: Metadata | None = Field(None, description="Title, subject and author.")
    page_size: PageSize = Field("letter", description="letter (default) or a4.")


class ReadPages(Arguments):
    """Which pages to read, and how."""

    file_path: str = Field(description=_FILE)
    pages: Pages | None = Field(None, description="Page numbers from 1, for example [1, 3]; all when left out.")
    layout: Layout = Field("reading", description=_LAYOUT)


class ReadImage(Arguments):
    """A picture in a PDF."""

    file_path: str = Field(description=_FILE)
    annotation: str = Field(description="The picture's key as read_pdf_pages lists it, for example page1_img0.")


class ReadPageAsImage(Arguments):
    """A page to render."""

    file_path: str = Field(description=_FILE)
    page_number: int = Field(description="The page's number, from 1.")


class SearchPdf(Arguments):
    """What to look for."""

    file_path: str = Field(description=_FILE)
    query: str = Field(description="The text to find, as it is (no pattern); it may run over line ends.")
    case_sensitive: bool = Field(False, description="Tell capitals from small letters.")
    whole_word: bool = Field(False, description="Not within longer words.")
    max_results: int = Field(100, ge=1, le=10_000, description="How many matches are shown; all are counted.")
    context_chars: int = Field(50, ge=0, le=2_000, description="Characters shown on each side of a match.")


class PdfRequest(Arguments):
    """One action on PDFs."""

    action: Literal["help", "create", "read_pages", "read_image", "page_as_image", "search"] = Field(
        description="What to do; help lists the actions and the fields that each takes."
    )
    file_path: str | None = Field(None, description=_FILE + " For all actions but create.")
    directory: str | None = Field(None, description="create: folder, for example /reports.")
    file_name: str | None = Field(None, description="create: name ending in .pdf.")
    content: Content | None = Field(None, description="create: blocks from top to bottom.")
    metadata: Metadata | None = Field(None, description="create: title, subject, author.")
    page_size: PageSize | None = Field(None, description="create: letter (default) or a4.")
    pages: Pages | None = Field(None, description="read_pages: page numbers from 1; all when left out.")
    layout: Layout | None = Field(None, description="read_pages: " + _LAYOUT)
    page_number: int | None = Field(None, description="page_as_image: the page's number, from 1.")
    annotation: str | None = Field(None, description="read_image: a key such as page1_img0, as read_pages lists them.")
    query: str | None = Field(None, description="search: the text to find.")
    case_sensitive: bool | None = Field(None, description="search: tell capitals from small letters.")
    whole_word: bool | None = Field(None, description="search: not within longer words.")
    max_results: int | None = Field(None, ge=1, le=10_000, description="search: matches shown (100); all are counted.")
    context_chars: int | None = Field(None, ge=0, le=2_000, description="search: characters on each side (50).")


class CreateResult(BaseModel):
    """A PDF was created."""

    status: Literal["success"]
    file_path: str
    message: str


class ReadPagesResult(BaseModel):
    """The text of pages."""

    raw_output: str


class SearchResult(BaseModel):
    """The matches."""

    raw_output: str


def _created(text: str) -> dict[str, Any]:
    found = re.match(r"(?:Created|Replaced) (/.+?\.pdf): ", text, re.I)
    return {"status": "success", "file_path": found[1] if found else "", "message": text}


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


APP = App(
    name="pdf",
    server="pdf_server",
    package="pdf",
    tools=(
        Tool(
            "create_pdf",
            "Create a PDF from blocks: paragraphs, headings, lists, tables, page breaks, spacers. Returns its path and "
            "number of pages.",
            CreatePdf,
            "creating:create_pdf",
            wrapper="input",
            writes=True,
        ),
        Tool(
            "read_pdf_pages",
            "Read pages of a PDF: text in reading order with tables in place, outline, form fields, annotations, and "
            "the keys of pictures (for read_image). Scanned pages are named; look at them with read_page_as_image.",
            ReadPages,
            "reading:read_pdf_pages",
            wrapper="input",
        ),
        Tool("read_image", "Look at one picture of a PDF, by its key.", ReadImage, "reading:read_image"),
        Tool(
            "read_page_as_image",
            "Look at one page of a PDF, rendered with everything on it.",
            ReadPageAsImage,
            "reading:read_page_as_image",
        ),
        Tool(
            "search_pdf",
            "Find a text in a PDF, also over line ends and hyphenation. Returns page, line and surroundings of each "
            "match, and how many there are.",
            SearchPdf,
            "searching:search_pdf",
        ),
    ),
    metas=(
        Meta(
            "pdf",
            "PDF operations: create, read, search, look at pages and pictures.",
            PdfRequest,
            {
                "create": Action(
                    "create_pdf", _same("directory", "file_name", "content", "metadata", "page_size"), wrap=_created
                ),
                "read_pages": Action("read_pdf_pages", _same("file_path", "pages", "layout")),
                "read_image": Action("read_image", _same("file_path", "annotation")),
                "page_as_image": Action("read_page_as_image", _same("file_path", "page_number")),
                "search": Action(
                    "search_pdf",
                    _same("file_path", "query", "case_sensitive", "whole_word", "max_results", "context_chars"),
                ),
            },
        ),
    ),
    models={
        "input": PdfRequest,
        "CreateResult": CreateResult,
        "ReadPagesResult": ReadPagesResult,
        "SearchResult": SearchResult,
    },
)
