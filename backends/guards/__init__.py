"""Guards before the money is spent: do engines and trainer agree, do weights arrive, is there room?

    verdicts = await check_parts(plan, parts, folder)

Each guard gives one clear line. `envkit train` runs them at its start, few and fast; `envkit train --check` runs them
with more samples, and nothing else. Importing this package imports neither torch nor numpy.
"""

from __future__ import annotations

from typing import Any

from envkit.backends.guards.config import GuardsConfig
from envkit.backends.guards.verdict import Status, Verdict, failed

__all__ = ["GuardsConfig", "Status", "Verdict", "check_parts", "failed"]


def __getattr__(name: str) -> Any:
    if name != "check_parts":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envkit.backends.guards.run import check_parts

    return check_parts
