"""Documents to try the docs app on, and a way to call it."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool, context_for
from envkit.harnesses.archipelago.servers.docs import APP
from envkit.harnesses.archipelago.servers.results import Outcome
from envkit.office.document import Document, read_document
from envkit.verifiers.diff import Finding, diff_bytes

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[6] / "shared" / "corpus"))
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


class Caller:
    """Calls tools of the app on a file system of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.context = context_for(APP, root, root.parent / "apps_data")

    def outcome(self, tool: str, arguments: dict[str, Any]) -> Outcome:
        return call_tool(APP, tool, arguments, self.context)

    def text(self, tool: str, **arguments: Any) -> str:
        """The text of a call on /a.docx that must succeed."""
        made = self.outcome(tool, {"file_path": "/a.docx", **arguments})
        assert not made.error, made.fault or made.text
        return made.text

    def error(self, tool: str, **arguments: Any) -> str:
        """The text of a call that must be refused, for a reason that is not a fault of ours, and change nothing."""
        before = {p: p.read_bytes() for p in self.root.rglob("*") if p.is_file()}
        made = self.outcome(tool, {"file_path": "/a.docx", **arguments})
        assert made.error, made.text
        assert made.fault is None, made.fault
        assert {p: p.read_bytes() for p in self.root.rglob("*") if p.is_file()} == before
        return made.text

    def create(self, *content: Any, **more: Any) -> str:
        made = self.outcome(
            "create_document", {"directory": "/", "file_name": "a.docx", "content": list(content), **more}
        )
        assert not made.error, made.fault or made.text
        return made.text

    def meta(self, **request: Any) -> Outcome:
        return call_meta(APP, "docs", {"request": request}, self.context)

    def put(self, data: bytes, name: str = "a.docx") -> None:
        (self.root / name).write_bytes(data)

    @property
    def data(self) -> bytes:
        return (self.root / "a.docx").read_bytes()

    @property
    def model(self) -> Document:
        return read_document(self.data)

    def part(self, name: str) -> bytes:
        with zipfile.ZipFile(io.BytesIO(self.data)) as package:
            return package.read(name)

    def changes(self, before: bytes) -> list[Finding]:
        return diff_bytes("a.docx", before, self.data)


@pytest.fixture
def docs(tmp_path: Path) -> Caller:
    return Caller(tmp_path / "filesystem")


@pytest.fixture(scope="session")
def corpus() -> Path:
    assert CORPUS.is_dir(), f"no corpus in {CORPUS}; set ENVKIT_CORPUS"
    return CORPUS / "docx"


@pytest.fixture(scope="session")
def make_docx() -> Callable[..., bytes]:
    """Makes a document of a body's XML (prefixes w, r, m, wp, a, v, mc, wps, w14)."""
    from docx import Document as Blank

    spaces = (
        f'xmlns:w="{W}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
        'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml" '
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
        'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
    )
    blank = io.BytesIO()
    Blank().save(blank)

    def made(body: str) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(blank) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            for info in source.infolist():
                data = source.read(info)
                if info.filename == "word/document.xml":
                    section = '<w:sectPr><w:pgSz w:w="12240" w:h="15840"/></w:sectPr>'
                    data = f"<w:document {spaces}><w:body>{body}{section}</w:body></w:document>".encode()
                target.writestr(info, data)
        return out.getvalue()

    return made


@pytest.fixture(scope="session")
def png() -> Callable[..., bytes]:
    def made(colour: tuple[int, ...] = (200, 0, 0), size: tuple[int, int] = (96, 48), kind: str = "PNG") -> bytes:
        out = io.BytesIO()
        Picture.new("RGB" if len(colour) == 3 else "RGBA", size, colour).save(out, kind)
        return out.getvalue()

    return made
