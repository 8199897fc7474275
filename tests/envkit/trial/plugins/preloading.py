"""Two plug-ins of one module that has something to do before the first fork."""

from __future__ import annotations

calls = 0


def preload() -> None:
    global calls
    calls += 1


class First:
    pass


class Second:
    pass
