"""A deck with everything on it, a workbook, a picture, and a way to call a tool's handler."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import openpyxl
import pptx
import pytest
from lxml import etree
from PIL import Image as Pillow
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.util import Inches, Pt

from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import APP

P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
DGM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"

Call = Callable[..., Any]


@pytest.fixture
def call(world: Context) -> Call:
    """`call("add_shape", file_path=..., ...)`: checks the arguments and runs the tool's handler."""
    tools = {tool.name: tool for tool in APP.tools}

    def run(name: str, **arguments: Any) -> Any:
        tool = tools[name]
        module, function = tool.handler.split(":")
        package = importlib.import_module(f"envkit.harnesses.archipelago.servers.{APP.package}.{module}")
        return getattr(package, function)(tool.arguments(**arguments), world)

    return run


def png(colour: str = "red", size: tuple[int, int] = (40, 20)) -> bytes:
    """A picture whose left half is of a colour and whose right half is white."""
    image = Pillow.new("RGB", size, "white")
    image.paste(Pillow.new("RGB", (size[0] // 2, size[1]), colour))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@lru_cache(maxsize=1)
def sample() -> bytes:
    """0 title; 1 bullets with looks, a link and notes; 2 a table and a group with text; 3 a chart; 4 twice the same
    picture; 5 a diagram, hidden."""
    deck = pptx.Presentation()
    layouts = deck.slide_layouts
    first = deck.slides.add_slide(layouts[0])
    first.shapes.title.text, first.placeholders[1].text = "Quarterly report", "Board meeting"

    second = deck.slides.add_slide(layouts[1])
    second.shapes.title.text = "Highlights"
    frame = second.placeholders[1].text_frame
    frame.text = ""
    for text, colour in (("Revenue ", "FF0000"), ("rose by 12 %", "0000FF")):
        run = frame.paragraphs[0].add_run()
        run.text, run.font.color.rgb, run.font.size = text, RGBColor.from_string(colour), Pt(22)
    further = frame.add_paragraph()
    further.text, further.level = "mostly services", 1
    linked = frame.add_paragraph().add_run()
    linked.text = "details"
    linked.hyperlink.address = "https://example.com/details"
    second.notes_slide.notes_text_frame.text = "Speak slowly"

    third = deck.slides.add_slide(layouts[5])
    third.shapes.title.text = "Regions"
    table = third.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(5), Inches(1)).table
    for r, row in enumerate([("Region", "Sales"), ("North", "10"), ("South", "7")]):
        for c, text in enumerate(row):
            table.cell(r, c).text = text
    table.cell(1, 0).text_frame.paragraphs[0].runs[0].font.italic = True
    group = third.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(5), Inches(2), Inches(1))
    box.text_frame.text = "grouped words"

    fourth = deck.slides.add_slide(layouts[5])
    fourth.shapes.title.text = "Trend"
    data = CategoryChartData()
    data.categories = ["Q1", "Q2"]
    data.add_series("Sales", (3, 4.5))
    fourth.shapes.add_chart(XL_CHART_TYPE.LINE, Inches(1), Inches(2), Inches(5), Inches(3), data)

    fifth = deck.slides.add_slide(layouts[6])
    fifth.shapes.add_picture(io.BytesIO(png()), Inches(1), Inches(1), Inches(4), Inches(2))
    fifth.shapes.add_picture(io.BytesIO(png()), Inches(1), Inches(4), Inches(4), Inches(2))

    sixth = deck.slides.add_slide(layouts[6])
    sixth._element.set("show", "0")
    _add_diagram(sixth, ["Plan", "Build", "Check"])
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def _add_diagram(slide: Any, texts: list[str]) -> None:
    points = "".join(
        f'<dgm:pt modelId="{i}"><dgm:t><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for i, text in enumerate(texts)
    )
    blob = f'<dgm:dataModel xmlns:dgm="{DGM}" xmlns:a="{A}"><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>'.encode()
    kind = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
    part = Part(PackURI("/ppt/diagrams/data1.xml"), kind, slide.part.package, blob)
    relation = slide.part.relate_to(part, f"{R}/diagramData")
    slide.shapes._spTree.append(
        etree.fromstring(
            f'<p:graphicFrame xmlns:p="{P}" xmlns:a="{A}" xmlns:r="{R}"><p:nvGraphicFramePr>'
            '<p:cNvPr id="9" name="Diagram"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>'
            '<p:xfrm><a:off x="914400" y="914400"/><a:ext cx="4572000" cy="2743200"/></p:xfrm>'
            f'<a:graphic><a:graphicData uri="{DGM}"><dgm:relIds xmlns:dgm="{DGM}" r:dm="{relation}"/>'
            "</a:graphicData></a:graphic></p:graphicFrame>"
        )
    )


@pytest.fixture
def deck(world: Context) -> Path:
    """The deck as `/deck.pptx`."""
    path = world.filesystem / "deck.pptx"
    path.write_bytes(sample())
    return path


@pytest.fixture
def broken(world: Context) -> str:
    """A deck that was cut off."""
    (world.filesystem / "broken.pptx").write_bytes(sample()[:9000])
    return "/broken.pptx"


@pytest.fixture
def book(world: Context) -> str:
    """A workbook with formulas that nobody computed, a gap, a text among numbers."""
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = "Data"
    rows = [
        ["Quarter", "Revenue", "Cost"], ["Q1", 10, 7], ["Q2", "=B2*2", "n/a"], ["Q3", "=SUM(B2:B3)", 9], [None] * 3
    ]  # fmt: skip
    for row in rows:
        sheet.append(row)
    points = made.create_sheet("Points")
    for row in [["x", "y"], [1, 2], [2.5, 4]]:
        points.append(row)
    made.save(world.filesystem / "data.xlsx")
    return "/data.xlsx"


@pytest.fixture
def sample_deck() -> bytes:
    return sample()
