"""New documents from blocks, and deleting documents."""

from __future__ import annotations

import datetime as dt
import io

from lxml import etree

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.blocks import Metadata, SectionBreak
from envkit.harnesses.archipelago.servers.docs.building import Builder
from envkit.harnesses.archipelago.servers.docs.declared import CreateDocument, DeleteDocument
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import W
from envkit.harnesses.archipelago.servers.docs.opened import new_path
from envkit.harnesses.archipelago.servers.docs.pages import text_width
from envkit.harnesses.archipelago.servers.docs.places import blocks_of, body_of, is_table
from envkit.office.document import read_document

__all__ = ["create_document", "delete_document"]

_CP = "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_DELETED = (".docx", ".docm", ".dotx", ".dotm", ".doc", ".odt", ".rtf")
_MAX_BLOCKS = 10_000


def create_document(arguments: CreateDocument, context: Context) -> str:
    """Creates the file; says what is in it."""
    path = new_path(context, arguments.directory, arguments.file_name)
    if len(arguments.content) > _MAX_BLOCKS:
        raise ToolError(f"content has {len(arguments.content)} blocks; at most {_MAX_BLOCKS} go into one document")
    existed = path.exists()
    edited = Edited(_blank())
    body = body_of(edited)
    section = body.find(f"{W}sectPr")
    builder = Builder(edited, text_width(section))
    made = builder.build(arguments.content, section)
    if made and made[-1].tag == f"{W}tbl":
        made.append(etree.Element(f"{W}p"))  # a document ends with a paragraph
    body[:] = [*made, section]
    edited.changed(edited.main)
    _properties(edited, arguments.metadata, context.now())
    data = edited.written()
    read_document(data)
    context.write(path, data)
    blocks = list(blocks_of(body))
    tables = sum(is_table(b) for b in blocks)
    paragraphs = len(blocks) - tables
    sections = 1 + sum(isinstance(b, SectionBreak) for b in arguments.content)
    counted = f"body.p.0 to body.p.{paragraphs - 1}" if paragraphs > 1 else "body.p.0"
    said = [f"{'Replaced' if existed else 'Created'} {context.shown(path)}: "]
    said[0] += f"{paragraphs} paragraph{'s' * (paragraphs != 1)} ({counted})"
    said[0] += f", {tables} table{'s' * (tables != 1)}" if tables else ""
    said[0] += f", {sections} sections" if sections > 1 else ""
    said[0] += f", {len(data):,} bytes."
    return " ".join([*said, *builder.notes])


def _blank() -> bytes:
    """An empty document with the usual styles."""
    from docx import Document

    out = io.BytesIO()
    Document().save(out)
    return out.getvalue()


def _properties(edited: Edited, given: Metadata | None, now: dt.datetime) -> None:
    part = next((t for _, kind, t in edited.relations("") if kind == "core-properties"), None)
    if part is None:
        return
    root = edited.xml(part)
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    texts: dict[str, str] = {
        f"{_DC}title": (given.title if given else None) or "",
        f"{_DC}subject": (given.subject if given else None) or "",
        f"{_DC}creator": (given.author if given else None) or "",
        f"{_CP}lastModifiedBy": (given.author if given else None) or "",
        f"{_DC}description": (given.comments if given else None) or "",
        f"{_CP}keywords": "",
        f"{_CP}category": "",
        f"{_TERMS}created": moment,
        f"{_TERMS}modified": moment,
    }
    for tag, text in texts.items():
        held = root.find(tag)
        if not text:
            if held is not None:
                root.remove(held)
            continue
        if held is None:
            held = etree.SubElement(root, tag)
        held.text = text
    edited.changed(part)


def delete_document(arguments: DeleteDocument, context: Context) -> str:
    """Deletes one document, and nothing else."""
    path = context.path(arguments.file_path, must_exist=True)
    shown = context.shown(path)
    if not path.is_file():
        raise ToolError(f"{shown} is not a file; delete_document deletes one document")
    if path.suffix.lower() not in _DELETED:
        raise ToolError(f"{shown} is no document ({', '.join(_DELETED)}); delete_document deletes nothing else")
    size = path.stat().st_size
    try:
        path.unlink()
    except OSError as error:
        raise ToolError(f"{shown} can't be deleted: {error.strerror}") from error
    return f"Deleted {shown}: {size:,} bytes."
