"""The checks verifier as the env calls it: whole verdicts, and those that carry no reward."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import FailureKind
from envkit.verifier import Verifier
from envkit.verifiers import ChecksVerifier, ScriptVerifier

Request = Callable[..., Any]
TOML = """
schema_version = "1"
[[check]]
id = "answer"
kind = "answer"
weight = 3
number = {value = 12.4, unit = "EUR", scale = "million"}
[[check]]
id = "memo"
kind = "text"
path = "memo.md"
contains = ["Acme"]
[[check]]
id = "rest"
kind = "unchanged"
gate = true
weight = 0
paths = ["/filesystem/**"]
"""
WORLD = {"filesystem/a.txt": b"a"}


def test_which_verifier_applies(tmp_path: Path) -> None:
    assert not ChecksVerifier.applies(None)
    assert not ScriptVerifier.applies(None)
    (tmp_path / "test.sh").write_text("")
    assert (ChecksVerifier.applies(tmp_path), ScriptVerifier.applies(tmp_path)) == (False, True)
    (tmp_path / "verifier.toml").write_text("")
    assert (ChecksVerifier.applies(tmp_path), ScriptVerifier.applies(tmp_path)) == (True, False)
    assert isinstance(ChecksVerifier(), Verifier)
    assert isinstance(ScriptVerifier(), Verifier)


@pytest.mark.parametrize(
    ("files", "answer", "reward"),
    [
        ({"filesystem/a.txt": b"a", "filesystem/memo.md": b"Acme"}, "EUR 12.4m", 1.0),
        ({"filesystem/a.txt": b"a", "filesystem/memo.md": b"Bolt"}, "EUR 12.4m", 0.75),
        ({"filesystem/a.txt": b"a"}, None, 0.0),
        ({"filesystem/a.txt": b"changed", "filesystem/memo.md": b"Acme"}, "EUR 12.4m", 0.0),  # the gate
    ],
)
async def test_rewards(request_for: Request, files: Any, answer: str | None, reward: float) -> None:
    request = request_for({"verifier.toml": TOML}, final=files, initial=WORLD, answer=answer)
    first = await ChecksVerifier().verify(request)
    assert first.reward == reward
    assert first == await ChecksVerifier().verify(request)


async def test_broken_checks_leave_no_reward(request_for: Request) -> None:
    verdict = await ChecksVerifier().verify(request_for({"verifier.toml": TOML.replace("kind", "knd")}, answer="x"))
    assert verdict.reward is None
    assert (verdict.lower, verdict.upper) == (0.0, 1.0)
    assert verdict.failures()[0].kind is FailureKind.TASK_INVALID
    assert "did you mean 'kind'" in verdict.failures()[0].message or "kind is required" in verdict.failures()[0].message


async def test_a_broken_reference_leaves_no_reward_and_bounds(request_for: Request) -> None:
    toml = 'schema_version = "1"\n[[check]]\nid = "a"\nkind = "answer"\ncontains = ["x"]\n'
    toml += '[[check]]\nid = "m"\nkind = "mail"\nto = ["a@b.c"]\n'
    box = ".apps_data/mail/a.mbox"
    request = request_for({"verifier.toml": toml}, initial={box: b"no mbox"}, final={box: b""}, answer="x")
    verdict = await ChecksVerifier().verify(request)
    assert verdict.reward is None
    assert (verdict.lower, verdict.upper) == (0.5, 1.0)
    assert verdict.failures()[0].kind is FailureKind.REFERENCE_INVALID


async def test_a_check_that_needs_the_initial_state_of_a_task_without_one(request_for: Request) -> None:
    verdict = await ChecksVerifier().verify(request_for({"verifier.toml": TOML}, answer="EUR 12.4m"))
    assert verdict.reward is None
    assert verdict.failures()[0].kind is FailureKind.REFERENCE_INVALID


async def test_running_out_of_time_is_no_verdict(request_for: Request) -> None:
    request = request_for({"verifier.toml": TOML}, initial=WORLD, answer="EUR 12.4m", seconds=0.5)
    verdict = await ChecksVerifier().verify(request)
    assert verdict.reward is None
    assert {f.kind for f in verdict.failures()} == {FailureKind.VERIFIER_TIMEOUT}


async def test_many_verifications_at_once_don_t_mix(request_for: Request) -> None:
    request = request_for({"verifier.toml": TOML}, final={"filesystem/a.txt": b"a"}, initial=WORLD, answer="EUR 12.4m")
    verdicts = await asyncio.gather(*(ChecksVerifier().verify(request) for _ in range(6)))
    assert {v.reward for v in verdicts} == {0.75}


def test_importing_is_cheap_and_preloading_starts_no_thread() -> None:
    script = (
        "import sys, os\nimport envkit.verifiers as v\n"
        "assert 'lxml' not in sys.modules and 'pydantic' not in sys.modules, 'heavy'\n"
        "v.preload()\nassert 'lxml.etree' in sys.modules and 'pypdfium2.raw' in sys.modules\n"
        "assert 'numpy' not in sys.modules and 'openpyxl' not in sys.modules\n"
        "assert len(os.listdir('/proc/self/task')) == 1, 'threads'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
