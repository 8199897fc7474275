"""vLLM as the engine: an environment of its own, servers started and stopped, spoken to over its own HTTP contract, and
engines for training that take new weights with requests in flight."""

from envkit.backends.vllm.config import VllmEnginesConfig
from envkit.backends.vllm.engines import VllmEngines
from envkit.backends.vllm.install import find_vllm, install
from envkit.backends.vllm.server import VllmServer

__all__ = ["VllmEngines", "VllmEnginesConfig", "VllmServer", "find_vllm", "install"]
