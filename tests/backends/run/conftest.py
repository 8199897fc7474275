"""Puts this folder's own module (`synthetic_run`) where tests find it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
