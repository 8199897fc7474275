"""Text and tables of a filing's HTML documents."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree, html

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = ["document_text", "tables_with"]

_BLOCKS = frozenset(
    ["p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "tr", "table", "br", "hr", "section", "title", "ul", "ol"]
)
_SILENT = frozenset(["script", "style", "head"])


def _tree(content: str) -> Any:
    try:
        # Bytes, since a declared encoding in text is refused.
        parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        return html.document_fromstring(content.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise ToolError(f"the document can't be read as HTML: {error}") from error


def document_text(content: str) -> str:
    """A document as text: blocks on lines of their own, table cells parted by tabs. Plain text stays as it is."""
    if not re.search(r"<(html|body|div|p|table|document)\b", content[:20_000], re.IGNORECASE):
        return content
    pieces: list[str] = []
    _walk(_tree(content), pieces)
    lines = (re.sub(r"[ \xa0]+", " ", line).strip(" ") for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(re.sub(r"\t+", "\t", line).strip("\t") for line in lines)).strip()


def _walk(root: Any, pieces: list[str]) -> None:
    # Filings nest deeper than Python's stack is wide: the events of a walk, no recursion.
    silent = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            silent += tag in _SILENT
            if tag in _BLOCKS:
                pieces.append("\n")
            if element.text and not silent and tag:
                pieces.append(_flat(element.text))
        else:
            silent -= tag in _SILENT
            if tag in ("td", "th"):
                pieces.append("\t")
            elif tag in _BLOCKS:
                pieces.append("\n")
            if element.tail and not silent:
                pieces.append(_flat(element.tail))


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def tables_with(content: str, word: str) -> list[dict[str, Any]]:
    """The tables that hold a word, or whose caption does: caption and rows of cells. Raises `ToolError`."""
    wanted = word.casefold().strip()
    found: list[dict[str, Any]] = []
    for table in _tree(content).iter("table"):
        rows = []
        for row in table.iter("tr"):
            cells = [" ".join("".join(cell.itertext()).split()) for cell in row if cell.tag in ("td", "th")]
            cells = [c for c in cells if c]
            if cells:
                rows.append(cells)
        caption = _caption(table)
        inside = any(wanted in cell.casefold() for cells in rows for cell in cells)
        if rows and (inside or wanted in caption.casefold()) and not any(table.iterdescendants("table")):
            found.append({"caption": caption, "rows": rows})
    return found


def _caption(table: Any) -> str:
    own = table.find("caption")
    if own is not None:
        return " ".join("".join(own.itertext()).split())
    before = table
    for _ in range(4):
        previous = before.getprevious()
        before = previous if previous is not None else before.getparent()
        if before is None or before.tag in ("body", "table"):
            return ""
        text = " ".join("".join(before.itertext()).split()) if previous is not None else ""
        if text:
            return text[-300:]
    return ""
