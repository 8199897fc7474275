"""Which tasks of a run may be trained on: the gate before every export that somebody trains from.

A task says its terms in `[metadata] licence` of its task.toml. Terms that allow evaluation only (unless the pack puts
the task into its training split, which it does where its owner has a right of their own), and tasks that are not there
to be asked (their pack or folder is missing), are refused unless the caller says that they may be used: a licence that
nobody read is no permission. Held-out tasks (`split = "eval"`) are told, since a model trained on them can't be
measured by them any more.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from envkit import registry
from envkit.failure import EnvkitError, UserError

__all__ = ["Terms", "check_licences", "terms_of"]

_EVALUATION_ONLY = re.compile(
    r"(?i)evaluation[\s-]+only|only\s+(for\s+)?evaluation|\b(no|not|never)\b[\s\w]{0,20}\btrain"
)


@dataclass(slots=True)
class Terms:
    """What the tasks of a run allow.

    Attributes:
        refused: Tasks for evaluation only, each with its terms.
        unknown: Tasks that can't be asked, each with the reason.
        held_out: Tasks of a split that is kept for evaluation.
    """

    refused: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    held_out: list[str] = field(default_factory=list)


def terms_of(tasks: Iterable[str]) -> Terms:
    """Asks every task, each once."""
    found = Terms()
    for id in sorted(set(tasks)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a pack states its terms when it is read; so do we
                metadata = registry.load_task(id).config.metadata
        except (EnvkitError, OSError) as error:
            found.unknown[id] = str(error).splitlines()[0]
            continue
        licence = (metadata.model_extra or {}).get("licence") or (metadata.model_extra or {}).get("license")
        split = metadata.envkit.split if metadata.envkit is not None else None
        if isinstance(licence, str) and _EVALUATION_ONLY.search(licence) and split != "train":
            found.refused[id] = licence
        elif split == "eval":
            found.held_out.append(id)
    return found


def check_licences(tasks: Iterable[str], *, permitted: bool) -> Terms:
    """Raises `UserError` for tasks that may not be trained on, unless `permitted`; returns what was found."""
    found = terms_of(tasks)
    if permitted or not (found.refused or found.unknown):
        return found
    if found.refused:
        id, terms = next(iter(found.refused.items()))
        what = f"{len(found.refused)} tasks of this run are licensed for evaluation only, the first {id}: {terms}"
    else:
        id, why = next(iter(found.unknown.items()))
        what = f"the licences of {len(found.unknown)} tasks of this run can't be read, the first {id}: {why}"
    raise UserError(
        f"nothing was exported: {what}. If you may train on them, say so with --may-train; "
        "`--format atif` exports trajectories for looking at"
    )
