"""What stands on a page beside its text: drawn rules, pictures, annotations, form fields. Used by `read.py`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from envkit.office.pdf.model import Annotation, Box, FormField
from envkit.office.pdf.tables import Rule

__all__ = ["annotations_of", "fields_of", "pictures_of", "rules_of"]

Turn = Callable[[float, float, float, float], Box]
Matrix = tuple[float, float, float, float, float, float]
#: The widest line that is taken for a rule, and the shortest, points.
_THIN, _SHORT = 3.0, 6.0
_MAX_ANNOTATIONS = 5_000
_FIELD_KINDS = {1: "button", 2: "checkbox", 3: "radio", 4: "combo", 5: "list", 6: "text", 7: "signature"}


def rules_of(page: Any, turned: Turn, limit: int) -> tuple[list[Rule], list[Box]]:
    """The upright and level lines drawn on a page (edges of boxes too), and the boxes of its pictures."""
    rules, pictures = _drawn(page, turned, limit)
    return rules, [box for box, _ in pictures]


def pictures_of(page: Any, turned: Turn, limit: int) -> list[tuple[Box, Any]]:
    """The pictures of a page in the order of its `Page.pictures`: box, and pdfium's object."""
    return _drawn(page, turned, limit)[1]


def _drawn(page: Any, turned: Turn, limit: int) -> tuple[list[Rule], list[tuple[Box, Any]]]:
    import pypdfium2.raw as raw

    rules: list[Rule] = []
    pictures: list[tuple[Box, Any]] = []
    left = limit

    def walk(count: int, get: Callable[[int], Any], outer: Matrix, depth: int) -> None:
        nonlocal left
        for index in range(count):
            left -= 1
            if left < 0:
                return
            item = get(index)
            kind = raw.FPDFPageObj_GetType(item)
            if kind == raw.FPDF_PAGEOBJ_PATH:
                left -= raw.FPDFPath_CountSegments(item) // 8
                rules.extend(_rules_of_path(item, _times(_matrix(item), outer), turned))
            elif kind == raw.FPDF_PAGEOBJ_IMAGE:
                box = _box_of(_times(_matrix(item), outer), turned)
                if box[2] - box[0] > 1 and box[3] - box[1] > 1:
                    pictures.append((box, item))
            elif kind == raw.FPDF_PAGEOBJ_FORM and depth < 8:
                inner = _times(_matrix(item), outer)
                walk(
                    raw.FPDFFormObj_CountObjects(item),
                    lambda i, item=item: raw.FPDFFormObj_GetObject(item, i),  # type: ignore[misc]
                    inner,
                    depth + 1,
                )

    walk(raw.FPDFPage_CountObjects(page), lambda i: raw.FPDFPage_GetObject(page, i), (1, 0, 0, 1, 0, 0), 0)
    return rules, pictures


def _matrix(item: Any) -> Matrix:
    import pypdfium2.raw as raw

    held = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, ctypes.byref(held)):
        return (1, 0, 0, 1, 0, 0)
    return held.a, held.b, held.c, held.d, held.e, held.f


def _times(m: Matrix, n: Matrix) -> Matrix:
    """First `m`, then `n`."""
    return (
        m[0] * n[0] + m[1] * n[2], m[0] * n[1] + m[1] * n[3], m[2] * n[0] + m[3] * n[2], m[2] * n[1] + m[3] * n[3],
        m[4] * n[0] + m[5] * n[2] + n[4], m[4] * n[1] + m[5] * n[3] + n[5],
    )  # fmt: skip


def _box_of(m: Matrix, turned: Turn) -> Box:
    """Where the unit square comes to lie."""
    xs = [m[4], m[4] + m[0], m[4] + m[2], m[4] + m[0] + m[2]]
    ys = [m[5], m[5] + m[1], m[5] + m[3], m[5] + m[1] + m[3]]
    return turned(min(xs), min(ys), max(xs), max(ys))


