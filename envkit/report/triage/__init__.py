"""Triage: why trials of a run got little reward, grouped by likely cause, from what the trials recorded.

`triage(folder)` reads results, verdicts, trajectories and lists of changed files, one trial at a time, and gives a
`Triage`; of a training run, those of the rollouts whose files were kept (`training.py`). The causes, their order and
what to do about each are in `causes.py`; the signs by which they are known are in one module per family (`faults`,
`tools`, `model`, `work`), each a function from a `Case` to `Sign`s.
"""

from envkit.report.triage.case import Case, Evidence, Sign
from envkit.report.triage.causes import CAUSES, Cause, Family
from envkit.report.triage.group import Triage, signs_of, triage
from envkit.report.triage.training import Training

__all__ = ["CAUSES", "Case", "Cause", "Evidence", "Family", "Sign", "Training", "Triage", "signs_of", "triage"]
