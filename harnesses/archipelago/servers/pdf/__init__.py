"""The pdf app: create, read, render and search PDFs.

Declares the five published tools and the `pdf` meta tool; nothing here loads a PDF library. `blocks.py` holds what a
new PDF is made of, `reading.py`, `searching.py` and `creating.py` (with `fonts.py`) the handlers. Used by the server
process.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.pdf.declared import APP

__all__ = ["APP"]
