"""Puts what these tests share (`virtual_runs`) where they find it by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
