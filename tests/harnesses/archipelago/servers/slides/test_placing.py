"""add_image, insert_table, add_shape, insert_chart, modify_image."""

from __future__ import annotations

import io

import openpyxl
import pptx
import pytest
from PIL import Image as Pillow
from pydantic import ValidationError

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.office.deck import read_deck
from envkit.office.problem import Unreadable
from envkit.verifiers.diff import diff_bytes

WRITERS = {
    "add_image": {"slide_index": 0, "image_path": "/p.png"},
    "insert_table": {"slide_index": 0, "rows": [["a"]]},
    "add_shape": {"slide_index": 0, "shape_type": "oval"},
    "modify_image": {"slide_index": 4, "image_index": 0, "operation": "rotate", "rotation": 90},
    "insert_chart": {
        "slide_index": 0, "spreadsheet_path": "/data.xlsx", "sheet_name": "Data", "data_range": "A1:B4",
    },
}  # fmt: skip


def target(name: str, path: str) -> dict[str, str]:
    return {"presentation_path" if name == "insert_chart" else "file_path": path}


@pytest.fixture
def picture(world) -> str:
    Pillow.new("RGB", (300, 150), "navy").save(world.filesystem / "p.png", dpi=(100, 100))
    return "/p.png"


@pytest.fixture
def changes(deck):
    before = deck.read_bytes()
    return lambda: [(f.where, f.kind, f.change.value) for f in diff_bytes("d.pptx", before, deck.read_bytes())]


@pytest.mark.parametrize("name", WRITERS)
def test_user_errors_and_broken_files(call, deck, broken, book, picture, name) -> None:
    rest = WRITERS[name]
    with pytest.raises(Unreadable):
        call(name, **target(name, broken), **rest)
    with pytest.raises(ToolError, match="6 slides"):
        call(name, **target(name, "/deck.pptx"), **{**rest, "slide_index": 17})
    with pytest.raises(ToolError, match="there is no /nowhere"):
        call(name, **target(name, "/nowhere.pptx"), **rest)
    with pytest.raises(ToolError, match="leads out"):
        call(name, **target(name, "/../../../tmp/x.pptx"), **rest)


@pytest.mark.parametrize("name", WRITERS)
def test_each_adds_or_changes_one_thing(call, deck, changes, book, picture, name) -> None:
    call(name, **target(name, "/deck.pptx"), **WRITERS[name])
    kinds = [("shape.rotation", "changed")] if name == "modify_image" else [("shape", "added")]
    assert [f[1:] for f in changes()] == kinds


def test_a_picture_of_its_own_size_or_by_one_side(call, deck, picture) -> None:
    made = call("add_image", file_path="/deck.pptx", image_path=picture, slide_index=4, x=2, y=1)
    assert (made.position, made.size, made.annotation) == ([2.0, 1.0], [3.0, 1.5], "slide4_img2")
    assert call("read_image", file_path="/deck.pptx", annotation="slide4_img2").mime == "image/png"
    made = call("add_image", file_path="/deck.pptx", image_path=picture, slide_index=4, width=1)
    assert made.size == [1.0, 0.5]


def test_pictures_that_would_not_be_seen_or_read(call, deck, picture, world) -> None:
    with pytest.raises(ToolError, match="beside the slide"):
        call("add_image", file_path="/deck.pptx", image_path=picture, slide_index=0, x=30)
    assert (
        "reaches beyond"
        in call("add_image", file_path="/deck.pptx", image_path=picture, slide_index=0, x=9, width=3).message
    )
    (world.filesystem / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"junk" * 20)
    with pytest.raises(Unreadable):
        call("add_image", file_path="/deck.pptx", image_path="/bad.png", slide_index=0)
    Pillow.new("RGB", (4000, 3000)).save(world.filesystem / "big.png")
    made = call("add_image", file_path="/deck.pptx", image_path="/big.png", slide_index=0)
    assert "smaller" in made.message
    assert made.position[0] + made.size[0] <= 10
    assert made.position[1] + made.size[1] <= 7.5
    Pillow.new("RGB", (30, 20)).save(world.filesystem / "w.webp")
    call("add_image", file_path="/deck.pptx", image_path="/w.webp", slide_index=0)


