"""The context nudge: once, when a given share of the context is used, the model is told to come to an end.

Latched: it is due at most once in an episode, whatever happens to the context afterwards, so that the same episode
replayed gives the same messages. It counts template tokens, as the policy reports them in `Usage`; without a report it
is never due. Training only (harnesses leave it off otherwise), since in an evaluation it would be help.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from envkit.messages import Usage

__all__ = ["DEFAULT_NUDGE", "ContextNudge", "NudgeOptions"]

#: `{percent}` is what is used, a whole number.
DEFAULT_NUDGE = (
    "[Note: {percent}% of your context is used. Finish the most important work now, make sure that every file you were "
    "asked for is saved, and then give your final answer.]"
)


class NudgeOptions(BaseModel):
    """The context nudge as a user sets it, in a harness's options; given in training only.

    Attributes:
        enabled: Whether it is given at all.
        share: The share of the context from which it is due.
        text: What the model is told; `{percent}` is the share in use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    share: float = Field(default=0.8, gt=0, le=1)
    text: str = DEFAULT_NUDGE


class ContextNudge:
    """Says once when a share of the context is used.

    Args:
        share: The share of the context, above 0 and at most 1, from which the nudge is due.
        text: What the model is told; `{percent}` is replaced by the share in use.
    """

    def __init__(self, share: float, text: str = DEFAULT_NUDGE) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, found {share}")
        self._share = share
        self._text = text
        self._given = False

    @property
    def given(self) -> bool:
        """Whether it was given already."""
        return self._given

    def due(self, usage: Usage) -> str | None:
        """The text to add to the last tool message, the first time the share is reached; None otherwise."""
        if self._given or not usage.context_tokens or not usage.context_limit:
            return None
        used = usage.context_tokens / usage.context_limit
        if used < self._share:
            return None
        self._given = True
        return self._text.replace("{percent}", str(min(100, int(used * 100))))
