"""The oracle: plays a task's own solution. What it scores says whether the task can be solved as its author means.

Where the solution has scripted tool calls for the harness (`solution/<harness>.json`), they are played turn by turn
through the harness, so that tools, limits and observations are exercised too; a tool result that is an error does not
stop them. Otherwise `solution/solve.sh` runs inside the sandbox, by itself and not as a tool call, and what it leaves
in /logs/agent/answer.txt is the final answer. Nothing of the solution is left in the sandbox once the oracle has
answered.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from envkit.failure import EnvkitError, FailureKind
from envkit.messages import AssistantMessage, Observation, ObservationKind
from envkit.policy.base import PolicyContext
from envkit.policy.options import read_options
from envkit.policy.solution import broken, pack, read_script
from envkit.sandbox.base import ExecResult
from envkit.scrub import MIN_SECRET_CHARS, Scrubber
from envkit.task import resolve_env

__all__ = ["OraclePolicy"]

ANSWER = "/logs/agent/answer.txt"
_OUTPUT_BYTES = 64 << 10
_SHOWN_CHARS = 4000
_MAX_ANSWER_BYTES = 4 << 20

#: One command, so that an earlier step's answer can never stand for this one's.
_RUN = "mkdir -p /logs/agent && rm -f /logs/agent/answer.txt && exec bash /solution/solve.sh"
_CLEAR = "rm -rf /solution/* /solution/.[!.]* /solution/..?* /logs/agent/answer.txt"


class _OracleOptions(BaseModel):
    """Options of the oracle.

    Attributes:
        play: `calls` or `script` insist on one form of the solution; `auto` prefers calls.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    play: Literal["auto", "calls", "script"] = "auto"


class OraclePolicy:
    """Plays the solution of each step of a task.

    Raises from `act`:
        EnvkitError: SOLUTION_FAILED at the policy's boundary: there is no solution, its script can't be read, or
            `solve.sh` failed; with the tail of its output.
        DeadlineExceeded: `solve.sh` ran into the deadline and was killed.
    """

    name = "oracle"

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_OracleOptions, self.name, options)
        self._context: PolicyContext | None = None
        self._turns: list[AssistantMessage] | None = None
        self._uploaded = False

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **self._options.model_dump()}

    async def start(self, context: PolicyContext) -> None:
        self._context, self._turns, self._uploaded = context, None, False

    async def act(self, observation: Observation) -> AssistantMessage:
        if observation.kind is ObservationKind.SIDE:
            return AssistantMessage(text="solution")  # a title or a summary; nothing of the solution belongs there
        context = self._context
        if context is None:
            raise RuntimeError("OraclePolicy.act was called before start")
        if self._turns is None:
            self._turns = await self._prepare(context)
        message = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        if len(self._turns) == 1 and not message.tool_calls and self._uploaded:
            await self._clear(context)
        return message

    async def close(self) -> None:
        self._context = None

    async def _prepare(self, context: PolicyContext) -> list[AssistantMessage]:
        step = f"step {context.step.name!r} of {context.task.id}" if context.step.name else context.task.id
        folder = context.step.solution_dir
        if folder is None:
            raise broken(f"{step} has no solution folder; the oracle needs solution/solve.sh")
        calls, script = folder / f"{context.harness}.json", folder / "solve.sh"
        if not calls.is_file() and context.harness.endswith("-cli"):
            # A real agent program has the tools of the harness that is written after it.
            calls = folder / f"{context.harness.removesuffix('-cli')}.json"
        play = self._options.play
        if play == "calls" or (play == "auto" and calls.is_file()):
            if not calls.is_file():
                raise broken(f"{step} has no scripted calls for this harness; expected {calls}")
            scripted = read_script(calls)
            if scripted.mentions("/solution"):
                # The script of calls stays out: a tool that lists the folder must not show it.
                await self._upload(context, skip=(calls.name, script.name))
            return scripted.messages()
        if not script.is_file():
            raise broken(f"{step} can't be solved: expected {script} (or {calls.name} beside it), found neither")
        return [AssistantMessage(text=await self._solve(context, step))]

    async def _upload(self, context: PolicyContext, skip: tuple[str, ...] = ()) -> None:
        assert context.step.solution_dir is not None
        self._uploaded = True
        await context.sandbox.upload(pack(context.step.solution_dir, skip=skip), "/")

    async def _solve(self, context: PolicyContext, step: str) -> str:
        sandbox = context.sandbox
        env = resolve_env(context.task.config.solution.env, os.environ, where=f"[solution.env] of {context.task.id}")
        await self._upload(context)
        result = await sandbox.exec(
            ["bash", "-c", _RUN],
            cwd=sandbox.spec.workdir,
            env=env,
            deadline=context.deadline,
            output_cap=_OUTPUT_BYTES,
            keep="tail",
            merge_stderr=True,
        )
        scrubber = Scrubber(value for value in env.secret_values if len(value) >= MIN_SECRET_CHARS)
        output = scrubber.scrub_bytes(result.stdout)
        if context.logs is not None:
            (context.logs / "solution.log").write_bytes(output)
        if not result.ok:
            raise broken(f"solve.sh of {step} failed: {_why(result)}\n{_tail(output)}".rstrip())
        try:
            answer = await sandbox.download(ANSWER, max_bytes=_MAX_ANSWER_BYTES)
        except FileNotFoundError:
            return ""
        except IsADirectoryError:
            raise broken(f"solve.sh of {step} made {ANSWER} a folder; expected a text file") from None
        except EnvkitError as error:
            if error.kind is not FailureKind.SANDBOX_ERROR:  # that one: a pipe, say, or too large
                raise
            raise broken(f"solve.sh of {step} left no answer that can be read: {error}") from error
        try:
            return answer.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise broken(f"{ANSWER} of {step} is not UTF-8: {error}") from error

    async def _clear(self, context: PolicyContext) -> None:
        """Removes the solution from the sandbox before anybody can observe it."""
        self._uploaded = False
        result = await context.sandbox.exec(["bash", "-c", _CLEAR], deadline=context.deadline, merge_stderr=True)
        if not result.ok:
            raise broken(f"/solution could not be emptied: {_why(result)}\n{_tail(result.stdout)}".rstrip())


def _why(result: ExecResult) -> str:
    if result.timed_out:
        return "it ran out of time"
    if result.exit_code is not None and result.exit_code < 0:
        return f"signal {-result.exit_code} ended it" + (" (out of memory)" if result.oom_killed else "")
    return f"exit code {result.exit_code}" + (
        ", and the memory limit killed a process of it" if result.oom_killed else ""
    )


def _tail(output: bytes) -> str:
    text = output.decode("utf-8", "replace").strip()
    return f"...{text[-_SHOWN_CHARS:]}" if len(text) > _SHOWN_CHARS else text