def test_a_shape_with_text_that_fits(call, deck) -> None:
    call("add_shape", file_path="/deck.pptx", slide_index=4, shape_type="Star", x=6, y=1, width=1.5, height=1.5,
         fill_color="#ff0", line_color="000000", line_width=2,
         text="A text of some length", text_color="112233")  # fmt: skip
    shape = read_deck(deck.read_bytes()).slides[4].shapes[-1]
    assert (shape.text, shape.geometry, shape.fill) == ("A text of some length", "star5", "FFFF00")
    assert shape.paragraphs[0].runs[0].format.size < 18
    assert shape.paragraphs[0].align == "center"
    with pytest.raises(ToolError, match="needs a text"):
        call("add_shape", file_path="/deck.pptx", slide_index=0, shape_type="oval", font_size=9)
    with pytest.raises(ValidationError):
        call("add_shape", file_path="/deck.pptx", slide_index=0, shape_type="blob")


def test_a_table_stands_below_the_title_unless_it_is_placed(call, deck) -> None:
    call("insert_table", file_path="/deck.pptx", slide_index=3, rows=[["h", "n"], ["a", 1.5]])
    shape = read_deck(deck.read_bytes()).slides[3].shapes[-1]
    title = read_deck(deck.read_bytes()).slides[3].shapes[0]
    assert shape.table[1][1].text == "1.5"
    assert shape.box.y >= title.box.y + title.box.height
    assert shape.table[0][0].paragraphs[0].runs[0].format.bold
    assert not shape.table[1][0].paragraphs[0].runs[0].format.bold
    call("insert_table", file_path="/deck.pptx", slide_index=4, rows=[["a"]], x=2, y=3, width=4, height=1, header=False)
    box = read_deck(deck.read_bytes()).slides[4].shapes[-1].box
    assert (box.x, box.y, box.width) == (144, 216, 288)


# --- charts ---


@pytest.mark.parametrize("kind", ["bar", "line", "pie", "area", "scatter", "doughnut", "radar"])
def test_every_kind_of_chart_from_recalculated_values(call, deck, book, kind) -> None:
    sheet, area = ("Points", "A1:B3") if kind == "scatter" else ("Data", "A:B")
    made = call("insert_chart", presentation_path="/deck.pptx", slide_index=4, spreadsheet_path=book, sheet_name=sheet,
                data_range=area, chart_type=kind, title="Made")  # fmt: skip
    chart = read_deck(deck.read_bytes()).slides[4].shapes[-1].chart
    assert chart.title == "Made"
    assert made.chart_type == kind
    series = chart.series[0]
    if kind == "scatter":
        assert (series.categories, series.values) == (("1", "2.5"), ("2", "4"))
    else:
        assert series.categories == ("Q1", "Q2", "Q3")
        assert series.values == ("10", "20", "30"), "formulas computed"
        assert series.name == "Revenue" == made.series[0]
    embedded = pptx.Presentation(deck).slides[4].shapes[-1].chart.part.chart_workbook.xlsx_part.blob
    assert openpyxl.load_workbook(io.BytesIO(embedded)).active.cell(2, 2).value in (10, 2)


def test_cells_without_numbers_are_gaps_that_are_named(call, deck, book) -> None:
    made = call("insert_chart", presentation_path="/deck.pptx", slide_index=4, spreadsheet_path=book, sheet_name="data",
                data_range="Data!A1:C4", position="left")  # fmt: skip
    assert "C3 ('n/a')" in made.message
    chart = read_deck(deck.read_bytes()).slides[4].shapes[-1]
    assert chart.chart.series[1].values == ("7", "", "9")
    assert chart.box.x + chart.box.width <= 360, "the left half"


def test_a_chart_takes_the_place_of_an_empty_placeholder(call, deck, book) -> None:
    call("add_slide", file_path="/deck.pptx", index=0, title="With chart")
    call("insert_chart", presentation_path="/deck.pptx", slide_index=0, spreadsheet_path=book, sheet_name="Data",
         data_range="A1:B4")  # fmt: skip
    shapes = read_deck(deck.read_bytes()).slides[0].shapes
    assert [(s.kind, s.placeholder) for s in shapes] == [("text", "title"), ("chart", "body")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sheet_name": "Dta"}, "did you mean 'Data'"),
        ({"data_range": "A1:A4"}, "one column"),
        ({"data_range": "hello"}, "A1:D5"),
        ({"data_range": "X1:Z9"}, "is empty"),
        ({"data_range": "B1:C1"}, "no row below"),
        (
            {"data_range": "B1:D4", "include_header": True, "chart_type": "bar", "spreadsheet_path": "/none.xlsx"},
            "no /none",
        ),
        ({"data_range": "A1:B4", "chart_type": "scatter"}, "numbers in its first column"),
    ],
)
def test_what_is_wrong_with_a_chart_is_told(call, deck, book, change, said) -> None:
    with pytest.raises(ToolError, match=said):
        call("insert_chart", presentation_path="/deck.pptx", **{**WRITERS["insert_chart"], **change})


