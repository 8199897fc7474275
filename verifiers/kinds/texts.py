"""Judges of plain texts: the final answer, text files, PDFs."""

from __future__ import annotations

from envkit.office.pdf import read_pdf
from envkit.office.table import decode_text
from envkit.verifiers.judging import AgentFault, Context, Finding, text_misses
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import AnswerCheck, PdfCheck, TextCheck

__all__ = ["count_misses", "judge_answer", "judge_pdf", "judge_text"]

#: Different numbers in a final answer beyond which none of them is its answer.
ANSWER_CAP = 8


def count_misses(
    count: int, what: str, exact: int | None, least: int | None, most: int | None, where: str | None = None
) -> list[Miss]:
    """What is amiss with a count; `what` names the things counted."""
    if exact is not None and count != exact:
        return [Miss(f"{exact} {what}", str(count), f"{count} {what}, must be {exact}", where)]
    if least is not None and count < least:
        return [Miss(f"at least {least} {what}", str(count), f"{count} {what}, must be at least {least}", where)]
    if most is not None and count > most:
        return [Miss(f"at most {most} {what}", str(count), f"{count} {what}, must be at most {most}", where)]
    return []


def judge_answer(check: AnswerCheck, context: Context) -> Finding:
    answer = context.answer or ""
    if not answer.strip():
        raise AgentFault("there is no final answer", where="answer")
    misses, stated = text_misses(check, [answer], "the answer", ANSWER_CAP)
    misses += count_misses(len(answer.split()), "words", None, None, check.max_words)
    return Finding(misses, actual=stated or answer, where="answer")


def judge_text(check: TextCheck, context: Context) -> Finding:
    text = context.load(check.path, decode_text)
    where = "/" + check.path
    misses, stated = text_misses(check, [text], where, None)
    misses += count_misses(len(text.split()), "words", None, check.min_words, check.max_words)
    return Finding(misses, actual=stated or None, where=where)


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
    return Finding([*misses, *more], actual=stated or None, where=where)
