"""The office pack's solutions as tool calls: every server is used, no call fails, and every one of them scores 1."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import envkit.tasks.office
from envkit.env import AsyncEnv
from envkit.harnesses.archipelago import ArchipelagoHarness
from envkit.harnesses.archipelago.servers import catalog
from envkit.messages import Message, Observation
from envkit.policy.solution import Script, read_script
from envkit.sandbox.local import LocalProvider
from envkit.tasks.office import OfficePack
from envkit.tasks.office.catalog import TASKS, WORLDS

ROOT = Path(envkit.tasks.office.__file__).parent / "solutions"
FILES = {
    path.name.removesuffix(".archipelago.json").replace("_", "-"): path for path in ROOT.glob("*/*.archipelago.json")
}
QUICK = ("kade-exposure-slide", "compliance-certificate-fix")


def test_every_server_is_used_and_every_answer_is_the_right_one() -> None:
    assert len(FILES) >= 12
    published = catalog.published(catalog.STANDARD, "meta")
    used = set()
    for name, path in FILES.items():
        script: Script = read_script(path)
        assert path.parent.name == WORLDS[TASKS[name].world].module
        job: Any = import_module(f"envkit.tasks.office.jobs.{path.parent.name}").jobs()[name]
        assert script.answer == (job.scripted or "")
        used |= {published[call.name].app for turn in script.calls for call in turn}
    assert used == set(catalog.STANDARD)


def test_the_packs_task_directories_hold_them() -> None:
    name, path = next(iter(FILES.items()))
    assert json.loads((OfficePack().load(name).dir / "solution/archipelago.json").read_text()) == json.loads(
        path.read_text()
    )


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in sorted(FILES)])
async def test_it_scores_one_and_no_call_of_it_fails(name: str) -> None:
    pack = OfficePack()
    env = AsyncEnv(pack.load(name), pack=pack, harness=ArchipelagoHarness(), provider=LocalProvider())
    try:
        await env.reset()
        for message in read_script(FILES[name]).messages():
            observation, reward, *_ = await env.step(message)
            for answer in observation.messages if isinstance(observation, Observation) else ():
                assert isinstance(answer, Message)
                assert not answer.is_error, answer.content
    finally:
        await env.close()
    assert reward == 1.0, [c for c in env.verdict.criteria if c.score != 1.0] if env.verdict else None
