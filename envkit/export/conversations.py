"""Conversations of a trial, each once, with a mark on what the model said in them: for imitation.

Where a trial has a token trace, a conversation is a root-to-leaf path of it and every sampled turn is marked in exactly
one: a history that was rewritten does not train its beginning twice. Other trials have their trajectory: the main
conversation and those of sub-agents. Rows are those of two formats: OpenAI's (also TRL's and most trainers'), where an
assistant message that must not train has `weight` 0, and ShareGPT's, with tool calls as Hermes writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from envkit.atif import Trajectory, read_trajectory, to_messages
from envkit.export.trials import StoredTrial
from envkit.messages import AssistantMessage, Message, ToolSpec, openai_messages
from envkit.tokens.export import export
from envkit.tokens.store import read_trace
from envkit.tokens.trace import Trace

__all__ = ["Conversation", "conversations", "openai_row", "sharegpt_row"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation.

    Attributes:
        trains: Per message, whether it is a turn of the model's that trains in this conversation.
        tools: As they were offered at its end, as OpenAI function definitions.
    """

    trial: StoredTrial
    number: int
    thread: str
    messages: tuple[Message | AssistantMessage, ...]
    trains: tuple[bool, ...]
    tools: tuple[dict[str, Any], ...]


def conversations(trial: StoredTrial) -> Iterator[Conversation]:
    """The conversations of a trial in which the model said something.

    Raises:
        TraceError: Its token trace contradicts itself.
        UserError: It has no trace, and no trajectory that can be read.
    """
    number = 0
    folders = trial.traces()
    for folder in folders:
        for found in _of_trace(trial, read_trace(folder), number):
            yield found
            number += 1
    if not folders:
        yield from _of_trajectory(trial, read_trajectory(trial.folder / "trajectory.json"))


def _of_trace(trial: StoredTrial, trace: Trace, number: int) -> Iterator[Conversation]:
    for at, sample in enumerate(export(trace).samples):
        mine = {node for node, _, _ in sample.spans}
        messages: list[Message | AssistantMessage] = []
        trains: list[bool] = []
        tools: tuple[ToolSpec, ...] = ()
        last = max(mine)
        for index in sample.nodes:
            if index > last:
                break
            node = trace.node(index)
            tools = node.tools if node.tools is not None else tools
            messages += node.messages
            trains += [index in mine] * len(node.messages)
        yield Conversation(
            trial, number + at, sample.thread, tuple(messages), tuple(trains), tuple(map(_definition, tools))
        )


def _of_trajectory(trial: StoredTrial, trajectory: Trajectory) -> Iterator[Conversation]:
    for number, one in enumerate([trajectory, *(trajectory.subagent_trajectories or ())]):
        messages = to_messages(one)
        trains = [isinstance(message, AssistantMessage) for message in messages]
        if not any(trains):
            continue
        while not trains[-1]:
            messages.pop()
            trains.pop()
        thread = "main" if number == 0 else one.trajectory_id or str(number)
        tools = tuple(one.agent.tool_definitions or ())
        yield Conversation(trial, number, thread, tuple(messages), tuple(trains), tools)


def openai_row(found: Conversation) -> dict[str, Any]:
    """A row of OpenAI's fine-tuning format, with the trial's facts in `metadata`."""
    wires = openai_messages(found.messages, vision=True)
    turns = [
        (message, trains)
        for message, trains in zip(found.messages, found.trains, strict=True)
        if isinstance(message, AssistantMessage) or message.role == "assistant"
    ]
    spoken = iter(turns)
    for wire in wires:
        if wire["role"] != "assistant":
            continue
        message, trains = next(spoken)
        if isinstance(message, AssistantMessage) and message.reasoning:
            wire["reasoning_content"] = message.reasoning
        if not trains:
            wire["weight"] = 0
    row: dict[str, Any] = {"messages": wires}
    if found.tools:
        row["tools"] = list(found.tools)
    return row | {"metadata": _facts(found)}


def sharegpt_row(found: Conversation) -> dict[str, Any]:
    """A row of ShareGPT's format. Turns that must not train carry `weight` 0, for those who read it."""
    turns: list[dict[str, Any]] = []
    for message, trains in zip(found.messages, found.trains, strict=True):
        if isinstance(message, AssistantMessage):
            turns.append({"from": "gpt", "value": _said(message)} | ({} if trains else {"weight": 0}))
        elif message.role == "assistant":
            turns.append({"from": "gpt", "value": message.content, "weight": 0})
        elif message.role == "tool":
            turns.append({"from": "tool", "value": f"<tool_response>\n{message.plain}\n</tool_response>"})
        else:
            turns.append({"from": "human" if message.role == "user" else "system", "value": message.plain})
    row: dict[str, Any] = {"id": f"{found.trial.id}/{found.number}", "conversations": turns}
    if found.tools:
        row["tools"] = json.dumps([tool["function"] for tool in found.tools], ensure_ascii=False)
    return row | {"metadata": _facts(found)}


#: Row makers by the name of their format.
ROWS: dict[str, Callable[[Conversation], dict[str, Any]]] = {"openai": openai_row, "sharegpt": sharegpt_row}


def _said(message: AssistantMessage) -> str:
    parts: list[str] = []
    if message.reasoning:
        parts.append(f"<think>\n{message.reasoning}\n</think>")
    if message.text or not message.tool_calls:
        parts.append(message.text)
    for call in message.tool_calls:
        # What could not be parsed stays as it was written: an example to imitate it is not, a record it is.
        arguments: Any = call.arguments if call.arguments is not None else call.arguments_text
        body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        parts.append(f"<tool_call>\n{body}\n</tool_call>")
    return "\n".join(parts)


def _definition(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(mode="json")}


def _facts(found: Conversation) -> dict[str, Any]:
    trial = found.trial
    return {
        "trial": trial.id,
        "task": trial.task,
        "group": trial.group,
        "sample": trial.sample,
        "thread": found.thread,
        "reward": trial.reward,
        "status": trial.status.value,
        "stop": trial.stop,
        "harness": trial.harness,
        "model": trial.model,
    }
