"""What a demanding author of tasks asks of files: looks, order, comments, tracked changes, forms, and what changed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import openpyxl
import pytest
from openpyxl.comments import Comment
from openpyxl.styles import Font, PatternFill

from envkit.failure import UserError
from envkit.verifiers.schema import parse_checks

Judge = Callable[..., Any]


def all_of(judge: Judge, kind: str, cases: Sequence[tuple[str, str]], **state: Any) -> None:
    """Judges many checks of one file at once; each case is keys and the outcome."""
    judged = judge(*(f"{kind}\n{keys}" for keys, _ in cases), **state)
    for (keys, outcome), criterion in zip(cases, judged.criteria, strict=True):
        assert criterion.outcome[0] == outcome, (keys, criterion.message)


def saved(book: Any) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def budget() -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Plan"
    for row in (["Item", "Amount", "Share"], ["Rent", 1200, 0.6], ["Food", 800, 0.4], ["Total", "=SUM(B2:B3)", 1]):
        sheet.append(row)
    for number in (2, 3, 4):
        sheet.cell(number, 2).number_format = '#,##0.00 "€"'
        sheet.cell(number, 3).number_format = "0%"
    sheet["A4"].font = Font(bold=True, color="FF0000")
    sheet["B4"].fill = PatternFill("solid", fgColor="FFFF00")
    sheet["B2"].comment = Comment("Taken from the lease of 2024", "Ana")
    book.create_sheet("Notes")["A1"] = "see the lease"
    return book


def test_cells_and_their_looks(judge: Judge) -> None:
    all_of(judge, 'kind = "cell"\npath = "m.xlsx"', [
        ('cell = "B4"\nmin = 1900\nmax = 2000', "p"), ('cell = "B4"\nmin = 2001', "f"), ('cell = "A1"\nmin = 0', "f"),
        ('cell = "B2"\nformat = "currency"', "p"), ('cell = "B2"\nformat = "currency € 2"', "p"),
        ('cell = "C2"\nformat = "percent"', "p"), ('cell = "C2"\nformat = "date"', "f"),
        ('cell = "A4"\nbold = true', "p"), ('cell = "A1"\nbold = true', "f"), ('cell = "A4"\ncolor = "ff0000"', "p"),
        ('cell = "B4"\nfill = "FFFF00"', "p"), ('cell = "B4"\nfill = "any"', "p"), ('cell = "B4"\nfill = "none"', "f"),
        ('cell = "B2"\ncomment = ["lease"]', "p"), ('cell = "B3"\ncomment = ["lease"]', "f"),
    ], final={"filesystem/m.xlsx": saved(budget())})  # fmt: skip


def test_ranges_and_sheets(judge: Judge) -> None:
    final = {"filesystem/m.xlsx": saved(budget())}
    all_of(judge, 'kind = "range"\npath = "m.xlsx"', [
        ('column = "Amount"\nmin = 800', "p"), ('column = "Amount"\nmax = 1900', "f"),
        ('range = "C2:C4"\nformat = "percent"', "p"), ('range = "B2:C4"\nformat = "percent"', "f"),
    ], final=final)  # fmt: skip
    all_of(judge, 'kind = "sheet"\npath = "m.xlsx"', [
        ('sheet = "Notes"\nposition = 2', "p"), ('sheet = "Notes"\nposition = 1', "f"),
        ('sheet = "Plan"\ntables = ["Sales"]', "f"),
    ], final=final)  # fmt: skip


def test_what_changed_inside_a_file(judge: Judge) -> None:
    before, after = budget(), budget()
    after["Plan"]["B3"] = 900
    initial = {"filesystem/m.xlsx": saved(before)}
    all_of(judge, 'kind = "changes"\npath = "m.xlsx"', [
        ("", "f"),
        ('where = ["plan!b*"]', "p"),
        ('where = ["Plan!B*"]\nmust = ["Plan!B3"]\nmax_changes = 1', "p"),
        ('where = ["Notes!*"]', "f"),
        ('kinds = ["cell.value"]', "p"),
        ('kinds = ["cell.style"]', "f"),
        ('where = ["Plan!*"]\nmust = ["Plan!B2"]', "f"),
        ('where = ["Plan!*"]\nmax_changes = 0', "f"),
        ('ignore = ["cell.*"]', "p"),
        ('where = ["Plan!B3"]\nderived = true', "f"),  # the total follows
        ('before = "gone.xlsx"', "m"),
    ], final={"filesystem/m.xlsx": saved(after)}, initial=initial)  # fmt: skip
    judged = judge('kind = "changes"\npath = "m.xlsx"', final={"filesystem/m.xlsx": b"broken"}, initial=initial)
    assert judged.outcomes == "f"
    judged = judge('kind = "changes"\npath = "m.xlsx"', final={"filesystem/m.xlsx": saved(after)},
                   initial={"filesystem/m.xlsx": b"broken"})  # fmt: skip
    assert judged.outcomes == "m"


def test_saved_anew_is_unchanged_in_meaning(judge: Judge) -> None:
    first = saved(budget())
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(first)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as new:
        for name in reversed(old.namelist()):
            new.writestr(name, old.read(name))
    again = packed.getvalue()
    touched = openpyxl.load_workbook(io.BytesIO(first))
    touched["Notes"]["A1"] = "see the contract"
    keys = 'kind = "unchanged"\npaths = ["*.xlsx"]\n'
    for final, outcomes in ((again, "fp"), (saved(touched), "ff")):
        judged = judge(keys, keys + 'compare = "meaning"', final={"filesystem/m.xlsx": final},
                       initial={"filesystem/m.xlsx": first})  # fmt: skip
        assert judged.outcomes == outcomes
    assert "Notes!A1" in judged["1"].message


def test_tables_of_answers_and_markdown(judge: Judge) -> None:
    text = "Here it is:\n\n| Region | **2025** |\n|:--|--:|\n| North | 12.5 |\n| **Total** | 20.5 |\n\nDone | so far.\n"
    cases = [
        ('tables = [{row_label = "Total", column_label = "2025", value = 20.5}]', "p"),
        ('tables = [{row_label = "Total", column_label = "2025", value = 20.4}]', "f"),
        ('tables = [{row_label = "South", value = 1}]', "f"),
    ]
    all_of(judge, 'kind = "answer"', cases, answer=text)
    all_of(judge, 'kind = "text"\npath = "a.md"', cases, final={"filesystem/a.md": text.encode()})


def test_columns_of_a_csv(judge: Judge) -> None:
    data = b"Name,Amount,Day\nAda,9,2026-01-02\nBob,10,2026-01-03\nCem,100,2026-02-01\nada,100,2026-02-02\n"
    all_of(judge, 'kind = "csv"\npath = "a.csv"', [
        ('column = "Amount"\nsorted = "ascending"', "p"), ('column = "Amount"\nsorted = "descending"', "f"),
        ('column = "Day"\nsorted = "ascending"', "p"), ('column = "Day"\nunique = true', "p"),
        ('column = "Name"\nunique = true', "f"),
    ], final={"filesystem/a.csv": data})  # fmt: skip


def test_forms_tables_and_outline_of_a_pdf(judge: Judge) -> None:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, invariant=1)
    canvas.bookmarkPage("a")
    canvas.addOutlineEntry("Summary", "a", 0)
    canvas.drawString(72, 760, "Order form")
    canvas.acroForm.textfield(name="customer", value="Acme", x=72, y=720, width=200, height=20)
    canvas.acroForm.checkbox(name="express", checked=True, x=72, y=690)
    canvas.acroForm.checkbox(name="gift", checked=False, x=72, y=660)
    for row, cells in enumerate((("Item", "Net"), ("Bolts", "12.5"), ("Total", "20.5"))):
        for column, text in enumerate(cells):
            canvas.rect(72 + 100 * column, 560 - 20 * row, 100, 20)
            canvas.drawString(76 + 100 * column, 565 - 20 * row, text)
    canvas.save()
    all_of(judge, 'kind = "pdf"\npath = "a.pdf"', [
        ('fields = {customer = "acme", express = true, gift = false}', "p"), ('fields = {customer = "Other"}', "f"),
        ("fields = {gift = true}", "f"), ('fields = {nobody = "x"}', "f"),
        ('outline = ["Summary"]', "p"), ('outline = ["Results"]', "f"),
        ('tables = [{row_label = "Total", column_label = "Net", value = 20.5}]', "p"),
        ('tables = [{row_label = "Total", column_label = "Net", value = 21}]', "f"),
    ], final={"filesystem/a.pdf": out.getvalue()})  # fmt: skip


def test_tracked_changes_comments_and_pictures_of_a_document(judge: Judge) -> None:
    import docx
    from docx.oxml import parse_xml
    from PIL import Image

    document = docx.Document()
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    paragraph = document.add_paragraph("The price is ")
    for tag, text in (("del", "12"), ("ins", "14")):
        inner = "delText" if tag == "del" else "t"
        said = f"<w:r><w:{inner}>{text} euros</w:{inner}></w:r>"
        xml = f'<w:{tag} xmlns:w="{main}" w:id="1" w:author="Ana">{said}</w:{tag}>'
        paragraph._p.append(parse_xml(xml))
    run = document.add_paragraph().add_run("Growth of 12 %")
    document.add_comment(run, text="Where is the source?", author="Ben", initials="B")
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(picture, "PNG")
    picture.seek(0)
    document.add_picture(picture)
    all_of(judge, 'kind = "document"\npath = "a.docx"', [
        ('inserted = ["14 euros"]\ndeleted = ["12 euros"]', "p"), ('inserted = ["12 euros"]', "f"),
        ('comments = [{contains = "source", anchor = "12 %", author = "ben"}]', "p"),
        ('comments = [{contains = "source", author = "Ana"}]', "f"),
        ("min_images = 1", "p"), ("min_images = 2", "f"), ("images_described = true", "f"),
    ], final={"filesystem/a.docx": saved(document)})  # fmt: skip


def test_slides_in_order_and_their_layouts(judge: Judge) -> None:
    import pptx

    deck = pptx.Presentation()
    for title in ("Costs", "Outlook"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
    all_of(judge, 'kind = "deck"\npath = "a.pptx"', [
        ('titles = ["Costs", "Outlook"]\ntitles_in_order = true', "p"),
        ('titles = ["Outlook", "Costs"]\ntitles_in_order = true', "f"),
        ('layout = "Title Only"', "p"), ('slide = "Costs"\nlayout = "Blank"', "f"), ("max_words = 1", "p"),
        ("images_described = true", "p"),
    ], final={"filesystem/a.pptx": saved(deck)})  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('kind = "changes"\npath = "a.doc"', "only LibreOffice reads"),
        ('kind = "changes"\npath = "a.docx"\nbefore = "a.xlsx"', "different types"),
        ('kind = "cell"\npath = "a.xlsx"\ncell = "A1"\nfill = "yellow"', "should match pattern"),
        ('kind = "csv"\npath = "a.csv"\nunique = true', "need column"),
        ('kind = "chart"\npath = "a.pdf"', "charts are read from"),
        ('kind = "chart"\npath = "a.docx"\nsheet = "x"', "sheet is for workbooks"),
        ('kind = "document"\npath = "a.docx"\ncomments = [{}]', "a comment needs"),
    ],
)
def test_mistakes_are_named(keys: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_checks(f'schema_version = "1"\n[[check]]\nid = "a"\n{keys}\n')
