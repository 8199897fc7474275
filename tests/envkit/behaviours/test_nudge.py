"""The context nudge: due once, at its share, and never without a count."""

import pytest

from envkit.behaviours.nudge import ContextNudge
from envkit.messages import Usage


def _used(tokens: int | None, limit: int | None = 1000) -> Usage:
    return Usage(context_tokens=tokens, context_limit=limit)


def test_it_is_due_once_at_its_share_and_latched() -> None:
    nudge = ContextNudge(0.8, "{percent}% used")
    assert nudge.due(_used(799)) is None
    assert nudge.due(_used(800)) == "80% used"
    assert nudge.due(_used(990)) is None
    assert nudge.due(_used(10)) is None
    assert nudge.due(_used(900)) is None
    assert nudge.given


def test_without_a_count_it_is_never_due() -> None:
    nudge = ContextNudge(0.5)
    assert nudge.due(_used(None)) is None
    assert nudge.due(_used(900, None)) is None
    assert not nudge.given


@pytest.mark.parametrize("share", [0, -1, 1.1])
def test_a_share_that_makes_no_sense_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        ContextNudge(share)
