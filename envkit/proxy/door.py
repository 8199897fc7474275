"""One trial's door: the agent's requests come in on one side, a session takes them as observations and answers them.

Exactly one request is before the session at a time; others wait in order of arrival. Each is answered once: a client
that lost the answer and asks again gets the same one, and a client that simply asks the same thing twice gets two
samples. When the session ends, whatever still waits is refused in plain words. What a door keeps is bounded, whatever
an agent asks: how many requests wait and how large they are, the answers kept for retries, the conversations that a
later request may go on from (they share their messages).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from dataclasses import dataclass, field, replace

from envkit.messages import AssistantMessage, Observation
from envkit.proxy.dialect import AnyMessage, BadRequest, ModelRequest
from envkit.proxy.threads import SideCall, ThreadBook, looks_like_side_call

__all__ = ["Closed", "Door", "Exchange"]

#: Answers kept for clients that lost them.
_KEPT = 32
#: Answers that a request may go on from by their id.
_GOING_ON = 256
#: Requests that may wait, and their bodies' bytes together; agents in earnest have a handful.
_MAX_WAITING = 64
_MAX_WAITING_BYTES = 64 << 20


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
        size: Bytes of the body, which count while the request waits.
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
    size: int = 0


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
        self._recent: list[Exchange] = []  # those that wait, and the last few that were answered
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
            BadRequest: It goes on from an answer that was never given (or very long ago), or too many wait already.
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
        self._make_room(len(body))
        exchange = Exchange(secrets.token_hex(12), dialect, request, key, retry_key, size=len(body))
        self._recent.append(exchange)
        self._queue.append(exchange)
        self._arrived.set()
        return exchange

    def _known(self, key: bytes, retry: bool, retry_key: str | None) -> Exchange | None:
        same = [e for e in reversed(self._recent) if e.key == key]
        for exchange in same:
            if retry_key is not None and exchange.retry_key == retry_key:
                return exchange
        for exchange in same:
            # Nobody got its answer, and nobody waits for it any more: this is the client that lost it.
            if exchange.seen and not exchange.delivered and not exchange.waiting:
                return exchange
        return same[0] if retry and same else None

    def _make_room(self, size: int) -> None:
        if len(self._queue) >= _MAX_WAITING or sum(e.size for e in self._queue) + size > _MAX_WAITING_BYTES:
            for exchange in [e for e in self._queue if _abandoned(e)]:
                self._queue.remove(exchange)
                self._recent.remove(exchange)
        if len(self._queue) >= _MAX_WAITING or sum(e.size for e in self._queue) + size > _MAX_WAITING_BYTES:
            raise BadRequest(
                f"{len(self._queue)} requests of {sum(e.size for e in self._queue)} bytes wait already; at most "
                f"{_MAX_WAITING} of {_MAX_WAITING_BYTES} bytes may: wait for an answer first",
                429,
            )

    # ---- the session's side ---------------------------------------------------------------------------------------

    async def next(self) -> Observation:
        """The next request as an observation; it stays pending until `reply`. Cancel it as you like.

        Raises:
            Closed: The door was shut.
        """
        if self._current is not None:
            raise RuntimeError("the pending request has not been answered; reply to it first")
        while True:
            while not self._queue:
                if self._closed is not None:
                    raise Closed(self._closed)
                self._arrived.clear()
                await self._arrived.wait()
            exchange = self._queue.popleft()
            if not _abandoned(exchange):
                break
            # Its client gave up before anybody looked at it: nothing is sampled for nobody.
            self._recent.remove(exchange)
        observation = self._book.observe(exchange.request)
        # The book has what the request said; its own copy of a long history would be one per request.
        exchange.request = replace(exchange.request, messages=(), tools=())
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
        if exchange.dialect == "responses":
            self._answers[f"resp_{exchange.id}"] = self._book.history(thread)
            while len(self._answers) > _GOING_ON:
                del self._answers[next(iter(self._answers))]
        if not exchange.answer.done():
            exchange.answer.set_result(message)
        # One whose client is still reading is not forgotten, or its retry would be another sample.
        answered = [e for e in self._recent if e.answer.done() and not e.waiting]
        for old in answered[:-_KEPT]:
            self._recent.remove(old)

    def close(self, why: str) -> None:
        """Shuts the door: the pending request and all that wait are refused, as is what still comes. Idempotent."""
        if self._closed is not None:
            return
        self._closed = why
        left = [*([self._current[0]] if self._current else []), *self._queue]
        self._current = None
        self._queue.clear()
        self._recent.clear()
        self._answers.clear()
        for exchange in left:
            if not exchange.answer.done():
                exchange.answer.set_exception(Closed(why))
                exchange.answer.exception()  # nobody may be waiting for it any more
        self._arrived.set()


def _abandoned(exchange: Exchange) -> bool:
    return exchange.seen and not exchange.waiting


def _going_on(request: ModelRequest, before: tuple[AnyMessage, ...]) -> ModelRequest:
    """The whole conversation of a request that names only what is new. New instructions replace the old ones."""
    new = request.messages
    old = before
    if new and _is_system(new[0]):
        old = tuple(m for n, m in enumerate(before) if not (n == 0 and _is_system(m)))
        new, old = new[1:], (new[0], *old)
    return replace(request, messages=(*old, *new))


def _is_system(message: AnyMessage) -> bool:
    return not isinstance(message, AssistantMessage) and message.role == "system"
