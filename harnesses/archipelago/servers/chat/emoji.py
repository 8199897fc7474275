"""The emoji that people call by short names, as chat programs know them. All others have their Unicode names."""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES = {
    "thumbsup": "\U0001f44d",
    "thumbs_up": "\U0001f44d",
    "+1": "\U0001f44d",
    "like": "\U0001f44d",
    "thumbsdown": "\U0001f44e",
    "thumbs_down": "\U0001f44e",
    "_1": "\U0001f44e",
    "heart": "\u2764\ufe0f",
    "smile": "\U0001f604",
    "joy": "\U0001f602",
    "tada": "\U0001f389",
    "party": "\U0001f389",
    "eyes": "\U0001f440",
    "clap": "\U0001f44f",
    "pray": "\U0001f64f",
    "thanks": "\U0001f64f",
    "ok": "\U0001f44c",
    "ok_hand": "\U0001f44c",
    "check": "\u2705",
    "white_check_mark": "\u2705",
    "x": "\u274c",
    "cross_mark": "\u274c",
    "warning": "\u26a0\ufe0f",
    "rocket": "\U0001f680",
    "fire": "\U0001f525",
    "wave": "\U0001f44b",
    "thinking": "\U0001f914",
    "100": "\U0001f4af",
    "star": "\u2b50",
    "sob": "\U0001f62d",
    "muscle": "\U0001f4aa",
}
