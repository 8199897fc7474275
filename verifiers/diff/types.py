"""Which reader and which differ belong to a file: one table, by extension, with content deciding where names lie.

A type is a reader (`bytes -> model`, raises `Unreadable`) and a differ (`(before, after) -> list[Finding]`), named as
`module:function` and imported when first used. To add a type, add a line to `TYPES`. A file of an unknown type is
compared as text when it is text, by its hash otherwise. Used by `files.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from envkit.verifiers.diff.finding import Finding

__all__ = ["TYPES", "FileType", "suffix_of", "type_of"]

Reader = Callable[[bytes], Any]
Differ = Callable[[Any, Any], list[Finding]]


@dataclass(frozen=True)
class FileType:
    """A type of file.

    Attributes:
        name: What it is called in messages and reports.
        suffixes: Extensions without dot, lower case.
        reader, differ: `module:function`.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    differ: str

    @cached_property
    def read(self) -> Reader:
        return _named(self.reader)  # type: ignore[no-any-return]

    @cached_property
    def diff(self) -> Differ:
        return _named(self.differ)  # type: ignore[no-any-return]


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_OFFICE, _DIFF = "envkit.office", "envkit.verifiers.diff"

TYPES: tuple[FileType, ...] = (
    FileType(
        "workbook",
        ("xlsx", "xlsm", "xltx", "xltm"),
        f"{_OFFICE}.workbook:read_workbook",
        f"{_DIFF}.workbook:diff_workbook",
    ),
    FileType("table", ("csv", "tsv", "tab"), f"{_OFFICE}.table:read_table", f"{_DIFF}.table:diff_table"),
    FileType(
        "document",
        ("docx", "docm", "dotx", "dotm"),
        f"{_OFFICE}.document:read_document",
        f"{_DIFF}.document:diff_document",
    ),
    FileType("deck", ("pptx", "pptm", "ppsx", "potx"), f"{_OFFICE}.deck:read_deck", f"{_DIFF}.deck:diff_deck"),
    FileType("pdf", ("pdf",), f"{_OFFICE}.pdf:read_pdf", f"{_DIFF}.pdf:diff_pdf"),
    FileType("message", ("eml",), f"{_OFFICE}.mail:read_eml", f"{_DIFF}.mail:diff_message"),
    FileType("mailbox", ("mbox", "mbx"), f"{_OFFICE}.mail:read_mbox", f"{_DIFF}.mail:diff_mailbox"),
    FileType("calendar", ("ics", "ical"), f"{_OFFICE}.calendar:read_calendar_file", f"{_DIFF}.calendar:diff_calendar"),
    FileType("markdown", ("md", "markdown"), f"{_OFFICE}.markdown:read_markdown", f"{_DIFF}.markdown:diff_markdown"),
    FileType("text", ("txt", "text", "log"), f"{_OFFICE}.text:read_text", f"{_DIFF}.text:diff_text"),
    FileType("json", ("json",), f"{_OFFICE}.data:read_json", f"{_DIFF}.data:diff_data"),
    FileType("json lines", ("jsonl", "ndjson"), f"{_OFFICE}.data:read_json_lines", f"{_DIFF}.data:diff_data"),
    FileType("yaml", ("yaml", "yml"), f"{_OFFICE}.data:read_yaml", f"{_DIFF}.data:diff_data"),
    FileType("toml", ("toml",), f"{_OFFICE}.data:read_toml", f"{_DIFF}.data:diff_data"),
    FileType(
        "database",
        ("sqlite", "sqlite3", "db", "db3"),
        f"{_OFFICE}.database:read_database",
        f"{_DIFF}.database:diff_database",
    ),
    FileType(
        "picture",
        ("png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp"),
        f"{_OFFICE}.image:read_image",
        f"{_DIFF}.image:diff_image",
    ),
    FileType(
        "archive", ("zip", "tar", "tgz", "gz"), f"{_OFFICE}.archive:read_archive", f"{_DIFF}.archive:diff_archive"
    ),
    FileType(
        "legacy workbook",
        ("xls", "xlsb", "ods"),
        f"{_OFFICE}.legacy:read_legacy_workbook",
        f"{_DIFF}.workbook:diff_workbook",
    ),
    FileType("doc", ("doc", "dot"), f"{_OFFICE}.legacy:read_doc", f"{_DIFF}.document:diff_document"),
    FileType("odt", ("odt",), f"{_OFFICE}.legacy:read_odt", f"{_DIFF}.document:diff_document"),
    FileType("rtf", ("rtf",), f"{_OFFICE}.legacy:read_rtf", f"{_DIFF}.document:diff_document"),
    FileType("ppt", ("ppt", "pps"), f"{_OFFICE}.legacy:read_ppt", f"{_DIFF}.deck:diff_deck"),
    FileType("odp", ("odp",), f"{_OFFICE}.legacy:read_odp", f"{_DIFF}.deck:diff_deck"),
)


def suffix_of(path: str) -> str:
    """The extension without dot, lower case; "" without one."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return suffix.lower() if dot and stem else ""


def type_of(path: str) -> FileType | None:
    """The type that a file's name promises; None when no type claims it."""
    suffix = suffix_of(path)
    return next((type for type in TYPES if suffix in type.suffixes), None)
