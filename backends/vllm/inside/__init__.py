"""What runs inside vLLM's processes, in its own environment; this folder is on their path. Imports nothing of ours."""
