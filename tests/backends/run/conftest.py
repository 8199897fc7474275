"""Puts this folder's own module (`synthetic_run`) where tests find it. Real training needs torch: `make test-torch`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

collect_ignore = [] if find_spec("torch") and find_spec("transformers") else ["test_whole_way.py"]
