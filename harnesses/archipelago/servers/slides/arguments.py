"""The arguments of the slide tools in individual mode, and the request of the meta tool. Positions are in inches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from envkit.harnesses.archipelago.servers.slides.fields import (
    Bullets,
    Colour,
    Columns,
    DeckPath,
    Items,
    Layout,
    Metadata,
    Rows,
    SlideBlock,
    SlideIndex,
    SlideModel,
    Table,
)
from envkit.harnesses.archipelago.servers.slides.operations import Operation

__all__ = [
    "AddImage", "AddShape", "AddSlide", "Bullets", "Columns", "CreateDeck", "DeckRequest", "DeleteDeck", "EditSlides",
    "InsertChart", "InsertTable", "ModifyImage", "ReadDeck", "ReadImage", "ReadRange", "ReadSlide", "Table",
]  # fmt: skip

_X = Field(None, description="Left edge in inches from the slide's left")
_Y = Field(None, description="Top edge in inches from the slide's top")
_WIDTH = Field(None, gt=0, le=56, description="Width in inches")
_HEIGHT = Field(None, gt=0, le=56, description="Height in inches")
ChartType = Literal["bar", "line", "pie", "area", "scatter", "doughnut", "radar"]
ShapeType = Literal[
    "rectangle", "rounded_rectangle", "oval", "triangle", "right_arrow", "left_arrow", "up_arrow", "down_arrow",
    "pentagon", "hexagon", "star", "heart", "lightning_bolt", "cloud",
]  # fmt: skip
ImageOperation = Literal["rotate", "flip", "brightness", "contrast", "crop"]
_Lower = BeforeValidator(lambda v: v.strip().lower() if isinstance(v, str) else v)


class CreateDeck(SlideModel):
    """Arguments of create_deck."""

    directory: str = Field(description="Folder the deck is put in, e.g. /reports; made if it is missing")
    file_name: str = Field(description="Name of the file, ending in .pptx")
    slides: list[SlideBlock] = Field(min_length=1, max_length=500, description="The slides in order")
    metadata: Metadata | None = Field(None, description="Properties of the file")


class DeleteDeck(SlideModel):
    """Arguments of delete_deck."""

    file_path: DeckPath


class AddSlide(SlideModel):
    """Arguments of add_slide."""

    file_path: DeckPath
    index: int = Field(ge=0, description="Where: 0 is before the first; the number of slides is after the last")
    layout: Layout = Field("title_and_content", description="The kind of slide")
    title: str | None = Field(None, description="Its title")
    subtitle: str | None = Field(None, description="Text below the title (layouts title and section_header)")
    bullets: Items | None = Field(None, description="Bullet points; a leading tab makes one a sub-point")


class EditSlides(SlideModel):
    """Arguments of edit_slides."""

    file_path: DeckPath
    operations: Annotated[list[Operation], BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)] = Field(
        min_length=1, max_length=500, description="What to do, in order; either all is done or nothing"
    )
    metadata: Metadata | None = Field(None, description="Properties of the file to set")


class AddImage(SlideModel):
    """Arguments of add_image."""

    file_path: DeckPath
    image_path: str = Field(description="Path of the picture: png, jpg, gif, bmp, tiff or webp")
    slide_index: SlideIndex
    x: float = Field(1.0, description="Left edge in inches from the slide's left")
    y: float = Field(1.5, description="Top edge in inches from the slide's top")
    width: float | None = Field(
        None, gt=0, le=56, description="Width in inches; without a height it follows, without both the picture's own"
    )
    height: float | None = Field(None, gt=0, le=56, description="Height in inches")


class ModifyImage(SlideModel):
    """Arguments of modify_image."""

    file_path: DeckPath
    slide_index: SlideIndex
    image_index: int = Field(ge=0, description="Which picture of the slide, from 0, as read_individualslide lists them")
    operation: Annotated[ImageOperation, _Lower] = Field(description="What to do with it")
    rotation: float | None = Field(None, ge=-360, le=360, description="rotate: degrees clockwise, added to its turn")
    flip: Annotated[Literal["horizontal", "vertical"], _Lower] | None = Field(None, description="flip: which way")
    brightness: float | None = Field(None, ge=0, le=10, description="brightness: factor, 1.0 is as it is")
    contrast: float | None = Field(None, ge=0, le=10, description="contrast: factor, 1.0 is as it is")
    crop_left: int | None = Field(None, ge=0, description="crop: left edge of what stays, in pixels from the left")
    crop_top: int | None = Field(None, ge=0, description="crop: top edge of what stays, in pixels from the top")
    crop_right: int | None = Field(None, ge=1, description="crop: right edge of what stays, in pixels from the left")
    crop_bottom: int | None = Field(None, ge=1, description="crop: bottom edge of what stays, in pixels from the top")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {
            "rotate": ("rotation",),
            "flip": ("flip",),
            "brightness": ("brightness",),
            "contrast": ("contrast",),
            "crop": ("crop_left", "crop_top", "crop_right", "crop_bottom"),
        }[self.operation]
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"operation {self.operation!r} needs {', '.join(missing)}")
        return self


class InsertChart(SlideModel):
    """Arguments of insert_chart."""

    presentation_path: DeckPath
    slide_index: SlideIndex
    spreadsheet_path: str = Field(description="Path of the workbook (.xlsx) with the numbers")
    sheet_name: str = Field(description="Name of its sheet")
    data_range: str = Field(
        description="Range such as A1:D5: first column categories (x values of a scatter chart), then a series a column"
    )
    chart_type: Annotated[ChartType, _Lower] = Field("bar", description="Kind of chart; bar has upright columns")
    title: str | None = Field(None, description="Title of the chart")
    position: Literal["body", "left", "right"] = Field("body", description="All of the content area, or a half of it")
    include_header: bool = Field(True, description="Whether the first row of the range holds the names of the series")


class InsertTable(SlideModel):
    """Arguments of insert_table."""

    file_path: DeckPath
    slide_index: SlideIndex
    rows: Rows = Field(description="Rows of cell texts, all of the same length")
    header: bool = Field(True, description="Whether the first row is a header row")
    x: float | None = _X
    y: float | None = _Y
    width: float | None = _WIDTH
    height: float | None = _HEIGHT


class AddShape(SlideModel):
    """Arguments of add_shape."""

    file_path: DeckPath
    slide_index: SlideIndex
    shape_type: Annotated[ShapeType, _Lower] = Field(description="The shape")
    x: float = Field(1.0, description="Left edge in inches from the slide's left")
    y: float = Field(1.0, description="Top edge in inches from the slide's top")
    width: float = Field(2.0, gt=0, le=56, description="Width in inches")
    height: float = Field(2.0, gt=0, le=56, description="Height in inches")
    fill_color: Colour | None = Field(None, description="Colour inside, six hex digits")
    line_color: Colour | None = Field(None, description="Colour of the outline, six hex digits")
    line_width: float | None = Field(None, ge=0, le=1584, description="Width of the outline in points; 0: none")
    text: str | None = Field(None, description="Text in the shape")
    text_color: Colour | None = Field(None, description="Colour of the text, six hex digits")
    font_size: float | None = Field(None, ge=1, le=4000, description="Size of the text in points")


class ReadRange(SlideModel):
    """Arguments of read_slides."""

    file_path: DeckPath
    start: int | None = Field(None, ge=0, description="First character of the deck's text, from 0")
    end: int | None = Field(None, ge=1, description="Character to stop before; at most 10,000 after start")


class ReadDeck(SlideModel):
    """Arguments of read_completedeck."""

    file_path: DeckPath


class ReadSlide(SlideModel):
    """Arguments of read_individualslide."""

    file_path: DeckPath
    slide_index: SlideIndex


class ReadImage(SlideModel):
    """Arguments of read_image."""

    file_path: DeckPath
    annotation: str = Field(description="Key of the picture as the readers list it, e.g. slide0_img0")


class DeckRequest(SlideModel):
    """The request of the meta tool: an action and the fields it takes."""

    @classmethod
    def meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        taken = super().meant(given)
        if taken.get("action") == "add_slide" and taken.get("input_data") is None:
            # The new slide's fields stand beside the action, as those of every other action do.
            names = {*AddSlide.model_fields, "slide_index", "content", "body"} & set(taken)
            taken["input_data"] = {name: taken.pop(name) for name in names}
        return taken

    action: Literal[
        "create", "delete", "add_slide", "edit", "add_image", "modify_image", "insert_chart", "insert_table",
        "add_shape", "read_range", "read_deck", "read_slide", "read_image",
    ] = Field(description="What to do")  # fmt: skip
    file_path: str | None = Field(None, description="Path of the deck (.pptx); every action but create and add_slide")
    directory: str | None = Field(None, description="create: folder the deck is put in")
    file_name: str | None = Field(None, description="create: name of the file, ending in .pptx")
    slides: list[SlideBlock] | None = Field(None, description="create: the slides in order")
    metadata: Metadata | None = Field(None, description="create, edit: properties of the file")
    input_data: AddSlide | None = Field(None, description="add_slide: the slide, with its file_path and index")
    operations: Annotated[list[Operation], BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)] | None = Field(
        None, description="edit: what to do, in order; either all is done or nothing"
    )
    image_path: str | None = Field(None, description="add_image: path of the picture")
    slide_index: int | None = Field(None, ge=0, description="Index of the slide; the first is 0")
    x: float | None = _X
    y: float | None = _Y
    width: float | None = _WIDTH
    height: float | None = _HEIGHT
    image_index: int | None = Field(None, ge=0, description="modify_image: which picture of the slide, from 0")
    operation: Annotated[ImageOperation, _Lower] | None = Field(None, description="modify_image: what to do with it")
    rotation: float | None = Field(None, description="modify_image: degrees clockwise")
    flip: Annotated[Literal["horizontal", "vertical"], _Lower] | None = Field(None, description="modify_image: way")
    brightness: float | None = Field(None, description="modify_image: factor, 1.0 is as it is")
    contrast: float | None = Field(None, description="modify_image: factor, 1.0 is as it is")
    crop_left: int | None = Field(None, description="modify_image: left edge of what stays, in pixels")
    crop_top: int | None = Field(None, description="modify_image: top edge of what stays, in pixels")
    crop_right: int | None = Field(None, description="modify_image: right edge of what stays, in pixels from the left")
    crop_bottom: int | None = Field(None, description="modify_image: bottom edge of what stays, in pixels from the top")
    spreadsheet_path: str | None = Field(None, description="insert_chart: path of the workbook (.xlsx)")
    sheet_name: str | None = Field(None, description="insert_chart: name of its sheet")
    data_range: str | None = Field(None, description="insert_chart: range such as A1:D5")
    chart_type: Annotated[ChartType, _Lower] | None = Field(None, description="insert_chart: kind of chart")
    title: str | None = Field(None, description="insert_chart: title of the chart")
    position: Literal["body", "left", "right"] | None = Field(None, description="insert_chart: where on the slide")
    include_header: bool | None = Field(None, description="insert_chart: whether the range begins with names")
    rows: Rows | None = Field(None, description="insert_table: rows of cell texts")
    header: bool | None = Field(None, description="insert_table: whether the first row is a header row")
    shape_type: Annotated[ShapeType, _Lower] | None = Field(None, description="add_shape: the shape")
    fill_color: Colour | None = Field(None, description="add_shape: colour inside, six hex digits")
    line_color: Colour | None = Field(None, description="add_shape: colour of the outline")
    line_width: float | None = Field(None, description="add_shape: width of the outline in points")
    text: str | None = Field(None, description="add_shape: text in the shape")
    text_color: Colour | None = Field(None, description="add_shape: colour of the text")
    font_size: float | None = Field(None, description="add_shape: size of the text in points")
    start: int | None = Field(None, ge=0, description="read_range: first character, from 0")
    end: int | None = Field(None, ge=1, description="read_range: character to stop before")
    annotation: str | None = Field(None, description="read_image: key of the picture, e.g. slide0_img0")
