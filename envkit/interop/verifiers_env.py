"""Any of our tasks under any of our harnesses as an environment of `verifiers`, which prime-rl and others train on.

    import verifiers as vf
    env = vf.load_environment("envkit", tasks="office/*", harness="opencode")

The harness decides what the model sees and may do, the task's own verifier what it is worth: both are the code that
runs natively. What verifiers samples goes into the episode as it came. A fault of ours is an error of the rollout
(`InfraError`), never a reward; a context that is full is the end of the episode, which is verified and scored. A
history that the harness rewrites, and a side thread, are steps with a prompt of their own, as verifiers' branches are.
Needs verifiers 0.2 or 0.3, whose `MultiTurnEnv` this is; imported by nothing of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verifiers.utils.message_utils import concat_messages, normalize_messages

import verifiers as vf
from envkit import registry
from envkit.env import AsyncEnv
from envkit.failure import UserError, capture
from envkit.making import make_async
from envkit.messages import (
    AssistantMessage,
    Message,
    Observation,
    ObservationKind,
    ToolCall,
    ToolSpec,
    Usage,
    openai_messages,
)

__all__ = ["EnvkitEnv", "load_environment"]


def load_environment(
    tasks: str | Sequence[str] = "office/*",
    *,
    split: str | None = None,
    eval_split: str | None = "eval",
    harness: str = "opencode",
    sandbox: str = "local",
    harness_options: Mapping[str, Any] | None = None,
    sandbox_options: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    timeout_s: float = 3600.0,
    verify_reserve_s: float = 300.0,
    training: bool = True,
    **more: Any,
) -> EnvkitEnv:
    """The environment, as `verifiers.load_environment("envkit", ...)` makes it.

    Args:
        tasks: Ids, globs or paths of task directories.
        split: Only tasks of this split are trained on; None for all.
        eval_split: The split of the evaluation's tasks, as far as a pack has one.
        timeout_s: Wall-clock budget of a rollout; its expiry is an error.
        training: The context nudge is on.
        more: Arguments of `verifiers.MultiTurnEnv` (`max_seq_len`, ...).

    Raises:
        UserError: No such task, harness or sandbox.
    """
    ids = registry.expand(tasks, split=split)
    try:
        evaluated = registry.expand(tasks, split=eval_split) if eval_split else []
    except UserError:  # packs without splits
        evaluated = []
    options: dict[str, Any] = {
        "harness": harness,
        "sandbox": sandbox,
        "harness_options": harness_options,
        "sandbox_options": sandbox_options,
        "limits": limits,
        "timeout_s": timeout_s,
        "verify_reserve_s": verify_reserve_s,
        "training": training,
    }
    make_async(ids[0], **options)  # a harness, a sandbox or an option that is not there is told now
    return EnvkitEnv(ids, evaluated or ids, options, **more)


@dataclass(slots=True)
class _Episode:
    """One rollout's. `tools` by thread: None where nothing was said yet."""

    env: AsyncEnv
    thread: str
    tools: dict[str, Sequence[ToolSpec]] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    over: bool = False


