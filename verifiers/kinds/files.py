"""Judges of files as such: there or not, sound, changed or not."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

from envkit.office.calendar import read_calendar
from envkit.office.deck import read_deck
from envkit.office.document import read_document
from envkit.office.mail import read_mbox
from envkit.office.pdf import read_pdf
from envkit.office.problem import Problem, Unreadable
from envkit.office.table import decode_text, read_table
from envkit.office.workbook import read_workbook
from envkit.verifiers.judging import AgentFault, Context, Finding, ReferenceFault
from envkit.verifiers.kinds.tables import count_misses
from envkit.verifiers.patterns import matches
from envkit.verifiers.phrases import Miss
from envkit.verifiers.schema import FileCheck, UnchangedCheck

__all__ = ["judge_file", "judge_unchanged"]


def _read_json(data: bytes) -> Any:
    try:
        return json.loads(decode_text(data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is not valid JSON: {error}") from error


def _read_toml(data: bytes) -> Any:
    try:
        return tomllib.loads(decode_text(data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is not valid TOML: {error}") from error


def _magic(start: bytes, what: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> None:
        if not data:
            raise Unreadable(Problem.EMPTY, "it has 0 bytes")
        if not data.startswith(start):
            raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no {what}: the content begins with {data[:8]!r}")

    return read


#: What must be able to read a file of an extension. Other extensions are not looked into.
READERS: dict[str, Callable[[bytes], Any]] = {
    "xlsx": read_workbook, "xlsm": read_workbook, "docx": read_document, "pptx": read_deck, "pdf": read_pdf,
    "csv": read_table, "tsv": read_table, "json": _read_json, "toml": _read_toml, "ics": read_calendar,
    "mbox": read_mbox, "txt": decode_text, "md": decode_text, "html": decode_text, "xml": decode_text,
    "png": _magic(b"\x89PNG\r\n", "PNG picture"), "jpg": _magic(b"\xff\xd8\xff", "JPEG picture"),
    "jpeg": _magic(b"\xff\xd8\xff", "JPEG picture"), "zip": _magic(b"PK", "zip archive"),
}  # fmt: skip


def _exists(context: Context, path: str) -> bool:
    try:
        context.final.find(path)
    except Unreadable as error:
        return error.problem is not Problem.MISSING
    return True


def _initial_digest(context: Context, path: str) -> str | None:
    try:
        return context.reference.digest(path)
    except Unreadable:
        return None


def judge_file(check: FileCheck, context: Context) -> Finding:
    where = "/" + check.path
    if not check.exists:
        there = _exists(context, check.path)
        return Finding([Miss("no such file", where, f"{where} must not exist", where)] if there else (), where=where)
    size = context.find(check.path).size
    misses = count_misses(size, "bytes", None, check.min_bytes, check.max_bytes, where)
    extension = check.path.rpartition(".")[2].lower()
    if check.valid and extension in READERS:
        context.load(check.path, READERS[extension])
    if check.unchanged or check.changed:
        before, after = _initial_digest(context, check.path), context.digest(check.path)
        if check.unchanged and before is None:
            raise ReferenceFault(f"{where} must be unchanged, but the initial state has no such file")
        if check.unchanged and before != after:
            misses.append(Miss("unchanged", "changed", f"{where} must not be changed", where))
        if check.changed and before == after:
            misses.append(Miss("changed", "unchanged", f"{where} is as it was at the start", where))
    if check.same_as is not None:
        original = _initial_digest(context, check.same_as)
        if original is None:
            raise ReferenceFault(f"same_as: the initial state has no file /{check.same_as}")
        if original != context.digest(check.path):
            misses.append(Miss(f"a copy of /{check.same_as}", "other content", f"{where} is no exact copy", where))
    return Finding(misses, actual=f"{size} bytes", where=where)


def judge_unchanged(check: UnchangedCheck, context: Context) -> Finding:
    def chosen(path: str) -> bool:
        return matches(path, check.paths) and not matches(path, check.except_)

    before = [p for p in context.reference.paths() if chosen(p)]
    if not before:
        raise ReferenceFault(f"no file of the initial state matches {', '.join(check.paths)}")
    misses: list[Miss] = []
    for path in before:
        original = _initial_digest(context, path)
        if original is None:
            continue  # a link of the initial state that leads nowhere
        try:
            same = context.digest(path) == original
        except AgentFault as fault:
            misses.append(Miss("unchanged", "gone or unreadable", str(fault), "/" + path))
            continue
        found = "it was saved anew"
        if not same and check.compare == "meaning":
            # Imported when needed: most checks compare bytes.
            from envkit.verifiers.kinds.changes import differences, told

            changes = differences(context, path, path)
            same, found = not changes, "; ".join(map(told, changes[:3]))
        if not same:
            misses.append(Miss("unchanged", found[:200], f"/{path} was changed: {found}"[:400], "/" + path))
    if not check.allow_new:
        known = set(before)
        for path in context.final.paths():
            if chosen(path) and path not in known:
                misses.append(Miss("no new files", "/" + path, f"/{path} is new", "/" + path))
    return Finding(misses, actual=f"{len(before)} files as they were")
