"""Judges of plain texts: the final answer, text files, PDFs."""

from __future__ import annotations

import re

from envkit.office.pdf import Pdf, read_pdf
from envkit.office.table import decode_text
from envkit.verifiers.judging import AgentFault, Context, Finding, text_misses
from envkit.verifiers.kinds.tables import count_misses, ordered_misses, table_misses
from envkit.verifiers.phrases import Miss, same_text
from envkit.verifiers.schema import AnswerCheck, PdfCheck, TextCheck

__all__ = ["judge_answer", "judge_pdf", "judge_text", "markdown_tables"]

#: Different numbers in a final answer beyond which none of them is its answer.
ANSWER_CAP = 8


def judge_answer(check: AnswerCheck, context: Context) -> Finding:
    answer = context.answer or ""
    if not answer.strip():
        raise AgentFault("there is no final answer", where="answer")
    misses, stated = text_misses(check, [answer], "the answer", ANSWER_CAP)
    misses += count_misses(len(answer.split()), "words", None, None, check.max_words)
    misses += table_misses(check.tables, markdown_tables(answer), "the answer")
    return Finding(misses, actual=stated or answer, where="answer")


def judge_text(check: TextCheck, context: Context) -> Finding:
    text = context.load(check.path, decode_text)
    where = "/" + check.path
    misses, stated = text_misses(check, [text], where, None)
    misses += count_misses(len(text.split()), "words", None, check.min_words, check.max_words)
    misses += table_misses(check.tables, markdown_tables(text), where)
    return Finding(misses, actual=stated or None, where=where)


_RULE = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?\s*)?$")


def markdown_tables(text: str) -> list[list[list[str]]]:
    """The pipe tables of a text, each as rows of cells without emphasis."""
    out: list[list[list[str]]] = []
    lines = text.splitlines()
    at = 0
    while at + 1 < len(lines):
        if "|" not in lines[at] or not _RULE.match(lines[at + 1]):
            at += 1
            continue
        rows = [_cells(lines[at])]
        at += 2
        while at < len(lines) and "|" in lines[at]:
            rows.append(_cells(lines[at]))
            at += 1
        out.append(rows)
    return out


def _cells(line: str) -> list[str]:
    plain = line.strip().removeprefix("|")
    plain = plain[:-1] if plain.endswith("|") and not plain.endswith("\\|") else plain
    cells = re.split(r"(?<!\\)\|", plain)
    return [re.sub(r"^(\*\*|__|\*|`)(.*)\1$", r"\2", cell.strip()).replace("\\|", "|") for cell in cells]


def _field_misses(check: PdfCheck, pdf: Pdf, where: str) -> list[Miss]:
    out: list[Miss] = []
    fields = {field.name: field for field in pdf.fields}
    for name, wanted in check.fields.items():
        field = fields.get(name)
        if field is None:
            shown = ", ".join(fields)[:300] or "none"
            out.append(Miss(f"field {name!r}", shown, f"{where} has no field {name!r}; its fields: {shown}", where))
            continue
        ticked = field.value not in ("", "Off", "No", "False", "0")
        right = ticked is wanted if isinstance(wanted, bool) else same_text(field.value, wanted)
        if not right:
            text = f"{where}: field {name!r} must hold {wanted!r}, found {field.value!r}"
            out.append(Miss(str(wanted), field.value, text, where))
    return out


def judge_pdf(check: PdfCheck, context: Context) -> Finding:
    pdf = context.load(check.path, read_pdf)
    where = "/" + check.path
    misses = count_misses(len(pdf.pages), "pages", check.pages, check.min_pages, check.max_pages)
    views = [pdf.by_lines, pdf.by_blocks]
    if check.page is not None:
        if check.page > len(pdf.pages):
            misses.append(Miss(f"page {check.page}", f"{len(pdf.pages)} pages", f"it has no page {check.page}"))
            return Finding(misses, where=where)
        page = pdf.pages[check.page - 1]
        views, where = [page.by_lines, page.by_blocks], f"{where} page {check.page}"
    if check.says_something and not any(v.strip() for v in views):
        scanned = any(p.scanned for p in pdf.pages)
        raise AgentFault(f"{where} has no text" + (": its pages are pictures" if scanned else ""), where=where)
    more, stated = text_misses(check, views, where, None)
    pages = pdf.pages if check.page is None else (pdf.pages[check.page - 1],)
    more += table_misses(check.tables, [table.rows for page in pages for table in page.tables], where)
    more += _field_misses(check, pdf, where)
    more += ordered_misses(check.outline, [item.title for item in pdf.outline], False, "outline entry", where)
    return Finding([*misses, *more], actual=stated or None, where=where)
