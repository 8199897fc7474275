"""The docs app: Word documents read and edited in place.

Declares the fifteen published tools and the `docs` meta tool; nothing here loads an XML library. `places.py` says what
identifiers name, `reading.py` shows them beside the content, `edited.py` changes parts of the package and leaves all
others as they are. Used by the server process.
"""

from __future__ import annotations

from envkit.harnesses.archipelago.servers.docs.declared import APP

__all__ = ["APP"]
