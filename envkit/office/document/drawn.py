"""What is drawn in a paragraph: pictures, charts, diagrams, objects, text boxes and letters drawn as a picture
(WordArt), in order. Used by `walk.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envkit.office.chart import Chart
from envkit.office.document.pieces import children
from envkit.office.document.styles import W, points
from envkit.office.drawing import Diagram, Embedded, Image, Part

__all__ = ["Drawn"]

_MAX_DEPTH = 60
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V = "{urn:schemas-microsoft-com:vml}"
_O = "{urn:schemas-microsoft-com:office:office}"


@dataclass
class Drawn:
    """What one paragraph holds beside its text. `boxes` are the elements of text boxes, and texts of WordArt."""

    images: list[Image] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    diagrams: list[Diagram] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    insides: list[Embedded | None] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)

    def add(self, part: Part, element: Any, depth: int) -> None:
        """Adds what stands below a `w:drawing`, `w:pict` or `w:object`."""
        frame = element.find(f"{_WP}inline")
        frame = frame if frame is not None else element.find(f"{_WP}anchor")
        named = frame.find(f"{_WP}docPr") if frame is not None else None
        extent = frame.find(f"{_WP}extent") if frame is not None else None
        alt = (named.get("descr") or "") if named is not None else ""
        width, height = (points(extent.get(k), 12_700) if extent is not None else 0.0 for k in ("cx", "cy"))
        self._add(part, element, depth, (alt, width, height))

    def _add(self, part: Part, element: Any, depth: int, size: tuple[str, float, float]) -> None:
        if depth > _MAX_DEPTH:
            return
        for child in children(element):
            if child.tag == f"{W}txbxContent":
                self.boxes.append(child)
            elif child.tag == f"{_V}textpath":
                if (child.get("string") or "").strip():
                    self.boxes.append(str(child.get("string")))
            elif child.tag == f"{_A}blip":
                self.images.append(part.image(child.get(f"{_R}embed"), child.get(f"{_R}link"), *size))
            elif child.tag == f"{_V}imagedata":
                if element.getparent() is not None and element.getparent().tag == f"{W}object":
                    continue  # the preview of an embedded object
                alt = element.get("alt") or size[0]
                self.images.append(part.image(child.get(f"{_R}id"), child.get(f"{_R}href"), alt, 0.0, 0.0))
            elif child.tag in (f"{_C}chart", f"{_CX}chart"):
                chart = part.chart(child)
                if chart is not None:
                    self.charts.append(chart)
            elif child.tag == f"{_DGM}relIds":
                diagram = part.diagram(child)
                if diagram is not None:
                    self.diagrams.append(diagram)
            elif child.tag == f"{_O}OLEObject":
                digest, inside = part.object(child.get(f"{_R}id"))
                self.objects.append(f"{child.get('ProgID', '')} {digest}".strip())
                self.insides.append(inside)
            else:
                self._add(part, child, depth + 1, size)
