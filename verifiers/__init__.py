"""Verifiers: typed checks on the files and the answer that an agent leaves, and task scripts.

`ChecksVerifier` judges by `tests/verifier.toml` (`schema.py` is the reference), `ScriptVerifier` runs
`tests/test.sh`; `portable.py` packs the typed checks so that they run inside a task's container. Importing this
package is cheap; `preload()` imports the parsers, for a server that forks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.verifiers.checks_verifier import ChecksVerifier
    from envkit.verifiers.schema import Checks, load_checks, parse_checks
    from envkit.verifiers.script_verifier import ScriptVerifier

__all__ = ["Checks", "ChecksVerifier", "ScriptVerifier", "load_checks", "parse_checks", "preload"]

_HOMES = {
    "Checks": "schema",
    "ChecksVerifier": "checks_verifier",
    "ScriptVerifier": "script_verifier",
    "load_checks": "schema",
    "parse_checks": "schema",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"envkit.verifiers.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def preload() -> None:
    """Imports everything that judging needs, so that forked processes don't pay for it. Starts no thread:
    the recalculation engine, which would, is imported by the process that uses it."""
    from importlib import import_module

    from envkit.verifiers.jail import warm
    from envkit.verifiers.kinds import JUDGES

    warm()
    for module, _ in JUDGES.values():
        import_module(module)
    for module in (
        "envkit.verifiers.checks_verifier",
        "envkit.verifiers.script_verifier",
        "pypdfium2.raw",
        "encodings.cp437",  # names of zip members
    ):
        import_module(module)
