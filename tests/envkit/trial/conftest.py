"""Puts the plug-ins of these tests where `module:Class` finds them, here and in the fork server."""

from __future__ import annotations

import sys
from pathlib import Path

PLUGINS = str(Path(__file__).parent / "plugins")
if PLUGINS not in sys.path:
    sys.path.append(PLUGINS)
