"""The token policy: a model behind a token endpoint, with a record of every id it was sent and every id it sampled.

An observation becomes ids through the trace (`tokens.conversation`), the engine samples ids, and those are kept as they
came: cut short, aborted, unparsable or not. A prompt that leaves no room, and a completion that used up what was left,
end as `finish="context"`; running into the turn's own cap is `finish="length"`. The trace is in the logs folder after
every turn (`trace.journal`), and as `trace.json` with `trace.safetensors` once the policy is closed.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envkit.deadline import Deadline
from envkit.engine import Engine, EngineClient, SamplingParams
from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.messages import AssistantMessage, Observation, Usage
from envkit.policy.base import PolicyContext
from envkit.policy.options import read_options
from envkit.tokens.conversation import Conversation, Turn
from envkit.tokens.export import export
from envkit.tokens.render import Renderer, shared_renderer
from envkit.tokens.samples import write_samples
from envkit.tokens.store import TRACE_JSON, TraceWriter, open_trace
from envkit.tokens.trace import Trace

__all__ = ["TokenOptions", "TokenPolicy"]

_START_WAIT_S = 120.0


class TokenOptions(BaseModel):
    """Options of the token policy.

    Attributes:
        engine: Roots of the engines (`http://host:8000`), one or several equal ones.
        tokenizer: Folder or cached name of the model's tokenizer.
        renderer: A family of the `renderers` package, `template`, or `auto` (see `tokens.render.load_renderer`).
        renderer_options: The renderer's own (`enable_thinking`, `thinking_retention`, `stop_tokens`, ...).
        temperature, top_p, top_k: As sampled; training needs `top_p=1` and `top_k=0`.
        max_turn_tokens: Longest completion of one turn; None for what is left of the context.
        context_limit: Tokens of prompt and completion together; None for the engine's own limit.
        seeded: Ask the engine for reproducible sampling, with a seed of its own for every turn.
        max_in_flight: Requests at one engine at a time, from this process.
        request_timeout_s: Longest wait for one answer of the engine; None leaves it to the trial's deadline.
        api_key_env: Environment variable with the engine's key, if it wants one.
        version: Of the weights of an engine that does not say which sampled (SkyRL's do not).
        samples: Also write what a finished trace exports for training, as `samples.safetensors` beside it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: tuple[str, ...] | str
    tokenizer: str
    renderer: str = "auto"
    renderer_options: dict[str, Any] = Field(default_factory=dict)
    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    max_turn_tokens: int | None = Field(default=None, ge=1)
    context_limit: int | None = Field(default=None, ge=2)
    seeded: bool = False
    max_in_flight: int = Field(default=256, ge=1)
    request_timeout_s: float | None = Field(default=None, gt=0)
    api_key_env: str | None = None
    version: int = Field(default=0, ge=0)
    samples: bool = False


class TokenPolicy:
    """Samples token ids. Options: see `TokenOptions`.

    Args:
        client, renderer: Parts that already exist (an engine in this process, a renderer shared by many trials)
            instead of those that the options name; not closed here. `renderer` as a text is the option.

    Attributes:
        trace: The record of the current step, also while it grows.

    Raises from `act`:
        EngineError: The engine failed as `engine.RULES` says.
        DeadlineExceeded: The trial's deadline passed; the engine was told.
        RenderError: The template refuses what the harness said.
    """

    name = "token"

    def __init__(self, *, client: Engine | None = None, renderer: Renderer | str | None = None, **options: Any) -> None:
        if isinstance(renderer, str):
            options["renderer"], renderer = renderer, None
        if client is not None:
            options.setdefault("engine", ())
        if renderer is not None:
            options.setdefault("tokenizer", "")
        self._options = read_options(TokenOptions, self.name, options)
        key = os.environ.get(self._options.api_key_env, "") if self._options.api_key_env else ""
        if self._options.api_key_env and not key:
            raise EnvkitError(
                f"expected the engine's key in ${self._options.api_key_env}, found nothing; set it or drop api_key_env",
                kind=FailureKind.POLICY_AUTH,
                boundary=Boundary.POLICY,
            )
        self.secrets = frozenset({key} if len(key) >= 8 else ())
        self._key = key or None
        self._given_client = client
        self._client: Engine | None = client
        self._renderer = renderer
        self._limit = 0
        self._deadline = Deadline.never()
        self._session = ""
        self._seed = b""
        self._model: str | None = None
        self._talk: Conversation | None = None
        self._writer: TraceWriter | None = None

    def describe(self) -> dict[str, Any]:
        out = {"name": self.name, **self._options.model_dump(mode="json", exclude_unset=True)}
        return out | ({} if self._renderer is None else self._renderer.describe())

    @property
    def trace(self) -> Trace:
        return self._conversation.trace

    @property
    def _conversation(self) -> Conversation:
        if self._talk is None:
            raise EnvkitError("the token policy was asked before it was started", boundary=Boundary.ENVKIT)
        return self._talk

    async def start(self, context: PolicyContext) -> None:
        """Begins a step of a task: asks the engine what it is and opens a trace of its own."""
        self._finish()
        o = self._options
        self._deadline = context.deadline
        if self._client is None:
            self._client = EngineClient(
                (o.engine,) if isinstance(o.engine, str) else o.engine,
                api_key=self._key,
                max_in_flight=o.max_in_flight,
                request_timeout_s=o.request_timeout_s,
                initial_version=o.version,
            )
        if self._renderer is None:
            self._renderer = shared_renderer(o.tokenizer, o.renderer, o.renderer_options)
        info = await self._client.info(context.deadline.within(_START_WAIT_S, "the wait for the engine"))
        self._limit = min(o.context_limit or info.max_model_len, info.max_model_len)
        self._model = info.model
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{context.task.id}-{context.attempt}")[-80:]
        self._session = f"{name}-{uuid.uuid4().hex[:8]}"
        self._seed = f"{context.seed}\0{context.attempt}\0{context.task.id}\0{context.step.name}".encode()
        meta = {
            "session": self._session,
            "model": info.model,
            "context_limit": self._limit,
            "exact_logprobs": self._params(1, 0).exact,
            "tokenizer": o.tokenizer or None,
            "renderer_options": o.renderer_options,
            "temperature": o.temperature,
            **self._renderer.describe(),
        }
        if context.logs is None:
            self._talk = Conversation(self._renderer, Trace(meta))
            return
        trace, self._writer = open_trace(_free_folder(context.logs / "trace"), meta)
        self._talk = Conversation(self._renderer, trace)

    async def act(self, observation: Observation) -> AssistantMessage:
        talk = self._conversation
        turn = talk.observe(observation)
        room = self._limit - len(turn.prompt)
        if room < 1:
            return AssistantMessage(finish="context", usage=self._usage(turn, 0), model=self._model)
        cap = min(self._options.max_turn_tokens or room, room)
        params = self._params(cap, turn.node.index)
        assert self._client is not None
        generation = await self._client.generate(turn.prompt, params, session=self._session, deadline=self._deadline)
        finish = generation.finish
        if finish == "length" and len(generation.ids) >= room:
            finish = "context"
        usage = self._usage(turn, len(generation.ids), generation.cached_tokens, generation.waited_s)
        return talk.record(
            turn,
            generation.ids,
            generation.logprobs,
            generation.versions,
            finish=finish,
            params=params.wire(),
            request_id=generation.request_id,
            attempts=generation.attempts,
            usage=usage,
            model=self._model,
        )

    async def abort(self) -> None:
        """Ends the turn that is being sampled: `act` returns what there is, as `finish="abort"`."""
        if self._client is not None:
            await self._client.abort(self._session)

    async def close(self) -> None:
        """Finishes the trace's files. Idempotent."""
        self._finish()
        client, self._client = self._client, self._given_client
        if client is not None and client is not self._given_client:
            await client.close()

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None or self._talk is None:
            return
        writer.finish(self._talk.trace)
        if self._options.samples:
            write_samples(writer.folder, export(self._talk.trace))

    def _params(self, max_tokens: int, node: int) -> SamplingParams:
        o = self._options
        seed = None
        if o.seeded:
            digest = hashlib.blake2b(self._seed + b"\0%d" % node, digest_size=4).digest()
            seed = int.from_bytes(digest, "big") >> 1
        stops = () if self._renderer is None else tuple(sorted(self._renderer.stop_ids))
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=o.temperature,
            top_p=o.top_p,
            top_k=o.top_k,
            seed=seed,
            stop_token_ids=stops,
        )

    def _usage(self, turn: Turn, sampled: int, cached: int | None = None, waited_s: float = 0.0) -> Usage:
        prompt = turn.node.end
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=sampled,
            cached_tokens=cached,
            context_tokens=prompt + sampled,
            context_limit=self._limit,
            waited_s=waited_s,
        )


def _free_folder(wanted: Path) -> Path:
    """`wanted`, or the first numbered neighbour that no finished trace stands in (a task may have several steps)."""
    folder = wanted
    number = 1
    while (folder / TRACE_JSON).exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder
