"""A rubric as checks for the judge: each line by itself, 0 or 1, all of equal weight, the reward their mean.

What the judge is shown follows the line's expected file type, as it is published: a text answer alone; files of one
sort that the agent made or changed and no answer (with none of them the line fails without a judge being asked); or
everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from envkit.tasks.apex.dataset import RubricLine, TaskRow

__all__ = ["ANSWER_ONLY", "EVERYTHING", "FILE_TYPES", "verifier_toml"]

ANSWER_ONLY = "Final Answer Only (No Files)"
EVERYTHING = "All output (modified files and final message in console)"
#: The published phrases -> the extensions they stand for.
FILE_TYPES: dict[str, tuple[str, ...]] = {
    "Word Documents (.docx, .doc, .odt)": ("docx", "doc", "odt"),
    "Text Files (.txt)": ("txt",),
    "PDF Documents (.pdf)": ("pdf",),
    "Spreadsheets (.xlsx, .xls, .xlsm, .ods)": ("xlsx", "xls", "xlsm", "ods"),
    "Presentations (.pptx, .ppt, .odp)": ("pptx", "ppt", "odp"),
    "Python Files (.py)": ("py",),
    "JavaScript/TypeScript (.js, .ts, .jsx, .tsx)": ("js", "ts", "jsx", "tsx"),
    "Markdown (.md)": ("md",),
    "JSON/YAML (.json, .yaml, .yml)": ("json", "yaml", "yml"),
    "Database Files (.db)": ("db",),
    "Images (.png, .jpg, .jpeg, .webp)": ("png", "jpg", "jpeg", "webp"),
}


def verifier_toml(row: TaskRow) -> str:
    """The text of the task's `tests/verifier.toml`."""
    primary = [line.is_primary_objective for line in row.rubric]
    stated = any(value is not None for value in primary)
    ids = _ids(row.rubric)
    parts = ['schema_version = "1"\nscoring = "weighted_mean"\n']
    for number, (line, id) in enumerate(zip(row.rubric, ids, strict=True)):
        is_primary = bool(primary[number]) if stated else number == 0
        parts.append("[[check]]\n" + "\n".join(_check(line, id, is_primary)) + "\n")
    return "\n".join(parts)


def _ids(rubric: Sequence[RubricLine]) -> list[str]:
    """Ids of the checks: those of the lines where they can be ids and are unique."""
    out: list[str] = []
    for number, line in enumerate(rubric, start=1):
        good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", line.verifier_id) is not None
        out.append(line.verifier_id if good and line.verifier_id not in out else f"line-{number}")
    return out


def _check(line: RubricLine, id: str, is_primary: bool) -> list[str]:
    out = [f"id = {_text(id)}", 'kind = "judge"', f"criterion = {_text(line.criteria)}"]
    if line.criteria_explanation and line.criteria_explanation.strip():
        out.append(f"explanation = {_text(line.criteria_explanation)}")
    if is_primary:
        out.append("primary = true")
    kind = (line.expected_file_type or "").strip()
    named = _patterns(line.expected_output_files)
    if kind == ANSWER_ONLY:
        out.append('files = "none"')
    elif kind in FILE_TYPES:
        out.append("answer = false")
        cases = [case for extension in FILE_TYPES[kind] for case in (extension, extension.upper())]
        out += _files(named or [f"/filesystem/**/*.{case}" for case in cases])
    elif named:
        out += _files(named)
    references = _patterns(line.artifacts_to_reference)
    if references:
        out.append(f"references = [{', '.join(map(_text, references))}]")
    return out


def _files(patterns: Sequence[str]) -> list[str]:
    """Only what the agent made or changed counts as its work, however many such files the world has."""
    return [f"files = [{', '.join(map(_text, patterns))}]", "changed_only = true"]


def _patterns(names: Sequence[str]) -> list[str]:
    """Names of files as patterns: a path from the root, or a name anywhere."""
    out: list[str] = []
    for name in names:
        plain = re.sub(r"([*?\[])", r"[\1]", name.strip().strip("/"))
        if not plain or ".." in plain.split("/"):
            continue
        if plain.startswith((".apps_data/", "filesystem/")):
            out.append(f"/{plain}")
        else:
            out.append(f"/filesystem/{plain}" if "/" in plain else f"/filesystem/**/{plain}")
    return out


def _text(text: str) -> str:
    """A TOML string on one line. TOML has no surrogates and no DEL."""
    clean = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
