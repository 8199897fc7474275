"""The office readers: what of a file they see. What verifiers make of it is tested beside them."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml

from envkit.office.calendar import read_calendar
from envkit.office.chat import read_chat
from envkit.office.deck import read_deck
from envkit.office.document import read_document
from envkit.office.mail import html_to_text, parse_addresses, read_mbox
from envkit.office.pdf import read_pdf
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text, read_table
from envkit.office.workbook import (
    UNKNOWN,
    ErrorValue,
    column_letters,
    from_serial,
    is_date_format,
    parse_address,
    read_workbook,
    shifted,
)

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"


def saved(thing: Any) -> bytes:
    out = io.BytesIO()
    thing.save(out)
    return out.getvalue()


# --- workbooks ---


def test_cells_keep_value_formula_and_format() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for address, value in {
        "A1": 1.5, "A2": "text", "A3": True, "A4": dt.datetime(2025, 3, 1, 14, 30), "A5": dt.time(9, 15), "A6": "=A1*2",
        "A7": "=1/0", "A8": "007", "C1": dt.timedelta(hours=30),
    }.items():  # fmt: skip
        sheet[address] = value
    sheet["A1"].number_format = "0.0%"
    sheet.merge_cells("D1:E2")
    sheet["D1"] = "wide"
    read = read_workbook(saved(book))
    (first,) = read.sheets
    values = {f"{column_letters(c)}{r}": read.value(first, (r, c)) for r, c in first.ordered}
    assert values == {
        "A1": 1.5, "A2": "text", "A3": True, "A4": dt.datetime(2025, 3, 1, 14, 30), "A5": dt.time(9, 15), "A6": 3.0,
        "A7": ErrorValue("#DIV/0!"), "A8": "007", "C1": dt.timedelta(hours=30), "D1": "wide",
    }  # fmt: skip
    assert first.cells[1, 1].number_format == "0.0%"
    assert first.cells[6, 1].value is None
    assert read.value(first, (6, 1), "cached") is UNKNOWN
    assert read.value(first, (99, 1)) is None
    assert first.anchor((2, 5)) == (1, 4)


def test_dates_before_march_1900_and_since_1904() -> None:
    assert from_serial(61, "yyyy-mm-dd", False) == dt.datetime(1900, 3, 1)
    assert from_serial(1, "yyyy-mm-dd", False) == dt.datetime(1900, 1, 1)
    assert from_serial(0, "yyyy-mm-dd", True) == dt.datetime(1904, 1, 1)
    assert from_serial(1e12, "yyyy-mm-dd", False) == 1e12
    book = openpyxl.Workbook()
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.active["A1"] = dt.date(2025, 3, 1)
    read = read_workbook(saved(book))
    assert read.value(read.sheets[0], (1, 1)) == dt.datetime(2025, 3, 1)


@pytest.mark.parametrize(
    ("code", "is_date"),
    [("General", False), ("0.00", False), ("yyyy-mm-dd", True), ("[h]:mm", True), ('0 "days"', False), ("[Red]0",
    False),
     ("#,##0_);(#,##0)", False), ("mmm-yy", True), ("0\\d", False), ("[$-409]d mmm", True), ("@", False)],
)  # fmt: skip
def test_date_formats_are_told(code: str, is_date: bool) -> None:
    assert is_date_format(code) is is_date


def test_addresses() -> None:
    assert parse_address("$XFD$1048576") == (1048576, 16384)
    assert column_letters(16384) == "XFD"
    for text in ("XFE1", "A0", "A1048577", "1A", "A", ""):
        with pytest.raises(ValueError, match=r"cell address|outside"):
            parse_address(text)


def test_formulas_shift_as_if_filled() -> None:
    assert shifted("SUM($A1:C$2,'My A1'!C3,\"A1\")+C:C+2:2+LOG10(A1)+x.A1", 2, 1) == (
        "SUM($A3:D$2,'My A1'!D5,\"A1\")+D:D+4:4+LOG10(B3)+x.A1"
    ).replace("D$2", "D$2")
    assert shifted("A1+B$1", -1, 0) == "#REF!+B$1"


def test_what_is_no_workbook_says_so() -> None:
    document = saved(docx.Document())
    for data, problem in (
        (b"", Problem.EMPTY), (b"x", Problem.NOT_THIS_FORMAT), (document, Problem.NOT_THIS_FORMAT), (document[:500],
        Problem.CORRUPT),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Problem.UNSUPPORTED),
    ):  # fmt: skip
        with pytest.raises(Unreadable) as caught:
            read_workbook(data)
        assert caught.value.problem is problem
    plain_zip = io.BytesIO()
    with zipfile.ZipFile(plain_zip, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(Unreadable, match="no main part"):
        read_workbook(plain_zip.getvalue())


# --- documents and decks ---

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def test_a_document_s_text_is_complete() -> None:
    document = docx.Document()
    document.add_paragraph("first")
    body = document.element.body
    for at, xml in enumerate(
        (
            f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>",
            f'<w:p {W}><w:hyperlink w:anchor="x"><w:r><w:t>link</w:t></w:r></w:hyperlink>'
            "<w:r><w:t> and</w:t><w:tab/></w:r></w:p>",
            f"<w:p {W}><w:r><w:pict><w:txbxContent><w:p>"
            "<w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r></w:p>",
            f'<w:p {W}><w:r><w:t>field </w:t></w:r><w:r>'
            "<w:instrText>PAGE</w:instrText></w:r><w:r><w:t>7</w:t></w:r></w:p>",
            f'<w:p {W}><w:moveFrom w:id="1"><w:r><w:t>gone</w:t></w:r></w:moveFrom>'
            '<w:moveTo w:id="2"><w:r><w:t>moved</w:t></w:r></w:moveTo></w:p>',
        )
    ):  # fmt: skip
        body.insert(at + 1, parse_xml(xml))
    table = document.add_table(rows=2, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(0, 2).text = "c"
    table.cell(1, 2).text = "f"
    document.add_comment(document.paragraphs[0].runs, text="a comment", author="A", initials="A")
    read = read_document(saved(document))
    assert read.body.split("\n")[:7] == ["first", "control", "link and\t", "", "box", "field 7", "moved"]
    assert read.deletions == ("gone",)
    assert read.tables[0].rows == (("wide", "", "c"), ("", "", "f"))
    assert read.comments == ("a comment",)


def test_heading_levels_come_from_styles_and_outline() -> None:
    document = docx.Document()
    document.add_heading("Title", 0)
    document.add_heading("Two", 2)
    style = document.styles.add_style("Own", 1)
    style.base_style = document.styles["Heading 3"]
    document.add_paragraph("Three", style="Own")
    document.add_paragraph("plain")
    read = read_document(saved(document))
    assert [(p.text, p.level) for p in read.headings] == [("Title", 0), ("Two", 2), ("Three", 3)]


def test_a_deck_keeps_the_order_shown() -> None:
    presentation = pptx.Presentation()
    for title in ("a", "b", "c"):
        presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = title
    order = presentation.slides._sldIdLst
    order.insert(0, order[2])
    read = read_deck(saved(presentation))
    assert [s.title for s in read.slides] == ["c", "a", "b"]


# --- the rest ---


def test_mbox_files() -> None:
    data = (
        b'From a Thu\nMessage-ID: <1>\nSubject: one\nTo: "Doe, J" <J@x.y>; k@x.y\n\n>From here\n\n'
        b"From now on it is text\n\n"
        b"From b Fri\r\nSubject: two\r\nX-Body-Format: html\r\n\r\n<b>bold</b> &amp; more<br>x\r\n"
    )
    first, second = read_mbox(data)
    assert (first.subject, first.to, first.body.splitlines()[0]) == ("one", ("j@x.y", "k@x.y"), "From here")
    assert "From now on it is text" in first.body
    assert second.body == "bold & more\nx"
    assert read_mbox(b"") == ()
    with pytest.raises(Unreadable):
        read_mbox(b"Subject: x\n\n")


def test_addresses_and_html() -> None:
    assert parse_addresses("Ann <A@b.c>, d@e.f") == ("a@b.c", "d@e.f")
    assert html_to_text("<table><tr><td>a</td><td>b</td></tr></table><script>x</script>&euro;5") == "a | b |\n€5"


def test_tables_and_encodings() -> None:
    assert decode_text("ä".encode("utf-16")) == "ä"
    assert decode_text(b"\xe4") == "ä"
    with pytest.raises(Unreadable):
        decode_text(b"a\0b")
    table = read_table(b'a;b\n"x;y";"1\n2"\n3\n')
    assert table.header == ("a", "b")
    assert table.rows == (("x;y", "1\n2"), ("3", ""))
    assert read_table(b"one\n1\n").header == ("one",)


def test_calendars() -> None:
    text = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:a\n b\nDTSTART;TZID=Nowhere/Land:20250101T100000\n"
        "END:VEVENT\nEND:VCALENDAR\n"
    )
    (event,) = read_calendar(text.encode())
    assert event.summary == "ab"
    assert event.zone == "Nowhere/Land"
    assert isinstance(event.start, dt.datetime)
    assert event.start.tzinfo is None
    for broken in (b"x", text.encode()[:80], text.replace("20250101T100000", "soon").encode()):
        with pytest.raises(Unreadable):
            read_calendar(broken)


def test_deleted_chat_messages_are_gone() -> None:
    files = {
        "r/Groups/DM 1/messages.json": b'{"messages": [{"text": "a", "message_id": "1"}, '
        b'{"text": "b", "message_state": "DELETED"}, 5]}'
    }
    (channel,) = read_chat(files, files.__getitem__)
    assert [m.text for m in channel.messages] == ["a"]
    with pytest.raises(Unreadable):
        read_chat(files, lambda path: b"[]")


def test_pdfs_that_are_none() -> None:
    for data, problem in ((b"", Problem.EMPTY), (b"x", Problem.NOT_THIS_FORMAT), (b"%PDF-1.4\n", Problem.CORRUPT)):
        with pytest.raises(Unreadable) as caught:
            read_pdf(data)
        assert caught.value.problem is problem


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public office files is not beside the checkout")
@pytest.mark.parametrize(
    ("extension", "reader"), [("xlsx", read_workbook), ("xlsm", read_workbook), ("docx", read_document), ("pptx",
    read_deck), ("csv", read_table)]
)  # fmt: skip
def test_real_files_are_read_or_refused_with_a_reason(extension: str, reader: Any) -> None:
    outcomes: dict[str, list[str]] = {"read": [], "refused": []}
    for path in sorted((CORPUS / extension).glob("*")):
        try:
            reader(path.read_bytes())
            outcomes["read"].append(path.name)
        except Unreadable:
            outcomes["refused"].append(path.name)
    assert outcomes["read"]
    assert len(outcomes["refused"]) <= 2, outcomes["refused"]


def test_a_header_in_no_character_set_is_shown_as_it_is_written() -> None:
    from envkit.office.mail import read_eml

    data = "Subject: =?utf-\N{REPLACEMENT CHARACTER}?q?odd?=\r\nFrom: a@b.example\r\n\r\nHello\r\n".encode()
    assert "odd" in read_eml(data).subject
