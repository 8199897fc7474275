"""Replay: the assistant messages of a recorded trial, in order, against a live environment.

The recording is an ATIF trajectory or a trial's folder. What the environment answers is compared with what it answered
then, tool result by tool result; a difference is noted (or, with `strict`, raised), because from there on the messages
answer something the model never saw.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envkit.atif import read_trajectory, to_messages
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.messages import AssistantMessage, Message, Observation, ObservationKind
from envkit.policy.base import PolicyContext
from envkit.policy.options import read_options

__all__ = ["Divergence", "ReplayPolicy", "find_trajectory"]

_SHOWN_CHARS = 500


@dataclass(frozen=True, slots=True)
class Divergence:
    """A tool result that differs from the recorded one.

    Attributes:
        turn: The assistant message that made the call, from 1.
        call: The tool call's id.
        expected, found: The texts from where they begin to differ, shortened; None where there is no such result.
        at: The character at which they begin to differ.
    """

    turn: int
    call: str | None
    expected: str | None
    found: str | None
    at: int = 0


@dataclass(frozen=True, slots=True)
class _Turn:
    message: AssistantMessage
    results: tuple[Message, ...]


class _ReplayOptions(BaseModel):
    """Options of replay.

    Attributes:
        path: A `trajectory.json`, an attempt's or a trial's folder (its last attempt), or a run's (the trial of the
            same task).
        strict: Raise at the first difference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    strict: bool = False


class ReplayPolicy:
    """Says again what was said.

    Attributes:
        divergences: The differences found so far; written to `replay.json` in the policy's logs at the end.

    Raises from `start`:
        UserError: There is no recording at the path, it can't be read, or it holds no assistant message.

    Raises from `act`:
        EnvkitError: POLICY_ERROR: the recording has no further message, or (`strict`) an observation differs.
    """

    name = "replay"

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_ReplayOptions, self.name, options)
        self._turns: list[_Turn] = []
        self._next = 0
        self._source: Path | None = None
        self._logs: Path | None = None
        self.divergences: list[Divergence] = []

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **self._options.model_dump(mode="json")}

    async def start(self, context: PolicyContext) -> None:
        self._logs = context.logs
        if self._source is not None:
            return  # a later step of the task goes on in the same recording
        self._source = find_trajectory(self._options.path, context.task.id)
        self._turns = _turns(to_messages(read_trajectory(self._source), copied=False))
        if not self._turns:
            raise UserError(f"{self._source} holds no message of the agent: there is nothing to replay")

    async def act(self, observation: Observation) -> AssistantMessage:
        if observation.kind is ObservationKind.SIDE:
            return AssistantMessage(text="replay")  # side threads are not part of the recording's main line
        if observation.kind is ObservationKind.APPEND and self._next > 0:
            self._compare(self._turns[self._next - 1].results, observation)
        if self._next >= len(self._turns):
            raise _failed(
                f"{self._source} has {len(self._turns)} messages of the agent and all have been played, but the "
                "session awaits another: the recording was cut short, or the environment behaves differently now"
                + (f" (it differed at {len(self.divergences)} results)" if self.divergences else "")
            )
        turn = self._turns[self._next]
        self._next += 1
        return turn.message

    async def close(self) -> None:
        if self._logs is not None and self._source is not None:
            record = {
                "source": str(self._source),
                "played": self._next,
                "recorded": len(self._turns),
                "divergences": [asdict(divergence) for divergence in self.divergences],
            }
            text = json.dumps(record, ensure_ascii=False, indent=1)
            (self._logs / "replay.json").write_text(text, encoding="utf-8", errors="replace")
        self._logs = None

    def _compare(self, recorded: tuple[Message, ...], observation: Observation) -> None:
        """Notes the differences between recorded and live tool results, matched by call id, else by order."""
        live = [m for m in observation.messages if isinstance(m, Message) and m.role == "tool"]
        by_id = {message.tool_call_id: message for message in live}
        matched = {id(by_id[m.tool_call_id]) for m in recorded if m.tool_call_id in by_id}
        pairs: list[tuple[Message | None, Message | None]] = [(m, by_id.get(m.tool_call_id)) for m in recorded]
        pairs += [(None, m) for m in live if id(m) not in matched]
        for expected, found in pairs:
            if expected is not None and found is not None and expected.content == found.content:
                continue
            divergence = _divergence(self._next, expected, found)
            self.divergences.append(divergence)
            if self._options.strict:
                raise _failed(
                    f"turn {divergence.turn}, call {divergence.call}: the result differs from {self._source} at "
                    f"character {divergence.at}: expected {divergence.expected!r}, found {divergence.found!r}"
                )


def find_trajectory(path: Path, task: str | None = None) -> Path:
    """The trajectory that a path means: itself, or one in an attempt's, a trial's or a run's folder.

    Raises:
        UserError: There is none, or there are several that fit.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise UserError(f"no recording at {path}: expected a trajectory.json or a trial's folder")
    for folder in (path, path / "agent"):
        if (folder / "trajectory.json").is_file():
            return folder / "trajectory.json"
    if (last := _last_attempt(path)) is not None:
        return last
    trials = path / "trials"
    found = [last for trial in sorted(trials.iterdir()) if (last := _last_attempt(trial))] if trials.is_dir() else []
    fitting = [candidate for candidate in found if task is None or _task_of(candidate) == task]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UserError(
            f"{path} holds {len(fitting)} recordings of {task or 'a task'}; name one trial, as in {fitting[0].parent}"
        )
    raise UserError(
        f"no recording {f'of {task} ' if found else ''}in {path}: expected trajectory.json in it, in its last "
        "attempt-N folder, or in those of its trials"
    )


def _last_attempt(trial: Path) -> Path | None:
    numbered = [
        (int(folder.name.removeprefix("attempt-")), folder / "trajectory.json")
        for folder in trial.glob("attempt-*")
        if folder.name.removeprefix("attempt-").isdecimal() and (folder / "trajectory.json").is_file()
    ]
    return max(numbered)[1] if numbered else None


def _task_of(path: Path) -> str | None:
    ours = (read_trajectory(path).extra or {}).get("envkit")
    return ours.get("task") if isinstance(ours, dict) else None


def _turns(messages: list[Message | AssistantMessage]) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            turns.append(_Turn(message, ()))
        elif message.role == "tool" and turns:
            turns[-1] = _Turn(turns[-1].message, (*turns[-1].results, message))
    return turns


def _divergence(turn: int, expected: Message | None, found: Message | None) -> Divergence:
    call = (expected or found or Message(role="tool", content="")).tool_call_id
    if expected is None or found is None:
        shown = [None if m is None else m.content[:_SHOWN_CHARS] for m in (expected, found)]
        return Divergence(turn, call, shown[0], shown[1])
    at = next(
        (i for i, (a, b) in enumerate(zip(expected.content, found.content, strict=False)) if a != b),
        min(len(expected.content), len(found.content)),
    )
    window = slice(at, at + _SHOWN_CHARS)
    return Divergence(turn, call, expected.content[window], found.content[window], at)


def _failed(message: str) -> EnvkitError:
    return EnvkitError(message, kind=FailureKind.POLICY_ERROR, boundary=Boundary.POLICY)
