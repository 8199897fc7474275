"""The slides app (`slides_server`): makes, reads and edits decks (.pptx).

13 tools, and the meta tool `slides` that stands for them. Slide indices count from 0, positions are in inches. Reading
sees all that a slide says; editing changes what is asked for and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from envkit.harnesses.archipelago.servers.app import Action, App, Meta, Tool
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import operations, results
from envkit.harnesses.archipelago.servers.slides.fields import Bullets, Columns, Metadata, SlideBlock, SlideModel, Table

__all__ = ["APP"]


def _tool(
    name: str,
    description: str,
    arguments: type[SlideModel],
    handler: str,
    result: type[BaseModel] | None,
    lock: str | None = None,
) -> Tool:
    return Tool(
        name=name,
        description=description,
        arguments=arguments,
        handler=handler,
        wrapper="request",
        writes=lock is not None,
        lock=lock or None,
        result=result,
    )


TOOLS = (
    _tool("create_deck", "Makes a deck (.pptx, 16:9) from a list of slides and says where it is.", args.CreateDeck,
          "creating:create_deck", results.CreateDeckResult, lock=""),
    _tool("delete_deck", "Deletes a deck.", args.DeleteDeck, "creating:delete_deck", results.DeleteDeckResult,
          lock="file_path"),
    _tool("add_slide", "Puts a new slide into a deck at an index (0 is first), with title, subtitle and bullets.",
          args.AddSlide, "creating:add_slide", results.AddSlideResult, lock="file_path"),
    _tool("edit_slides", "Applies edit operations to a deck in order, all or none: titles, bullets, text, tables, "
          "looks, links, notes, and adding, deleting and copying slides.",
          args.EditSlides, "editing:edit_slides", results.EditSlidesResult, lock="file_path"),
    _tool("add_image", "Puts a picture file on a slide.", args.AddImage, "placing:add_image", results.AddImageResult,
          lock="file_path"),
    _tool("modify_image", "Turns, flips, brightens, crops or changes the contrast of one picture of a slide.",
          args.ModifyImage, "imaging:modify_image", results.ModifyImageResult, lock="file_path"),
    _tool("insert_chart", "Puts a native chart on a slide, from a range of a workbook (formulas are recalculated).",
          args.InsertChart, "charts:insert_chart", results.InsertChartResult, lock="presentation_path"),
    _tool("insert_table", "Puts a table on a slide.", args.InsertTable, "placing:insert_table",
          results.InsertTableResult, lock="file_path"),
    _tool("add_shape", "Puts a shape on a slide, with text if wanted.", args.AddShape, "placing:add_shape",
          results.AddShapeResult, lock="file_path"),
    _tool("read_slides", "Reads a stretch of the deck's text by characters, at most 10,000; says how to go on.",
          args.ReadRange, "reading:read_slides", results.RangeResult),
    _tool("read_completedeck", "Reads every slide: title, texts, tables, charts, diagrams, pictures, notes.",
          args.ReadDeck, "reading:read_completedeck", results.DeckResult),
    _tool("read_individualslide", "Reads one slide with every shape on it, its place and content, and the keys of its "
          "pictures.", args.ReadSlide, "reading:read_individualslide", results.SlideResult),
    _tool("read_image", "Shows one picture of a deck by its key, e.g. slide0_img0.", args.ReadImage,
          "reading:read_image", None),
)  # fmt: skip


def _same(*names: str, **renamed: str) -> dict[str, str]:
    return {**{name: name for name in names}, **renamed}


def _nested(fields: dict[str, Any]) -> dict[str, Any]:
    """add_slide: the slide's fields stand in `input_data`; its file may also be named outside of it."""
    inner = fields.get("input_data", {})
    inside = inner.model_dump(exclude_unset=True) if isinstance(inner, BaseModel) else dict(inner)
    return {**({"file_path": fields["file_path"]} if fields.get("file_path") else {}), **inside}


ACTIONS: Mapping[str, Action] = {
    "create": Action("create_deck", _same("directory", "file_name", "slides", "metadata")),
    "delete": Action("delete_deck", _same("file_path")),
    "add_slide": Action(
        "add_slide", _same("input_data", "file_path"), build=_nested, required=frozenset({"input_data"})
    ),
    "edit": Action("edit_slides", _same("file_path", "operations", "metadata")),
    "add_image": Action("add_image", _same("file_path", "image_path", "slide_index", "x", "y", "width", "height")),
    "modify_image": Action(
        "modify_image",
        _same(
            "file_path", "slide_index", "image_index", "operation", "rotation", "flip", "brightness", "contrast",
            "crop_left", "crop_top", "crop_right", "crop_bottom",
        ),
    ),
    "insert_chart": Action(
        "insert_chart",
        _same(
            "slide_index", "spreadsheet_path", "sheet_name", "data_range", "chart_type", "title", "position",
            "include_header", file_path="presentation_path",
        ),
    ),
    "insert_table": Action(
        "insert_table", _same("file_path", "slide_index", "rows", "header", "x", "y", "width", "height")
    ),
    "add_shape": Action(
        "add_shape",
        _same(
            "file_path", "slide_index", "shape_type", "x", "y", "width", "height", "fill_color", "line_color",
            "line_width", "text", "text_color", "font_size",
        ),
    ),
    "read_range": Action("read_slides", _same("file_path", "start", "end")),
    "read_deck": Action("read_completedeck", _same("file_path")),
    "read_slide": Action("read_individualslide", _same("file_path", "slide_index")),
    "read_image": Action("read_image", _same("file_path", "annotation")),
}  # fmt: skip

_MODELS: tuple[type[SlideModel], ...] = (SlideBlock, Bullets, Columns, Table, Metadata, *operations.VARIANTS)

APP = App(
    name="slides",
    server="slides_server",
    package="slides",
    tools=TOOLS,
    metas=(
        Meta(
            name="slides",
            description="Makes, reads and edits slide decks (.pptx). Slide indices count from 0; positions are in "
            "inches.",
            request=args.DeckRequest,
            actions=ACTIONS,
            has_help=False,
            schema_argument="schema_name",
        ),
    ),
    models={model.__name__: model for model in _MODELS},
)
