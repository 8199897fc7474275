"""Renderers of office files: each takes plain content and returns bytes that depend on that content alone."""
