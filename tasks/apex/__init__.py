"""The apex task pack: APEX-Agents tasks from the user's own copy of the gated dataset. See docs/apex.md."""

from envkit.tasks.apex.pack import ApexPack

__all__ = ["ApexPack"]
