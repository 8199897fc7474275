"""The shapes of one slide, walked through groups (positions resolved) and the first of alternative contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envkit.office.deck.looks import A, Looks, P, R, link_target, placeholder_of, text_of
from envkit.office.deck.model import Box, Shape, SlideCell
from envkit.office.deck.tables import TableStyle, style_of
from envkit.office.drawing import Part
from envkit.office.problem import Problem, Unreadable

__all__ = ["MAX_CELLS", "MAX_SHAPES", "Frame", "ShapeReader", "controls_of", "found_shapes"]

MAX_SHAPES = 20_000
MAX_CELLS = 200_000
_MAX_DEPTH = 40
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_ASVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}"
_SHAPES = (f"{P}sp", f"{P}pic", f"{P}graphicFrame", f"{P}cxnSp")
_EMU = 12_700


@dataclass(frozen=True, slots=True)
class Frame:
    """How the coordinates inside groups lie on the slide: `x * scale_x + left`."""

    left: float = 0.0
    top: float = 0.0
    scale_x: float = 1.0
    scale_y: float = 1.0
    depth: int = 0

    def inside(self, group: Any) -> Frame:
        xfrm = group.find(f"{P}grpSpPr/{A}xfrm")
        numbers = [_pair(xfrm, n, k) for n, k in (("off", "xy"), ("ext", "wh"), ("chOff", "xy"), ("chExt", "wh"))]
        if any(n is None for n in numbers):
            return Frame(self.left, self.top, self.scale_x, self.scale_y, self.depth + 1)
        (x, y), (w, h), (cx, cy), (cw, ch) = (n or (0.0, 0.0) for n in numbers)
        across, down = (w / cw if cw else 1.0), (h / ch if ch else 1.0)
        return Frame(
            self.left + self.scale_x * (x - cx * across),
            self.top + self.scale_y * (y - cy * down),
            self.scale_x * across,
            self.scale_y * down,
            self.depth + 1,
        )


def _pair(xfrm: Any, name: str, kind: str) -> tuple[float, float] | None:
    found = xfrm.find(f"{A}{name}") if xfrm is not None else None
    if found is None:
        return None
    keys = ("x", "y") if kind == "xy" else ("cx", "cy")
    values = [found.get(k, "") for k in keys]
    if not all(v.lstrip("-").isdecimal() and len(v) < 13 for v in values):
        return None
    return int(values[0]) / _EMU, int(values[1]) / _EMU


def found_shapes(element: Any, frame: Frame | None = None) -> Iterator[tuple[Any, Frame]]:
    """Shapes, pictures, frames and connectors below, in drawing order."""
    frame = Frame() if frame is None else frame
    if frame.depth > _MAX_DEPTH:
        return
    for child in element if element is not None else ():
        if child.tag in _SHAPES:
            yield child, frame
        elif child.tag == f"{P}grpSp":
            yield from found_shapes(child, frame.inside(child))
        elif child.tag == f"{_MC}AlternateContent":
            chosen = child.find(f"{_MC}Choice")
            chosen = chosen if chosen is not None else child.find(f"{_MC}Fallback")
            if chosen is not None:
                yield from found_shapes(chosen, Frame(frame.left, frame.top, frame.scale_x, frame.scale_y, frame.depth))


def controls_of(slide: Any) -> Iterator[Any]:
    """The ActiveX controls of a slide; of alternatives the first."""
    seen: set[str] = set()
    for element in slide.iterfind(f"{P}cSld/{P}controls//{P}control"):
        name = element.get(f"{R}id", "")
        if name not in seen:
            seen.add(name)
            yield element


@dataclass
class ShapeReader:
    """Reads the shapes of one slide; `cells` is what its tables may still hold."""

    part: Part
    looks: Looks
    styles: dict[str, Any] = field(default_factory=dict)
    cells: int = MAX_CELLS

    def read(self, element: Any, frame: Frame) -> Shape:
        named = next((e for e in element.iter(f"{P}cNvPr")), None)
        holder = placeholder_of(element)
        ancestors = self.looks.ancestors(element)
        click = named.find(f"{A}hlinkClick") if named is not None else None
        common: dict[str, Any] = {
            "name": named.get("name", "") if named is not None else "",
            "alt": (named.get("descr") or "").strip() if named is not None else "",
            "hidden": named is not None and named.get("hidden") in ("1", "true"),
            "placeholder": _role(holder),
            "groups": frame.depth,
            "box": self._box(element, ancestors, frame),
            "link": link_target(click, self.part) if click is not None else "",
        }
        if element.tag == f"{P}pic":
            return self._picture(element, common)
        if element.tag == f"{P}graphicFrame":
            return self._frame(element, common)
        if element.tag == f"{P}cxnSp":
            common["box"] = _upright(common["box"])
            return Shape("connector", geometry=_geometry(element), **common)
        body = element.find(f"{P}txBody")
        lists, styled = self.looks.lists(element), self.looks.styled(element)
        return Shape(
            "text",
            paragraphs=text_of(body, lists, styled, self.looks, self.part),
            geometry=_geometry(element),
            fill=self._fill(element, ancestors),
            autofit=_autofit((element, *ancestors)),
            **common,
        )

    def control(self, element: Any) -> Shape:
        """An ActiveX control, by the digest of its part."""
        return Shape("control", name=element.get("name", ""), object=self.part.hash(element.get(f"{R}id")))

    def _box(self, element: Any, ancestors: list[Any], frame: Frame) -> Box | None:
        for source in (element, *reversed(ancestors)):
            xfrm = source.find(f"{P}xfrm") if source.tag == f"{P}graphicFrame" else source.find(f"{P}spPr/{A}xfrm")
            offset, extent = _pair(xfrm, "off", "xy"), _pair(xfrm, "ext", "wh")
            if offset is not None and extent is not None:
                at = frame if source is element else Frame()
                turn = xfrm.get("rot", "0")
                angle = int(turn) / 60_000 % 360 if turn.lstrip("-").isdecimal() and len(turn) < 12 else 0.0
                return Box(
                    round(offset[0] * at.scale_x + at.left, 2), round(offset[1] * at.scale_y + at.top, 2),
                    round(extent[0] * at.scale_x, 2), round(extent[1] * at.scale_y, 2), round(angle, 1),
                )  # fmt: skip
        return None

    def _fill(self, element: Any, ancestors: list[Any]) -> str:
        for source in (element, *reversed(ancestors)):
            found = self._own_fill(source.find(f"{P}spPr"))
            if found is not None:
                return found
        reference = element.find(f"{P}style/{A}fillRef")
        if reference is not None and reference.get("idx") == "1":
            return self.looks.colour(reference) or ""
        return ""

    def _own_fill(self, properties: Any) -> str | None:
        """The fill that properties give: a colour, `none`, "" for any other; None when they give none."""
        for child in properties if properties is not None else ():
            match str(child.tag).removeprefix(A):
                case "solidFill":
                    return self.looks.colour(child) or ""
                case "noFill":
                    return "none"
                case "gradFill" | "blipFill" | "pattFill" | "grpFill":
                    return ""
        return None

    def _picture(self, element: Any, common: dict[str, Any]) -> Shape:
        blip = element.find(f"{P}blipFill/{A}blip")
        box = common["box"]
        media = next((e for e in element.iter(f"{A}videoFile", f"{A}audioFile", f"{A}wavAudioFile")), None)
        image = None
        if blip is not None:
            vector = next((e.get(f"{R}embed") for e in blip.iter(f"{_ASVG}svgBlip")), None)
            width, height = (box.width, box.height) if box is not None else (0.0, 0.0)
            image = self.part.image(blip.get(f"{R}embed") or vector, blip.get(f"{R}link"), common["alt"], width, height)
        common["link"] = "" if media is not None else common["link"]
        source = ""
        if media is not None:
            relation = media.get(f"{R}link") or media.get(f"{R}embed")
            source = self.part.hash(relation) or self.part.external(relation)
        return Shape("media" if media is not None else "picture", image=image, object=source, **common)

    def _frame(self, element: Any, common: dict[str, Any]) -> Shape:
        data = element.find(f"{A}graphic/{A}graphicData")
        for child in data.iter() if data is not None else ():
            if child.tag == f"{A}tbl":
                if common["box"] is not None:
                    # What the frame says of a table's size is often stale.
                    across = [c.get("w", "") for c in child.iterfind(f"{A}tblGrid/{A}gridCol")]
                    width = sum(int(w) for w in across if w.isdecimal() and len(w) < 12) / _EMU
                    common["box"] = replace(common["box"], width=round(width, 2))
                style = style_of(child, self.styles)
                table = self._table(child, style)
                return Shape("table", table=table, table_style=style.name, table_look=style.flags, **common)
            if child.tag in (f"{_C}chart", f"{_CX}chart"):
                return Shape("chart", chart=self.part.chart(child), **common)
            if child.tag == f"{_DGM}relIds":
                return Shape("diagram", diagram=self.part.diagram(child), **common)
            if child.tag == f"{P}oleObj":
                digest, inside = self.part.object(child.get(f"{R}id"))
                return Shape("object", object=f"{child.get('progId', '')} {digest}".strip(), inside=inside, **common)
        return Shape("object", **common)

    def _table(self, table: Any, style: TableStyle) -> tuple[tuple[SlideCell, ...], ...]:
        rows: list[tuple[SlideCell, ...]] = []
        lists = self.looks.lists(table)[:1]
        elements = table.findall(f"{A}tr")
        for number, row in enumerate(elements):
            cells: list[SlideCell] = []
            holders = row.findall(f"{A}tc")
            for place, cell in enumerate(holders):
                self.cells -= 1
                if self.cells < 0:
                    raise Unreadable(Problem.TOO_BIG, f"a slide has more than {MAX_CELLS} table cells")
                if cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true"):
                    cells.append(SlideCell((), 0, 0))
                    continue
                look = style.look(number, len(elements), place, len(holders), self.looks)
                paragraphs = text_of(cell.find(f"{A}txBody"), lists, look.text, self.looks, self.part)
                fill = self._own_fill(cell.find(f"{A}tcPr"))
                fill = look.fill if fill is None else fill
                spans = [cell.get(k, "1") for k in ("rowSpan", "gridSpan")]
                down, across = (int(s) if s.isdecimal() and len(s) < 6 else 1 for s in spans)
                styled = (*look.text.items(), *(("fill", look.fill),) * bool(look.fill))
                cells.append(SlideCell(paragraphs, max(down, 1), max(across, 1), fill, styled))
            rows.append(tuple(cells))
        return tuple(rows)


def _upright(box: Box | None) -> Box | None:
    """A connector's box as it is seen: turned by a quarter, it is as wide as it was high."""
    if box is None or box.rotation not in (90.0, 270.0):
        return box
    x, y = box.x + (box.width - box.height) / 2, box.y + (box.height - box.width) / 2
    return Box(round(x, 2), round(y, 2), box.height, box.width, box.rotation)


def _role(holder: Any) -> str:
    if holder is None:
        return ""
    kind = str(holder.get("type", "obj"))
    # Programs write the same placeholder as a title or a centred one, as a body, an object or a subtitle.
    return {"ctrTitle": "title", "subTitle": "body", "obj": "body"}.get(kind, kind)


def _autofit(sources: Sequence[Any]) -> str:
    """Which sizes follow the text, by the bodies of a shape and the placeholders it takes from (its own first)."""
    for source in (sources[0], *reversed(sources[1:])):
        properties = source.find(f"{P}txBody/{A}bodyPr")
        if properties is not None and (len(properties) or properties.get("wrap") is not None):
            if properties.get("wrap") == "none":
                return "both"
            return "height" if properties.find(f"{A}spAutoFit") is not None else ""
    return ""


def _geometry(element: Any) -> str:
    found = element.find(f"{P}spPr/{A}prstGeom")
    name = "" if found is None else str(found.get("prst", ""))
    return "line" if name == "straightConnector1" else name
