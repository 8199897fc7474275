"""A judge's endpoint on real sockets, states to judge, and a short way to judge them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.verifier import Criterion
from envkit.verifiers.judge import JudgeCheck, JudgeConfig, JudgeContext, Judged, JudgeRecord, judge_all

# The endpoint that plays behaviours is the chat policy's; the files beside these tests add what a judge says.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "envkit" / "policy")]

KEYS = {
    "JUDGE_KEY_1": "sk-first-key-123456",
    "JUDGE_KEY_2": "sk-second-key-654321",
    "JUDGE_KEY_3": "sk-third-key-777777",
}


def check(id: str = "c", criterion: str = "The memo names both causes.", **rest: Any) -> JudgeCheck:
    return JudgeCheck(kind="judge", id=id, criterion=criterion, **rest)


@dataclass
class Bench:
    """A folder with a final state, an initial one, and what judging them needs."""

    folder: Path
    final: dict[str, bytes] = field(default_factory=dict)
    initial: dict[str, bytes] | None = None
    answer: str | None = "The memo is in reports."
    render: Any = None

    def config(self, url: str, **rest: Any) -> JudgeConfig:
        quick = {"first_delay_s": 0.01, "longest_delay_s": 0.05, "cache_dir": self.folder / "cache"}
        return JudgeConfig(**{"model": "judge-1", "base_url": url, "api_key_env": tuple(KEYS), **quick, **rest})

    def context(self) -> JudgeContext:
        from tests_state import write_tar, write_world

        final = write_tar(self.folder / "final.tar", self.final)
        initial = None if self.initial is None else write_world(self.folder / "initial", self.initial)
        more = {} if self.render is None else {"render": self.render}
        return JudgeContext("Write a memo.", final, initial, self.answer, logs=self.folder / "logs", **more)

    async def all(
        self, url: str, *checks: JudgeCheck, timeout_s: float = 60.0, host: Mapping[str, str] = KEYS, **config: Any
    ) -> list[Judged]:
        deadline = Deadline.after(timeout_s, "the verifier's time")
        return await judge_all(checks, self.context(), self.config(url, **config), deadline, host)

    async def one(self, url: str, *checks: JudgeCheck, **rest: Any) -> tuple[Criterion, JudgeRecord]:
        judged = (await self.all(url, *(checks or (check(),)), **rest))[0]
        return judged.criterion, judged.record


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


Run = Callable[..., Awaitable[list[Judged]]]
