"""The causes of a low reward: their names, their order, and what to do about each.

A trial may show several. Its primary cause is the first of those with a strong sign, in this order; failing that, the
first with a weak one. A sign is strong where it ended the trial or dominated it, weak where the agent met it and went
on. The order goes from what the model can't help to what it did: a fault of the machine, then tools that did not work,
then how the model spoke, then how it went about its work, then what is wrong with the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["BY_ID", "CAUSES", "Cause", "Family"]


class Family(StrEnum):
    """Whose matter a cause is, first of all."""

    SYSTEM = "system"  # machine, endpoint or judge: no verdict
    ENVIRONMENT = "environment"  # what the agent was given to work with
    MODEL = "model"  # what the model did
    RESULT = "result"  # what was found in its work


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a low reward.

    Attributes:
        blames_task: Whether a task of which every attempt shows this is likely at fault itself.
    """

    id: str
    title: str
    family: Family
    todo: str
    blames_task: bool = False


CAUSES: tuple[Cause, ...] = (
    Cause(
        "system_fault",
        "the trial broke: sandbox, harness, tool server, verifier or time budget",
        Family.SYSTEM,
        "Mend what the message names, then resume the run; `envkit preflight` shows how often it happens.",
        True,
    ),
    Cause(
        "endpoint_fault",
        "the model's endpoint broke or refused",
        Family.SYSTEM,
        "Look at the endpoint's log, its limits and keys; then resume the run.",
    ),
    Cause(
        "judge_down",
        "no verdict, since a judge gave none",
        Family.SYSTEM,
        "Bring the judge back or give it more keys; then `envkit regrade` judges the stored work without running it.",
    ),
    Cause(
        "missing_package",
        "a package or program was missing in the sandbox",
        Family.ENVIRONMENT,
        "Put it into the sandbox's image, or say in the prompt what is there instead.",
        True,
    ),
    Cause(
        "tool_nothing",
        "tools returned nothing",
        Family.ENVIRONMENT,
        "Call the tool with the shown arguments by hand: is the data there, and does the tool say so when it is not?",
        True,
    ),
    Cause(
        "tool_limits",
        "tools ran out of time or memory",
        Family.ENVIRONMENT,
        "Give the sandbox more memory or the tool more time, or tell the model the limit.",
        True,
    ),
    Cause(
        "tool_errors",
        "one tool error after another",
        Family.ENVIRONMENT,
        "Read the commonest error: a tool that breaks is yours to mend; arguments that models get wrong need a better "
        "schema or message.",
        True,
    ),
    Cause(
        "unparsable",
        "tool calls that could not be read",
        Family.MODEL,
        "Check that the endpoint's tool parser is the model's own; if it is, the model needs examples of the format.",
    ),
    Cause(
        "turn_length",
        "a turn was cut at its length limit",
        Family.MODEL,
        "Raise the limit of tokens per turn, or train against long turns; look whether the model repeats itself.",
    ),
    Cause(
        "loop",
        "the same call over and over",
        Family.MODEL,
        "Read what the call is answered: does it say what to do instead? If it does, this is the model's to learn.",
    ),
    Cause(
        "context",
        "the context was full",
        Family.MODEL,
        "Raise the context, shorten tool results, or turn compaction or the context nudge on.",
    ),
    Cause(
        "ran_out",
        "out of turns, tokens or working time",
        Family.MODEL,
        "Look whether the work was going somewhere: raise the limit if it was.",
    ),
    Cause(
        "refused",
        "the model refused",
        Family.MODEL,
        "Read the instruction as a stranger would; reword what sounds harmful.",
    ),
    Cause(
        "gave_up",
        "gave up early: little or no tool use, or it said so itself",
        Family.MODEL,
        "Does the prompt say that files are there and tools are to be used? Otherwise it is the model's to learn.",
    ),
    Cause(
        "file_refused",
        "the verifier could not read a file that was left",
        Family.RESULT,
        "Open the file: if a usual program can, the verifier's reader is to be mended; otherwise the model writes "
        "broken files.",
        True,
    ),
    Cause(
        "wrong_path",
        "the work lies under another name or in another place",
        Family.RESULT,
        "Does the instruction state the path, and the same one as the check? Otherwise it is the model's to learn.",
        True,
    ),
    Cause(
        "not_written",
        "the file that was asked for was never written",
        Family.RESULT,
        "Look at the last turns: did the model only talk about the file, or did writing it fail?",
        True,
    ),
    Cause(
        "judge_only",
        "everything computed passed, only the judge's criteria failed",
        Family.RESULT,
        "Read the judge's reasons: add `examples` to the criteria it gets wrong, and try `envkit check`.",
        True,
    ),
    Cause(
        "near_miss",
        "most criteria passed",
        Family.RESULT,
        "Look at the criteria that fail in many trials: too strict a check, or the one hard step of the task.",
        True,
    ),
    Cause(
        "wrong_result",
        "the work was done and is wrong",
        Family.RESULT,
        "No mechanical reason was found: read a trajectory of it against the criteria that failed.",
        True,
    ),
)

BY_ID = {cause.id: cause for cause in CAUSES}
