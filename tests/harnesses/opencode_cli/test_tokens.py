"""The real OpenCode under the token policy: what a scripted engine sampled is what the trace exports, to the token."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import envkit
from envkit.harnesses.opencode_cli.install import install
from envkit.policy.base import PolicyContext
from envkit.policy.token import TokenPolicy
from envkit.tokens import export, read_trace
from envkit.tokens.render import load_renderer

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(700)]

TASK = "office/aalsund-tender-deadline"


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_TESTS = Path(__file__).parents[2] / "envkit"
engine_tests = _module("engine_tests_for_cli", _TESTS / "test_engine.py")
token_tests = _module("token_tests_for_cli", _TESTS / "tokens" / "conftest.py")


def call(name: str, text: str) -> str:
    # Spaced and ordered as no template would write it.
    return f'<tool_call>{{"arguments":{text},  "name": "{name}"}}</tool_call><|im_end|>'


SAID = [
    call("bash", '{"description" : "look",\n"command":"ls"}'),
    call("bash", '{"command": "echo \\u00e4; false", "description": "x"}') + "",
    "I write now. "
    + call("write", '{"filePath":"/filesystem/a.txt","content":"<|im_end|> 1"}').removesuffix("<|im_end|>")
    + call("nothing", "{}"),
    call("read", '{"filePath": '),
    "By 27 February 2026, 10:00, through Udbudsnet.<|im_end|>",
]


async def test_the_trace_exports_with_zero_loss(tmp_path: Path) -> None:
    install()
    tokenizer = token_tests.wrap(token_tests.train(), template=token_tests.CHATML)
    renderer = load_renderer(tokenizer, "template", {"stop_tokens": ["<|im_end|>"]})
    sampled = [tokenizer.encode(text, add_special_tokens=False) for text in SAID]

    def says(ids: list[int]) -> Any:
        async def answer(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
            return bytes(engine_tests.http(200, engine_tests.body(ids, choice={"finish_reason": "stop"})))

        return answer

    engine = engine_tests.FakeEngine(*map(says, sampled))
    engine.models = {"data": [{"id": "tiny", "max_model_len": 60_000}]}
    env = envkit.make_async(TASK, harness="opencode-cli", timeout_s=600)
    async with engine_tests.serving(engine) as client:
        policy = TokenPolicy(client=client, renderer=renderer)
        try:
            observation, _ = await env.reset(seed=0)
            await policy.start(
                PolicyContext(
                    task=env.task,
                    step=env.task.steps[0],
                    sandbox=env.sandbox,  # type: ignore[arg-type]
                    harness="opencode-cli",
                    seed=0,
                    attempt=1,
                    deadline=env.deadline,
                    logs=tmp_path,
                )
            )
            reward = None
            while observation is not None:
                observation, reward, *_ = await env.step(await policy.act(observation))  # type: ignore[assignment]
        finally:
            await policy.close()
            await env.close()
    assert reward == 1.0
    trace = read_trace(tmp_path / "trace")
    out = export(trace)
    assert out.sampled == out.delivered == sum(map(len, sampled))
    assert not out.dropped
    # One sample: the program's re-told calls (renamed, re-ordered, empty) opened no branch.
    (sample,) = out.samples
    assert sample.ids[sample.mask].tolist() == [i for ids in sampled for i in ids]
    for request in engine.requests:
        assert sample.ids[: len(request["token_ids"])].tolist() == request["token_ids"]
    assert json.loads(json.dumps(trace.meta))["model"] == "tiny"
