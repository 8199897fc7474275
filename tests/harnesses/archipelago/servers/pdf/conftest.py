"""PDFs to try the pdf app on, and a way to call it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture
from reportlab.lib import pagesizes
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from envkit.harnesses.archipelago.servers.calling import call_meta, call_tool, context_for
from envkit.harnesses.archipelago.servers.pdf import APP
from envkit.harnesses.archipelago.servers.results import Outcome

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[6] / "shared" / "corpus"))


class Caller:
    """Calls tools of the app on a file system of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.context = context_for(APP, root, root.parent / "apps_data")

    def outcome(self, tool: str, arguments: dict[str, Any]) -> Outcome:
        return call_tool(APP, tool, arguments, self.context)

    def text(self, tool: str, arguments: dict[str, Any]) -> str:
        """The text of a call that must succeed."""
        made = self.outcome(tool, arguments)
        assert not made.error, made.fault or made.text
        return made.text

    def error(self, tool: str, arguments: dict[str, Any]) -> str:
        """The text of a call that must be refused, for a reason that is not a fault of ours."""
        made = self.outcome(tool, arguments)
        assert made.error
        assert made.fault is None, made.fault
        return made.text

    def meta(self, request: dict[str, Any]) -> Outcome:
        return call_meta(APP, "pdf", request, self.context)

    def put(self, name: str, data: bytes) -> str:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return "/" + name.lstrip("/")


@pytest.fixture
def pdf(tmp_path: Path) -> Caller:
    return Caller(tmp_path / "filesystem")


@pytest.fixture(scope="session")
def corpus() -> Path:
    assert CORPUS.is_dir(), f"no corpus in {CORPUS}; set ENVKIT_CORPUS"
    return CORPUS / "pdf"


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """Makes a PDF whose pages are drawn by functions."""

    def drawn(*pages: Callable[[Canvas], Any]) -> bytes:
        out = io.BytesIO()
        canvas = Canvas(out, pagesize=pagesizes.LETTER, invariant=1)
        for page in pages:
            canvas.setFont("Helvetica", 11)
            page(canvas)
            canvas.showPage()
        canvas.save()
        return out.getvalue()

    return drawn


def _dot(colour: tuple[int, int, int], size: int = 40) -> ImageReader:
    return ImageReader(Picture.new("RGB", (size, size), colour))


@pytest.fixture(scope="session")
def dot() -> Callable[..., ImageReader]:
    """Makes a picture of one colour."""
    return _dot


@pytest.fixture(scope="session")
def scanned() -> Callable[[Canvas], Any]:
    """Draws a page that is nothing but a picture."""
    return lambda page: page.drawImage(_dot((9, 9, 9)), 0, 0, 612, 792)
