"""What two sets of tasks have in common: `compare` for the pairs that are too much alike; see `pairs` and `words`."""

from __future__ import annotations

from envkit.overlap.pairs import Fingerprint, Overlap, compare, fingerprint, overlaps, similarity
from envkit.overlap.words import shingles

__all__ = ["Fingerprint", "Overlap", "compare", "fingerprint", "overlaps", "shingles", "similarity"]
