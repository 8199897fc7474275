"""Where on a slide text and things go: title, subtitle, body, left and right, by placeholder or by the free area.

A placeholder that the layout has and the slide lost (people delete empty ones) is made anew. Used by all tools that
write to a slide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.shapes.base import BaseShape
from pptx.slide import Slide

from envkit.harnesses.archipelago.servers.app import ToolError

__all__ = [
    "Area", "body_of", "clear_area", "content_area", "find", "find_existing", "holding", "needed",
    "text_of", "text_size",
]  # fmt: skip

_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)
_NOT_CONTENT = (
    *_TITLES, PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.HEADER,
)  # fmt: skip
_OBJECTS = (PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.TABLE, PP_PLACEHOLDER.CHART, PP_PLACEHOLDER.ORG_CHART)
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of a slide, in EMU."""

    left: int
    top: int
    width: int
    height: int


def _kind(shape: Any) -> Any:
    return shape.placeholder_format.type


def _content(holders: Any) -> list[Any]:
    return [s for s in holders if _kind(s) not in _NOT_CONTENT]


def _choose(holders: list[Any], where: str) -> Any:
    """The placeholder that a word means, of those of a slide or of a layout."""
    if where == "title":
        return next((s for s in holders if _kind(s) in _TITLES), None)
    content = _content(holders)
    if where == "subtitle":
        named = [s for s in content if _kind(s) == PP_PLACEHOLDER.SUBTITLE]
        texts = [s for s in content if _kind(s) == PP_PLACEHOLDER.BODY]
        return next(iter(named or texts), None)
    objects = [s for s in content if _kind(s) in _OBJECTS]
    if where == "body":
        # A subtitle is the body of a title slide; pictures' captions and the like come after what holds anything.
        return next(iter(sorted(objects or content, key=lambda s: s.placeholder_format.idx)), None)
    halves = sorted(objects if len(objects) > 1 else content, key=lambda s: (s.left or 0, s.top or 0))
    if len(halves) < 2:
        return None
    return halves[0] if where == "left" else halves[-1]


def find(slide: Slide, where: str) -> BaseShape | None:
    """The placeholder of a slide, made anew where only its layout has it; None where neither has."""
    own: list[Any] = list(slide.placeholders)
    wanted = _choose(list(slide.slide_layout.placeholders), where)
    if wanted is not None:
        same: Any = next((s for s in own if s.placeholder_format.idx == wanted.placeholder_format.idx), None)
        if same is not None:
            return _shape(same)
    mine: Any = _choose(own, where)
    offered: Any = slide.slide_layout.placeholders
    known = {s.placeholder_format.idx for s in offered}
    if mine is not None and (where == "title" or mine.placeholder_format.idx not in known):
        return _shape(mine)
    if wanted is not None:
        slide.shapes.clone_placeholder(wanted)
        index = wanted.placeholder_format.idx
        own_again: list[Any] = list(slide.placeholders)
        return _shape(next(s for s in own_again if s.placeholder_format.idx == index))
    return _shape(mine)


def _shape(found: Any) -> BaseShape | None:
    out: BaseShape | None = found
    return out


def needed(slide: Slide, where: str) -> BaseShape:
    """The same. Raises `ToolError` that says what the slide has."""
    found = find(slide, where)
    if found is None:
        has = [w for w in ("title", "subtitle", "body", "left", "right") if _choose(list(slide.placeholders), w)]
        layout = slide.slide_layout.name
        raise ToolError(
            f"the slide (layout {layout!r}) has no place for {where}; it has "
            f"{', '.join(has) or 'no placeholder for text'}. add_shape can put text anywhere"
        )
    return found


def body_of(shape: BaseShape, where: str) -> Any:
    """The text body of a placeholder. Raises `ToolError` where it holds something else."""
    element: Any = shape.element
    body = element.find(f"{_P}txBody")
    if body is None:
        if element.tag == f"{_P}sp":
            return shape.text_frame._txBody  # type: ignore[attr-defined]
        what = {f"{_P}pic": "a picture", f"{_P}graphicFrame": "a table, chart or diagram"}.get(element.tag, "no text")
        raise ToolError(f"the slide's {where} holds {what}, not text")
    return body


def text_of(slide: Slide, where: str) -> Any:
    """The text body that a word means. Raises `ToolError`."""
    return body_of(needed(slide, where), where)


def holding(shape: BaseShape | None) -> bool:
    """Whether a placeholder holds anything."""
    if shape is None:
        return False
    element: Any = shape.element
    return element.tag != f"{_P}sp" or bool(shape.has_text_frame and shape.text_frame.text.strip())  # type: ignore[attr-defined]


def content_area(slide: Slide, where: str = "body") -> tuple[Area, BaseShape | None]:
    """Where things go: the area of the placeholder that a word means, else the slide below its title (or a half of
    that); and the placeholder, where there is an empty one to take."""
    layout = slide.slide_layout
    own = find_existing(slide, where)
    whole = clear_area(slide)
    # A subtitle's line is no place for a table or a chart.
    line = own is not None and _kind(own) == PP_PLACEHOLDER.SUBTITLE
    if own is not None and own.width and own.height and not line and own.height * 3 >= whole.height:
        area = Area(int(own.left), int(own.top), int(own.width), int(own.height))
        return area, None if holding(own) else own
    if where == "body":
        return whole, None
    body = find_existing(slide, "body")
    if body is not None and body.width and body.height and _choose(list(layout.placeholders), "left") is None:
        whole = Area(int(body.left), int(body.top), int(body.width), int(body.height))
    gap = whole.width // 40
    half = (whole.width - gap) // 2
    left = whole.left if where == "left" else whole.left + half + gap
    return Area(left, whole.top, half, whole.height), None


def find_existing(slide: Slide, where: str) -> Any:
    """The placeholder if the slide has it; none is made."""
    wanted = _choose(list(slide.slide_layout.placeholders), where)
    own = list(slide.placeholders)
    if wanted is not None:
        index = wanted.placeholder_format.idx
        return next((s for s in own if s.placeholder_format.idx == index), None)
    return _choose(own, where)


def clear_area(slide: Slide) -> Area:
    """The slide within margins, below its title."""
    presentation = slide.part.package.presentation_part.presentation
    width, height = int(presentation.slide_width or 9_144_000), int(presentation.slide_height or 6_858_000)
    margin = width // 20
    title = find_existing(slide, "title")
    top = height // 10
    if title is not None and title.top is not None and title.height is not None:
        below = int(title.top) + int(title.height)
        # Below a title in the middle of the slide as long as there is a third of it.
        top = below + height // 50 if below < height * 0.6 else top
    return Area(margin, top, width - 2 * margin, max(height - top - height // 12, height // 4))


def text_size(slide: Slide, where: str) -> float | None:
    """The size in points that text of the first level has in a placeholder, by layout and master; None when unsaid."""
    layout = slide.slide_layout
    master = layout.slide_master
    wanted = _choose(list(layout.placeholders), where)
    sources: list[Any] = []
    if wanted is not None:
        sources.append(wanted.element.find(f"{_P}txBody/{_A}lstStyle"))
    style = "titleStyle" if where == "title" else "bodyStyle"
    sources.append(master.element.find(f"{_P}txStyles/{_P}{style}"))
    for source in sources:
        look = source.find(f"{_A}lvl1pPr/{_A}defRPr") if source is not None else None
        size = look.get("sz", "") if look is not None else ""
        if size.isdecimal() and 100 <= int(size) <= 400_000:
            return int(size) / 100
    return None
