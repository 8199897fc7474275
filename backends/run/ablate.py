"""`envkit ablate`: arms of one plan at equal budget and seeds, and the table of what they came to, with intervals."""

from __future__ import annotations

import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    raise NotImplementedError


def run(args: argparse.Namespace) -> int:
    raise NotImplementedError
