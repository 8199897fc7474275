"""What the run knows of its groups: a plain state and the events that change it.

Every change goes through `apply`, live and when the journal is read back, so that a resumed run knows exactly what the
one before knew. A group is `running` from the start of its first rollout, `ready` once it waits to be trained,
`consumed` by a step, and gone when it was dropped or when a durable policy checkpoint covers its step. Pure: no clock,
no files. Used by the buffer, and read by the rest of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from envkit.failure import FailureKind

__all__ = ["GroupState", "RunState", "Stored", "group_id"]

SCHEMA = 1

Phase = Literal["running", "ready", "consumed"]


def group_id(ordinal: int) -> str:
    return f"g{ordinal:07d}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A finished rollout in the buffer.

    Attributes:
        digest: Of its object (`codec`).
        context_tokens: Of the rollout; what the mean trajectory length is taken from.
    """

    digest: str
    context_tokens: int


@dataclass(slots=True)
class GroupState:
    """One group.

    Attributes:
        ordinal: Place in the order of the data, from 0; groups begin in this order.
        started_step: The version being trained when it began.
        done: Finished rollouts by slot.
        tries: Failures so far, by slot and kind; each was tried again.
        step: That consumed it.
    """

    ordinal: int
    task: str
    started_step: int
    phase: Phase = "running"
    done: dict[int, Stored] = field(default_factory=dict)
    tries: dict[int, dict[FailureKind, int]] = field(default_factory=dict)
    step: int | None = None

    @property
    def id(self) -> str:
        return group_id(self.ordinal)

    def tried(self, slot: int) -> int:
        """Attempts at a slot that failed."""
        return sum(self.tries.get(slot, {}).values())


class RunState:
    """All groups that are not done with, and where the run is."""

    def __init__(self) -> None:
        self.fingerprint: dict[str, Any] | None = None  # of what a resume may not change
        self.groups: dict[int, GroupState] = {}  # in order of their ordinals
        self.steps: dict[int, list[int]] = {}  # consumed, not yet covered: ordinals by step
        self.covered = 0  # newest step that a durable policy checkpoint covers
        self.next_ordinal = 0
        self.dropped = 0
        self.evaluated: list[int] = []  # steps after which an evaluation was completed, beyond the covered ones

    @property
    def consumed(self) -> int:
        """The newest step whose groups are known; the trainer may be behind it after a crash."""
        return max(self.steps, default=self.covered)

    def apply(self, event: dict[str, Any]) -> list[GroupState]:
        """Changes the state; returns the groups whose rollouts are needed no more.

        Raises:
            KeyError, ValueError: The event does not fit the state (a journal that is not ours).
        """
        kind = event["e"]
        if kind == "begin":
            ordinal = event["g"]
            if ordinal != self.next_ordinal:
                raise ValueError(f"group {ordinal} begins where {self.next_ordinal} is next")
            self.groups[ordinal] = GroupState(ordinal, event["t"], event["s"])
            self.next_ordinal += 1
        elif kind == "done":
            self.groups[event["g"]].done[event["a"]] = Stored(event["d"], event["c"])
        elif kind == "retry":
            kinds = self.groups[event["g"]].tries.setdefault(event["a"], {})
            failure = FailureKind(event["k"])
            kinds[failure] = kinds.get(failure, 0) + 1
        elif kind == "ready":
            self.groups[event["g"]].phase = "ready"
        elif kind == "drop":
            self.dropped += 1
            return [self.groups.pop(event["g"])]
        elif kind == "step":
            step = event["n"]
            if step != self.consumed + 1:
                raise ValueError(f"step {step} follows {self.consumed}")
            for ordinal in event["g"]:
                group = self.groups[ordinal]
                group.phase, group.step = "consumed", step
            self.steps[step] = list(event["g"])
        elif kind == "covered":
            return self._cover(event["n"])
        elif kind == "restart":
            gone = list(self.groups.values())
            self.groups, self.steps = {}, {}
            self.covered = event["n"]
            self.next_ordinal = max(self.next_ordinal, event["g"])
            return gone
        elif kind == "evaluated":
            self.evaluated.append(event["n"])
        elif kind == "fingerprint":
            self.fingerprint = event["f"]
        else:
            raise ValueError(f"unknown event {kind!r}")
        return []

    def _cover(self, step: int) -> list[GroupState]:
        gone: list[GroupState] = []
        for covered in [s for s in self.steps if s <= step]:
            gone += [self.groups.pop(ordinal) for ordinal in self.steps.pop(covered)]
        self.covered = max(self.covered, step)
        self.evaluated = [s for s in self.evaluated if s >= step]
        return gone

    # -- as JSON ------------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Everything, as plain JSON."""
        return {
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "covered": self.covered,
            "next": self.next_ordinal,
            "dropped": self.dropped,
            "evaluated": self.evaluated,
            "steps": [[step, ordinals] for step, ordinals in self.steps.items()],
            "groups": [
                [
                    group.ordinal,
                    group.task,
                    group.started_step,
                    group.phase,
                    [[slot, one.digest, one.context_tokens] for slot, one in group.done.items()],
                    [[slot, kind.value, n] for slot, kinds in group.tries.items() for kind, n in kinds.items()],
                ]
                for group in self.groups.values()
            ],
        }

    @classmethod
    def load(cls, value: dict[str, Any]) -> RunState:
        """The state that `dump` gave. Raises `KeyError`, `ValueError` or `TypeError` for anything else."""
        if value["schema"] != SCHEMA:
            raise ValueError(f"a state of schema {value['schema']}; this envkit reads {SCHEMA}")
        state = cls()
        state.fingerprint = value["fingerprint"]
        state.covered = value["covered"]
        state.next_ordinal = value["next"]
        state.dropped = value["dropped"]
        state.evaluated = list(value["evaluated"])
        state.steps = {step: list(ordinals) for step, ordinals in value["steps"]}
        for ordinal, task, started, phase, done, tries in value["groups"]:
            group = GroupState(ordinal, task, started, phase)
            group.done = {slot: Stored(digest, context) for slot, digest, context in done}
            for slot, kind, n in tries:
                group.tries.setdefault(slot, {})[FailureKind(kind)] = n
            state.groups[ordinal] = group
        for step, ordinals in state.steps.items():
            for ordinal in ordinals:
                state.groups[ordinal].step = step
        return state
