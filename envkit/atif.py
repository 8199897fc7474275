"""ATIF 1.8, the trajectory format that results are kept in: typed, strict, and read back for replay.

`build_trajectory` turns what a trial saw (messages, tools, how it ended) into a `Trajectory`; `write_trajectory` puts
it on disk whole or not at all; `read_trajectory` reads versions 1.0 to 1.8 and refuses keys the format does not have;
`to_messages` gives the conversation back. Content is never shortened. What ATIF has no field for (whether a tool
result was an error, the text of arguments that could not be parsed) goes into its `extra` objects, under names of ours,
so that reading back loses nothing that the model saw or wrote. Used by trials, by `ReplayPolicy` and by viewers.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envkit.atif_schema import (
    AtifAgent,
    AtifMetrics,
    AtifObservation,
    AtifStep,
    AtifToolCall,
    Content,
    ContentPart,
    Extra,
    FinalMetrics,
    MediaSource,
    ObservationResult,
    Trajectory,
)
from envkit.failure import UserError
from envkit.messages import AssistantMessage, Image, Message, StopReason, ToolCall, ToolSpec, Usage, well_formed
from envkit.regular_file import read_regular

__all__ = ["Trajectory", "build_trajectory", "read_trajectory", "to_messages", "write_trajectory"]


def build_trajectory(
    messages: Iterable[Message | AssistantMessage],
    *,
    agent_name: str,
    agent_version: str,
    task: str | None = None,
    harness: str | None = None,
    model: str | None = None,
    tools: Sequence[ToolSpec] = (),
    stop: StopReason | str | None = None,
    session_id: str | None = None,
    trajectory_id: str | None = None,
    times: Sequence[dt.datetime | None] = (),
    subagents: Sequence[Trajectory] = (),
    notes: str | None = None,
    extra: Extra | None = None,
) -> Trajectory:
    """Builds a trajectory from a conversation, oldest message first.

    Args:
        times: When each message was said, in the messages' order; may be shorter than them.
        extra: Further facts of ours for `extra["envkit"]`.

    Raises:
        ValueError: There is no message.
    """
    steps: list[AtifStep] = []
    pending: dict[str, Any] | None = None  # the step being filled: tool results may still follow
    for index, message in enumerate(messages):
        if isinstance(message, Message) and message.role == "tool":
            if pending is None or pending["source"] != "agent":
                _close(steps, pending)
                pending = {"source": "system", "message": ""}
            _add_result(pending, message)
            continue
        _close(steps, pending)
        pending = _sampled(message) if isinstance(message, AssistantMessage) else _said(message)
        when = times[index] if index < len(times) else None
        if when is not None:
            pending["timestamp"] = when.isoformat()
    _close(steps, pending)
    if not steps:
        raise ValueError("a trajectory needs at least one message")
    ours = {"task": task, "harness": harness, "stop": None if stop is None else str(stop), **(extra or {})}
    return Trajectory(
        session_id=session_id,
        trajectory_id=trajectory_id,
        agent=AtifAgent(
            name=agent_name,
            version=agent_version,
            model_name=model,
            tool_definitions=[_definition(tool) for tool in tools] or None,
        ),
        steps=steps,
        notes=notes,
        final_metrics=_totals(steps),
        extra={"envkit": _plain({key: value for key, value in ours.items() if value is not None})},
        subagent_trajectories=list(subagents) or None,
    )


def write_trajectory(path: Path, trajectory: Trajectory) -> None:
    """Writes the file atomically: a reader sees the old one, the new one, or none. Raises `OSError`."""
    data = json.dumps(trajectory.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def read_trajectory(path: Path) -> Trajectory:
    """Reads a trajectory of any ATIF version up to 1.8, strictly.

    Raises:
        UserError: The file is missing, is not JSON, or is not ATIF; the message names the file and the place.
    """
    try:
        value = json.loads(read_regular(path))
    except FileNotFoundError:
        raise UserError(f"no trajectory at {path}") from None
    except OSError as error:
        raise UserError(f"{path} can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a JSON file: {error}") from error
    try:
        return Trajectory.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        shown = "; ".join(f"{'.'.join(map(str, f['loc'])) or 'top level'}: {f['msg']}" for f in faults[:3])
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise UserError(f"{path} is not an ATIF trajectory up to 1.8: {shown}{more}") from error


def to_messages(trajectory: Trajectory, *, copied: bool = True) -> list[Message | AssistantMessage]:
    """The conversation, oldest message first. Parts that are no text are named in brackets.

    The text of a call's arguments is what the model wrote, byte for byte, where that differs from plain JSON.

    Args:
        copied: Whether steps that repeat an earlier trajectory (`is_copied_context`) are included.

    Raises:
        UserError: What a program of ours keeps in `extra`, where ATIF takes anything, is of another kind.
    """
    try:
        return _messages(trajectory, copied)
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"the trajectory's `extra` is not as envkit writes it: {error}") from error


def _messages(trajectory: Trajectory, copied: bool) -> list[Message | AssistantMessage]:
    out: list[Message | AssistantMessage] = []
    for step in trajectory.steps:
        if step.is_copied_context and not copied:
            continue
        extra = step.extra or {}
        if step.source == "agent" and extra.get("sampled", True):
            out.append(_assistant(step, extra))
        elif not (step.observation is not None and step.source == "system" and step.message == ""):
            role: Any = "assistant" if step.source == "agent" else step.source
            out.append(
                Message(role=role, content=_text(step.message), name=extra.get("name"), images=_images(step.message))
            )
        for result in step.observation.results if step.observation else ():
            more = result.extra or {}
            out.append(
                Message(
                    role="tool",
                    content=_text(result.content),
                    tool_call_id=result.source_call_id or more.get("tool_call_id"),
                    name=more.get("name"),
                    is_error=bool(more.get("is_error", False)),
                    images=_images(result.content),
                )
            )
    return out


def _close(steps: list[AtifStep], fields: dict[str, Any] | None) -> None:
    if fields is not None:
        results = fields.pop("results", None)
        if results:
            fields["observation"] = AtifObservation(results=results)
        steps.append(AtifStep(step_id=len(steps) + 1, **fields))


def _said(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"message": _content(message)}
    extra: Extra = {"name": message.name} if message.name else {}
    if message.role == "assistant":  # words put into the model's mouth, not sampled
        fields |= {"source": "agent", "llm_call_count": 0}
        extra["sampled"] = False
    else:
        fields["source"] = message.role
    if extra:
        fields["extra"] = extra
    return fields


def _sampled(message: AssistantMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"source": "agent", "message": well_formed(message.text), "model_name": message.model}
    if message.reasoning is not None:
        fields["reasoning_content"] = well_formed(message.reasoning)
    if message.tool_calls:
        fields["tool_calls"] = [_call(call) for call in message.tool_calls]
    usage = message.usage
    metrics_extra = {
        key: value
        for key, value in (
            ("context_tokens", usage.context_tokens),
            ("context_limit", usage.context_limit),
            ("waited_s", usage.waited_s or None),
        )
        if value is not None
    }
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cost_usd)
    if metrics_extra or any(count is not None for count in counts):
        fields["metrics"] = AtifMetrics(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=usage.cost_usd,
            extra=metrics_extra or None,
        )
    if usage.completion_tokens is not None:
        fields["llm_call_count"] = 1
    extra: Extra = {}
    if message.finish != "stop":
        extra["finish"] = message.finish
    if message.node is not None:
        extra["trace_node"] = message.node  # of the trace in logs/trace: the sampled ids
    if message.raw is not None and message.raw != message.text:
        extra["raw"] = well_formed(message.raw)
    if extra:
        fields["extra"] = extra
    return fields


def _call(call: ToolCall) -> AtifToolCall:
    arguments = _plain(call.arguments or {})
    extra: Extra = {}
    if call.raw_arguments is not None and call.raw_arguments != json.dumps(arguments, ensure_ascii=False):
        extra["raw_arguments"] = well_formed(call.raw_arguments)
    if call.error is not None:
        extra["error"] = well_formed(call.error)
    return AtifToolCall(tool_call_id=call.id, function_name=call.name, arguments=arguments, extra=extra or None)


def _add_result(fields: dict[str, Any], message: Message) -> None:
    known = {call.tool_call_id for call in fields.get("tool_calls") or ()}
    extra: Extra = {}
    if message.tool_call_id not in known and message.tool_call_id is not None:
        extra["tool_call_id"] = message.tool_call_id
    if message.name:
        extra["name"] = message.name
    if message.is_error:
        extra["is_error"] = True
    fields.setdefault("results", []).append(
        ObservationResult(
            source_call_id=message.tool_call_id if message.tool_call_id in known else None,
            content=_content(message),
            extra=extra or None,
        )
    )


def _assistant(step: AtifStep, extra: Extra) -> AssistantMessage:
    metrics = step.metrics or AtifMetrics()
    more = metrics.extra or {}
    text = _text(step.message)
    return AssistantMessage(
        text=text,
        tool_calls=tuple(_tool_call(call) for call in step.tool_calls or ()),
        reasoning=step.reasoning_content,
        raw=extra.get("raw"),
        finish=str(extra.get("finish", "stop")),
        usage=Usage(
            prompt_tokens=metrics.prompt_tokens,
            completion_tokens=metrics.completion_tokens,
            cached_tokens=metrics.cached_tokens,
            cost_usd=metrics.cost_usd,
            context_tokens=more.get("context_tokens"),
            context_limit=more.get("context_limit"),
            waited_s=more.get("waited_s", 0.0),
        ),
        model=step.model_name,
        node=node if isinstance(node := extra.get("trace_node"), int) else None,
    )


def _tool_call(call: AtifToolCall) -> ToolCall:
    extra = call.extra or {}
    raw, error = extra.get("raw_arguments"), extra.get("error")
    if isinstance(raw, str):
        parsed = ToolCall.parse(call.tool_call_id, call.function_name, raw)
        return parsed if error is None else parsed.model_copy(update={"error": str(error), "arguments": None})
    if error is not None:
        return ToolCall(id=call.tool_call_id, name=call.function_name, error=str(error))
    return ToolCall(id=call.tool_call_id, name=call.function_name, arguments=call.arguments)


def _definition(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": well_formed(tool.description), "parameters": _plain(tool.parameters)}
    return {"type": "function", "function": function}


def _totals(steps: list[AtifStep]) -> FinalMetrics:
    def total(name: str) -> Any:
        values = [getattr(step.metrics, name) for step in steps if step.metrics is not None]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    return FinalMetrics(
        total_prompt_tokens=total("prompt_tokens"),
        total_completion_tokens=total("completion_tokens"),
        total_cached_tokens=total("cached_tokens"),
        total_cost_usd=total("cost_usd"),
        total_steps=len(steps),
    )


def _content(message: Message) -> Content:
    """A message's text; with images, parts, the images as `data:` URLs, so that the file stands for itself."""
    text = well_formed(message.content)
    if not message.images:
        return text
    sources = [MediaSource(media_type=image.mime, path=image.url) for image in message.images]
    return [ContentPart(type="text", text=text), *(ContentPart(type="image", source=source) for source in sources)]


def _images(content: Content | None) -> tuple[Image, ...]:
    """The images that the content holds itself."""
    found = []
    for part in content if isinstance(content, list) else ():
        if part.type == "image" and part.source is not None and part.source.path.startswith("data:"):
            head, _, data = part.source.path.partition(";base64,")
            found.append(Image(mime=head.removeprefix("data:"), data=data))
    return tuple(found)


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(
        part.text or (f"[{part.type}: {part.source.path}]" if part.source else "")
        for part in content
        if part.source is None or not part.source.path.startswith("data:")
    )


def _plain(value: Any) -> Any:
    """A JSON-shaped value that every JSON reader takes: no lone surrogates; NaN and infinities as text."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {well_formed(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
