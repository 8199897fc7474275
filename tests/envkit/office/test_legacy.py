"""Legacy workbooks by calamine, texts and decks by LibreOffice."""

from __future__ import annotations

import io
import os
from pathlib import Path

import docx
import pytest

from envkit.office.document import read_document
from envkit.office.legacy import have_office, modern, read_legacy_workbook
from envkit.office.parse import parse
from envkit.office.problem import Problem, Unreadable

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).resolve().parents[4] / "shared" / "corpus"))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public office files is not beside the checkout")
def test_xls_files_of_the_corpus() -> None:
    for path in sorted((CORPUS / "xls").glob("*.xls")):
        assert parse(path, read_legacy_workbook).sheets, path.name


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"", Problem.EMPTY), (b"text", Problem.NOT_THIS_FORMAT), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
     Problem.CORRUPT)],
)  # fmt: skip
def test_what_is_none(data: bytes, problem: Problem) -> None:
    with pytest.raises(Unreadable) as caught:
        parse(data, read_legacy_workbook)
    assert caught.value.problem is problem


@pytest.mark.slow
def test_texts_go_through_libreoffice_and_back() -> None:
    assert have_office(), "LibreOffice is not installed: apt-get install libreoffice-writer libreoffice-impress"
    text = docx.Document()
    text.add_heading("Annual report", 1)
    text.add_paragraph("The harbour was deepened.")
    out = io.BytesIO()
    text.save(out)
    rtf = rb"{\rtf1\ansi {\b Annual} report\par The harbour was deepened.\par}"
    data, suffix = modern(rtf, "rtf")
    assert suffix == "docx"
    assert "The harbour was deepened." in str(parse(data, read_document))
    with pytest.raises(Unreadable):
        modern(b"PK\x03\x04" + b"\0" * 100, "odt")
