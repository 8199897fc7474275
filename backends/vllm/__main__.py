"""`python -m envkit.backends.vllm`: makes vLLM's environment and prints its Python."""

from envkit.backends.vllm.install import install

print(install())
