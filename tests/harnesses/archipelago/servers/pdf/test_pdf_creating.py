"""Making PDFs: every block, characters of many scripts, long tables, metadata; mistakes write nothing."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.office.pdf import read_pdf

BLOCKS: list[Any] = [
    {"type": "heading", "text": "Umsatz & Ertrag in €"},
    {
        "type": "paragraph",
        "text": "Die \ufb01nanzielle Lage <b>ist</b> gut.\nZweite Zeile.",
        "bold": True,
        "italic": True,
    },
    {"type": "heading", "text": "Ausblick", "level": 3},
    {"type": "bullet_list", "items": ["erstens", "zweitens"]},
    {"type": "numbered_list", "items": ["alpha", "beta"]},
    {"type": "spacer", "height": 30},
    {"type": "table", "rows": [["Name", "Betrag"], ["Miete", 1200.5], ["Strom", "80 €"]]},
    {"type": "page_break"},
    {"type": "paragraph", "text": "Letzte Seite"},
]


def make(pdf: Any, content: Any, **more: Any) -> str:
    return str(
        pdf.text("create_pdf", {"input": {"directory": "/out", "file_name": "a.pdf", "content": content, **more}})
    )


def made(pdf: Any) -> Any:
    return read_pdf((pdf.root / "out/a.pdf").read_bytes())


def test_every_kind_of_block(pdf: Any) -> None:
    told = make(pdf, BLOCKS, metadata={"title": "Bericht €", "author": "Ann", "subject": "Q3"}, page_size="A4")
    assert told.startswith("Created /out/a.pdf: 2 pages of A4, 9 blocks, ")
    read = made(pdf)
    assert dict(read.metadata) == {"Title": "Bericht €", "Author": "Ann", "Subject": "Q3"}
    assert (read.pages[0].width, read.pages[0].height) == pytest.approx((595.28, 841.89), abs=0.1)
    assert [(o.level, o.title, o.page) for o in read.outline] == [(1, "Umsatz & Ertrag in €", 1), (2, "Ausblick", 1)]
    text = read.pages[0].by_lines.replace("\ufb01", "fi")
    for piece in (
        "Umsatz & Ertrag in €",
        "Die finanzielle Lage <b>ist</b> gut.",
        "Zweite Zeile.",
        "• erstens",
        "2. beta",
    ):
        assert piece in text
    (table,) = read.pages[0].tables
    assert table.rows == (("Name", "Betrag"), ("Miete", "1200.5"), ("Strom", "80 €"))
    assert read.pages[1].by_lines == "Letzte Seite"


def test_a_long_table_goes_on_with_its_header(pdf: Any) -> None:
    rows = [["Number", "Square"]] + [[n, n * n] for n in range(150)]
    make(pdf, [{"type": "table", "rows": rows}])
    pages = made(pdf).pages
    assert len(pages) >= 3
    assert all(page.tables[0].rows[0] == ("Number", "Square") for page in pages)
    assert [r for p in pages for r in p.tables[0].rows[1:]] == [(str(n), str(n * n)) for n in range(150)]
    make(pdf, [{"type": "table", "rows": rows[1:], "header": False}])
    assert [p.tables[0].rows[0] for p in made(pdf).pages].count(("0", "0")) == 1


@pytest.mark.slow
def test_a_cell_longer_than_a_page(pdf: Any) -> None:
    words = [f"word{n}" for n in range(3000)]
    make(pdf, [{"type": "table", "rows": [["a", "b"], [" ".join(words), "x" * 400]]}])
    text = " ".join(page.by_lines for page in made(pdf).pages)
    assert all(word in text for word in words[::97])


def test_scripts_and_characters_that_nobody_has(pdf: Any) -> None:
    told = make(pdf, ["Ωμέγα Привет", "你好 こんにちは 안녕", "Grin \U0001f600 and a private one \U0010fffd"])
    text = made(pdf).pages[0].by_lines
    assert "Ωμέγα Привет" in text
    assert "你好 こんにちは 안녕" in text
    assert "\U0001f600" in text or "U+1F600" in told
    assert "U+10FFFD" in told


def test_a_file_that_was_there_is_replaced_and_said_so(pdf: Any) -> None:
    make(pdf, ["one"])
    assert make(pdf, "two").startswith("Replaced /out/a.pdf: 1 page of letter (8.5 x 11 in), 1 block")
    assert made(pdf).pages[0].by_lines == "two"


def test_unequal_rows_are_filled_and_said_so(pdf: Any) -> None:
    assert "content[0]" in make(pdf, [{"type": "table", "rows": [["a", "b", "c"], ["d"]]}])
    assert made(pdf).pages[0].tables[0].rows[1] == ("d", "", "")


def test_the_meta_tool_says_status_and_path(pdf: Any) -> None:
    request = {"action": "create", "directory": "/out", "file_name": "a.pdf", "content": BLOCKS}
    made = pdf.meta({"request": request})
    assert made.structured["create"]["status"] == "success"
    assert made.structured["create"]["file_path"] == "/out/a.pdf"
    assert "2 pages" in made.structured["create"]["message"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"content": []}, "content"),
        ({"content": [{"type": "paragraf", "text": "x"}]}, "paragraph"),
        ({"content": ["fine", {"type": "heading"}]}, "text"),
        ({"content": ["fine", {"type": "heading", "text": "x", "level": 9}]}, "level"),
        ({"content": ["fine", {"type": "bullet_list", "items": []}]}, "items"),
        ({"content": ["fine", {"type": "table", "rows": [[]]}]}, "rows are empty"),
        ({"content": ["fine", {"type": "table", "rows": [["x"] * 61]}]}, "61 columns"),
        ({"content": ["fine", {}]}, "type"),
        ({"file_name": "sub/a.pdf"}, "without slashes"),
        ({"file_name": "a.docx"}, "must end in .pdf"),
        ({"page_size": "a3"}, "page_size"),
        ({"metadata": {"titel": "x"}}, "title"),
        ({"directory": "/file.txt"}, "is a file"),
        ({"directory": "/out/a.pdf/deep"}, "folder"),
    ],
)
def test_mistakes_write_nothing(pdf: Any, change: dict[str, Any], told: str) -> None:
    pdf.put("file.txt", b"x")
    before = b"something else"
    pdf.put("out/a.pdf", before)
    arguments = {"directory": "/out", "file_name": "a.pdf", "content": ["text"], **change}
    assert told in pdf.error("create_pdf", {"input": arguments})
    assert (pdf.root / "out/a.pdf").read_bytes() == before
    assert sorted(p.name for p in pdf.root.rglob("*")) == ["a.pdf", "file.txt", "out"]


def test_blocks_are_typed_in_both_schemas() -> None:
    """The original's schemas left the items of `content` without a type: models sent empty objects."""
    from envkit.harnesses.archipelago.servers.pdf import APP

    kinds = {"paragraph", "heading", "bullet_list", "numbered_list", "table", "page_break", "spacer"}
    tool = next(t for t in APP.tools if t.name == "create_pdf")
    for model in (tool.arguments, APP.metas[0].request):
        schema = model.model_json_schema()
        found = {d["properties"]["type"]["const"] for d in schema["$defs"].values() if "type" in d["properties"]}
        assert found == kinds
