"""Single edits of Word documents, made in the XML of their parts.

Samples are a generated document that has one of everything, and the documents of the corpus where it is
present (`ENVKIT_CORPUS`). Re-saves are by python-docx, by LibreOffice, and a rewrite of everything that is noise
(revision ids, runs cut to pieces, proofing marks, languages, ids).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from diff_edits import document_changes as do
from diff_edits import document_more as more
from diff_edits.deck_more import embedded_edit
from diff_edits.document_programs import noise, python_docx
from diff_edits.document_sample import build
from diff_edits.edit import Edit
from diff_edits.libreoffice import installed, resaved
from diff_edits.losses import Loss, has, lacks
from diff_edits.zipped import part_names
from envkit.verifiers.diff import Finding

SUFFIX = "docx"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "docx"


def samples() -> dict[str, bytes]:
    out = {"generated": build(), "without equation": build(equation=False)}
    for path in sorted(_CORPUS.glob("*.docx")) if _CORPUS.is_dir() else ():
        data = path.read_bytes()
        try:
            if "word/document.xml" in part_names(data):
                out[path.name] = data
        except Exception:  # noqa: BLE001 - a broken archive, as zipfile sees it
            continue
    return out


EDITS: dict[str, Edit] = {
    "word of a paragraph": do.body_edit(do.word_edit),
    "paragraph inserted": do.body_edit(do.insert_edit),
    "paragraph deleted": do.body_edit(do.delete_edit),
    "paragraph moved": do.body_edit(do.move_edit),
    "heading text": do.body_edit(do.heading_text_edit),
    "heading level": do.body_edit(do.heading_level_edit),
    "underline": do.body_edit(do.look_edit("u", val="double")),
    "colour": do.body_edit(do.look_edit("color", val="C000AB")),
    "size": do.body_edit(do.look_edit("sz", val="61")),
    "strike": do.body_edit(do.look_edit("strike")),
    "font": do.body_edit(do.look_edit("rFonts", ascii="Wingold", hAnsi="Wingold")),
    "highlight": do.body_edit(do.look_edit("highlight", val="magenta")),
    "alignment": do.body_edit(do.layout_edit("jc", val="distribute")),
    "indent": do.body_edit(do.layout_edit("ind", left="2222")),
    "page break before": do.body_edit(do.layout_edit("pageBreakBefore")),
    "page break": do.body_edit(do.page_break_edit),
    "no-break space": do.body_edit(do.typography_edit),
    "tracked insertion": do.body_edit(do.tracked_edit("inserted")),
    "tracked deletion": do.body_edit(do.tracked_edit("deleted")),
    "tracked new paragraph": do.body_edit(do.paragraph_alone_edit),
    "tracked insertion accepted": do.body_edit(lambda body: do.accepted_edit(body)),
    "table cell": do.body_edit(do.cell_text_edit),
    "table row inserted": do.body_edit(do.row_insert_edit),
    "table row deleted": do.body_edit(do.row_delete_edit),
    "table column inserted": do.body_edit(do.column_insert_edit),
    "cells merged": do.body_edit(do.merge_edit),
    "cell fill": do.body_edit(do.fill_edit),
    "nested table cell": do.body_edit(do.nested_edit),
    "comment added": do.comment_edit,
    "comment deleted": do.in_part("word/comments.xml", do.comment_delete_edit),
    "comment text": do.in_part(
        "word/comments.xml", do.first_text_edit(f"{W}comment//{W}t", "Something else entirely?", "comment.text")
    ),
    "footnote text": do.in_part("word/footnotes.xml", lambda root: do.note_edit(root)),
    "header text": do.in_part(
        "word/header1.xml", do.first_text_edit(f"{W}p/{W}r/{W}t", "Company public", "header.text")
    ),
    "footer text": do.in_part("word/footer1.xml", do.first_text_edit(f"{W}p/{W}r/{W}t", "Open use", "footer.text")),
    "link target": do.link_edit,
    "field": do.body_edit(do.first_text_edit(f".//{W}instrText", " DOCPROPERTY Company ", "field")),
    "bookmark": do.body_edit(do.bookmark_edit),
    "picture replaced": do.image_edit,
    "picture deleted": do.body_edit(do.image_delete_edit),
    "alternative text": do.body_edit(do.alt_edit),
    "list kind": do.body_edit(do.bullet_edit),
    "list left": do.body_edit(do.numbering_edit),
    "list item inserted": do.body_edit(do.list_insert_edit),
    "check box": do.body_edit(
        do.attribute_edit(f".//{_W14}checkbox/{_W14}checked", f"{_W14}val", "1", "control.checked")
    ),
    "text box": do.body_edit(
        do.first_text_edit(f".//{W}txbxContent//{W}t", "Words elsewhere in the box", "paragraph.text")
    ),
    "equation": do.body_edit(do.first_text_edit(f".//{_M}den//{_M}t", "c", "paragraph.text")),
    "chart value": do.in_part(
        "word/charts/chart1.xml", do.first_text_edit(f".//{_C}val//{_C}v", "99.5", "chart.value")
    ),
    "chart series name": do.in_part(
        "word/charts/chart1.xml", do.first_text_edit(f".//{_C}ser/{_C}tx//{_C}v", "Turnover", "chart.series")
    ),
    "landscape": do.body_edit(do.landscape_edit),
    "margins": do.body_edit(do.margins_edit),
    "style definition": lambda data: (
        do.in_part("word/styles.xml", do.style_edit)(data) if do.uses_heading_edit(data) else None
    ),
    "table style": do.body_edit(more.table_style_edit),
    "table banding": do.body_edit(more.banding_edit),
    "text of a content control": do.body_edit(more.control_text_edit),
    "tag of a content control": do.body_edit(more.control_tag_edit),
    "text in a frame": do.body_edit(more.frame_edit),
    "letters as a picture": do.body_edit(more.letters_edit),
    "cell of an embedded workbook": embedded_edit("word/embeddings/"),
    "title property": do.in_part(
        "docProps/core.xml", do.first_text_edit("{http://purl.org/dc/elements/1.1/}title", "New", "property.title")
    ),
}


# --- programs that open and save ---

RESAVES: dict[str, Callable[[bytes], bytes | None]] = {"python-docx": python_docx, "noise in the XML": noise}
BATCHES = {"LibreOffice": resaved} if installed() else {}
_BODY = "word/document.xml$"
_GROUP = has(_BODY + "|word/(header|footer)", "<v:group|<wpg:wgp")
_BREAK = '<w:ins [^>]*><w:r[ >](?:(?!</w:r>).)*<w:br w:type="page"'


def _height_alone(finding: Finding) -> bool:
    """Whether of the margins only those at the top and the bottom differ, and grew."""
    before, after = ([float(m) for m in (text or "").split(", ")] for text in (finding.before, finding.after))
    return before[1::2] == after[1::2] and all(x <= y for x, y in zip(before, after, strict=True))


LOSSES: dict[str, tuple[Loss, ...]] = {
    "LibreOffice": (
        Loss(
            "paragraph.text",
            "where in a control a line breaks",
            before=r".*\n.*",
            after=r".*\n.*",
            when=has(_BODY, "<w:sdtContent>(?:(?!</w:sdtContent>).)*<w:br/>"),
        ),
        Loss(
            "control",
            "titles and tags of check boxes",
            before=r"checkbox [^:]+: .*|",
            after="|checkbox : .*",
            when=has(_BODY, "<w14:checkbox"),
        ),
        Loss(
            "paragraph.style",
            "the style of the paragraph after one whose deletion is tracked",
            when=has(_BODY, "<w:pPr>(?:(?!</w:pPr>).)*<w:rPr><w:del "),
        ),
        Loss(
            "cell.format",
            "a size that an old document's table style takes from its defaults",
            before=r".* size: 12\.0",
            after=r".* size: 10\.0",
            when=has("styles.xml$", '<w:sz w:val="24"/>'),
        ),
        Loss(
            "cell.format",
            "that text in a table is not bold where the style is",
            before=".* bold: none",
            after=".* bold: True",
            when=has(_BODY, '<w:b w:val="(?:0|false)"/>'),
        ),
        Loss(
            "bookmark.text",
            "bookmarks that reach over paragraphs, which it writes twice",
            when=has(_BODY, "<w:bookmarkStart (?:(?!<w:bookmarkEnd).)*</w:p>"),
        ),
        Loss(
            "section.margins",
            "a margin that the header or footer is too high for",
            when=has("word/(header|footer)", "<w:p[ >]"),
            test=_height_alone,
        ),
        Loss(
            "(paragraph|header|footer).(text|style|layout|format)|field",
            "looks and fields of text in groups of shapes",
            where=".* box .*",
            when=_GROUP,
        ),
        Loss(
            "image|box",
            "text boxes in groups that hold a picture",
            before="|\\[picture .*",
            after="|\\[picture .*",
            when=_GROUP,
        ),
        Loss(
            "paragraph.format",
            "that text is hidden on the web alone: it hides it",
            before=".* hidden: none",
            after=".* hidden: True",
            when=has(_BODY, "<w:webHidden"),
        ),
        Loss(
            "paragraph",
            "that a document begins with a table beside the text: a blank paragraph comes first",
            before="",
            after="",
            where="¶1",
            change="added",
            when=has(_BODY, "<w:body><w:tbl>(?:(?!</w:tblPr>).)*<w:tblpPr"),
        ),
        Loss(
            "paragraph",
            "the end of a section without a paragraph of its own",
            before="",
            after="",
            change="added",
            when=has(_BODY, '<w:sectPr(?:(?!</w:sectPr>).)*<w:type w:val="continuous"'),
        ),
        Loss(
            "header",
            "headers that begin in the middle of a page",
            change="removed",
            where=r"header .* section (?!1\b).*",
            when=has(_BODY, '<w:sectPr(?:(?!</w:sectPr>).)*<w:type w:val="continuous"'),
        ),
        Loss("footnote.text", "marks of one's own, which it writes twice", when=has(_BODY, "customMarkFollows")),
        Loss(
            "style.format",
            "kinds of justified text that Arabic has",
            before="align: justify",
            after="align: left",
            when=has("styles.xml$", "Kashida"),
        ),
        Loss(
            "style.format",
            "the size of text without styles",
            before="size: 10.0",
            after="size: 11.0",
            when=lacks("styles.xml$", "<w:style "),
        ),
        Loss("tracked.mark", "that the end of a paragraph is not tracked where its text is", change="added"),
        Loss(
            "tracked.inserted", "that a page break is tracked", before=r"\f", change="removed", when=has(_BODY, _BREAK)
        ),
        Loss("paragraph", "that a page break is tracked", before="", after="", change="added", when=has(_BODY, _BREAK)),
        Loss(
            "paragraph.layout",
            "that a page break is tracked",
            before="page_break: False",
            after="page_break: True",
            when=has(_BODY, _BREAK),
        ),
    )
}
