"""One spelling for what documents say in several ways, before their blocks are compared.

A page break is a break at the end of a paragraph here and a property of the next one there; text beside the flow is a
frame here and a text box there. Used by `document.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envkit.office.document import Block, Paragraph, Run

__all__ = ["canonical"]


def canonical(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with frames as text boxes of the paragraph that follows, and page breaks as a property of it."""
    return _breaks(_frames(blocks))


def _frames(blocks: Sequence[Block]) -> list[Block]:
    out: list[Block] = []
    frame: list[Block] = []
    for block in blocks:
        if isinstance(block, Paragraph) and block.framed:
            frame.append(block)
        elif frame and isinstance(block, Paragraph):
            out.append(replace(block, boxes=(tuple(frame), *block.boxes)))
            frame = []
        else:
            out += [*frame, block]
            frame = []
    return out + frame


def _breaks(blocks: Sequence[Block]) -> list[Block]:
    """A break at the end of a paragraph as a property of the next; before a table, where there is none to have it, as a
    break at the end of what stands before."""
    out: list[Block] = []
    pending = False
    for block in blocks:
        if not isinstance(block, Paragraph):
            _end_with_break(out, pending)
            pending = False
            out.append(block)
            continue
        first = replace(block, format=replace(block.format, page_break=True)) if pending else block
        pending = _breaks_after(first)
        out.append(_without_break(first) if pending else first)
    _end_with_break(out, pending)
    return out


def _end_with_break(out: list[Block], pending: bool) -> None:
    """Writes out a break that waits. Programs that can't let a table begin a page put a blank paragraph before it."""
    last = out[-1] if out else None
    if not pending and isinstance(last, Paragraph) and last.format.page_break and not last.runs and not last.boxes:
        before = out[-2] if len(out) > 1 else None
        if isinstance(before, Paragraph) and not (last.images or last.charts or last.objects):
            out.pop()
            pending, last = True, before
    if pending and isinstance(last, Paragraph):
        out[-1] = replace(last, runs=(*last.runs, Run("\f")), text=last.text + "\f")


def _breaks_after(block: Block | None) -> bool:
    """Whether a paragraph ends with a page break that nobody tracks."""
    if not isinstance(block, Paragraph) or not block.runs:
        return False
    last = block.runs[-1]
    return last.text.rstrip(" ").endswith("\f") and not last.tracked


def _without_break(paragraph: Paragraph) -> Paragraph:
    last = paragraph.runs[-1]
    kept = last.text.rstrip(" ").removesuffix("\f")
    ending: tuple[Run, ...] = (replace(last, text=kept),) if kept else ()
    runs = (*paragraph.runs[:-1], *ending)
    return replace(paragraph, runs=runs, text="".join(r.text for r in runs if r.shown("final")))
