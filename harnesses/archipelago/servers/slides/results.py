"""What the slide tools return, as objects. No field is ever null; `message` says in words what happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer

__all__ = [
    "AddImageResult", "AddShapeResult", "AddSlideResult", "ChartComponent", "ChartSeries", "Comment", "Component",
    "CreateDeckResult", "DeckResult", "DeleteDeckResult", "DiagramComponent", "DrawnComponent", "EditSlidesResult",
    "ImageEntry", "InsertChartResult", "InsertTableResult", "ModifyImageResult", "ParagraphEntry", "PictureComponent",
    "RangeResult", "SlideEntry", "SlideResult", "TableComponent", "TextComponent",
]  # fmt: skip


class _Done(BaseModel):
    success: Literal[True] = True


class CreateDeckResult(_Done):
    file_name: str
    file_path: str
    slides: int
    message: str


class DeleteDeckResult(_Done):
    file_path: str
    message: str


class AddSlideResult(_Done):
    index: int
    file_path: str
    total_slides: int
    message: str


class EditSlidesResult(_Done):
    file_path: str
    operations_applied: int
    total_slides: int
    changes: list[str] = Field(description="What each operation did, in order")
    message: str


class AddImageResult(_Done):
    slide_index: int
    position: list[float] = Field(description="Left and top in inches")
    size: list[float] = Field(description="Width and height in inches")
    annotation: str = Field(description="Key for read_image")
    message: str


class ModifyImageResult(_Done):
    image_index: int
    slide_index: int
    operation: str
    message: str


class InsertChartResult(_Done):
    slide_index: int
    chart_type: str
    title: str
    series: list[str]
    categories: int
    message: str


class InsertTableResult(_Done):
    slide_index: int
    rows: int
    cols: int
    message: str


class AddShapeResult(_Done):
    slide_index: int
    shape_type: str
    position: list[float] = Field(description="Left and top in inches")
    message: str


class RangeResult(_Done):
    content: str
    start: int
    end: int
    total_length: int
    message: str


class SlideEntry(BaseModel):
    slide_index: int
    title: str
    layout: str
    section: str = Field("", description="The section of the deck it is in")
    hidden: bool
    content: str = Field(description="Texts, tables, charts, diagrams and pictures of the slide, through groups")
    notes: str


class DeckResult(_Done):
    file_path: str
    total_slides: int
    slides: list[SlideEntry]
    message: str


class _Brief(BaseModel):
    """What a field has by default is left out of the answer: most shapes are not turned, hidden, grouped, linked."""

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        kept = handler(self)
        return {
            name: value
            for name, value in kept.items()
            if name == "type"
            or fields[name].is_required()
            or value != fields[name].get_default(call_default_factory=True)
        }


class ParagraphEntry(_Brief):
    text: str
    level: int = 0
    bullet: str = ""
    link: str = ""
    runs: list[str] = Field(default_factory=list, description="Its runs, where there are several")


class _Placed(_Brief):
    name: str
    placeholder: str = Field("", description="Its role (title, body, ...); empty for a shape of the slide's own")
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    rotation: float = 0.0
    groups: int = Field(0, description="How many groups it is in")
    hidden: bool = False
    alt: str = ""
    link: str = ""


class TextComponent(_Placed):
    type: Literal["text"] = "text"
    shape: str = ""
    text: str = ""
    paragraphs: list[ParagraphEntry] = Field(default_factory=list)


class TableComponent(_Placed):
    type: Literal["table"] = "table"
    table_idx: int = Field(description="Its number for update_table_cell")
    rows: list[list[str]]
    merged: list[str] = Field(
        default_factory=list, description="Merged cells, e.g. `row 0 column 1: 1 row x 3 columns`"
    )


class ChartSeries(BaseModel):
    name: str
    kind: str
    categories: list[str]
    values: list[str]


class ChartComponent(_Placed):
    type: Literal["chart"] = "chart"
    chart_types: list[str]
    title: str
    axis_titles: list[str]
    series: list[ChartSeries]


class DiagramComponent(_Placed):
    type: Literal["diagram"] = "diagram"
    texts: list[str]


class PictureComponent(_Placed):
    type: Literal["picture"] = "picture"
    annotation: str = Field(description="Key for read_image")
    image_index: int = Field(description="Number for modify_image")


class DrawnComponent(_Placed):
    type: Literal["object", "media", "connector", "control"]
    shape: str = ""
    object: str = ""


Component = Annotated[
    TextComponent | TableComponent | ChartComponent | DiagramComponent | PictureComponent | DrawnComponent,
    Field(discriminator="type"),
]


class ImageEntry(_Brief):
    annotation: str
    slide_index: int
    image_index: int
    width: float = Field(description="Width on the slide in inches")
    height: float = Field(description="Height on the slide in inches")
    alt: str = ""
    note: str = ""


class Comment(_Brief):
    author: str
    text: str
    reply_to: str = ""


class SlideResult(_Done):
    slide_index: int
    total_slides: int
    title: str
    layout: str
    section: str = Field("", description="The section of the deck it is in")
    hidden: bool
    components: list[Component]
    images: list[ImageEntry]
    notes: str
    comments: list[Comment]
    message: str
