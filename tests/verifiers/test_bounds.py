"""An agent that leaves many files fails its checks; it can't push its verification out of time."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from envkit.verifiers.bounds import MAX_NEW, MIN_NEW, new_entries
from envkit.verifiers.checks_verifier import ChecksVerifier
from envkit.verifiers.script_verifier import ScriptVerifier

Make = Callable[..., Any]
CHECKS = 'schema_version = "1"\n[[check]]\nid = "a"\nkind = "text"\npath = "good.txt"\ncontains = ["fine"]\n'


def many(count: int) -> list[tuple[tarfile.TarInfo, bytes]]:
    good = tarfile.TarInfo("filesystem/good.txt")
    good.size = 4
    return [(good, b"fine"), *((tarfile.TarInfo(f"filesystem/many/{n}"), b"") for n in range(count))]


@pytest.mark.parametrize("seconds", [1.0, 5.0, 20.0, 600.0])
def test_short_verifiers_bound_more(seconds: float) -> None:
    assert MIN_NEW <= new_entries(seconds) <= MAX_NEW
    assert new_entries(seconds) <= new_entries(seconds + 1)


@pytest.mark.slow
async def test_too_many_files_fail_and_say_so(request_for: Make) -> None:
    for verifier, tests in ((ChecksVerifier(), {"verifier.toml": CHECKS}), (ScriptVerifier(), {"test.sh": "exit 0"})):
        request = request_for(tests, final=many(8_000), timeout_s=5.0)
        began = time.monotonic()
        verdict = await verifier.verify(request)
        assert time.monotonic() - began < 5.0
        assert verdict.reward == 0.0
        (criterion,) = verdict.criteria
        assert criterion.outcome == "failed"
        assert "more than 5000 files" in criterion.message


async def test_what_was_there_at_the_start_does_not_count(request_for: Make) -> None:
    initial = {f"filesystem/many/{n}": b"" for n in range(300)}
    verdict = await ChecksVerifier().verify(
        request_for({"verifier.toml": CHECKS}, final=many(5_200), initial=initial, timeout_s=5.0)
    )
    assert verdict.reward == 1.0
