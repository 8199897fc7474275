"""Engines: the protocol of whatever samples tokens, and the HTTP client for token endpoints.

The contract is vLLM's own: `POST /inference/v1/generate` takes token ids and gives token ids, the stop token included,
one logprob per id (of the distribution sampled from; start vLLM with `--logprobs-mode processed_logprobs
--enable-scale-out`), and the weight version that sampled each span. Our embedded engine serves the same routes.

The client guarantees: an answer is whole and consistent or it is not given; a trial's requests go to one replica while
that is up; nothing waits beyond its deadline; a request that nobody awaits any more is aborted at the engine; waiting
for a busy engine is told apart from working (`Generation.waited_s`). Requests are tried again by the table `RULES`.
Used by `TokenPolicy`, the model proxy and the training loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import httpx

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind
from envkit.messages import well_formed
from envkit.tokens.generation import Generation, SamplingParams, read_generation
from envkit.tokens.prompt import PromptIds

__all__ = ["RULES", "Engine", "EngineClient", "EngineError", "EngineInfo", "Generation", "Rule", "SamplingParams"]


class EngineError(EnvkitError):
    """An engine could not be reached, refused the request or answered nonsense; never the model's fault."""

    boundary = Boundary.POLICY
    kind = FailureKind.POLICY_ERROR


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says about itself."""

    model: str
    max_model_len: int


class Engine(Protocol):
    """Samples tokens."""

    async def generate(
        self, prompt: PromptIds, params: SamplingParams, *, session: str, deadline: Deadline
    ) -> Generation: ...

    async def abort(self, session: str) -> None: ...

    async def info(self, deadline: Deadline) -> EngineInfo: ...

    async def close(self) -> None: ...


class Trouble(StrEnum):
    """What can go wrong with one request."""

    BUSY = "busy"  # 429, 503: come back later
    AUTH = "auth"  # 401, 403
    REJECTED = "rejected"  # any other 4xx: this request will never be right
    BROKEN = "broken"  # 5xx
    GARBAGE = "garbage"  # 200 with something that is no generation
    UNREACHABLE = "unreachable"  # no connection, or it broke before the answer was whole
    SILENT = "silent"  # connected, no answer, and the engine no longer answers health checks or ran out of time


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done about it: how many requests in all (None: until the deadline), and the failure in the end."""

    attempts: int | None
    kind: FailureKind
    moves: bool = False  # the replica is avoided for a while


RULES: Mapping[Trouble, Rule] = {
    Trouble.BUSY: Rule(None, FailureKind.POLICY_RATE_LIMITED),
    Trouble.AUTH: Rule(1, FailureKind.POLICY_AUTH),
    Trouble.REJECTED: Rule(1, FailureKind.POLICY_REJECTED),
    Trouble.BROKEN: Rule(4, FailureKind.POLICY_ERROR, moves=True),
    Trouble.GARBAGE: Rule(3, FailureKind.POLICY_ERROR),
    Trouble.UNREACHABLE: Rule(6, FailureKind.POLICY_UNREACHABLE, moves=True),
    Trouble.SILENT: Rule(3, FailureKind.POLICY_UNREACHABLE, moves=True),
}

_HINTS = {
    403: "start vLLM with --enable-scale-out (or check the key)",
    404: "this is no token endpoint; is the URL the engine's root, without /v1?",
}
_COOL_DOWN_S = 15.0
_ABORT_WAIT_S = 2.0


class _Trouble(Exception):
    def __init__(self, what: Trouble, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.what = what
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Replica:
    url: str
    places: asyncio.Semaphore
    down_until_s: float = 0.0
    version: int = 0


class EngineClient:
    """Speaks to one or several equal engines.

    Args:
        urls: The engines' roots (`http://host:8000`).
        max_in_flight: Requests at one engine at a time; more wait here, first come first served.
        request_timeout_s: Longest wait for one answer; None to leave it to the deadline.
        probe_every_s: While an answer is awaited, how often the engine's health is asked for; three failures in a row
            end the wait (a half-open connection looks like a long generation otherwise).
        salt_by_version: Keep prefixes cached under old weights from being hit under new ones (`cache_salt`). Off where
            updates clear the cache.
        initial_version: The version of weights that nobody labelled.
        backoff_s: Pauses between requests where the engine names none; the last one repeats.
    """

    def __init__(
        self,
        urls: Sequence[str] | str,
        *,
        api_key: str | None = None,
        max_in_flight: int = 256,
        connect_timeout_s: float = 5.0,
        request_timeout_s: float | None = None,
        probe_every_s: float = 10.0,
        salt_by_version: bool = True,
        initial_version: int = 0,
        backoff_s: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    ) -> None:
        roots = [urls] if isinstance(urls, str) else list(urls)
        if not roots:
            raise EngineError("expected at least one engine URL, found none", kind=FailureKind.POLICY_UNREACHABLE)
        self._replicas = [
            _Replica(u.rstrip("/"), asyncio.Semaphore(max_in_flight), version=initial_version) for u in roots
        ]
        self._initial_version = initial_version
        self._request_timeout_s = request_timeout_s
        self._probe_every_s = probe_every_s
        self._salt = salt_by_version
        self._backoff_s = tuple(backoff_s)
        self._running: dict[str, dict[str, _Replica]] = {}  # session -> request id -> where
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=httpx.Timeout(None, connect=connect_timeout_s),
            # engines close idle connections after 5 s; ours must be given up before that
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_in_flight, keepalive_expiry=3.0),
            trust_env=False,
        )

    async def __aenter__(self) -> EngineClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # ---- sampling -----------------------------------------------------------------------------------------------

    async def generate(
        self, prompt: PromptIds, params: SamplingParams, *, session: str, deadline: Deadline
    ) -> Generation:
        """Samples a completion.

        Args:
            session: The trial's name: keeps its requests on one replica, where its prefix is cached.

        Raises:
            EngineError: As `RULES` says, with the last cause chained.
            DeadlineExceeded: The deadline passed; the request was aborted.
        """
        spent = dict.fromkeys(Trouble, 0)
        waited_s = 0.0
        for attempt in range(1, 10**6):
            deadline.check()
            replica = self._pick(session)
            queued_at = time.monotonic()
            await deadline.wait(replica.places.acquire())
            waited_s += time.monotonic() - queued_at
            try:
                answer = await self._once(replica, prompt, params, session, deadline)
            except _Trouble as trouble:
                rule = RULES[trouble.what]
                spent[trouble.what] += 1
                if rule.moves:
                    replica.down_until_s = time.monotonic() + _COOL_DOWN_S
                if rule.attempts is not None and spent[trouble.what] >= rule.attempts:
                    tries = f" after {attempt} requests" if attempt > 1 else ""
                    raise EngineError(f"{replica.url}: {trouble}{tries}", kind=rule.kind) from trouble
                pause_s = trouble.retry_after_s
                if pause_s is None:
                    pause_s = self._backoff_s[min(sum(spent.values()), len(self._backoff_s)) - 1]
                if trouble.what is Trouble.BUSY and pause_s > deadline.remaining_s:
                    raise EngineError(f"{replica.url}: {trouble}, beyond {deadline.what}", kind=rule.kind) from trouble
                pause_s = min(pause_s, deadline.remaining_s)
                waited_s += pause_s
            else:
                return replace(answer, waited_s=waited_s, attempts=attempt)
            finally:
                replica.places.release()
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def _once(
        self, replica: _Replica, prompt: PromptIds, params: SamplingParams, session: str, deadline: Deadline
    ) -> Generation:
        request_id = f"{session}-{uuid.uuid4().hex[:12]}"
        fields: dict[str, Any] = {"sampling_params": params.wire(), "request_id": request_id}
        if self._salt:
            fields["cache_salt"] = f"v{replica.version}"
        body = b"".join((b'{"token_ids":', prompt.json, b",", json.dumps(fields).encode()[1:]))
        running = self._running.setdefault(session, {})
        running[request_id] = replica
        try:
            response = await self._post(replica, body, session, deadline)
            _check_status(response)
            answer = self._read(response, replica, request_id, len(prompt), params)
        except (_Trouble, DeadlineExceeded, asyncio.CancelledError) as error:
            if not isinstance(error, _Trouble) or error.what in (Trouble.SILENT, Trouble.GARBAGE):
                await self._abort(replica, [request_id])  # nobody awaits it any more
            raise
        finally:
            running.pop(request_id, None)
            if not running:
                self._running.pop(session, None)
        if len(answer.versions):
            replica.version = int(answer.versions[-1])
        return answer

    async def _post(self, replica: _Replica, body: bytes, session: str, deadline: Deadline) -> httpx.Response:
        """One request, watched: it ends with the answer, the deadline, the time limit or the engine's death."""
        headers = {"Content-Type": "application/json", "X-Session-ID": session}
        limit = deadline.within(self._request_timeout_s, "the limit for one request")
        task = asyncio.ensure_future(
            self._http.post(f"{replica.url}/inference/v1/generate", content=body, headers=headers)
        )
        failures = 0
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=min(self._probe_every_s, limit.remaining_s))
                if done:
                    return task.result()
                deadline.check()
                if limit.expired:
                    raise _Trouble(Trouble.SILENT, f"no answer within {self._request_timeout_s} s")
                failures = 0 if await self._healthy(replica) else failures + 1
                if failures >= 3:
                    raise _Trouble(Trouble.SILENT, "no answer, and the engine no longer answers GET /health")
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _Trouble(Trouble.UNREACHABLE, f"{type(error).__name__}: {error}") from error
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, httpx.HTTPError):
                    await task

    async def _healthy(self, replica: _Replica) -> bool:
        try:
            answer = await self._http.get(f"{replica.url}/health", timeout=min(self._probe_every_s, 5.0))
        except httpx.HTTPError:
            return False
        return answer.status_code < 500

    def _pick(self, session: str) -> _Replica:
        """The session's own replica (rendezvous hashing, so that a lost one moves only its own sessions)."""
        now = time.monotonic()
        up = [r for r in self._replicas if r.down_until_s <= now] or self._replicas
        return max(up, key=lambda r: hashlib.blake2b(f"{session}\0{r.url}".encode(), digest_size=8).digest())

    def _read(
        self, response: httpx.Response, replica: _Replica, request_id: str, prompt_tokens: int, params: SamplingParams
    ) -> Generation:
        try:
            answer = read_generation(
                response.json(),
                request_id=request_id,
                engine=replica.url,
                prompt_tokens=prompt_tokens,
                params=params,
                version=replica.version,
                initial_version=self._initial_version,
            )
        except (ValueError, RecursionError) as error:
            raise _Trouble(Trouble.GARBAGE, f"the answer is no generation: {error}") from error
        if answer.finish == "error":
            raise _Trouble(Trouble.BROKEN, "the engine ended the request with finish_reason 'error'")
        return answer

    # ---- aborting and asking ------------------------------------------------------------------------------------

    async def abort(self, session: str) -> None:
        """Ends the session's running requests; whoever awaits them gets the partial ids with finish `abort`."""
        by_replica: dict[str, tuple[_Replica, list[str]]] = {}
        for request_id, replica in self._running.get(session, {}).items():
            by_replica.setdefault(replica.url, (replica, []))[1].append(request_id)
        for replica, ids in by_replica.values():
            await self._abort(replica, ids)

    async def _abort(self, replica: _Replica, request_ids: Sequence[str]) -> None:
        """Best effort within two seconds, also while being cancelled."""

        async def send() -> None:
            with contextlib.suppress(httpx.HTTPError):
                # vLLM knows a request by the name that it made of the client's.
                ids = [*request_ids, *(f"generate-tokens-{request_id}" for request_id in request_ids)]
                url = f"{replica.url}/inference/v1/abort_requests"
                await self._http.post(url, json={"request_ids": ids}, timeout=_ABORT_WAIT_S)

        await asyncio.shield(asyncio.ensure_future(send()))

    async def info(self, deadline: Deadline) -> EngineInfo:
        """Model name and context length, of the first engine that answers.

        Raises:
            EngineError: None answers before the deadline, or none says its context length.
        """
        last: Exception | None = None
        for pause_s in [*self._backoff_s, *[self._backoff_s[-1]] * 1000]:
            for replica in self._replicas:
                try:
                    answer = await self._http.get(f"{replica.url}/v1/models", timeout=min(10.0, deadline.remaining_s))
                    _check_status(answer)
                    return _info(answer.json())
                except (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
                    last = error
                except _Trouble as trouble:
                    last = trouble
                    if RULES[trouble.what].attempts == 1:
                        raise EngineError(f"{replica.url}: {trouble}", kind=RULES[trouble.what].kind) from trouble
            if deadline.remaining_s <= pause_s:
                break
            await asyncio.sleep(pause_s)
        raise EngineError(
            f"no engine answered GET /v1/models ({', '.join(r.url for r in self._replicas)}): {last!r}",
            kind=FailureKind.POLICY_UNREACHABLE,
        ) from last

    # ---- the trainer's side -------------------------------------------------------------------------------------

    async def pause(self, deadline: Deadline, *, clear_cache: bool = True) -> None:
        """Freezes sampling at every engine; no request is dropped. `clear_cache`: recompute KV under new weights."""
        flag = "true" if clear_cache else "false"
        await self._everywhere(f"/pause?mode=keep&clear_cache={flag}", None, deadline)

    async def resume(self, deadline: Deadline) -> None:
        """Goes on sampling."""
        await self._everywhere("/resume", None, deadline)

    async def update_weights(self, update_info: Mapping[str, Any], version: int, deadline: Deadline) -> None:
        """Loads weights into paused engines (`update_info` as their weight-transfer backend takes it)."""
        await self._everywhere("/start_weight_update", {}, deadline)
        await self._everywhere("/update_weights", {"update_info": dict(update_info)}, deadline)
        await self._everywhere("/finish_weight_update", {"weight_version": f"v{version}"}, deadline)
        for replica in self._replicas:
            replica.version = version

    async def _everywhere(self, route: str, body: Mapping[str, Any] | None, deadline: Deadline) -> None:
        async def one(replica: _Replica) -> None:
            try:
                answer = await self._http.post(f"{replica.url}{route}", json=body, timeout=deadline.timeout_s)
                _check_status(answer)
            except httpx.HTTPError as error:
                raise EngineError(f"{replica.url}{route}: {error!r}", kind=FailureKind.POLICY_UNREACHABLE) from error
            except _Trouble as trouble:
                raise EngineError(f"{replica.url}{route}: {trouble}", kind=RULES[trouble.what].kind) from trouble

        await asyncio.gather(*(one(r) for r in self._replicas))


def _check_status(response: httpx.Response) -> None:
    code = response.status_code
    if 200 <= code < 300:
        return
    what = (
        Trouble.BUSY
        if code in (429, 503)
        else Trouble.AUTH
        if code in (401, 403)
        else Trouble.BROKEN
        if code >= 500 or code in (408, 425)
        else Trouble.REJECTED
    )
    hint = f" ({_HINTS[code]})" if code in _HINTS else ""
    text = " ".join(response.text.split())[:300]
    raise _Trouble(what, f"HTTP {code}{hint}: {text}", _retry_after(response))


def _info(models: Any) -> EngineInfo:
    """What `GET /v1/models` says. Raises `ValueError` (and what reading raises) where it says no context length."""
    card = models["data"][0]
    length = card["max_model_len"]
    if type(length) is not int or length < 2:
        # With 0, every turn would end with a full context, and be scored so.
        raise ValueError(f"max_model_len is {str(length)[:40]!r}, expected a number of tokens")
    return EngineInfo(model=well_formed(str(card["id"])), max_model_len=length)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds the engine asks to wait, within reason."""
    try:
        seconds = float(response.headers.get("Retry-After", "nan"))
    except ValueError:
        return None  # a date: our own back-off will do
    return None if math.isnan(seconds) else min(max(seconds, 0.0), 300.0)
