"""Programs that open and save decks, and a rewrite of all that is noise in one. Used by `deck.py`."""

from __future__ import annotations

import copy
import io

from lxml import etree
from pptx import Presentation

from diff_edits.zipped import edit_part, part_names

__all__ = ["noise", "python_pptx"]

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def python_pptx(data: bytes) -> bytes | None:
    try:
        deck = Presentation(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - python-pptx gives up on these in many ways; there is nothing to compare
        return None
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def noise(data: bytes) -> bytes:
    """The same deck with other ids and names of shapes, runs cut to pieces, languages, proofing marks, transitions."""

    def noisy(content: bytes) -> bytes:
        root = etree.fromstring(content)
        for number, named in enumerate(root.iter(f"{P}cNvPr"), start=700):
            named.set("id", str(number))
            named.set("name", f"Object {number}")
        for run in list(root.iter(f"{A}r")):
            t = run.find(f"{A}t")
            if t is None or len(t.text or "") < 4:
                continue
            tail = copy.deepcopy(run)
            tail.tail = None
            half = len(t.text) // 2
            t.text, tail.find(f"{A}t").text = t.text[:half], t.text[half:]
            properties = run.find(f"{A}rPr")
            if properties is None:
                properties = etree.Element(f"{A}rPr")
                run.insert(0, properties)
            for name, value in (("lang", "nl-NL"), ("dirty", "0"), ("err", "1"), ("noProof", "1")):
                properties.set(name, value)
            run.addnext(tail)
        for old in root.findall(f"{P}transition"):
            root.remove(old)
        return etree.tostring(root)

    out = data
    for name in part_names(data):
        if name.startswith("ppt/slides/slide") and name.endswith(".xml"):
            out = edit_part(out, name, noisy) or out
    return out
