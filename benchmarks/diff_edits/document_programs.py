"""Programs that open and save Word documents, and a rewrite of all that is noise in one. Used by `document.py`."""

from __future__ import annotations

import io
from typing import Any

import docx
from lxml import etree

from diff_edits.zipped import edit_part

__all__ = ["noise", "python_docx"]

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"


def python_docx(data: bytes) -> bytes | None:
    try:
        document = docx.Document(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - python-docx gives up on these in many ways; there is nothing to compare
        return None
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def noise(data: bytes) -> bytes:
    """The same document with other revision ids, runs cut to pieces, proofing marks, languages and ids."""

    def noisy(content: bytes) -> bytes:
        root = etree.fromstring(content)
        for p in root.iter(f"{W}p"):
            p.set(f"{W}rsidR", "00AB12CD")
            p.set(f"{_W14}paraId", "1A2B3C4D")
            for run in list(p.iterfind(f"{W}r")):
                texts = run.findall(f"{W}t")
                if (
                    len(texts) == 1
                    and len(texts[0].text or "") > 3
                    and len(run) == 1 + (run.find(f"{W}rPr") is not None)
                ):
                    tail = etree.fromstring(etree.tostring(run))
                    tail.tail = None
                    half = len(texts[0].text) // 2
                    second = tail.find(f"{W}t")
                    texts[0].text, second.text = texts[0].text[:half], texts[0].text[half:]
                    for t in (texts[0], second):
                        t.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
                    run.set(f"{W}rsidRPr", "00FFFFFF")
                    _set_language(run)
                    run.addnext(tail)
                    run.addnext(etree.Element(f"{W}proofErr", {f"{W}type": "spellStart"}))
        for element in root.iter(f"{_WP}docPr"):
            element.set("id", str(int(element.get("id", "1")) + 5000))
        return etree.tostring(root)

    return edit_part(data, "word/document.xml", noisy) or data


def _set_language(run: Any) -> None:
    properties = run.find(f"{W}rPr")
    if properties is None:
        properties = etree.Element(f"{W}rPr")
        run.insert(0, properties)
    etree.SubElement(properties, f"{W}lang", {f"{W}val": "nl-NL"})
