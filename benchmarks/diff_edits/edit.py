"""What the modules of edits are made of: one that changes a file, and what a diff is expected to find then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Change", "Edit", "Expected"]

#: Kinds of findings, and where each is; None for anywhere.
Expected = list[tuple[str, str | None]]
#: A file, edited, and what to expect; None where there is nothing to edit.
Edit = Callable[[bytes], "tuple[bytes, Expected] | None"]
#: Changes a part's root; the kinds of findings to expect, None where there is nothing to edit.
Change = Callable[[Any], "str | list[str] | None"]
