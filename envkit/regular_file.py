"""Reading files of a folder that somebody else may have written: regular files alone, and of a bounded size.

A run's folder is read by programs of people who got it from elsewhere, and while it grows. A FIFO in the place of a
file would block its reader for ever, a device or a file of holes fill the memory. Here both are an `OSError` at once,
like every other file that can't be read. Used by whatever reads run folders, and by the trace's store.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["NotRegular", "open_regular", "read_regular"]

#: More than any record of ours: a file beyond it is none.
MOST = 256 << 20


class NotRegular(OSError):
    """There is something of this name that is no regular file, or one that is too large to be what it should be."""


def open_regular(path: Path, *, links: bool = True) -> BinaryIO:
    """Opens a regular file for reading; never blocks.

    Args:
        links: Follow a link in the place of the file.

    Raises:
        FileNotFoundError: There is nothing.
        NotRegular: It is a folder, a FIFO, a device, a link that leads nowhere or in a circle (or, told so, any).
        OSError: It can't be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):  # a link, a socket, a device that is not there
            raise NotRegular(error.errno, "is no regular file", str(path)) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(errno.EINVAL, "is no regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int = MOST, *, links: bool = True) -> bytes:
    """The bytes of a regular file.

    Args:
        most: Bytes that are read; a larger file is not read at all.

    Raises:
        OSError: As `open_regular`; `NotRegular` for a file that is too large.
    """
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else file.read(most + 1)
    if size > most or len(data) > most:
        raise NotRegular(
            errno.EFBIG, f"has {max(size, len(data)):,} bytes, more than the {most:,} that are read", str(path)
        )
    return data
