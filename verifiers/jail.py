"""The confined child in which checks are judged: `envkit.office.jail`, under the name that this wing uses."""

from envkit.office.jail import OUT_OF_MEMORY, Ended, Jail, Limits, warm

__all__ = ["OUT_OF_MEMORY", "Ended", "Jail", "Limits", "warm"]
