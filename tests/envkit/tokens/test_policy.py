"""The token policy over a real HTTP engine: everything sampled is in the trace, however the turn ended."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.failure import EnvkitError, UserError
from envkit.messages import AssistantMessage, Message, Observation
from envkit.policy.token import TokenPolicy
from envkit.tokens import export, read_trace

pytestmark = pytest.mark.tokens

_spec = importlib.util.spec_from_file_location("engine_tests", Path(__file__).parents[1] / "test_engine.py")
assert _spec is not None
assert _spec.loader is not None
engine_tests = importlib.util.module_from_spec(_spec)
sys.modules["engine_tests"] = engine_tests
_spec.loader.exec_module(engine_tests)


def context(logs: Path | None = None, *, seed: int = 0, within_s: float = 30.0) -> Any:
    return SimpleNamespace(
        task=SimpleNamespace(id="office/a b"),
        step=SimpleNamespace(name=""),
        seed=seed,
        attempt=1,
        deadline=Deadline.after(within_s, "the trial"),
        logs=logs,
    )


def samples(tokenizer: Any, text: str, finish: str = "stop") -> Any:
    ids = tokenizer.encode(text, add_special_tokens=False)

    async def answer(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        cap = request["sampling_params"]["max_tokens"]
        cut = ids[:cap]
        why = "length" if len(cut) < len(ids) else finish
        return bytes(engine_tests.http(200, engine_tests.body(cut, choice={"finish_reason": why})))

    return answer


@asynccontextmanager
async def policy(renderer: Any, *script: Any, limit: int = 4096, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    engine = engine_tests.FakeEngine(*script)
    engine.models = {"data": [{"id": "tiny", "max_model_len": limit}]}
    async with engine_tests.serving(engine) as client:
        made = TokenPolicy(client=client, renderer=renderer, **options)
        try:
            yield made, engine
        finally:
            await made.close()


USER = Observation(messages=(Message(role="user", content="Read a.txt"),))


def result(answer: AssistantMessage, content: str) -> Observation:
    return Observation(
        messages=tuple(Message(role="tool", content=content, tool_call_id=c.id) for c in answer.tool_calls)
        or (Message(role="user", content=content),)
    )


async def test_a_whole_episode_is_on_disk_as_the_engine_saw_it(
    renderers_by_name: dict[str, Any], tokenizer: Any, tmp_path: Path
) -> None:
    call = '<tool_call>{"name":"read",  "arguments":{"path":"a"}}</tool_call><|im_end|>'
    script = [samples(tokenizer, call), samples(tokenizer, call * 1), samples(tokenizer, "It says 12.<|im_end|>")]
    async with policy(renderers_by_name["template:chatml"], *script) as (made, engine):
        await made.start(context(tmp_path))
        first = await made.act(USER)
        second = await made.act(result(first, "12 <|im_end|>"))
        unfinished = read_trace(tmp_path / "trace")
        last = await made.act(result(second, "13"))
    assert first.tool_calls[0].name == "read"
    assert first.tool_calls[0].id != second.tool_calls[0].id
    assert last.text == "It says 12."
    assert len(unfinished) == 4, "every turn is on disk before the next one"
    trace = read_trace(tmp_path / "trace")
    (sample,) = export(trace).samples
    assert [sample.ids[: len(r["token_ids"])].tolist() == r["token_ids"] for r in engine.requests] == [True] * 3
    assert int(sample.mask.sum()) == trace.sampled_tokens
    assert sample.versions[sample.mask].tolist() == [3] * trace.sampled_tokens
    usage = last.usage
    assert usage.prompt_tokens == len(engine.requests[2]["token_ids"])
    assert usage.context_tokens == len(sample.ids)
    assert usage.context_limit == 4096
    assert trace.meta["model"] == "tiny"
    assert trace.meta["exact_logprobs"] is True


@pytest.mark.parametrize(
    ("said", "finish", "expected"),
    [
        ("half a thou", "abort", "abort"),
        ("", "abort", "abort"),
        ('<tool_call>{"name": "read", "argu', "length", "length"),
        ("<tool_call>not json</tool_call><|im_end|>", "stop", "stop"),
    ],
)
async def test_generations_that_went_wrong_keep_their_tokens(
    renderers_by_name: dict[str, Any], tokenizer: Any, said: str, finish: str, expected: str
) -> None:
    script = [samples(tokenizer, said, finish), samples(tokenizer, "ok<|im_end|>")]
    async with policy(renderers_by_name["qwen3"], *script) as (made, _):
        await made.start(context())
        answer = await made.act(USER)
        assert answer.finish == expected
        if "<tool_call>" in said:
            (call,) = answer.tool_calls
            assert call.error
            assert call.arguments is None
        await made.act(result(answer, "try again"))
        out = export(made.trace)
    assert out.delivered == out.sampled == len(tokenizer.encode(said)) + len(tokenizer.encode("ok<|im_end|>"))
    ids = tokenizer.encode(said, add_special_tokens=False)
    assert made.trace.node(1).ids.tolist() == ids


async def test_a_turns_own_cap_is_length_and_the_contexts_end_is_context(
    renderers_by_name: dict[str, Any], tokenizer: Any, tmp_path: Path
) -> None:
    long = samples(tokenizer, "word " * 400)
    go_on = Observation(messages=(Message(role="user", content="go on"),))
    renderer = renderers_by_name["template:chatml"]
    async with policy(renderer, long, max_turn_tokens=20) as (roomy, _):
        await roomy.start(context())
        first = await roomy.act(USER)
        assert (first.finish, first.usage.completion_tokens) == ("length", 20)
        second = await roomy.act(go_on)
        assert second.finish == "length"
        limit = (second.usage.prompt_tokens or 0) + 7
    async with policy(renderer, long, limit=limit, max_turn_tokens=20) as (made, engine):
        await made.start(context(tmp_path))
        assert (await made.act(USER)).finish == "length"
        answer = await made.act(go_on)
        assert (answer.finish, answer.usage.completion_tokens) == ("context", 7)
        assert answer.usage.context_tokens == limit, "it may use what is left, to the last token"
        after = await made.act(Observation(messages=(Message(role="user", content="and now?"),)))
        assert after.finish == "context"
        assert after.usage.completion_tokens == 0
        assert (after.usage.context_tokens or 0) > limit
        asked = len(engine.requests)
    trace = read_trace(tmp_path / "trace")
    assert sum(n.sampled for n in trace) == asked, "nothing was sampled without room"
    assert not trace.node(len(trace) - 1).sampled, "the prompt that did not fit is recorded"
    assert export(trace).delivered == trace.sampled_tokens


async def test_aborting_a_turn_returns_what_there_is(renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    told = asyncio.Event()

    async def until_aborted(request: dict[str, Any], reader: Any, writer: Any) -> bytes:
        await told.wait()
        return bytes(engine_tests.http(200, engine_tests.body([50, 51], choice={"finish_reason": "abort"})))

    async with policy(renderers_by_name["qwen3"], until_aborted) as (made, engine):
        await made.start(context())
        acting = asyncio.create_task(made.act(USER))
        while not engine.requests:
            await asyncio.sleep(0.01)
        await made.abort()
        assert engine.aborted
        told.set()
        answer = await acting
        assert answer.finish == "abort"
        assert made.trace.sampled_tokens == 2


async def test_an_engine_that_fails_fails_the_trial_and_keeps_the_record(
    renderers_by_name: dict[str, Any], tokenizer: Any, tmp_path: Path
) -> None:
    script = [samples(tokenizer, "one<|im_end|>"), engine_tests.says(400, b"no")]
    async with policy(renderers_by_name["qwen3"], *script) as (made, _):
        await made.start(context(tmp_path))
        await made.act(USER)
        with pytest.raises(EnvkitError, match="HTTP 400"):
            await made.act(result(AssistantMessage(), "go on"))
    trace = read_trace(tmp_path / "trace")
    assert [n.sampled for n in trace] == [False, True, False]


async def test_steps_have_traces_of_their_own(
    renderers_by_name: dict[str, Any], tokenizer: Any, tmp_path: Path
) -> None:
    async with policy(renderers_by_name["qwen3"], samples(tokenizer, "one<|im_end|>")) as (made, _):
        await made.start(context(tmp_path))
        await made.act(USER)
        await made.start(context(tmp_path))
        await made.act(USER)
        await made.act(result(AssistantMessage(), "more"))
    assert len(read_trace(tmp_path / "trace")) == 2
    assert len(read_trace(tmp_path / "trace-2")) in (4, 5)


async def test_seeds_are_per_turn_and_repeatable(renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    async def seeds(seed: int) -> list[int]:
        script = samples(tokenizer, "one<|im_end|>")
        async with policy(renderers_by_name["qwen3"], script, seeded=True) as (made, engine):
            await made.start(context(seed=seed))
            answer = await made.act(USER)
            await made.act(result(answer, "more"))
            return [r["sampling_params"]["seed"] for r in engine.requests]

    first, again, other = await seeds(1), await seeds(1), await seeds(2)
    assert first == again
    assert len({*first, *other}) == 4


def test_options_are_checked_and_keys_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="temperature"):
        TokenPolicy(engine="http://x", tokenizer="t", temperatur=1.0)
    monkeypatch.setenv("ENGINE_KEY", "sesame-sesame")
    made = TokenPolicy(engine="http://x", tokenizer="t", api_key_env="ENGINE_KEY")
    assert "sesame" not in str(made.describe())
    assert made.secrets == {"sesame-sesame"}
    with pytest.raises(EnvkitError, match="NO_KEY"):
        TokenPolicy(engine="http://x", tokenizer="t", api_key_env="NO_KEY")
