"""Failures: the vocabulary, who is to blame, what is retried, and the one place where an exception becomes a record.

The rule of the house is that *a reward exists only where a verdict exists*. Everything that prevents a verdict ends as
a `Failure`; nothing here ever turns into a number. Extension code (harnesses, verifiers, sandbox providers, policies)
raises plain exceptions; `boundary(...)` around the call says whose code it was; `capture(...)`, called once per trial,
makes the record. The first cause stays the cause: an attribution or a kind, once given, is never overwritten by an
outer frame.
"""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

__all__ = [
    "RETRIES",
    "Boundary",
    "Cancelled",
    "CapabilityError",
    "DeadlineExceeded",
    "EnvkitError",
    "Failure",
    "FailureKind",
    "NoVerdict",
    "SandboxDied",
    "UserError",
    "boundary",
    "capture",
    "did_you_mean",
]


class Boundary(StrEnum):
    """Whose code or machine failed."""

    POLICY = "policy"  # the model, its endpoint, its credentials
    HARNESS = "harness"  # what stands between model and sandbox
    TOOL = "tool"  # a tool server that broke (not a tool call that the model got wrong)
    SANDBOX = "sandbox"  # the isolated machine
    VERIFIER = "verifier"  # the code that checks the result
    JUDGE = "judge"  # a model asked for a criterion's verdict
    ENVKIT = "envkit"  # ourselves, the host, or nobody else's


class FailureKind(StrEnum):
    """What went wrong, as a closed set; reports group by it."""

    SANDBOX_UNAVAILABLE = "sandbox_unavailable"  # no isolation or no provider on this machine
    SANDBOX_START = "sandbox_start"  # it never became ready
    SANDBOX_DIED = "sandbox_died"  # it was there and is gone
    SANDBOX_ERROR = "sandbox_error"  # it is there and answers nonsense, or a transfer failed
    SETUP_FAILED = "setup_failed"  # world upload, a step's setup.sh or a health check failed
    TOOL_SERVER_DIED = "tool_server_died"  # a tool server the harness needs is gone
    HARNESS_ERROR = "harness_error"  # an exception in a harness
    POLICY_UNREACHABLE = "policy_unreachable"  # the model's endpoint does not answer
    POLICY_RATE_LIMITED = "policy_rate_limited"  # every key is cooling down, beyond the budget
    POLICY_AUTH = "policy_auth"  # every key was refused
    POLICY_REJECTED = "policy_rejected"  # the endpoint refuses this request (4xx)
    POLICY_ERROR = "policy_error"  # an exception in a policy
    SOLUTION_FAILED = "solution_failed"  # the oracle's own solution broke
    DEADLINE = "deadline"  # the trial's wall-clock budget expired
    VERIFIER_ERROR = "verifier_error"  # an exception in a verifier, or its process died
    VERIFIER_TIMEOUT = "verifier_timeout"  # verification ran past its share
    REWARD_MISSING = "reward_missing"  # a verifier script left no reward file
    REWARD_INVALID = "reward_invalid"  # it left one that can't be read as finite numbers
    REFERENCE_INVALID = "reference_invalid"  # the task's own reference file is broken
    JUDGE_UNREACHABLE = "judge_unreachable"
    JUDGE_UNPARSABLE = "judge_unparsable"
    TASK_INVALID = "task_invalid"  # the task directory can't be used as it is
    CAPABILITY = "capability"  # the chosen sandbox or harness can't do what the task needs
    DISK_FULL = "disk_full"  # the host has no room for results
    TRIAL_DIED = "trial_died"  # the trial's process vanished (signal, OOM)
    CANCELLED = "cancelled"  # somebody asked to stop
    UNKNOWN = "unknown"  # an exception nobody attributed


#: How often a failure of a kind is tried again in a fresh attempt (attempts = 1 + retries). Data, not branches: a job
#: may override single kinds, and a test enumerates the table.
RETRIES: Mapping[FailureKind, int] = {
    FailureKind.SANDBOX_UNAVAILABLE: 0,
    FailureKind.SANDBOX_START: 2,
    FailureKind.SANDBOX_DIED: 2,
    FailureKind.SANDBOX_ERROR: 1,
    FailureKind.SETUP_FAILED: 1,
    FailureKind.TOOL_SERVER_DIED: 2,
    FailureKind.HARNESS_ERROR: 1,
    FailureKind.POLICY_UNREACHABLE: 2,
    FailureKind.POLICY_RATE_LIMITED: 2,
    FailureKind.POLICY_AUTH: 0,
    FailureKind.POLICY_REJECTED: 0,
    FailureKind.POLICY_ERROR: 1,
    FailureKind.SOLUTION_FAILED: 0,
    FailureKind.DEADLINE: 1,
    FailureKind.VERIFIER_ERROR: 1,
    FailureKind.VERIFIER_TIMEOUT: 1,
    FailureKind.REWARD_MISSING: 0,
    FailureKind.REWARD_INVALID: 0,
    FailureKind.REFERENCE_INVALID: 0,
    FailureKind.JUDGE_UNREACHABLE: 2,
    FailureKind.JUDGE_UNPARSABLE: 1,
    FailureKind.TASK_INVALID: 0,
    FailureKind.CAPABILITY: 0,
    FailureKind.DISK_FULL: 0,
    FailureKind.TRIAL_DIED: 2,
    FailureKind.CANCELLED: 0,
    FailureKind.UNKNOWN: 1,
}

