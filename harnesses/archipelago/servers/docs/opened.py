"""Opening documents: for reading (older formats by way of docx) and for editing (docx alone). Used by all handlers."""

from __future__ import annotations

import copy
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.docs.edited import Edited
from envkit.harnesses.archipelago.servers.docs.names import MC, W
from envkit.harnesses.archipelago.servers.docs.places import Place, Places
from envkit.office.document import Document, read_document
from envkit.office.gate import OLE

__all__ = ["Reading", "Writing", "for_reading", "for_writing", "new_path"]


@dataclass
class Reading:
    """A document to be read: where it is, its model, and its XML for identifiers. `converted` names the format that it
    was converted from, "" for none."""

    path: Path
    shown: str
    model: Document
    edited: Edited
    converted: str


@dataclass
class Writing:
    """A document to be edited; `save` writes it back and gives the sentences that end a result."""

    context: Context
    path: Path
    shown: str
    edited: Edited

    @property
    def places(self) -> Places:
        return Places(self.edited)

    def save(self, place: Place | None = None) -> str:
        """Writes the document, whole or not at all. What was to be told, as a text that begins with a blank."""
        if place is not None:
            self.edited.changed(place.part)
            _same_in_fallbacks(place.node)
        data = self.edited.written()
        # What was written must be what readers read.
        read_document(data)
        self.context.write(self.path, data)
        told = [*(place.notes if place is not None else ()), *self.edited.notes]
        return "".join(f" {note}" for note in told)


def _same_in_fallbacks(node: Any) -> None:
    """A text box stands twice in a file, the second time for old programs: gives that one the same content."""
    for outer in node.iterancestors(f"{MC}AlternateContent"):
        choice, fallback = outer.find(f"{MC}Choice"), outer.find(f"{MC}Fallback")
        if choice is None or fallback is None:
            continue
        ours, theirs = (list(side.iter(f"{W}txbxContent")) for side in (choice, fallback))
        if len(ours) == len(theirs):
            for new, old in zip(ours, theirs, strict=True):
                old[:] = [copy.deepcopy(item) for item in new]


def _older(data: bytes) -> str:
    """What kind of older text file the bytes are; "" for none."""
    if data.startswith(OLE) and "EncryptedPackage".encode("utf-16-le") not in data:
        return "doc"
    if data.startswith(b"{\\rtf"):
        return "rtf"
    if data.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                if package.getinfo("mimetype").file_size < 200:
                    kind = package.read("mimetype")
                    return "odt" if kind.startswith(b"application/vnd.oasis.opendocument.text") else ""
        except (KeyError, zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError):
            return ""
    return ""


def _read(data: bytes) -> tuple[Document, Edited, str]:
    kind = _older(data)
    if kind:
        from envkit.office.legacy import modern

        data = modern(data, kind)[0]
    return read_document(data), Edited(data), kind


def for_reading(context: Context, file_path: str) -> Reading:
    """Raises `ToolError`, `Unreadable`."""
    path = context.path(file_path, must_exist=True)
    model, edited, converted = context.parse(path, _read)
    return Reading(path, context.shown(path), model, edited, converted)


def _editable(data: bytes) -> Edited | str:
    kind = _older(data)
    return kind or Edited(data)


def for_writing(context: Context, file_path: str) -> Writing:
    """Raises `ToolError` (for older formats as well), `Unreadable`."""
    path = context.path(file_path, must_exist=True)
    found = context.parse(path, _editable)
    shown = context.shown(path)
    if isinstance(found, str):
        raise ToolError(
            f"{shown} is a {found} file, which is read but not edited; make a docx of it first (for example with "
            f"LibreOffice: soffice --headless --convert-to docx), then edit that"
        )
    return Writing(context, path, shown, found)


def new_path(context: Context, directory: str, file_name: str) -> Path:
    """Where a new document goes. Raises `ToolError`."""
    name = file_name.strip()
    if "/" in name or not name:
        raise ToolError(
            f"file_name is a name without slashes, such as report.docx; found {file_name!r}. The folder goes into "
            "directory"
        )
    if not name.lower().endswith(".docx"):
        if "." in name.strip("."):
            raise ToolError(f"file_name must end in .docx, found {name!r}")
        name += ".docx"
    folder = context.path(directory)
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{context.shown(folder)} is a file, not a folder; give a folder as directory")
    return context.path(f"{context.shown(folder)}/{name}")
