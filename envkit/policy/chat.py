"""The chat policy: a model behind any OpenAI-compatible Chat Completions endpoint.

Keeps the conversation per thread, asks the endpoint for each turn (`chat_client`: keys, retries, budget), and says what
the turn cost and how long it waited. A full context is a result (`finish="context"`), not a fault. Keys are read from
the environment or a file when the policy is made; they are in `secrets`, for scrubbing, and nowhere else.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import zlib
from pathlib import Path
from typing import Any

from envkit.failure import Boundary, UserError
from envkit.messages import AssistantMessage, Message, Observation, ObservationKind, ToolSpec, Usage
from envkit.policy import chat_wire
from envkit.policy.base import PolicyContext
from envkit.policy.chat_client import Asked, ChatClient
from envkit.policy.chat_options import ChatOptions
from envkit.policy.keys import ApiKey, KeyPool, read_keys
from envkit.policy.options import read_options
from envkit.policy.transport import Transport
from envkit.scrub import MIN_SECRET_CHARS, Scrubber
from envkit.task import resolve_headers

__all__ = ["ChatPolicy"]


class _Thread:
    """What was said in one thread so far, as it goes into a request, and its tools."""

    __slots__ = ("messages", "tools")

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: tuple[ToolSpec, ...] = ()


class ChatPolicy:
    """Asks a model. Options: see `ChatOptions`.

    Attributes:
        secrets: The keys' values and header values taken from the environment, for whoever scrubs results.
        waited_s: Seconds spent on rate limits, pauses and failed tries so far; not working time. Each message's share
            is in its `usage.waited_s`.
        vision: Whether the model is shown images.

    Raises from `act`:
        EnvkitError: POLICY_UNREACHABLE, POLICY_RATE_LIMITED, POLICY_AUTH, POLICY_REJECTED.
        DeadlineExceeded: The trial's deadline passed while the model was asked.
    """

    name = "chat"

    def __init__(self, **options: Any) -> None:
        self._options = read_options(ChatOptions, self.name, options)
        if self._options.base_url is None:  # $OPENAI_BASE_URL is held to the same rules
            read_options(ChatOptions, self.name, {"model": self._options.model, "base_url": self._options.address})
        keys = read_keys(self._options.key_names, self._options.api_key_file)
        self._keys = keys or (ApiKey("no key", None),)
        headers = resolve_headers(self._options.headers, os.environ, where="headers of the chat policy")
        self._headers = dict(headers)
        values = {key.value for key in keys if key.value} | set(headers.secret_values)
        self.secrets = frozenset(value for value in values if len(value) >= MIN_SECRET_CHARS)
        self.waited_s = 0.0
        self.vision = self._options.vision
        self._context: PolicyContext | None = None
        self._transport: Transport | None = None
        self._client: ChatClient | None = None
        self._threads: dict[str, _Thread] = {}
        self._turn = 0

    def describe(self) -> dict[str, Any]:
        given = self._options.model_dump(mode="json", exclude_unset=True)
        return {
            "name": self.name,
            **given,
            "base_url": self._options.address,
            "keys": sum(key.value is not None for key in self._keys),
        }

    async def start(self, context: PolicyContext) -> None:
        self._context, self._threads = context, {}
        if self._client is not None:
            return
        options = self._options
        # A fresh generator, since a forked process inherits the state of a shared one.
        rng = random.Random()
        offset = zlib.crc32(f"{context.task.id}:{context.seed}:{context.attempt}".encode())
        self._transport = Transport(
            f"{options.address}/chat/completions",
            connect_timeout_s=options.connect_timeout_s,
            read_timeout_s=options.read_timeout_s,
            max_bytes=options.max_response_mb << 20,
        )
        self._client = ChatClient(
            options,
            KeyPool(self._keys, offset=offset, every_request=options.rotate == "every_request", rng=rng),
            self._transport,
            rng=rng,
            scrubber=Scrubber(self.secrets),
            headers=self._headers,
        )

    async def act(self, observation: Observation) -> AssistantMessage:
        context, client = self._context, self._client
        if context is None or client is None:
            raise RuntimeError("ChatPolicy.act was called before start")
        thread = self._threads.setdefault(observation.thread, _Thread())
        if observation.kind is ObservationKind.REWRITE:
            thread.messages.clear()
        if observation.tools is not None:
            thread.tools = observation.tools
        thread.messages.extend(self._wire(*observation.messages))
        self._turn += 1
        body = chat_wire.request_body(
            self._options, thread.messages, thread.tools, context.seed if self._options.send_seed else None
        )
        message: AssistantMessage | None = None

        def accept(answer: bytes) -> None:
            nonlocal message
            message = chat_wire.parse_answer(answer, self._options, self._turn)

        asked = await client.ask(_encode(body), context.deadline, accept)
        waited_s = asked.waited_s
        if asked.body is None and body.pop(self._options.max_tokens_field, None) is not None:
            # Servers count max_tokens as used. Without it the turn may have what is left of the context.
            asked = await client.ask(_encode(body), context.deadline, accept)
            waited_s += asked.waited_s
        self.waited_s += waited_s
        if asked.body is None or message is None:
            message = AssistantMessage(
                finish="context", usage=Usage(context_limit=self._options.context_limit), model=self._options.model
            )
        usage = message.usage.model_copy(update={"waited_s": waited_s})
        message = message.model_copy(update={"usage": usage})
        thread.messages.extend(self._wire(message))
        _log(context.logs, asked, message, observation.thread)
        return message

    def _wire(self, *messages: Message | AssistantMessage) -> list[dict[str, Any]]:
        return chat_wire.to_wire(messages, reasoning=self._options.send_reasoning, vision=self._options.vision)

    async def close(self) -> None:
        self._context, self._client = None, None
        if self._transport is not None:
            await self._transport.close()
            self._transport = None


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate in a tool's output; as an escape it is valid JSON
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise UserError(f"the request can't be written as JSON: {error}", boundary=Boundary.POLICY) from error


def _log(folder: Path | None, asked: Asked, message: AssistantMessage, thread: str) -> None:
    """A line per turn in chat.jsonl: how the endpoint behaved, without what was said."""
    if folder is None:
        return
    line = {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        "thread": thread,
        "tries": asked.tries,
        "request_s": round(asked.request_s, 3),
        "waited_s": round(asked.waited_s, 3),
        "key": asked.key,
        "finish": message.finish,
        "tool_calls": len(message.tool_calls),
        "usage": message.usage.model_dump(exclude_none=True),
    }
    with (folder / "chat.jsonl").open("a", encoding="utf-8") as sink:
        sink.write(json.dumps(line) + "\n")
