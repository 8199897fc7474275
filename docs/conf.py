"""Settings of the documentation site (Sphinx, MyST, furo). `make docs` builds it, with every warning an error."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "envkit"
copyright = "the envkit authors"
extensions = ["myst_parser", "envkit_site"]
root_doc = "README"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_ext"]

# A link or an anchor that leads nowhere is a warning, and warnings are errors.
nitpicky = True
myst_heading_anchors = 4
# The generated tables of plan.md begin at the third level.
suppress_warnings = ["myst.header"]

# Commands and quotes stay as they are typed.
smartquotes = False

html_theme = "furo"
html_title = "envkit"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
