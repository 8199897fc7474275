"""The embedded backend: a Hugging Face causal LM as engine (and trainer) in plain PyTorch, on one CPU core or a GPU."""