#: The kind of a plain exception that a boundary let through.
_KIND_AT: Mapping[Boundary, FailureKind] = {
    Boundary.POLICY: FailureKind.POLICY_ERROR,
    Boundary.HARNESS: FailureKind.HARNESS_ERROR,
    Boundary.TOOL: FailureKind.HARNESS_ERROR,
    Boundary.SANDBOX: FailureKind.SANDBOX_ERROR,
    Boundary.VERIFIER: FailureKind.VERIFIER_ERROR,
    Boundary.JUDGE: FailureKind.JUDGE_UNREACHABLE,
    Boundary.ENVKIT: FailureKind.UNKNOWN,
}


class Failure(BaseModel):
    """The record of what prevented a verdict.

    Attributes:
        kind: What went wrong.
        boundary: Whose part it was.
        message: For the person who reads it at 2 a.m.: expected, found, what to do.
        retriable: Whether a fresh attempt may help (`RETRIES[kind] > 0`).
        cause: The exception chain, first cause first, one line each.
        traceback: The formatted traceback where an exception was captured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FailureKind
    boundary: Boundary
    message: str
    retriable: bool
    cause: tuple[str, ...] = ()
    traceback: str | None = None

    @classmethod
    def of(cls, kind: FailureKind, boundary: Boundary, message: str, *, cause: tuple[str, ...] = ()) -> Failure:
        """Makes a failure that no exception stands for (a process that vanished, say)."""
        return cls(kind=kind, boundary=boundary, message=message, retriable=RETRIES[kind] > 0, cause=cause)


class EnvkitError(Exception):
    """An error that knows its kind and boundary. Subclass or raise directly; `kind` and `boundary` may be given."""

    kind: FailureKind = FailureKind.UNKNOWN
    boundary: Boundary = Boundary.ENVKIT

    def __init__(
        self, message: str | EnvkitError, *, kind: FailureKind | None = None, boundary: Boundary | None = None
    ) -> None:
        super().__init__(str(message))
        if isinstance(message, EnvkitError):  # Gymnasium's vector envs raise a worker's error as `type(error)(error)`
            kind, boundary = kind or message.kind, boundary or message.boundary
        if kind is not None:
            self.kind = kind
        if boundary is not None:
            self.boundary = boundary


class UserError(EnvkitError):
    """The caller asked for something impossible: a bad id, a bad file, a bad option. The CLI exits with 2."""

    kind = FailureKind.TASK_INVALID


class CapabilityError(UserError):
    """The chosen sandbox or harness can't do what the task needs; the message names one that can."""

    kind = FailureKind.CAPABILITY
    boundary = Boundary.SANDBOX


class SandboxDied(EnvkitError):
    """The sandbox is gone: its supervisor died or its channel closed. Never shown to a model as tool output."""

    kind = FailureKind.SANDBOX_DIED
    boundary = Boundary.SANDBOX


class DeadlineExceeded(EnvkitError):
    """The trial's wall-clock budget expired (a fault), as opposed to an agent limit (a result)."""

    kind = FailureKind.DEADLINE


class Cancelled(EnvkitError):
    """Somebody asked the work to stop."""

    kind = FailureKind.CANCELLED


class NoVerdict(EnvkitError):
    """Raised by `Env.step` where an episode ended without a verdict; `failure` says why. Never a reward of 0."""

    failure: Failure

    def __init__(self, failure: Failure | NoVerdict) -> None:
        failure = failure.failure if isinstance(failure, NoVerdict) else failure
        super().__init__(
            f"no verdict, hence no reward: {failure.kind} at {failure.boundary}: {failure.message}",
            kind=failure.kind,
            boundary=failure.boundary,
        )
        self.failure = failure

    def __reduce__(self) -> tuple[type[NoVerdict], tuple[Failure]]:
        return NoVerdict, (self.failure,)  # what BaseException would pickle is the message, from which none is made


@contextmanager
def boundary(where: Boundary) -> Iterator[None]:
    """Attributes any exception that leaves the block to `where`, unless something inside already did."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, EnvkitError) and not hasattr(error, "__envkit_boundary__"):
            error.__envkit_boundary__ = where  # type: ignore[attr-defined]
        raise


def capture(error: BaseException) -> Failure:
    """Turns an exception into its record. The one capture point: called where a trial ends, nowhere else."""
    if isinstance(error, NoVerdict):
        return error.failure
    if isinstance(error, EnvkitError):
        kind, where = error.kind, error.boundary
    else:
        attributed = getattr(error, "__envkit_boundary__", None)
        where = attributed if isinstance(attributed, Boundary) else Boundary.ENVKIT
        kind = _KIND_AT[where]
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and where is Boundary.ENVKIT:
            kind = FailureKind.DISK_FULL
    chain: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        chain.append(f"{type(current).__name__}: {current}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return Failure(
        kind=kind,
        boundary=where,
        message=str(error) or type(error).__name__,
        retriable=RETRIES[kind] > 0,
        cause=tuple(reversed(chain)),
        traceback="".join(traceback.format_exception(error))[-20_000:],
    )


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """Returns `" (did you mean 'x'?)"` for the nearest known word, or an empty string."""
    import difflib

    def flat(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    by_flat = {flat(k): k for k in known}
    near = difflib.get_close_matches(flat(word), list(by_flat), n=1, cutoff=0.6)
    return f" (did you mean {by_flat[near[0]]!r}?)" if near else ""
