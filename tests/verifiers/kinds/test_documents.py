"""Answers, text files, PDFs, Word documents, decks and csv tables."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import docx
import pptx
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

Judge = Callable[..., Any]


def saved(thing: Any) -> bytes:
    out = io.BytesIO()
    thing.save(out)
    return out.getvalue()


def test_answers(judge: Judge) -> None:
    answer = "Q3 revenue was EUR 12.4 million. The largest client is Acme, then Bolt."
    checks = (
        'kind = "answer"\nnumber = {value = 12.4, unit = "EUR", scale = "million", rel_tol = 0.005}',
        'kind = "answer"\nnumber = {value = 12.9, unit = "EUR", scale = "million", rel_tol = 0.005}',
        'kind = "answer"\nnames = {expected = ["Acme", "Bolt"], distractors = ["Cargo"], ordered = true}',
        'kind = "answer"\ncontains = ["largest client"]\nnot_contains = ["I cannot"]\nmax_words = 20',
        'kind = "answer"\nmax_words = 5',
    )
    assert judge(*checks, answer=answer).outcomes == "pfppf"
    assert judge(*checks, answer="  ").outcomes == "fffff"
    assert judge(*checks, answer=None)["0"].message == "there is no final answer"


def test_text_files(judge: Judge) -> None:
    final = {
        "filesystem/a.md": b"# Summary\n\nNet income was **EUR 4.65m**.\n",
        "filesystem/b.txt": "Größe: 5 €".encode("cp1252"),
        "filesystem/c.txt": "wide".encode("utf-16"),
        "filesystem/d.txt": b"PK\x03\x04 not text",
    }
    judged = judge(
        'kind = "text"\npath = "a.md"\ncontains = ["net income"]\n'
        'number = {value = 4.65, unit = "EUR", scale = "million"}',
        'kind = "text"\npath = "b.txt"\ncontains = ["Größe"]',
        'kind = "text"\npath = "c.txt"\ncontains = ["wide"]',
        'kind = "text"\npath = "d.txt"\ncontains = ["text"]',
        'kind = "text"\npath = "a.md"\nregex = ["^# Summary$"]\nmin_words = 50',
        final=final,
    )
    assert judged.outcomes == "pppff"


def tracked(paragraph: Any, kind: str, text: str) -> None:
    change = OxmlElement(f"w:{kind}")
    change.set(qn("w:id"), "1")
    change.set(qn("w:author"), "A")
    run = OxmlElement("w:r")
    content = OxmlElement("w:t" if kind == "ins" else "w:delText")
    content.text = text
    run.append(content)
    change.append(run)
    paragraph._p.append(change)


def memo() -> bytes:
    document = docx.Document()
    document.add_heading("Quarterly memo", 0)
    document.add_heading("1. Results", 1)
    paragraph = document.add_paragraph("Net income was EUR ")
    tracked(paragraph, "del", "3.1")
    tracked(paragraph, "ins", "4.65")
    paragraph.add_run(" million.")
    document.add_heading("Outlook", 1)
    table = document.add_table(rows=1, cols=3)
    for cell, text in zip(table.rows[0].cells, ("Line", "2024", "2025"), strict=True):
        cell.text = text
    for row in (("Revenue", "10.0", "12.4"), ("Cost", "(4.0)", "(6.2)"), ("Total", "6.0", "6.2")):
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    inner = table.rows[3].cells[0].add_table(rows=2, cols=2)
    for row, texts in zip(inner.rows, (("Item", "Count"), ("Widgets", "7")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.sections[0].header.paragraphs[0].text = "Confidential draft"
    return saved(document)


def test_documents(judge: Judge) -> None:
    def check(keys: str) -> str:
        return f'kind = "document"\npath = "memo.docx"\n{keys}'

    judged = judge(
        check('contains = ["net income was EUR 4.65 million"]\ntracked_changes = true'),
        check('contains = ["3.1"]'),  # deleted text is no text
        check('number = {value = 4.65, unit = "EUR", scale = "million", label = "net income"}'),
        check('headings = ["Results", "Outlook"]\nheadings_in_order = true'),
        check('headings = ["Outlook", "Results"]\nheadings_in_order = true'),
        check('headings = ["Net income"]'),
        check('tables = [{row_label = "Cost", column_label = "2025", value = -6.2}, '
              '{row_label = "Widgets", column_label = "Count", value = 7}]'),
        check('tables = [{row_label = "Cost", column_label = "2024", value = -6.2}]'),
        check('tables = [{row_label = "Cost", column_label = "2026", value = -6.2}]'),
        check('contains = ["Confidential"]'),
        check('contains = ["Confidential draft"]\nwithin = "headers_footers"'),
        check('styles = [{contains = "Results", style = "heading 1"}]\nmin_words = 15'),
        check('styles = [{contains = "Net income", style = "Heading 1"}]'),
        check('tracked_changes = false'),
        final={"filesystem/memo.docx": memo()},
    )  # fmt: skip
    assert judged.outcomes == "pfppffpfffppff"
    assert judged["7"].actual == "'(4.0)'"


def deck() -> bytes:
    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[0])
    first.shapes.title.text = "Board update"
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Key figures"
    group = second.shapes.add_group_shape()
    inner = group.shapes.add_group_shape()
    box = inner.shapes.add_textbox(Inches(1), Inches(1), Inches(3), Inches(1))
    box.text_frame.text = "EBITDA grew 24%"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
    for at, text in {(0, 0): "Line", (0, 1): "2025", (1, 0): "Revenue", (1, 1): "12.4"}.items():
        table.cell(*at).text = text
    data = CategoryChartData()
    data.categories = ["North", "South"]
    data.add_series("Sales by region", (5.5, 6.9))
    second.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, Inches(5), Inches(1), Inches(3), Inches(3), data)
    second.notes_slide.notes_text_frame.text = "Mention the churn risk"
    hidden = presentation.slides.add_slide(presentation.slide_layouts[5])
    hidden.shapes.title.text = "Backup"
    hidden._element.set("show", "0")
    return saved(presentation)


def test_decks(judge: Judge) -> None:
    def check(keys: str) -> str:
        return f'kind = "deck"\npath = "d.pptx"\n{keys}'

    judged = judge(
        check('slides = 2\ntitles = ["Board update", "Key figures"]'),
        check('slides = 3\ninclude_hidden = true'),
        check('titles = ["Backup"]'),
        check('slide = "Key figures"\nnumber = {value = 24, scale = "percent"}\ncontains = ["EBITDA"]'),
        check('slide = 1\ncontains = ["EBITDA"]'),
        check('slide = 2\ntables = [{row_label = "Revenue", column_label = "2025", value = 12.4}]\nmin_charts = 1'),
        check('contains = ["Sales by region", "South", "6.9"]'),
        check('contains = ["churn risk"]'),
        check('contains = ["churn risk"]\nwithin = "notes"'),
        check('slide = "Key numbers"\ncontains = ["EBITDA"]'),
        check('min_pictures = 1'),
        final={"filesystem/d.pptx": deck()},
    )  # fmt: skip
    assert judged.outcomes == "ppfpfppfpff"


def two_columns() -> bytes:
    out = io.BytesIO()
    page = canvas.Canvas(out, pagesize=A4)
    left = ["The agreement between Acme", "and Bolt ends on the thir-", "tieth of June."]
    right = ["Total fees are EUR 12,400", "plus expenses of the firm", "as listed below."]
    for number in range(3):
        page.drawString(60, 700 - 16 * number, left[number])
        page.drawString(330, 700 - 16 * number, right[number])
    page.showPage()
    page.drawString(60, 700, "Appendix")
    for row, (name, amount) in enumerate((("Travel", "1,250"), ("Hotel", "980"))):
        page.drawString(60, 660 - 16 * row, name)
        page.drawString(400, 660 - 16 * row, amount)
    page.showPage()
    page.save()
    return out.getvalue()


def picture_only() -> bytes:
    out = io.BytesIO()
    page = canvas.Canvas(out, pagesize=A4)
    page.rect(10, 10, 100, 100, fill=1)
    page.showPage()
    page.save()
    return out.getvalue()


def test_pdfs(judge: Judge) -> None:
    def check(keys: str) -> str:
        return f'kind = "pdf"\npath = "a.pdf"\n{keys}'

    judged = judge(
        check('contains = ["agreement between Acme and Bolt", "plus expenses of the firm as listed", '
              '"thirtieth of June"]\npages = 2'),
        check('number = {value = 12400, unit = "EUR", label = "total fees"}'),
        check('page = 2\nnumber = {value = 1250, label = "travel", near = 20}'),
        check('page = 2\nnumber = {value = 1250, label = "hotel", near = 20}'),
        check('page = 1\ncontains = ["Appendix"]'),
        check('page = 3\ncontains = ["Appendix"]'),
        check('min_pages = 3'),
        'kind = "pdf"\npath = "b.pdf"\ncontains = ["x"]',
        final={"filesystem/a.pdf": two_columns(), "filesystem/b.pdf": picture_only()},
    )  # fmt: skip
    assert judged.outcomes == "pppfffff"
    assert "has no text" in judged["7"].message


def test_csv_tables(judge: Judge) -> None:
    plain = 'Client,Amount,Paid\nAcme,"1,250.50",2025-01-31\nBolt,980,\n\n'.encode("utf-8-sig")
    german = "Kunde;Betrag\r\nAcme;1.250,50\r\nBolt;980,00\r\n".encode("cp1252")

    def check(keys: str, path: str = "a.csv") -> str:
        return f'kind = "csv"\npath = "{path}"\n{keys}'

    judged = judge(
        check('columns = ["client", "Amount"]\nrows = 2'),
        check('columns = ["Client", "Amount"]\nexact_columns = true'),
        check('where = {Client = "acme"}\ncolumn = "Amount"\nvalue = 1250.5'),
        check('where = {Client = "Bolt"}\ncolumn = "Amount"\nvalue = 1250.5'),
        check('where = {Client = "Cargo"}\ncolumn = "Amount"\nvalue = 1'),
        check('where = {Client = "Acme"}\ncolumn = "Paid"\nvalue = 2025-01-31'),
        check('where = {Amount = 980}\ncolumn = "Paid"\nblank = true'),
        check('column = "Amount"\nsum = 2230.5'),
        check('column = "Client"\nvalues = ["Bolt", "Acme"]'),
        check('column = "Client"\nvalues = ["Bolt", "Acme"]\nany_order = true'),
        check('column = "Amuont"\nsum = 1'),
        check('where = {Kunde = "Acme"}\ncolumn = "Betrag"\nvalue = 1250.5', "b.csv"),
        check('column = "Betrag"\nsum = 2230.5', "b.csv"),
        final={"filesystem/a.csv": plain, "filesystem/b.csv": german},
    )
    assert judged.outcomes == "pfpffpppfpfpp"
    assert "did you mean 'Amount'" in judged["10"].message
