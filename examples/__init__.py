"""Runnable examples; see docs. Run from the repository root: `python -m examples.tiny.warm_start`."""