class EnvkitEnv(vf.MultiTurnEnv):  # type: ignore[misc]
    """See the module. `options` are those of `envkit.make_async`."""

    def __init__(self, tasks: Sequence[str], evaluated: Sequence[str], options: Mapping[str, Any], **more: Any) -> None:
        self._options = dict(options)
        self._episodes: dict[str, _Episode] = {}
        more.setdefault("rubric", vf.Rubric(funcs=[verdict_reward], weights=[1.0]))
        super().__init__(
            dataset=lambda: _dataset(tasks), eval_dataset=lambda: _dataset(evaluated), env_id="envkit", **more
        )

    async def setup_state(self, state: Any) -> Any:
        """Starts the sandbox and the session; the harness's first observation is the prompt."""
        env = make_async(state["info"]["envkit_task"], **self._options)
        try:
            observation, _ = await env.reset(seed=int(state["input"].get("example_id") or 0))
        except BaseException as error:  # the capture point; cancelled by verifiers' own time limit, too
            await env.close()
            if not isinstance(error, Exception):
                raise
            raise vf.InfraError(_told(error)) from error
        episode = _Episode(env, observation.thread)
        self._episodes[state["trajectory_id"]] = episode
        state["prompt"] = self._observed(state, episode, observation)
        return state

    async def get_prompt_messages(self, state: Any) -> Any:
        """The thread that the harness asks in: its whole history, or what the harness made of it."""
        if not state["trajectory"]:
            return state["prompt"]
        episode = self._episodes[state["trajectory_id"]]
        last = state["trajectory"][-1]
        episode.history[episode.thread] = concat_messages([last["prompt"], last["completion"]])
        observation = await self._act(state, episode, _answer(last["response"], self.max_seq_len))
        return [] if observation is None else self._observed(state, episode, observation)

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        raise AssertionError("get_prompt_messages does this")

    async def render_completion(self, state: Any) -> None:
        """The conversation of the main thread, behind its prompt."""
        if not state["trajectory"]:
            state["completion"] = []
            return
        last = state["trajectory"][-1]
        state["completion"] = concat_messages([last["prompt"], last["completion"]])[len(state["prompt"] or ()) :]

    @vf.cleanup  # type: ignore[untyped-decorator]
    async def end_episode(self, state: Any) -> None:
        """Verifies an episode that a limit of verifiers ended, and stops everything."""
        episode = self._episodes.pop(state["trajectory_id"], None)
        timed_out = state.get("timed_out", False)
        try:
            if episode is None or episode.over or state.get("error") is not None or timed_out:
                return
            if episode.env.is_open:
                await self._act(state, episode, AssistantMessage(finish="context"))
                if not episode.over:
                    raise vf.InfraError("the harness went on after it was told that the context is full")
        except vf.Error as error:
            state["error"] = error
        finally:
            if state.get("envkit_reward") is None and state.get("error") is None:
                # Without an error it would be scored 0, by nobody.
                why = "verifiers' own time limit for a rollout was over" if timed_out else "it was ended"
                state["error"] = vf.InfraError(f"there is no verdict: {why} before the task's verifier was asked")
            if episode is not None:
                await episode.env.close()

    async def _act(self, state: Any, episode: _Episode, answer: AssistantMessage) -> Observation | None:
        try:
            observation, reward, terminated, truncated, _ = await episode.env.step(answer)
        except Exception as error:  # the capture point: no fault of ours may end other rollouts, or be a reward
            episode.over = True
            raise vf.InfraError(_told(error)) from error
        if terminated or truncated:
            episode.over = True
            state["envkit_reward"] = reward
            state["envkit_stop"] = str(episode.env.stop)
            state["is_truncated"] = truncated
            state["final_env_response"] = []
        return observation

    def _observed(self, state: Any, episode: _Episode, observation: Observation) -> Any:
        thread = episode.thread = observation.thread
        if observation.tools is not None:
            episode.tools[thread] = observation.tools
        state["tool_defs"] = [
            vf.Tool(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in episode.tools.get(thread, ())
        ]
        new = _messages(observation.messages)
        before = episode.history.get(thread)
        if before is not None and observation.kind is ObservationKind.APPEND:
            new = concat_messages([before, new])
        episode.history[thread] = new
        return new


async def verdict_reward(state: Any) -> float:
    """The verdict's reward. A rollout without one has an error, by which trainers leave it out."""
    return float(state.get("envkit_reward") or 0.0)


def _dataset(tasks: Sequence[str]) -> Any:
    from datasets import Dataset

    rows = [
        {"prompt": [{"role": "user", "content": task}], "answer": "", "info": json.dumps({"envkit_task": task})}
        for task in tasks
    ]
    return Dataset.from_list(rows)


def _told(error: BaseException) -> str:
    failure = capture(error)
    return f"{failure.kind} ({failure.boundary}): {failure.message}"


def _answer(response: Any, limit: int | None) -> AssistantMessage:
    """What was sampled, as the harness takes it."""
    message = response.message
    content = message.content
    if isinstance(content, list):
        content = "".join(part.get("text", "") if isinstance(part, dict) else str(part) for part in content)
    usage = response.usage
    prompt = usage.prompt_tokens if usage else None
    completion = usage.completion_tokens if usage else None
    context = prompt + completion if prompt is not None and completion is not None else None
    finish = "stop"
    if message.is_truncated:
        finish = "context" if limit is not None and context is not None and context >= limit else "length"
    return AssistantMessage(
        text=content or "",
        tool_calls=tuple(ToolCall.parse(call.id, call.name, call.arguments) for call in message.tool_calls or ()),
        reasoning=message.reasoning_content,
        finish=finish,
        usage=Usage(prompt_tokens=prompt, completion_tokens=completion, context_tokens=context, context_limit=limit),
        model=response.model,
    )


def _messages(messages: Iterable[Message | AssistantMessage]) -> Any:
    out = []
    for wire in openai_messages(messages, vision=True):
        calls = [
            {"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
            for call in wire.pop("tool_calls", ())
        ]
        out.append(wire | ({"tool_calls": calls} if calls else {}))
    return normalize_messages(out, field_name="observation")
