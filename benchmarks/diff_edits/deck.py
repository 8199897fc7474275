"""Single edits of slide decks, made in the XML of their parts.

Samples are a generated deck that has one of everything, and the decks of the corpus where it is present
(`ENVKIT_CORPUS`). Re-saves are by python-pptx, by LibreOffice, and a rewrite of everything that is noise (ids and names
of shapes, runs cut to pieces, languages, proofing marks, transitions).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from diff_edits import deck_changes as do
from diff_edits import deck_more as more
from diff_edits.deck_programs import noise, python_pptx
from diff_edits.deck_sample import build
from diff_edits.edit import Edit
from diff_edits.libreoffice import installed, resaved
from diff_edits.losses import Loss, has, lacks
from diff_edits.zipped import part_names

SUFFIX = "pptx"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "pptx"


def samples() -> dict[str, bytes]:
    out = {"generated": build()}
    for path in sorted(_CORPUS.glob("*.pptx")) if _CORPUS.is_dir() else ():
        data = path.read_bytes()
        try:
            if "ppt/presentation.xml" in part_names(data):
                out[path.name] = data
        except Exception:  # noqa: BLE001 - a broken archive, as zipfile sees it
            continue
    return out


EDITS: dict[str, Edit] = {
    "words of a shape": do.somewhere_edit(do.word_edit),
    "paragraph inserted": do.somewhere_edit(do.insert_edit),
    "paragraph deleted": do.somewhere_edit(do.delete_edit),
    "paragraph moved": do.somewhere_edit(do.swap_edit),
    "level and alignment": do.somewhere_edit(do.level_edit),
    "underline": do.somewhere_edit(do.look_edit(u="heavy")),
    "size": do.somewhere_edit(do.look_edit(sz="6100")),
    "strike": do.somewhere_edit(do.look_edit(strike="sngStrike")),
    "superscript": do.somewhere_edit(do.look_edit(baseline="31000")),
    "colour": do.somewhere_edit(do.colour_edit),
    "alignment": do.somewhere_edit(do.align_edit),
    "bullet": do.somewhere_edit(do.bullet_edit),
    "table cell": do.somewhere_edit(do.cell_edit),
    "table row inserted": do.somewhere_edit(do.row_insert_edit),
    "table row deleted": do.somewhere_edit(do.row_delete_edit),
    "table column inserted": do.somewhere_edit(do.column_insert_edit),
    "cells merged": do.somewhere_edit(do.merge_edit),
    "shape moved": do.somewhere_edit(do.move_edit),
    "shape resized": do.somewhere_edit(do.resize_edit),
    "shape rotated": do.somewhere_edit(do.rotate_edit),
    "shape filled": do.somewhere_edit(do.fill_edit),
    "shape's form": do.somewhere_edit(do.geometry_edit),
    "shape inserted": do.somewhere_edit(do.shape_insert_edit),
    "shape deleted": do.somewhere_edit(do.shape_delete_edit),
    "text in a group": do.somewhere_edit(do.grouped_edit),
    "slide hidden or shown": do.somewhere_edit(do.hide_edit),
    "slide moved": do.slides_edit(do.slide_move_edit),
    "slide deleted": do.slides_edit(do.slide_delete_edit),
    "slide inserted": do.slide_insert_edit,
    "alternative text": do.somewhere_edit(do.alt_edit),
    "picture replaced": do.image_edit,
    "link target": do.link_edit,
    "notes": lambda data: do.notes_edit_edit(data),
    "comment added": lambda data: do.comments_edit_edit(data, do.comment_add_edit),
    "comment text": do.first_edit("ppt/comments/comment", f".//{P}text", "Something else entirely?", "comment.text"),
    "diagram text": do.first_edit("ppt/diagrams/data", f".//{A}t", "Plan the work anew", "diagram.text"),
    "chart value": do.first_edit("ppt/charts/chart", f".//{_C}val//{_C}v", "99.5", "chart.value"),
    "chart title": do.first_edit("ppt/charts/chart", f".//{_C}title//{A}t", "By another thing", "chart.title"),
    "chart series name": do.first_edit("ppt/charts/chart", f".//{_C}ser/{_C}tx//{_C}v", "Turnover", "chart.series"),
    "chart series deleted": do.series_delete_edit,
    "chart type": do.chart_type_edit,
    "section renamed": more.section_edit("Another name"),
    "section removed": more.section_edit(None),
    "slide to another section": more.regroup_edit,
    "table style": more.style_edit,
    "table banding": more.banding_edit("bandRow"),
    "table's heading row": more.banding_edit("firstRow"),
    "cell of an embedded workbook": more.embedded_edit("ppt/embeddings/"),
    "title property": do.in_part("docProps/core.xml", lambda root: do.title_edit(root)),
}


# --- programs that open and save ---

RESAVES: dict[str, Callable[[bytes], bytes | None]] = {"python-pptx": python_pptx, "noise in the XML": noise}
BATCHES = {"LibreOffice": resaved} if installed() else {}


_OBJECTS = has(r"ppt/slides/_rels/", "relationships/oleObject")
#: A colour scheme whose names a master gives other meanings: text light on dark.
_SWAPPED = has(r"ppt/slideMasters/slideMaster", r'<p:clrMap [^>]*(?:tx1="(?!dk1)|bg1="(?!lt1))')
_NO_SLIDES = lacks(r"presentation.xml$", "<p:sldId ")
_COLOURED = "[0-9A-F]{6}|.* colour: .*"
_TURNED = "(0|90|180|270)°"
LOSSES: dict[str, tuple[Loss, ...]] = {
    "LibreOffice": (
        Loss("slide", "a deck without slides gets one", change="added", when=_NO_SLIDES),
        Loss("deck.size", "a deck without slides gets its own size", when=_NO_SLIDES),
        Loss("(shape.)?link", "actions that run macros", before="ppaction://macro.*", change="removed"),
        Loss(
            "shape.fill|text.format",
            "colours of the scheme where the master maps them otherwise: it keeps the name and not the mapping",
            before=_COLOURED,
            after=_COLOURED,
            when=_SWAPPED,
        ),
        Loss("object", "of several objects it writes one for all", before="PowerPoint.Slide.8 .*", when=_OBJECTS),
        Loss("text.format", "a font of its table of replacements", before=".* font: Algerian", after=".* font: comic"),
        Loss("shape.placeholder", "that a picture stands in a placeholder", before="pic", after="none"),
        Loss("text.format", "the look of footers", where='.*"Footer Placeholder.*'),
        Loss("shape.rotation", "the route of connectors", where=".*Connector.*", before=_TURNED, after=_TURNED),
        Loss(
            "shape",
            "ActiveX controls, of which it keeps the picture",
            before=r"\[control\]|",
            after=r"|\[picture .*",
            when=has("slides/slide", "<p:control "),
        ),
        Loss("section", "sections", change="removed", when=has("presentation.xml$", "sectionLst")),
        Loss(
            "cell.text.format",
            "bold of PowerPoint's own table styles where the file doesn't spell them out",
            before=".* bold: True",
            after=".* bold: none",
            when=lacks("tableStyles.xml$", "<a:tblStyle "),
        ),
    )
}
