"""The embedded engine: a Hugging Face causal LM that serves token ids over the same HTTP contract as vLLM."""

from __future__ import annotations

from envkit.backends.torch.engine.loop import Done, Request, TokenLoop
from envkit.backends.torch.engine.server import EngineServer

__all__ = ["Done", "EngineServer", "Request", "TokenLoop"]
