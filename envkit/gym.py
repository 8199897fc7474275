"""The synchronous face of `AsyncEnv`: a `gymnasium.Env`.

Observations and actions are envkit's own (`Observation`, `AssistantMessage`), so the spaces below describe them rather
than shape them. Importing this module registers one Gymnasium id per task pack, never one per task (Gymnasium's
registry is quadratic in its ids): `gymnasium.make("envkit.gym:office/Task-v0", task="q3-revenue-memo")`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from envkit import loop, plugins
from envkit.env import AsyncEnv
from envkit.failure import UserError
from envkit.harness import Harness
from envkit.making import make_async
from envkit.messages import AssistantMessage, Message, Observation
from envkit.sandbox.base import SandboxProvider

__all__ = ["ActionSpace", "Env", "ObservationSpace", "make", "make_vec", "register_pack", "spec_id"]


class ActionSpace(gymnasium.Space[Any]):
    """An assistant message, its dict, or a plain string (text without tool calls)."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> AssistantMessage:
        """A short answer without tool calls: the only action that is legal under every harness."""
        return AssistantMessage(text=f"sample {int(self.np_random.integers(1 << 30))}")

    def contains(self, x: Any) -> bool:
        try:
            AssistantMessage.coerce(x)
        except UserError:
            return False
        return True

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ActionSpace()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace)

    __hash__ = None  # type: ignore[assignment]


class ObservationSpace(gymnasium.Space[Any]):
    """An `Observation`; at the end of an episode one without messages."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> Observation:
        return Observation(messages=(Message(role="user", content=f"sample {int(self.np_random.integers(1 << 30))}"),))

    def contains(self, x: Any) -> bool:
        return isinstance(x, Observation)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ObservationSpace()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservationSpace)

    __hash__ = None  # type: ignore[assignment]


class Env(gymnasium.Env[Any, Any]):
    """A task as a `gymnasium.Env`. Nothing starts before `reset`; `close` may be called twice.

    Args:
        task: `pack/task[@version]` or a path, as for `envkit.make`; or an `AsyncEnv`.
        render_mode: None, or `ansi` (`render()` returns the transcript).
        options: Everything `envkit.make_async` takes.

    `step` raises `NoVerdict` where an episode ended and nothing could be said about the work.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, task: str | AsyncEnv, *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, "ansi"):
            raise UserError(f"render_mode must be None or 'ansi', found {render_mode!r}")
        self.render_mode = render_mode
        self.core = task if isinstance(task, AsyncEnv) else make_async(task, **options)
        self.action_space = ActionSpace()
        self.observation_space = ObservationSpace()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        return loop.run(self.core.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = loop.run(self.core.step(action))
        if reward is None:
            info = {**info, "unverified": True}
        return (
            observation or Observation(messages=()),
            0.0 if reward is None else float(reward),
            terminated,
            truncated,
            info,
        )

    def render(self) -> str | None:
        return self.core.transcript() if self.render_mode == "ansi" else None

    def close(self) -> None:
        loop.run(self.core.close())

    def __repr__(self) -> str:
        return f"<envkit.Env {self.core.task.id} harness={self.core.harness.name} sandbox={self.core.provider.name}>"


def spec_id(task_id: str) -> str:
    """The Gymnasium id of a task. Gymnasium reads a trailing `-v<digits>` as a version and takes neither `@` nor a
    second slash, so those are written differently; the id is a label, `kwargs["task"]` is the truth."""
    legal = re.sub(r"[^\w.:/-]", ".", task_id.split("@")[0])
    head, _, tail = legal.rpartition("/")
    head = re.sub(r"[^\w:-]", "-", head) or "path"
    tail = re.sub(r"[^\w:.-]", ".", tail) or "task"
    return f"{head}/{tail}.task" if re.search(r"-v\d+$", tail) else f"{head}/{tail}"


def make(
    id: str,
    *,
    harness: str | Harness = "opencode",
    sandbox: str | SandboxProvider = "local",
    harness_options: Mapping[str, Any] | None = None,
    sandbox_options: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> Env:
    """Makes the env of a task: `envkit.make("office/q3-revenue-memo", harness="opencode", sandbox="local")`.

    Arguments as for `envkit.make_async`. Raises `UserError` for an unknown id, harness, sandbox or option.
    """
    core = make_async(
        id,
        harness=harness,
        sandbox=sandbox,
        harness_options=harness_options,
        sandbox_options=sandbox_options,
        **options,
    )
    env = Env(core, render_mode=render_mode)
    asked = {
        # A path may be relative; an env made from the spec elsewhere is the same one.
        "task": id if core.pack is None or id.partition("@")[0] == core.task.id else str(core.task.dir),
        "harness": harness,
        "sandbox": sandbox,
        "harness_options": harness_options,
        "sandbox_options": sandbox_options,
        **options,
    }
    env.spec = EnvSpec(
        id=spec_id(core.task.id),
        entry_point="envkit.gym:Env",
        nondeterministic=True,
        disable_env_checker=True,  # as for the per-pack ids
        kwargs={name: value for name, value in asked.items() if value is not None},
    )
    return env


def make_vec(tasks: Sequence[str], **options: Any) -> AsyncVectorEnv:
    """A Gymnasium vector env, one process per task, set up for text: no shared memory (it returns stale text), no
    autoreset (it throws an action away), no daemons (they may not have children). For turns of very different
    lengths, `envkit.EnvPool` doesn't wait for the slowest."""
    if isinstance(tasks, str) or not tasks:
        raise UserError(f"expected a list of at least one task, found {tasks!r}")
    return AsyncVectorEnv(
        [_Maker(task, options) for task in tasks],
        shared_memory=False,
        daemon=False,
        autoreset_mode=AutoresetMode.DISABLED,
    )


class _Maker:
    """Makes one env in a worker process; a class, so that it can be pickled."""

    def __init__(self, task: str, options: Mapping[str, Any]) -> None:
        self.task, self.options = task, dict(options)

    def __call__(self) -> Env:
        return make(self.task, **self.options)


def _pack_task(pack: str, task: str | None = None, **options: Any) -> Env:
    """Entry point of the per-pack ids."""
    if task is None:
        raise UserError(f"say which task: gymnasium.make(..., task=NAME); `envkit tasks '{pack}/*'` lists the names")
    return Env(f"{pack}/{task}", **options)


def register_pack(name: str) -> str:
    """Registers `NAME/Task-v0` with Gymnasium and returns that id; does nothing where it is registered."""
    id = f"{re.sub(r'[^0-9A-Za-z_:-]', '-', name)}/Task-v0"
    if id not in gymnasium.registry:
        gymnasium.register(
            id=id,
            entry_point="envkit.gym:_pack_task",
            kwargs={"pack": name},
            nondeterministic=True,
            disable_env_checker=True,  # it would reset, hence start a sandbox, at the first step
        )
    return id


for _name in plugins.names("tasks"):
    register_pack(_name)
