"""Listings, searches, metadata and trees: what is where, always in the same order.

Links are shown as links and never followed out of the root. Names that are not UTF-8 are shown with replacement signs.
"""

from __future__ import annotations

import datetime as dt
import mimetypes
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from envkit.harnesses.archipelago.servers.app import Context, ToolError
from envkit.harnesses.archipelago.servers.filesystem import GetDirectoryTree, GetFileMetadata, ListFiles, SearchFiles
from envkit.harnesses.archipelago.servers.filesystem.globs import matcher

__all__ = ["get_directory_tree", "get_file_metadata", "list_files", "search_files"]

#: Lines of one listing or tree.
_MOST = 2_000


def list_files(arguments: ListFiles, context: Context) -> str:
    folder = _folder(arguments.path, context)
    entries = _entries(folder, context)
    shown = context.shown(folder)
    if not entries:
        return f"{shown} is empty"
    lines = [f"{shown}: {_counted(entries)}"]
    lines += [f"{_name(entry)}{_detail(entry)}" for entry in entries[:_MOST]]
    if len(entries) > _MOST:
        lines.append(f"[{len(entries) - _MOST} more; search_files finds by pattern]")
    return "\n".join(lines)


def search_files(arguments: SearchFiles, context: Context) -> str:
    folder = _folder(arguments.path, context)
    pattern = arguments.pattern.strip()
    if not pattern:
        raise ToolError("search_files: `pattern` is empty; give a glob such as *.xlsx or reports/**/*.pdf")
    matches = matcher(pattern, context.shown(folder))
    found: list[str] = []
    more = 0
    for entry in _below(folder, arguments.recursive, context):
        path = Path(entry.path)
        if not matches(path.relative_to(folder).as_posix()):
            continue
        if len(found) < arguments.max_results:
            found.append(f"{_sound(context.shown(path))}{'/' if entry.is_dir(follow_symlinks=False) else ''}")
        else:
            more += 1
    where = f"below {context.shown(folder)}" if arguments.recursive else f"in {context.shown(folder)}"
    if not found:
        return f"nothing {where} matches {pattern!r}"
    lines = [f"{len(found) + more} found {where} for {pattern!r}", *found]
    if more:
        lines.append(f"[{more} more; raise max_results or narrow the pattern]")
    return "\n".join(lines)


def get_file_metadata(arguments: GetFileMetadata, context: Context) -> str:
    path = context.path(arguments.file_path, must_exist=True)
    found = path.lstat()
    lines = [f"path: {_sound(context.shown(path))}", f"type: {_kind(found.st_mode)}"]
    if context.settings.get("EXPOSE_PHYSICAL_PATHS", "").casefold() in ("1", "true", "yes"):
        lines.append(f"physical path: {_sound(str(path))}")
    if stat.S_ISREG(found.st_mode):
        lines.append(f"size: {found.st_size} bytes ({_size(found.st_size)})")
        lines.append(f"format: {_format(path)}")
    elif stat.S_ISDIR(found.st_mode):
        lines.append(f"entries: {_counted(_entries(path, context))}")
    lines.append(f"modified: {_time(found.st_mtime)}")
    lines.append(f"permissions: {stat.filemode(found.st_mode)}")
    return "\n".join(lines)


def get_directory_tree(arguments: GetDirectoryTree, context: Context) -> str:
    folder = _folder(arguments.path, context)
    lines = [_sound(context.shown(folder))]
    counts = [0, 0]

    def show(place: Path, depth: int, indent: str) -> None:
        entries = _entries(place, context, quiet=True)
        shown = [entry for entry in entries if arguments.include_files or entry.is_dir(follow_symlinks=False)]
        for index, entry in enumerate(shown):
            last = index == len(shown) - 1
            is_folder = entry.is_dir(follow_symlinks=False)
            counts[is_folder] += 1
            if len(lines) >= _MOST:
                continue
            size = ""
            if arguments.show_size and not is_folder:
                size = f" ({_size(entry.stat(follow_symlinks=False).st_size)})"
            lines.append(f"{indent}{'└── ' if last else '├── '}{_name(entry)}{size}")
            if is_folder:
                inner = indent + ("    " if last else "│   ")
                if depth < arguments.max_depth:
                    show(Path(entry.path), depth + 1, inner)
                elif any(os.scandir(entry.path)) if os.access(entry.path, os.R_OK | os.X_OK) else False:
                    lines.append(f"{inner}... (deeper than max_depth={arguments.max_depth})")

    show(folder, 1, "")
    if len(lines) >= _MOST:
        lines.append(f"[cut at {_MOST} lines; look at folders one by one]")
    counted = f"{_plural(counts[1], 'folder')}"
    if arguments.include_files:
        counted += f", {_plural(counts[0], 'file')}"
    return "\n".join([*lines, counted])


# -- parts


def _folder(text: str, context: Context) -> Path:
    path = context.path(text or "/", must_exist=True)
    if not path.is_dir():
        raise ToolError(
            f"{context.shown(path)} is a file, not a folder; {context.shown(path.parent)} is the folder it is in"
        )
    return path


def _entries(folder: Path, context: Context, *, quiet: bool = False) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: (entry.name.casefold(), entry.name))
    except OSError as error:
        if quiet:
            return []
        raise ToolError(f"{context.shown(folder)} can't be listed: {error.strerror}") from error


def _below(folder: Path, recursive: bool, context: Context) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder, context, quiet=True):
        yield entry
        if recursive and entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), True, context)


def _name(entry: os.DirEntry[str]) -> str:
    name = _sound(entry.name)
    return f"{name}/" if entry.is_dir(follow_symlinks=False) else name


def _detail(entry: os.DirEntry[str]) -> str:
    try:
        mode = entry.stat(follow_symlinks=False)
    except OSError:
        return ""
    if stat.S_ISDIR(mode.st_mode):
        return ""
    if stat.S_ISLNK(mode.st_mode):
        return f" -> {_sound(os.readlink(entry.path))}"
    return f"  {_size(mode.st_size)}" if stat.S_ISREG(mode.st_mode) else f"  ({_kind(mode.st_mode)})"


def _counted(entries: list[os.DirEntry[str]]) -> str:
    folders = sum(entry.is_dir(follow_symlinks=False) for entry in entries)
    return f"{_plural(folders, 'folder')}, {_plural(len(entries) - folders, 'file')}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KB", "MB", "GB"):
        value /= 1024
        if value < 1024 or unit == "GB":
            return f"{value:.1f} {unit}"
    raise AssertionError


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"), (stat.S_ISFIFO, "pipe"))
    return next((word for test, word in kinds if test(mode)), "device or socket")


def _format(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "unknown"


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _sound(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
