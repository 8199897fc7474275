"""Every writing tool over real decks: LibreOffice opens the result, and the typed comparison shows what was asked for
and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from PIL import Image as Pillow

from envkit.office.deck import Deck, read_deck
from envkit.office.problem import Unreadable
from envkit.verifiers.diff import diff_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[6] / "shared" / "corpus"))
FILES = (
    "markitdown--test", "markitdown--pptx_image_middle", "poi--45541_Header", "poi--45545_Comment", "poi--60042",
    "poi--EmbeddedVideo", "poi--PPT2016withComment", "poi--bar-chart", "poi--chart-texture-bg",
    "poi--highlight-test-case", "poi--keyframes", "poi--layouts", "poi--pie-chart-template", "poi--shapes",
    "poi--stress013", "poi--table-with-no-theme", "python-pptx--missing_rels_item", "python-pptx--shp-embedded-pptx",
    "python-pptx--tbl-cell", "unstructured--fake-power-point-table", "unstructured--group-shapes-nested",
)  # fmt: skip
Found = set[tuple[str, str]]
Job = tuple[str, dict[str, Any], Callable[[Found], bool]]


def _only(*kinds: str) -> Callable[[Found], bool]:
    """`shape added`: findings of these kinds and changes, and of no other."""
    allowed = {tuple(kind.split()) for kind in kinds}
    return lambda found: bool(found) and found <= allowed


def _op(kind: str, **fields: Any) -> dict[str, Any]:
    return {"operations": [{"type": kind, **fields}]}


def jobs(deck: Deck) -> list[Job]:
    """What is done to a deck, and what of it the comparison may show."""
    last, middle = len(deck.slides) - 1, len(deck.slides) // 2
    added, new = _only("shape added"), _only("slide added")
    texts = _only("text changed", "text.paragraph added", "text.paragraph removed", "text.paragraph changed")
    chart = {"slide_index": last, "spreadsheet_path": "/d.xlsx", "sheet_name": "Data", "data_range": "A1:C4"}
    same = _op("set_notes", index=middle, notes=deck.slides[middle].notes)
    words = {"index": middle, "title": "Entirely new words", "layout": "title_only"}
    out: list[Job] = [
        ("edit_slides", _op("set_notes", index=middle, notes="Words of\nmine"), _only("notes added", "notes changed")),
        ("edit_slides", _op("duplicate_slide", index=middle, position="end"), new),
        ("edit_slides", _op("delete_slide", index=middle), _only("slide removed")),
        ("add_slide", words, new),
        ("add_shape", {"slide_index": middle, "shape_type": "cloud", "text": "zzz"}, added),
        ("add_image", {"slide_index": 0, "image_path": "/p.png"}, added),
        ("insert_table", {"slide_index": last, "rows": [["a", "b"], ["1", "2"]]}, added),
        ("insert_chart", chart, added),
        ("edit_slides", {**same, "metadata": {"subject": "mine"}},
         _only("property.subject added", "property.subject changed")),
    ]  # fmt: skip
    for index, slide in enumerate(deck.slides):
        titles = [s for s in slide.shapes if s.placeholder == "title" and s.text.strip()]
        if len(slide.texts) > 2 and titles:
            out.append(("edit_slides", _op("update_slide_title", index=index, title="Another title"), texts))
            break
    for index, slide in enumerate(deck.slides):
        if slide.tables and slide.tables[0][0][0]:
            cell = {"index": index, "table_idx": 0, "row": 0, "column": 0}
            looks = {"underline": True, "bg_color": "12AB34"}
            out.append(("edit_slides", _op("update_table_cell", **cell, text="CELL"), _only("cell.text changed")))
            formatted = _only("cell.text.format changed", "cell.fill changed", "cell.fill added")
            out.append(("edit_slides", _op("format_table_cell", **cell, **looks), formatted))
            break
    for index, slide in enumerate(deck.slides):
        pictures = [s for s in slide.shapes if s.kind == "picture"]
        number = next((i for i, s in enumerate(pictures) if s.image is not None and s.image.hash), None)
        if number is not None:
            where = {"slide_index": index, "image_index": number}
            crop = {"crop_left": 0, "crop_top": 0, "crop_right": 20, "crop_bottom": 20}
            content = _only("image.content changed")
            out += [
                ("modify_image", {**where, "operation": "rotate", "rotation": 45}, _only("shape.rotation changed")),
                ("modify_image", {**where, "operation": "flip", "flip": "vertical"}, content),
                ("modify_image", {**where, "operation": "brightness", "brightness": 0.4}, content),
                ("modify_image", {**where, "operation": "crop", **crop},
                 _only("image.content changed", "shape.size changed", "shape.position changed")),
            ]  # fmt: skip
            break
    return out


@pytest.mark.parametrize("name", FILES)
def test_the_change_asked_for_and_nothing_else(call, world, tmp_path: Path, name: str) -> None:
    data = (CORPUS / "pptx" / f"{name}.pptx").read_bytes()
    path = world.filesystem / "x.pptx"
    Pillow.effect_noise((120, 80), 60).convert("RGB").save(world.filesystem / "p.png")
    book = openpyxl.Workbook()
    book.active.title = "Data"
    for row in [["Q", "Rev", "Cost"], ["Q1", 10, 7], ["Q2", "=B2+2", 8], ["Q3", 14, "=C3*2"]]:
        book.active.append(row)
    book.save(world.filesystem / "d.xlsx")
    results = tmp_path / "results"
    results.mkdir()
    todo = jobs(read_deck(data))
    for number, (tool, arguments, expected) in enumerate(todo):
        path.write_bytes(data)
        call(tool, **{"presentation_path" if tool == "insert_chart" else "file_path": "/x.pptx"}, **arguments)
        after = path.read_bytes()
        (results / f"{number}.pptx").write_bytes(after)
        found = diff_bytes("x.pptx", data, after)
        assert expected({(f.kind, f.change.value) for f in found}), (tool, arguments, [f.message or f for f in found])
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    files = [str(p) for p in sorted(results.iterdir())]
    subprocess.run(["soffice", "--headless", profile, "--convert-to", "png", "--outdir", str(tmp_path / "png"), *files],
                   check=True, capture_output=True, timeout=600)  # fmt: skip
    assert len(list((tmp_path / "png").glob("*.png"))) == len(todo), "LibreOffice opens every result"


def test_every_slide_and_picture_of_the_corpus_is_read(call, world) -> None:
    slides = pictures = 0
    for file in sorted((CORPUS / "pptx").iterdir()):
        data = file.read_bytes()
        (world.filesystem / "x.pptx").write_bytes(data)
        try:
            deck = call("read_completedeck", file_path="/x.pptx")
        except Unreadable:
            continue
        text = call("read_slides", file_path="/x.pptx")
        assert text.total_length >= len(text.content)
        for entry in deck.slides:
            slide = call("read_individualslide", file_path="/x.pptx", slide_index=entry.slide_index)
            assert None not in slide.model_dump(mode="json").values(), file.name
            slides += 1
            for image in slide.images[:2]:
                if not image.note:
                    call("read_image", file_path="/x.pptx", annotation=image.annotation)
                    pictures += 1
    assert slides > 130
    assert pictures > 10
