"""Truncation of long results: what the model is shown of a text that is too long, and where the whole of it lies.

Cuts are made at line ends where possible and never inside a character; sizes are UTF-8 bytes. The whole text is saved
*inside* the sandbox, with the agent's own rights, so that the agent can read on with its tools and no path of its own
is ever followed on the host. Used by every harness whose tools can print more than a context holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envkit.deadline import Deadline
    from envkit.sandbox.base import Sandbox

__all__ = ["Cut", "keep_ends", "keep_head", "keep_tail", "save_inside"]

_SAVE = 'mkdir -p -- "${1%/*}" && rm -rf -- "$1" && cat > "$1"'


@dataclass(frozen=True, slots=True)
class Cut:
    """What is shown of a text.

    Attributes:
        text: What is kept.
        is_cut: Whether anything is missing; if not, `text` is the whole text.
        lines: Lines of the whole text; a line break at its end opens no further line.
        size: Bytes of the whole text.
    """

    text: str
    is_cut: bool
    lines: int
    size: int


def _measure(text: str) -> tuple[int, int]:
    lines = text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    return lines, len(text.encode("utf-8", "replace"))


def _whole_or(text: str, max_lines: int, max_bytes: int) -> tuple[Cut, bool]:
    lines, size = _measure(text)
    # A final line break counts as one more line here, as it does in OpenCode: the limit is on pieces between breaks.
    fits = text.count("\n") + 1 <= max_lines and size <= max_bytes
    return Cut(text, not fits, lines, size), fits


def _first_bytes(text: str, room: int) -> str:
    return text.encode("utf-8", "replace")[: max(0, room)].decode("utf-8", "ignore")


def _last_bytes(text: str, room: int) -> str:
    data = text.encode("utf-8", "replace")
    return data[max(0, len(data) - room) :].decode("utf-8", "ignore") if room > 0 else ""


def _take(pieces: list[str], max_lines: int, max_bytes: int) -> tuple[int, int]:
    """How many of the first pieces fit, joined by line breaks, and their bytes."""
    used = taken = 0
    for piece in pieces:
        need = len(piece.encode("utf-8", "replace")) + (1 if taken else 0)
        if taken >= max_lines or used + need > max_bytes:
            break
        used += need
        taken += 1
    return taken, used


def keep_head(text: str, *, max_lines: int, max_bytes: int) -> Cut:
    """The first lines within both limits; of a first line that alone is too long, its first bytes."""
    whole, fits = _whole_or(text, max_lines, max_bytes)
    if fits:
        return whole
    pieces = text.split("\n")
    taken, _ = _take(pieces, max_lines, max_bytes)
    kept = "\n".join(pieces[:taken]) if taken else _first_bytes(pieces[0], max_bytes)
    return Cut(kept, True, whole.lines, whole.size)


def keep_tail(text: str, *, max_lines: int, max_bytes: int) -> Cut:
    """The last lines within both limits; of a last line that alone is too long, its last bytes."""
    whole, fits = _whole_or(text, max_lines, max_bytes)
    if fits:
        return whole
    pieces = text.split("\n")[::-1]
    taken, _ = _take(pieces, max_lines, max_bytes)
    kept = "\n".join(pieces[:taken][::-1]) if taken else _last_bytes(pieces[0], max_bytes)
    return Cut(kept, True, whole.lines, whole.size)


def keep_ends(text: str, *, max_lines: int, max_bytes: int) -> Cut:
    """Head and tail, half of the limits each, with a line between them that says how much is left out."""
    whole, fits = _whole_or(text, max_lines, max_bytes)
    if fits:
        return whole
    head = keep_head(text, max_lines=max(1, max_lines // 2), max_bytes=max(1, max_bytes // 2)).text
    tail = keep_tail(text, max_lines=max(1, max_lines // 2), max_bytes=max(1, max_bytes // 2)).text
    missing = whole.size - len(head.encode("utf-8", "replace")) - len(tail.encode("utf-8", "replace"))
    return Cut(f"{head}\n[... {max(0, missing)} bytes left out ...]\n{tail}", True, whole.lines, whole.size)


async def save_inside(sandbox: Sandbox, path: str, data: bytes, *, deadline: Deadline | None = None) -> bool:
    """Writes `data` to `path` inside the sandbox, parent folders included; an older file there is replaced.

    Returns whether it could be saved: a full disk is the agent's own doing and no fault. Raises what `Sandbox.exec`
    raises.
    """
    result = await sandbox.exec(["sh", "-c", _SAVE, "sh", path], stdin=data, deadline=deadline, timeout_s=60.0)
    return result.ok