def _rules_of_path(item: Any, m: Matrix, turned: Turn) -> list[Rule]:
    import pypdfium2.raw as raw

    filled, stroked = ctypes.c_int(), raw.FPDF_BOOL()
    raw.FPDFPath_GetDrawMode(item, ctypes.byref(filled), ctypes.byref(stroked))
    if not (filled.value or stroked.value):
        return []
    x, y = ctypes.c_float(), ctypes.c_float()
    rules: list[Rule] = []
    runs: list[list[tuple[float, float]]] = []
    curved = False
    for index in range(min(raw.FPDFPath_CountSegments(item), 20_000)):
        segment = raw.FPDFPath_GetPathSegment(item, index)
        raw.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = (x.value * m[0] + y.value * m[2] + m[4], x.value * m[1] + y.value * m[3] + m[5])
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO or not runs:
            runs.append([point])
        else:
            curved = curved or kind == raw.FPDF_SEGMENT_BEZIERTO
            runs[-1].append(point)
        if raw.FPDFPathSegment_GetClose(segment):
            runs[-1].append(runs[-1][0])
    for run in runs:
        xs, ys = [p[0] for p in run], [p[1] for p in run]
        box = turned(min(xs), min(ys), max(xs), max(ys))
        width, height = box[2] - box[0], box[3] - box[1]
        if width <= _THIN or height <= _THIN:
            if height >= _SHORT and width <= _THIN:
                rules.append((True, (box[0] + box[2]) / 2, box[1], box[3]))
            elif width >= _SHORT and height <= _THIN:
                rules.append((False, (box[1] + box[3]) / 2, box[0], box[2]))
            continue
        if curved:
            continue
        closed = [*run, run[0]] if filled.value else run
        for (ax, ay), (bx, by) in pairwise(closed):
            edge = turned(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
            if edge[2] - edge[0] <= 1 and edge[3] - edge[1] >= _SHORT:
                rules.append((True, edge[0], edge[1], edge[3]))
            elif edge[3] - edge[1] <= 1 and edge[2] - edge[0] >= _SHORT:
                rules.append((False, edge[1], edge[0], edge[2]))
    return rules


def _string(get: Callable[..., int], *arguments: Any) -> str:
    """A UTF-16 string by pdfium's convention: first its length in bytes, then itself."""
    length = get(*arguments, None, 0)
    if length <= 2 or length > 1 << 20:
        return ""
    buffer = ctypes.create_string_buffer(length)
    import pypdfium2.raw as raw

    get(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace").replace("\r\n", "\n").replace("\r", "\n")


def annotations_of(page: Any, turned: Turn) -> tuple[Annotation, ...]:
    """The page's annotations but for form fields and the windows of notes."""
    import pypdfium2.raw as raw

    names = {
        getattr(raw, name): name.removeprefix("FPDF_ANNOT_").lower()
        for name in dir(raw)
        if name.startswith("FPDF_ANNOT_") and isinstance(getattr(raw, name), int) and "FLAG" not in name
        and "APPEARANCE" not in name and "AACTION" not in name
    }  # fmt: skip
    out: list[Annotation] = []
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        held = raw.FPDFPage_GetAnnot(page, index)
        if not held:
            continue
        try:
            kind = names.get(raw.FPDFAnnot_GetSubtype(held), "unknown")
            if kind in ("widget", "popup"):
                continue
            rect = raw.FS_RECTF()
            raw.FPDFAnnot_GetRect(held, ctypes.byref(rect))
            low, high = sorted((rect.bottom, rect.top))
            box = turned(rect.left, low, rect.right, high)
            text = _string(raw.FPDFAnnot_GetStringValue, held, b"Contents")
            author = _string(raw.FPDFAnnot_GetStringValue, held, b"T")
            target = _target(page, held) if kind == "link" else ""
            out.append(Annotation(kind, text, author, target, tuple(round(v, 2) for v in box)))  # type: ignore[arg-type]
        finally:
            raw.FPDFPage_CloseAnnot(held)
    return tuple(out)


def _target(page: Any, held: Any) -> str:
    import pypdfium2.raw as raw

    link = raw.FPDFAnnot_GetLink(held)
    if not link:
        return ""
    action = raw.FPDFLink_GetAction(link)
    document = page.pdf
    if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
        length = raw.FPDFAction_GetURIPath(document, action, None, 0)
        if 1 < length <= 1 << 16:
            buffer = ctypes.create_string_buffer(length)
            raw.FPDFAction_GetURIPath(document, action, buffer, length)
            return buffer.value.decode("utf-8", "replace")
    dest = raw.FPDFLink_GetDest(document, link)
    if not dest and action:
        dest = raw.FPDFAction_GetDest(document, action)
    if dest:
        index = raw.FPDFDest_GetDestPageIndex(document, dest)
        return f"page {index + 1}" if index >= 0 else ""
    return ""


def fields_of(document: Any, page: Any, number: int) -> list[FormField]:
    """The form fields that stand on a page, a group of radio buttons once."""
    import pypdfium2.raw as raw

    environment = document.formenv
    out: dict[tuple[str, str], FormField] = {}
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        held = raw.FPDFPage_GetAnnot(page, index)
        if not held:
            continue
        try:
            if raw.FPDFAnnot_GetSubtype(held) != raw.FPDF_ANNOT_WIDGET:
                continue
            kind = _FIELD_KINDS.get(raw.FPDFAnnot_GetFormFieldType(environment, held))
            if kind is None:
                continue
            name = _string(raw.FPDFAnnot_GetFormFieldName, environment, held)
            value = _string(raw.FPDFAnnot_GetFormFieldValue, environment, held)
            if kind in ("checkbox", "radio"):
                on = bool(raw.FPDFAnnot_IsChecked(environment, held))
                export = _string(raw.FPDFAnnot_GetFormFieldExportValue, environment, held)
                value = (export or "Yes") if on else "Off"
                known = out.get((name, kind))
                if kind == "radio" and known is not None and known.value != "Off":
                    continue
            elif not value:
                value = _string(raw.FPDFAnnot_GetStringValue, held, b"V")
            out[(name, kind)] = FormField(name, kind, value, number)
        finally:
            raw.FPDFPage_CloseAnnot(held)
    return list(out.values())
