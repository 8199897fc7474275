"""These tests need the `torch` extra beside vLLM's own environment; `make test-vllm` makes both and runs them."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["*"]
