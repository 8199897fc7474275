"""More single edits of documents: looks of tables, controls, frames, letters as pictures. Used by `document.py`."""

from __future__ import annotations

from typing import Any

__all__ = ["banding_edit", "control_tag_edit", "control_text_edit", "frame_edit", "letters_edit", "table_style_edit"]

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_V = "{urn:schemas-microsoft-com:vml}"
#: Styles whose bands have a fill.
_BANDED = ("LightShading", "MediumShading1")


def table_style_edit(body: Any) -> str | None:
    for element in body.iter(f"{W}tblStyle"):
        if element.get(f"{W}val", "").startswith(_BANDED) and element.get(f"{W}val") != "MediumShading1-Accent3":
            element.set(f"{W}val", "MediumShading1-Accent3")
            return "table.style"
    return None


def banding_edit(body: Any) -> str | None:
    for properties in body.iter(f"{W}tblPr"):
        style, look = properties.find(f"{W}tblStyle"), properties.find(f"{W}tblLook")
        rows = len(properties.getparent().findall(f"{W}tr"))
        if style is not None and look is not None and rows > 2 and style.get(f"{W}val", "").startswith(_BANDED):
            for name in [n for n in look.attrib if n not in (f"{W}val", f"{W}firstRow")]:
                del look.attrib[name]
            mask = int(look.get(f"{W}val", "0"), 16)
            look.set(f"{W}val", f"{mask ^ 0x200:04X}")
            return "table.look"
    return None


def control_text_edit(body: Any) -> str | None:
    for control in body.iterfind(f"{W}sdt"):
        texts = [t for t in control.iterfind(f"{W}sdtContent/{W}p/{W}r/{W}t") if len((t.text or "").strip()) > 3]
        if texts and control.find(f".//{W}docPartObj") is None:
            texts[0].text = (texts[0].text or "") + " differently"
            return "paragraph.text"
    return None


def control_tag_edit(body: Any) -> str | None:
    for properties in body.iter(f"{W}sdtPr"):
        tag, title = properties.find(f"{W}tag"), properties.find(f"{W}alias")
        if tag is not None and title is not None and tag.get(f"{W}val") and title.get(f"{W}val"):
            tag.set(f"{W}val", "renamed-tag")
            return "control.tag"
    return None


def frame_edit(body: Any) -> str | None:
    for frame in body.iter(f"{W}framePr"):
        text = next(frame.getparent().getparent().iterfind(f"{W}r/{W}t"), None)
        if frame.get(f"{W}dropCap", "none") == "none" and text is not None and (text.text or "").strip():
            text.text = (text.text or "") + " differently"
            return "paragraph.text"
    return None


def letters_edit(body: Any) -> str | None:
    for path in body.iter(f"{_V}textpath"):
        if (path.get("string") or "").strip():
            path.set("string", str(path.get("string")) + " differently")
            return "paragraph.text"
    return None
