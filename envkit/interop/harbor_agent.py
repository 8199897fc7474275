"""A harness of ours as an agent of Harbor's: `harbor run -a envkit.interop.harbor_agent:EnvkitAgent -m MODEL`.

    harbor run -p TASK -a envkit.interop.harbor_agent:EnvkitAgent -m gpt-5 --ak harness=opencode

The harness works in Harbor's own environment, through our supervisor; the model is asked by our `chat` policy (keys and
address as it takes them), the trajectory is ATIF with what the model saw and wrote, and Harbor's verifier judges. The
context's usage is filled while the agent works, so that a timeout keeps it. A fault of ours is raised, so that Harbor
records it as an error.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent

from envkit import __version__, plugins
from envkit.atif import build_trajectory, write_trajectory
from envkit.deadline import Deadline
from envkit.episode import effective_limits, harness_spec, limits_of
from envkit.failure import EnvkitError
from envkit.harness import FIXED_NOW, SessionContext
from envkit.interop.harbor_sandbox import HarborSandbox
from envkit.messages import AssistantMessage, End, Message, Observation, ToolSpec
from envkit.policy.base import PolicyContext
from envkit.sandbox.base import SandboxSpec
from envkit.task import load_task_dir

__all__ = ["EnvkitAgent"]

_DAY_S = 86_400.0


class EnvkitAgent(BaseAgent):  # type: ignore[misc]
    """See the module.

    Args:
        harness: A registered harness; its options are `harness_options`, a JSON object or its text.
        policy: A registered policy, `chat` by default; its options are `policy_options`.
        limits: Agent limits (`{"max_turns": 50}`), a JSON object or its text.
    """

    def __init__(
        self,
        *args: Any,
        harness: str = "opencode",
        harness_options: Any = None,
        policy: str = "chat",
        policy_options: Any = None,
        limits: Any = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._harness = plugins.construct("harnesses", harness, _table(harness_options))
        options = _table(policy_options)
        if policy == "chat" and self.model_name and "model" not in options:
            options["model"] = self.model_name
        self._policy: Any = plugins.construct("policies", policy, options)
        self._limits = limits_of(_table(limits))

    @staticmethod
    def name() -> str:
        return "envkit"

    def version(self) -> str | None:
        return __version__

    async def setup(self, environment: Any) -> None:
        """Nothing is installed: the supervisor comes when the agent runs."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        task = load_task_dir(_task_of(self.logs_dir, instruction))
        step = task.steps[0]
        where = environment.task_env_config.workdir
        if not where:
            where = (await environment.exec("pwd")).stdout.strip() or "/"
        plain = SandboxSpec(workdir=where)
        spec = harness_spec(self._harness, plain)
        messages: list[Message | AssistantMessage] = []
        tools: tuple[ToolSpec, ...] = ()
        sandbox = HarborSandbox(spec, environment)
        deadline = Deadline.after(_DAY_S, "the agent's time")  # Harbor cancels at its own timeout
        end: End | None = None
        try:
            await sandbox.start()
            about = SessionContext(
                deadline=deadline,
                limits=effective_limits(self._limits, step),
                seed=0,
                training=False,
                vision=bool(getattr(self._policy, "vision", False)),
                now=task.metadata.now or FIXED_NOW,
            )
            session = self._harness.session(task, step, sandbox, about)
            await self._policy.start(
                PolicyContext(
                    task=task, step=step, sandbox=sandbox, harness=self._harness.name, seed=0, attempt=1,
                    deadline=deadline, logs=self.logs_dir,
                )
            )  # fmt: skip
            try:
                found: Observation | End = await session.open()
                while isinstance(found, Observation):
                    messages += found.messages
                    tools = found.tools if found.tools is not None else tools
                    answer = await self._policy.act(found)
                    messages.append(answer)
                    _add(context, answer)
                    found = await session.step(answer)
                end = found
                messages += found.messages
            finally:
                await session.close()
        finally:
            await self._policy.close()
            await sandbox.stop()
            if messages:
                write_trajectory(
                    Path(self.logs_dir) / "trajectory.json",
                    build_trajectory(
                        messages, agent_name="envkit", agent_version=__version__, task=task.id,
                        harness=self._harness.name, model=self.model_name, tools=tools,
                        stop=end.stop if end else None,
                    ),
                )  # fmt: skip
        context.metadata = {"stop": str(end.stop), "final_answer": end.final_answer}
        if end.final_answer is not None:
            await _leave_answer(environment, end.final_answer)


async def _leave_answer(environment: Any, answer: str) -> None:
    """Where a task's own verifier looks for what was answered."""
    text = f"mkdir -p /logs/agent && printf %s {shlex.quote(answer)} >/logs/agent/answer.txt"
    done = await environment.exec(text)
    if done.return_code != 0:
        raise EnvkitError(f"the answer could not be left for the verifier: {done.stderr}")


def _add(context: Any, answer: AssistantMessage) -> None:
    usage = answer.usage
    for name, value in (
        ("n_input_tokens", usage.prompt_tokens),
        ("n_output_tokens", usage.completion_tokens),
        ("n_cache_tokens", usage.cached_tokens),
        ("cost_usd", usage.cost_usd),
    ):
        if value is not None:
            setattr(context, name, (getattr(context, name) or 0) + value)


def _table(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(json.loads(value)) if isinstance(value, str) else dict(value)


def _task_of(logs: Path, instruction: str) -> Path:
    """A task directory for the harness, of the instruction alone: the rest of the task is Harbor's business."""
    folder = Path(logs) / "task"
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text('schema_version = "1.4"\n')
    (folder / "instruction.md").write_text(instruction, encoding="utf-8")
    (folder / "tests" / "test.sh").write_text("exit 0\n")
    return folder
