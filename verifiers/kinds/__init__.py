"""One module per family of checks, each with judges: functions from a check and a context to a `Finding`.

`judge` finds the judge by the check's kind and imports its module only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from envkit.verifiers.judging import Context, Finding

__all__ = ["JUDGES", "judge"]

#: Kind of check -> module and function of its judge.
JUDGES: dict[str, tuple[str, str]] = {
    "answer": ("envkit.verifiers.kinds.texts", "judge_answer"),
    "text": ("envkit.verifiers.kinds.texts", "judge_text"),
    "pdf": ("envkit.verifiers.kinds.texts", "judge_pdf"),
    "document": ("envkit.verifiers.kinds.document", "judge_document"),
    "deck": ("envkit.verifiers.kinds.deck", "judge_deck"),
    "cell": ("envkit.verifiers.kinds.workbook", "judge_cell"),
    "range": ("envkit.verifiers.kinds.workbook", "judge_range"),
    "sheet": ("envkit.verifiers.kinds.workbook", "judge_sheet"),
    "chart": ("envkit.verifiers.kinds.chart", "judge_chart"),
    "csv": ("envkit.verifiers.kinds.csv_table", "judge_csv"),
    "sql": ("envkit.verifiers.kinds.sql", "judge_sql"),
    "tool_calls": ("envkit.verifiers.kinds.work", "judge_tool_calls"),
    "file": ("envkit.verifiers.kinds.files", "judge_file"),
    "changes": ("envkit.verifiers.kinds.changes", "judge_changes"),
    "unchanged": ("envkit.verifiers.kinds.files", "judge_unchanged"),
    "mail": ("envkit.verifiers.kinds.apps", "judge_mail"),
    "chat": ("envkit.verifiers.kinds.apps", "judge_chat"),
    "calendar": ("envkit.verifiers.kinds.apps", "judge_calendar"),
}


def judge(check: Any, context: Context) -> Finding:
    """Judges one check. Raises `AgentFault`, `ReferenceFault`, `SnapshotError`, `Crowded`, or anything for a fault of
    the judge."""
    module, function = JUDGES[check.kind]
    finding: Finding = getattr(import_module(module), function)(check, context)
    return finding
