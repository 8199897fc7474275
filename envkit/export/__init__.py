"""Runs as files for other people's tools: ATIF, conversations for imitation, token rows for reinforcement.

    report = export_run(Path("runs/first"), "parquet", Path("rows.parquet"))

`trials` streams what a run folder holds, `licence` says what may be trained on, `conversations` and `tokens` make rows,
`parquet` and `run` write them. A run of thousands of long trials passes through one trial at a time. Used by
`envkit export`.
"""

from __future__ import annotations

from envkit.export.run import FORMATS, ExportOptions, ExportReport, export_run

__all__ = ["FORMATS", "ExportOptions", "ExportReport", "export_run"]
