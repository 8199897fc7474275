"""Asking an endpoint until it answers, or until there is no point: keys, retries, waiting, one budget over all of it.

What an answer means is a table (`_MEANING`), what to do about it a short loop: a limited key rests and the next one is
tried, a refused key is out, a broken connection or an overloaded server is tried again a bounded number of times, and
any other refusal ends the trial. Clock, sleep and randomness are passed in.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind
from envkit.policy import chat_wire
from envkit.policy.backoff import delay_s, retry_after_s
from envkit.policy.chat_options import ChatOptions
from envkit.policy.keys import ApiKey, KeyPool, Quarantine
from envkit.policy.transport import Broken, Reply, Transport
from envkit.scrub import Scrubber

__all__ = ["Asked", "ChatClient", "Meaning"]


class Meaning(StrEnum):
    """What an HTTP answer means for the request."""

    ANSWER = "answer"
    CONTEXT = "context"  # the model's context is full: a result, not a fault
    LIMITED = "rate limited"
    REFUSED = "key refused"
    EXHAUSTED = "key out of quota"
    AGAIN = "try again"
    REJECTED = "rejected"


#: By status; 2xx is an answer, 5xx is tried again, anything else is rejected.
_MEANING: Mapping[int, Meaning] = {
    401: Meaning.REFUSED,
    402: Meaning.EXHAUSTED,
    403: Meaning.REFUSED,
    408: Meaning.AGAIN,
    409: Meaning.AGAIN,
    425: Meaning.AGAIN,
    429: Meaning.LIMITED,
    498: Meaning.LIMITED,
    529: Meaning.AGAIN,
}


def meaning(status: int, body: bytes) -> Meaning:
    """What an answer means. The body decides where the status does not."""
    if 200 <= status < 300:
        return Meaning.ANSWER
    if chat_wire.is_context_error(status, body):
        return Meaning.CONTEXT
    if chat_wire.is_quota_error(status, body):
        return Meaning.EXHAUSTED
    return _MEANING.get(status, Meaning.AGAIN if status >= 500 else Meaning.REJECTED)


@dataclass(frozen=True, slots=True)
class Asked:
    """How one turn went.

    Attributes:
        body: The answer; None where the context is full.
        waited_s: Time that was not the model's work: rests, pauses, tries that failed.
        request_s: The request that succeeded.
        tries: Requests sent.
    """

    body: bytes | None
    waited_s: float
    request_s: float
    tries: int
    key: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one request. `asked_s` is the rest that the endpoint asks for."""

    meant: Meaning
    problem: str
    body: bytes | None = None
    asked_s: float | None = None


