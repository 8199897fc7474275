"""`envkit.harnesses.archipelago`: the Archipelago harness, its office servers, and its gateway."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.harnesses.archipelago.harness import ArchipelagoHarness
    from envkit.harnesses.archipelago.options import ArchipelagoOptions

__all__ = ["ArchipelagoHarness", "ArchipelagoOptions"]


def __getattr__(name: str) -> Any:
    """Names are found when asked for: the servers below import this package, inside the sandbox and in a hurry."""
    if name == "ArchipelagoHarness":
        from envkit.harnesses.archipelago.harness import ArchipelagoHarness

        return ArchipelagoHarness
    if name == "ArchipelagoOptions":
        from envkit.harnesses.archipelago.options import ArchipelagoOptions

        return ArchipelagoOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
