"""Why an office file could not be read, as a closed set. Raised by every reader of `envkit.office`."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Problem", "Unreadable"]


class Problem(StrEnum):
    """What is wrong with a file."""

    MISSING = "missing"  # there is no such file
    NOT_A_FILE = "not a regular file"  # a folder, a link that leads nowhere or out, a device
    EMPTY = "empty"  # zero bytes
    TOO_BIG = "too big"  # beyond the reader's limits, packed or unpacked
    NOT_THIS_FORMAT = "not this format"  # the content is something else
    ENCRYPTED = "encrypted"  # it needs a password
    CORRUPT = "corrupt"  # it is of the format, but broken
    TIMEOUT = "too slow to read"  # its parser ran past the time it may take
    PARSER_CRASH = "a file that breaks its parser"  # the parser died, or raised what parsers should not
    UNSUPPORTED = "unsupported"  # sound, but of a kind that is not read (legacy formats)


class Unreadable(Exception):
    """A file that can't be read. `problem` says why; the message is a whole sentence without the file's name."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem
