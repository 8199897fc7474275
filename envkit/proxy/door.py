"""One trial's door: the agent's requests come in on one side, a session takes them as observations and answers them.

Exactly one request is before the session at a time; others wait in order of arrival. Each is answered once: a client
that lost the answer and asks again gets the same one, and a client that simply asks the same thing twice gets two
samples. When the session ends, whatever still waits is refused in plain words.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from dataclasses import dataclass, field

from envkit.messages import AssistantMessage, Observation
from envkit.proxy.dialect import AnyMessage, BadRequest, ModelRequest
from envkit.proxy.threads import SideCall, ThreadBook, looks_like_side_call

__all__ = ["Closed", "Door", "Exchange"]

#: Answers kept for clients that lost them.
_KEPT = 32


class Closed(Exception):
    """The trial's door is shut; the message says why. An agent gets it as an error that it shouldn't retry."""


@dataclass(eq=False, slots=True)
class Exchange:
    """A request and, once it is there, its answer.

    Attributes:
        id: Goes into the answer's id.
        key: Digest of dialect and body: equal keys are the same request.
        retry_key: What the client itself calls this request (an idempotency key), if it does.
        waiting: Clients that are connected and wait for this answer.
        seen: At least one client has waited for it.
        delivered: A client got the whole answer.
    """

    id: str
    dialect: str
    request: ModelRequest
    key: bytes
    retry_key: str | None
    answer: asyncio.Future[AssistantMessage] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    waiting: int = 0
    seen: bool = False
    delivered: bool = False


class Door:
    """Not thread-safe: all of it happens on one event loop.

    Attributes:
        token: The credential that *is* the trial.
    """

    def __init__(self, is_side_call: SideCall = looks_like_side_call) -> None:
        self.token = f"envkit-{secrets.token_urlsafe(24)}"
        self._book = ThreadBook(is_side_call)
        self._queue: deque[Exchange] = deque()
        self._arrived = asyncio.Event()
        self._current: tuple[Exchange, str] | None = None
        self._recent: deque[Exchange] = deque(maxlen=_KEPT)
        self._answers: dict[str, tuple[AnyMessage, ...]] = {}
        self._closed: str | None = None

    # ---- the agent's side -----------------------------------------------------------------------------------------

    def submit(
        self, dialect: str, request: ModelRequest, body: bytes, *, retry: bool = False, retry_key: str | None = None
    ) -> Exchange:
        """A request came in; gives the exchange to wait on. A retry of one that is known joins that one.

        Args:
            retry: The client says that it asks again.
            retry_key: The client's own name for the request.

        Raises:
            Closed: The trial is over.
            BadRequest: It goes on from an answer that was never given.
        """
        if self._closed is not None:
            raise Closed(self._closed)
        key = hashlib.blake2b(dialect.encode() + b"\0" + body, digest_size=16).digest()
        known = self._known(key, retry, retry_key)
        if known is not None:
            return known
        if request.previous is not None:
            before = self._answers.get(request.previous)
            if before is None:
                raise BadRequest(f"previous_response_id: no answer {request.previous!r} was given in this trial", 404)
            request = _going_on(request, before)
        exchange = Exchange(secrets.token_hex(12), dialect, request, key, retry_key)
        self._recent.append(exchange)
        self._queue.append(exchange)
        self._arrived.set()
        return exchange

    def _known(self, key: bytes, retry: bool, retry_key: str | None) -> Exchange | None:
        for exchange in reversed(self._recent):
            if retry_key is not None and exchange.retry_key == retry_key:
                return exchange
            if exchange.key != key:
                continue
            if retry:
                return exchange
            # Nobody got its answer, and nobody waits for it any more: this is the client that lost it.
            if not exchange.delivered and not exchange.waiting:
                return exchange
        return None

    # ---- the session's side ---------------------------------------------------------------------------------------

    async def next(self) -> Observation:
        """The next request as an observation; it stays pending until `reply`. Cancel it as you like.

        Raises:
            Closed: The door was shut.
        """
        if self._current is not None:
            raise RuntimeError("the pending request has not been answered; reply to it first")
        while not self._queue:
            if self._closed is not None:
                raise Closed(self._closed)
            self._arrived.clear()
            await self._arrived.wait()
        exchange = self._queue.popleft()
        if exchange.seen and not exchange.waiting:
            # Its client gave up before anybody looked at it: nothing is sampled for nobody.
            self._recent.remove(exchange)
            return await self.next()
        observation = self._book.observe(exchange.request)
        self._current = (exchange, observation.thread)
        return observation

    @property
    def pending(self) -> Exchange | None:
        """The request that the session has taken and not answered yet."""
        return self._current[0] if self._current else None

    @property
    def waiting(self) -> int:
        """Requests that have come and were not taken yet."""
        return len(self._queue)

    def reply(self, message: AssistantMessage) -> None:
        """Answers the pending request."""
        if self._current is None:
            raise RuntimeError("there is no pending request to reply to")
        exchange, thread = self._current
        self._current = None
        self._book.replied(thread, message)
        self._answers[f"resp_{exchange.id}"] = (*exchange.request.messages, message)
        if not exchange.answer.done():
            exchange.answer.set_result(message)

    def close(self, why: str) -> None:
        """Shuts the door: the pending request and all that wait are refused, as is what still comes. Idempotent."""
        if self._closed is not None:
            return
        self._closed = why
        left = [*([self._current[0]] if self._current else []), *self._queue]
        self._current = None
        self._queue.clear()
        for exchange in left:
            if not exchange.answer.done():
                exchange.answer.set_exception(Closed(why))
                exchange.answer.exception()  # nobody may be waiting for it any more
        self._arrived.set()


def _going_on(request: ModelRequest, before: tuple[AnyMessage, ...]) -> ModelRequest:
    """The whole conversation of a request that names only what is new. New instructions replace the old ones."""
    new = request.messages
    old = before
    if new and _is_system(new[0]):
        old = tuple(m for n, m in enumerate(before) if not (n == 0 and _is_system(m)))
        new, old = new[1:], (new[0], *old)
    return ModelRequest(
        messages=(*old, *new),
        tools=request.tools,
        stream=request.stream,
        model=request.model,
        max_tokens=request.max_tokens,
        include_usage=request.include_usage,
        previous=request.previous,
    )


def _is_system(message: AnyMessage) -> bool:
    return not isinstance(message, AssistantMessage) and message.role == "system"
