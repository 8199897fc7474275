"""Paths as the model writes them, and how the outcome of a tool goes back to the host.

Used by every other module in here. A relative path is taken from the working directory and tidied lexically; an
absolute one is left to the kernel as it is, so that `..` behind a symbolic link means what it means to a shell.
"""

from __future__ import annotations

import errno
import os
from typing import Any

#: What the agent's own doing can end in; everything else is a bug of ours and is raised.
_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "this place is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EFBIG: "the file would be larger than a single file may be",
    errno.EISDIR: "it is a folder, not a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "too many symbolic links",
    errno.ETXTBSY: "the file is being executed",
}


def resolve(path: str, cwd: str) -> str:
    """The absolute path that `path` means."""
    return path if os.path.isabs(path) else os.path.normpath(os.path.join(cwd, path))


def show(path: str) -> str:
    """A path as text that any channel can carry; bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def success(text: str, **more: Any) -> dict[str, Any]:
    return dict(more, text=text, error=False)


def failure(text: str, **more: Any) -> dict[str, Any]:
    return dict(more, text=text, error=True)


def os_failure(doing: str, path: str, error: OSError) -> dict[str, Any]:
    """The outcome of an operating system's refusal."""
    reason = _REASONS.get(error.errno or 0) or os.strerror(error.errno or 0)
    return failure(f"Could not {doing} {show(path)}: {reason}.")