class ChatClient:
    """Asks one endpoint with a pool of keys. Used by one trial, one request at a time."""

    def __init__(
        self,
        options: ChatOptions,
        keys: KeyPool,
        transport: Transport,
        *,
        rng: random.Random,
        scrubber: Scrubber,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._options = options
        self._keys = keys
        self._transport = transport
        self._rng = rng
        self._scrubber = scrubber
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            **{name.lower(): text for name, text in (headers or {}).items()},
        }
        self._clock, self._now, self._sleep = clock, now, sleep

    async def ask(self, body: bytes, deadline: Deadline, accept: Callable[[bytes], None] = lambda body: None) -> Asked:
        """Sends a request until there is an answer.

        Args:
            accept: Raises `NotAnAnswer` for a body that is none; that counts as a failed try.

        Raises:
            EnvkitError: POLICY_UNREACHABLE, POLICY_RATE_LIMITED, POLICY_AUTH or POLICY_REJECTED.
            DeadlineExceeded: The trial's own deadline passed during a request.
        """
        started_s = self._clock()
        budget_end_s = started_s + min(self._options.call_budget_s, deadline.remaining_s)
        tries = failures = 0
        while True:
            key = await self._key(budget_end_s)
            sent_s = self._clock()
            tries += 1
            try:
                outcome = await self._try(key, body, budget_end_s - sent_s, accept)
            except Broken as error:
                if deadline.expired:
                    raise DeadlineExceeded(f"{deadline.what} has passed while the model was asked: {error}") from error
                outcome = _Outcome(Meaning.AGAIN, str(error))
            match outcome.meant:
                case Meaning.ANSWER | Meaning.CONTEXT:
                    self._keys.worked(key)
                    return Asked(
                        body=outcome.body if outcome.meant is Meaning.ANSWER else None,
                        waited_s=max(0.0, sent_s - started_s),
                        request_s=self._clock() - sent_s,
                        tries=tries,
                        key=key.label,
                    )
                case Meaning.LIMITED:
                    self._keys.limited(key, self._clock(), outcome.asked_s)
                case Meaning.REFUSED | Meaning.EXHAUSTED:
                    self._refuse(key, outcome)
                case Meaning.REJECTED:
                    raise EnvkitError(
                        f"the endpoint rejects the request: {outcome.problem}",
                        kind=FailureKind.POLICY_REJECTED,
                        boundary=Boundary.POLICY,
                    )
                case Meaning.AGAIN:
                    failures += 1
                    await self._pause(failures, outcome, budget_end_s)

    async def _try(self, key: ApiKey, body: bytes, left_s: float, accept: Callable[[bytes], None]) -> _Outcome:
        """Sends the request once. Raises `Broken`."""
        headers = dict(self._headers)
        if key.value is not None:
            headers["authorization"] = f"Bearer {key.value}"
        timeout_s = max(0.0, min(self._options.request_timeout_s, left_s))
        reply = await self._transport.post(body, headers, timeout_s=timeout_s)
        meant = meaning(reply.status, reply.body)
        if meant is Meaning.ANSWER:
            try:
                accept(reply.body)
                return _Outcome(meant, "", reply.body)
            except chat_wire.NotAnAnswer as error:
                problem = f"HTTP {reply.status}, but no chat completion: {error}"
                # Some endpoints answer 200 with an error inside, and its status.
                meant = meaning(error.status or 502, reply.body)
        else:
            problem = f"HTTP {reply.status}: {chat_wire.error_text(reply.body)}{self._hint(reply)}"
        asked_s = retry_after_s(reply.headers, self._now())
        return _Outcome(meant, self._scrubber.scrub_text(problem), asked_s=asked_s)

    async def _key(self, budget_end_s: float) -> ApiKey:
        """A key that is ready; waits for one as long as the budget lasts."""
        while True:
            now_s = self._clock()
            taken = self._keys.take(now_s)
            if isinstance(taken, ApiKey):
                return taken
            if now_s + taken > budget_end_s:
                raise EnvkitError(
                    f"every key is cooling down after a rate limit; the next is ready in {taken:.0f} s, but only "
                    f"{max(0.0, budget_end_s - now_s):.0f} s of this turn's budget are left. Use more keys, fewer "
                    "trials at once, or a larger call_budget_s",
                    kind=FailureKind.POLICY_RATE_LIMITED,
                    boundary=Boundary.POLICY,
                )
            await self._sleep(max(taken, 0.001))

    async def _pause(self, failures: int, outcome: _Outcome, budget_end_s: float) -> None:
        options = self._options
        pause_s = delay_s(failures, self._rng, first_s=options.first_delay_s, longest_s=options.longest_delay_s)
        pause_s = max(pause_s, outcome.asked_s or 0.0)
        if failures > options.max_retries:
            why = f"after {failures} tries"
        elif self._clock() + pause_s >= budget_end_s:
            why = f"after {failures} tries, with no time left for another"
        else:
            await self._sleep(pause_s)
            return
        raise EnvkitError(
            f"no answer from {options.address} {why}; the last one: {outcome.problem}",
            kind=FailureKind.POLICY_UNREACHABLE,
            boundary=Boundary.POLICY,
        )

    def _refuse(self, key: ApiKey, outcome: _Outcome) -> None:
        """Takes a key out; raises where none is left, with what the endpoint said."""
        refused = outcome.meant is Meaning.REFUSED
        self._keys.refused(key, Quarantine.REFUSED if refused else Quarantine.EXHAUSTED)
        try:
            self._keys.check()
        except EnvkitError as error:
            hint = "" if key.value is not None else " (no key was sent: name one in api_key_env or api_key_file)"
            raise EnvkitError(
                f"{error}. The endpoint said: {outcome.problem}{hint}", kind=error.kind, boundary=error.boundary
            ) from None

    def _hint(self, reply: Reply) -> str:
        if reply.status in (404, 405):
            address = self._options.address
            return f" (does base_url, {address}, end before /chat/completions, and is the model's name right?)"
        if 300 <= reply.status < 400:
            return f" (it redirects to {reply.headers.get('location', 'nowhere')[:200]}; give that as base_url)"
        return ""
