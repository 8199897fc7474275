"""Finding texts in PDFs: over lines, hyphens and ligatures; whole words, case, counts."""

from __future__ import annotations

from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas

LINES = [
    "The board of directors has approved the", "consolidated financial state-", "ments for the year, and the so-called",
    "cross-", "border payments. The Board met twice.",
]  # fmt: skip


def text(page: Canvas) -> None:
    for index, line in enumerate(LINES):
        page.drawString(72, 700 - 14 * index, line)


@pytest.fixture
def path(pdf: Any, make_pdf: Any, scanned: Any) -> str:
    return str(pdf.put("s.pdf", make_pdf(text, scanned, text)))


def found(pdf: Any, path: str, query: str, **more: Any) -> str:
    return str(pdf.text("search_pdf", {"file_path": path, "query": query, **more}))


@pytest.mark.parametrize(
    "query",
    [
        "approved the consolidated financial",  # the original looked at single lines
        "financial statements for the year",
        "financial state-ments",
        "cross-border payments",
        "the  so-called\ncross-border",
        "Board met twice",
    ],
)
def test_phrases_run_over_lines_and_hyphens(pdf: Any, path: str, query: str) -> None:
    assert found(pdf, path, query).startswith(f"Found 2 matches for {query!r} on 2 pages")


def test_lines_apart_are_no_word(pdf: Any, path: str) -> None:
    assert found(pdf, path, "theconsolidated").startswith("Found 0 matches")


def test_case_and_whole_words(pdf: Any, path: str) -> None:
    assert found(pdf, path, "board").startswith("Found 4 matches")
    assert found(pdf, path, "board", case_sensitive=True).startswith("Found 2 matches")
    assert found(pdf, path, "direct").startswith("Found 2 matches")
    assert "Found 0 matches for 'direct' (with whole_word)" in found(pdf, path, "direct", whole_word=True)
    assert found(pdf, path, "so-called", whole_word=True).startswith("Found 2 matches")
    # A query is text, not a pattern.
    assert found(pdf, path, "b.ard").startswith("Found 0 matches")


def test_counts_are_honest_and_limits_said(pdf: Any, path: str) -> None:
    text = found(pdf, path, "the", max_results=2)
    assert "Found 10 matches" in text
    assert "showing the first 2 (raise max_results for more)" in text
    assert len([line for line in text.splitlines() if line[:1].isdigit()]) == 2


def test_where_and_surroundings(pdf: Any, path: str) -> None:
    text = found(pdf, path, "directors", context_chars=9)
    assert "1. [Page 1, Line 1, Chars 14-22]: ...board of **directors** has appr..." in text
    assert "[Page 3, Line 1," in text
    assert "[Page 1, Lines 1-2]" in found(pdf, path, "approved the consolidated")


def test_scans_are_said_not_to_be_searched(pdf: Any, path: str) -> None:
    assert "Page 2 is a scan without text (needs OCR) and could not be searched" in found(pdf, path, "nothing of this")


def test_ligatures_quotes_and_dashes(pdf: Any) -> None:
    content = ["The o\ufb03ce \ufb01nds “smart” quotes – and dashes"]
    pdf.text("create_pdf", {"input": {"directory": "/", "file_name": "l.pdf", "content": content}})
    for query in ("office finds", 'finds "smart" quotes - and', "“smart” quotes – and", "o\ufb03ce"):
        assert found(pdf, "/l.pdf", query).startswith("Found 1 match "), query


def test_forms_and_notes_are_searched(pdf: Any, make_pdf: Any) -> None:
    def form(page: Canvas) -> None:
        page.acroForm.textfield(name="client", value="Zephyr Ltd", x=72, y=600, width=200, height=20)

    assert "[Page 1, form field 'client']: **Zephyr** Ltd" in found(pdf, pdf.put("f.pdf", make_pdf(form)), "zephyr")


@pytest.mark.parametrize(
    ("more", "told"),
    [({"query": "  "}, "the query is empty"), ({"query": "x" * 1001}, "more than 1000"),
     ({"max_results": 0}, "max_results"), ({"case": True}, "case_sensitive"), ({"query": None}, "query")],
)  # fmt: skip
def test_mistakes_are_told(pdf: Any, path: str, more: dict[str, Any], told: str) -> None:
    assert told in pdf.error("search_pdf", {"file_path": path, "query": "a", **more})


def test_a_long_query_over_a_long_text_takes_no_age(pdf: Any, make_pdf: Any) -> None:
    def dense(page: Canvas) -> None:
        for index in range(60):
            page.drawString(30, 770 - 12 * index, "a-a a" * 20)

    path = pdf.put("d.pdf", make_pdf(*[dense] * 3))
    assert found(pdf, path, "a a-a" * 150 + "b").startswith("Found 0")
