"""Failures: attribution, capture, and the retry table."""

from __future__ import annotations

import errno
import pickle

import pytest

from envkit.failure import (
    RETRIES,
    Boundary,
    EnvkitError,
    Failure,
    FailureKind,
    NoVerdict,
    SandboxDied,
    boundary,
    capture,
    did_you_mean,
)


def caught(*boundaries: Boundary, error: Exception) -> Failure:
    """The failure of `error` after it left these boundaries, innermost first."""

    def raise_through(rest: tuple[Boundary, ...]) -> None:
        if not rest:
            raise error
        with boundary(rest[-1]):
            raise_through(rest[:-1])

    with pytest.raises(Exception) as info:  # noqa: PT011
        raise_through(boundaries)
    return capture(info.value)


def test_every_kind_has_a_retry_rule() -> None:
    assert set(RETRIES) == set(FailureKind)
    assert all(count >= 0 for count in RETRIES.values())


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        (Boundary.POLICY, FailureKind.POLICY_ERROR),
        (Boundary.HARNESS, FailureKind.HARNESS_ERROR),
        (Boundary.SANDBOX, FailureKind.SANDBOX_ERROR),
        (Boundary.VERIFIER, FailureKind.VERIFIER_ERROR),
        (Boundary.ENVKIT, FailureKind.UNKNOWN),
    ],
)
def test_a_plain_exception_is_attributed_to_its_boundary(where: Boundary, kind: FailureKind) -> None:
    failure = caught(where, error=ValueError("x"))
    assert (failure.boundary, failure.kind) == (where, kind)


def test_the_innermost_boundary_wins() -> None:
    assert caught(Boundary.VERIFIER, Boundary.HARNESS, error=KeyError("k")).boundary is Boundary.VERIFIER


def test_an_error_that_knows_its_kind_keeps_it_through_any_boundary() -> None:
    failure = caught(Boundary.HARNESS, Boundary.VERIFIER, error=SandboxDied("gone"))
    assert (failure.kind, failure.boundary) == (FailureKind.SANDBOX_DIED, Boundary.SANDBOX)


def test_an_unattributed_exception_is_unknown_and_never_silent() -> None:
    failure = caught(error=RuntimeError("what"))
    assert failure.kind is FailureKind.UNKNOWN
    assert "RuntimeError: what" in failure.cause
    assert failure.traceback is not None
    assert "RuntimeError" in failure.traceback


def test_a_full_disk_of_the_host_has_its_own_kind_but_the_sandbox_s_does_not() -> None:
    assert caught(error=OSError(errno.ENOSPC, "no space")).kind is FailureKind.DISK_FULL
    assert caught(Boundary.SANDBOX, error=OSError(errno.ENOSPC, "no space")).kind is FailureKind.SANDBOX_ERROR


def test_the_first_cause_comes_first() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise EnvkitError("second", kind=FailureKind.SETUP_FAILED) from error
    except EnvkitError as error:
        failure = capture(error)
    assert failure.cause[0].startswith("KeyError")
    assert failure.cause[-1].startswith("EnvkitError")
    assert failure.kind is FailureKind.SETUP_FAILED


def test_no_verdict_carries_its_failure_unchanged() -> None:
    inner = Failure.of(FailureKind.REWARD_MISSING, Boundary.VERIFIER, "no file")
    assert capture(NoVerdict(inner)) == inner


def test_a_chain_with_a_cycle_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(capture(first).cause) == 2


def test_did_you_mean_finds_the_near_and_leaves_the_far() -> None:
    assert did_you_mean("timeout_secs", ["timeout_sec", "user"]) == " (did you mean 'timeout_sec'?)"
    assert did_you_mean("Network-Mode", ["network_mode"]) == " (did you mean 'network_mode'?)"
    assert did_you_mean("zzz", ["timeout_sec"]) == ""


def test_errors_survive_the_way_between_processes() -> None:
    failure = Failure.of(FailureKind.REWARD_MISSING, Boundary.VERIFIER, "no file")
    for error in (NoVerdict(failure), EnvkitError("x", kind=FailureKind.DISK_FULL), SandboxDied("gone")):
        again = pickle.loads(pickle.dumps(error))
        # Gymnasium's vector envs raise a worker's error as `type(error)(error)`.
        for copied in (again, type(again)(again)):
            assert type(copied) is type(error)
            assert (str(copied), copied.kind, copied.boundary) == (str(error), error.kind, error.boundary)
    assert pickle.loads(pickle.dumps(NoVerdict(failure))).failure == failure
