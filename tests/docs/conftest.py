"""Puts the site's modules (docs/_ext) and this folder's `docs_pages` where tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "docs" / "_ext")]
