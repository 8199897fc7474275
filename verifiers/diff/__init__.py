"""The typed diff: what changed between two files, folders or snapshots, as findings with addresses.

    findings = diff_bytes("report.xlsx", before, after)
    findings = diff_snapshots(initial, final)

One module per type compares two canonical models of `envkit.office`; noise (run splitting, ids, zip order, float
formatting, timestamps) is no finding, an inserted row or paragraph is one finding, and `diff(b, a)` mirrors
`diff(a, b)`.
"""

from __future__ import annotations

from envkit.verifiers.diff.files import diff_bytes
from envkit.verifiers.diff.finding import Change, Finding
from envkit.verifiers.diff.trees import diff_folders, diff_paths, diff_snapshots

__all__ = ["Change", "Finding", "diff_bytes", "diff_folders", "diff_paths", "diff_snapshots"]
