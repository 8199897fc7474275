"""vLLM as the engine: an environment of its own, servers started and stopped, spoken to over its own HTTP contract."""

from envkit.backends.vllm.install import find_vllm, install
from envkit.backends.vllm.server import VllmServer

__all__ = ["VllmServer", "find_vllm", "install"]
