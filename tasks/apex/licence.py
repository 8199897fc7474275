"""The terms of the APEX-Agents data, said where it is loaded, and the acknowledgement that training on it asks for.

The published dataset is gated and licensed for evaluation only. Nothing of it comes with us; who has access brings it.
"""

from __future__ import annotations

import os
import warnings

from envkit.failure import UserError

__all__ = ["ACKNOWLEDGED", "TERMS", "TRAINING_VARIABLE", "LicenceNotice", "check_training", "may_train", "state_terms"]

#: The environment variable that holds the acknowledgement, and what it must say.
TRAINING_VARIABLE = "ENVKIT_APEX_TRAINING"
ACKNOWLEDGED = "i-have-the-right-to-train-on-this-data"

TERMS = (
    "APEX-Agents data (mercor/apex-agents) is gated and licensed for evaluation only: no training on it, no crawling, "
    "no redistribution; keep tasks, rubrics and transcripts that quote them to yourself"
)


class LicenceNotice(UserWarning):
    """States the terms of the data that was just loaded."""


def state_terms(where: str) -> None:
    """Warns once per process and place with the terms."""
    warnings.warn(f"{TERMS}. Loaded from {where}", LicenceNotice, stacklevel=3)


def may_train(acknowledgement: str | None) -> bool:
    """Whether somebody said that they may train on the data: by the option, else by the environment variable.

    Raises:
        UserError: They said something else.
    """
    said = acknowledgement if acknowledgement is not None else os.environ.get(TRAINING_VARIABLE, "")
    if said in ("", ACKNOWLEDGED):
        return said == ACKNOWLEDGED
    raise UserError(f"{TRAINING_VARIABLE} must be {ACKNOWLEDGED!r} or unset, found {said!r}. {TERMS}")


def check_training(acknowledgement: str | None) -> None:
    """Raises `UserError` where nobody said so."""
    if not may_train(acknowledgement):
        raise UserError(refusal())


def refusal() -> str:
    """Why the tasks are not for training, and what to do."""
    return (
        f"the apex pack gives no tasks to train on. {TERMS}. If you have an agreement that permits training, say so: "
        f"{TRAINING_VARIABLE}={ACKNOWLEDGED}, or ApexPack(training={ACKNOWLEDGED!r})"
    )
