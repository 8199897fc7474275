"""The office pack; see `pack.py`."""

from envkit.tasks.office.pack import OfficePack

__all__ = ["OfficePack"]