def test_a_broken_workbook_is_named(call, deck, world) -> None:
    (world.filesystem / "data.xlsx").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(Unreadable):
        call("insert_chart", presentation_path="/deck.pptx", **WRITERS["insert_chart"])
    assert world.file.name == "data.xlsx", "the error is about the workbook, not the deck"


# --- pictures ---


def points(call, image: int) -> Pillow.Image:
    data = call("read_image", file_path="/deck.pptx", annotation=f"slide4_img{image}").data
    return Pillow.open(io.BytesIO(data)).convert("RGB")


def modify(call, operation, **rest):
    return call("modify_image", file_path="/deck.pptx", slide_index=4, image_index=0, operation=operation, **rest)


@pytest.mark.parametrize(
    ("operation", "rest", "left"),
    [
        ("flip", {"flip": "horizontal"}, (255, 255, 255)),
        ("flip", {"flip": "vertical"}, (255, 0, 0)),
        ("brightness", {"brightness": 0.5}, (127, 0, 0)),
        ("contrast", {"contrast": 0}, None),
    ],
)
def test_only_that_picture_changes(call, deck, changes, operation, rest, left) -> None:
    modify(call, operation, **rest)
    first, second = points(call, 0), points(call, 1)
    assert second.getpixel((0, 0)) == (255, 0, 0), "the other one shows the same file, and is as it was"
    if left is None:
        assert first.getpixel((0, 0)) == first.getpixel((39, 0))
    else:
        assert first.getpixel((0, 0)) == left
    assert [f[1] for f in changes()] in (["image.content"], [])


def test_a_turn_is_the_shapes_and_adds_up(call, deck) -> None:
    modify(call, "rotate", rotation=90)
    assert "120 degrees" in modify(call, "rotate", rotation=30).message
    boxes = [s.box for s in read_deck(deck.read_bytes()).slides[4].shapes]
    assert [b.rotation for b in boxes] == [120.0, 0.0]
    assert (boxes[0].width, boxes[0].height) == (288, 144)


def test_a_crop_keeps_the_scale(call, deck) -> None:
    modify(call, "crop", crop_left=20, crop_top=0, crop_right=40, crop_bottom=10)
    assert points(call, 0).size == (20, 10)
    assert points(call, 0).getpixel((0, 0)) == (255, 255, 255)
    box = read_deck(deck.read_bytes()).slides[4].shapes[0].box
    assert (box.x, box.y, box.width, box.height) == (72 + 144, 72, 144, 72), "what stays stays where it was"
    with pytest.raises(ToolError, match="20 x 10 pixels"):
        modify(call, "crop", crop_left=0, crop_top=0, crop_right=21, crop_bottom=5)
    with pytest.raises(ToolError, match="less than"):
        modify(call, "crop", crop_left=5, crop_top=0, crop_right=5, crop_bottom=5)


def test_the_file_of_a_picture_nobody_shows_any_more_is_gone(call, deck) -> None:
    for image in (0, 1):
        call(
            "modify_image",
            file_path="/deck.pptx",
            slide_index=4,
            image_index=image,
            operation="brightness",
            brightness=2,
        )
    package = pptx.Presentation(deck).part.package
    assert sum("/media/" in part.partname for part in package.iter_parts()) == 1


def test_what_an_operation_needs_is_told(call, deck) -> None:
    with pytest.raises(ValidationError, match="needs rotation"):
        modify(call, "rotate")
    with pytest.raises(ValidationError, match="needs crop_top, crop_bottom"):
        modify(call, "crop", crop_left=0, crop_right=3)
    with pytest.raises(ToolError, match="pictures 0 to 1"):
        call("modify_image", file_path="/deck.pptx", slide_index=4, image_index=2, operation="rotate", rotation=1)


def test_a_subtitle_is_no_place_for_a_chart(call, deck, book) -> None:
    operations = [{"type": "clear_placeholder", "index": 0}]
    call("edit_slides", file_path="/deck.pptx", operations=operations)
    call("insert_chart", presentation_path="/deck.pptx", **WRITERS["insert_chart"])
    shape = read_deck(deck.read_bytes()).slides[0].shapes[-1]
    assert (shape.kind, shape.placeholder) == ("chart", "")
    assert shape.box.height > 150
