"""What runs against SkyRL itself is collected only where it is installed; `make test-oracle` does so."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("skyrl") and find_spec("torch") else ["test_skyrl.py"]
