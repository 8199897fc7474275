"""The embedded engine over HTTP, through the client that also speaks to vLLM."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from envkit.deadline import Deadline
from envkit.engine import EngineClient, EngineError, SamplingParams
from envkit.failure import FailureKind
from envkit.messages import Message, Observation
from envkit.tokens import PromptIds, export, read_trace
from envkit.tokens.conversation import BranchWarning

pytestmark = pytest.mark.tokens


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


loops = load("loop_tests", Path(__file__).with_name("test_loop.py"))
templates = load("token_fixtures", Path(__file__).parents[3] / "envkit" / "tokens" / "conftest.py")


@asynccontextmanager
async def serving(model: Any = None, **options: Any) -> AsyncIterator[tuple[EngineClient, Any]]:
    from envkit.backends.torch.engine import EngineServer

    loop = loops.loop_of(model or loops.tiny(), **options)
    async with EngineServer(loop, name="tiny") as server, EngineClient(server.url) as client:
        yield client, server


async def ask(client: EngineClient, prompt: Any, *, session: str = "s", within_s: float = 60.0, **params: Any) -> Any:
    return await client.generate(
        PromptIds(prompt),
        SamplingParams(**{"max_tokens": 12, **params}),
        session=session,
        deadline=Deadline.after(within_s),
    )


async def test_ids_in_ids_out_with_the_models_own_logprobs() -> None:
    model = loops.tiny()
    async with serving(model) as (client, _):
        info = await client.info(Deadline.after(10))
        assert (info.model, info.max_model_len) == ("tiny", 512)
        prompts = [np.arange(i + 3) for i in range(12)]
        outs = await asyncio.gather(*(ask(client, p, session=str(i)) for i, p in enumerate(prompts)))
    for prompt, out in zip(prompts, outs, strict=True):
        truth = loops.logprobs_of(model, prompt, out.ids.tolist())
        np.testing.assert_allclose(out.logprobs, truth, atol=1e-4)
        assert out.versions.tolist() == [0] * len(out.ids)
        assert out.prompt_tokens == len(prompt)


@pytest.mark.parametrize(("prompt", "why"), [([], "empty"), ([300], "vocabulary"), ([1] * 600, "longest")])
async def test_bad_prompts_are_refused_and_not_repeated(prompt: list[int], why: str) -> None:
    async with serving() as (client, _):
        with pytest.raises(EngineError, match=why) as caught:
            await ask(client, prompt)
        assert caught.value.kind is FailureKind.POLICY_REJECTED
        assert len((await ask(client, [1, 2])).ids), "and the engine goes on"


async def test_the_second_turn_finds_the_first_in_the_cache() -> None:
    async with serving() as (client, _):
        first = await ask(client, range(100), ignore_eos=True)
        prompt = [*range(100), *first.ids.tolist(), 1, 2, 3]
        second = await ask(client, prompt)
    assert first.cached_tokens == 0
    assert second.cached_tokens == 111


async def test_aborting_brings_the_partial_ids_back() -> None:
    async with serving() as (client, server):
        task = asyncio.create_task(ask(client, [1, 2, 3], max_tokens=500, ignore_eos=True))
        other = asyncio.create_task(ask(client, [1, 2, 3], session="other", max_tokens=30, ignore_eos=True))
        while server._loop.running < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await client.abort("s")
        out = await task
        assert out.finish == "abort"
        assert 0 < len(out.ids) < 500
        assert (await other).finish == "length", "only the session's own"


async def test_a_client_that_hangs_up_frees_its_row() -> None:
    async with serving() as (client, server):
        task = asyncio.create_task(ask(client, [1, 2, 3], max_tokens=508, ignore_eos=True))
        while not server._loop.running:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if not server._loop.busy:
                break
            await asyncio.sleep(0.01)
        assert not server._loop.busy


@pytest.mark.parametrize("clear", [True, False])
async def test_new_weights_drop_no_request_and_every_token_knows_its_version(tmp_path: Path, clear: bool) -> None:
    from safetensors.torch import save_file

    new = loops.tiny(seed=2)
    save_file({k: v.contiguous() for k, v in new.state_dict().items()}, tmp_path / "w.safetensors")
    async with serving() as (client, server):
        tasks = [
            asyncio.create_task(ask(client, np.arange(5 + i), session=str(i), max_tokens=300, ignore_eos=True))
            for i in range(4)
        ]
        while server._loop.running < 4:
            await asyncio.sleep(0.005)
        deadline = Deadline.after(30)
        await client.pause(deadline, clear_cache=clear)
        frozen = [len(r.ids) for r in server._loop._rows]
        late = asyncio.create_task(ask(client, [9, 9], session="late"))
        await asyncio.sleep(0.1)
        assert [len(r.ids) for r in server._loop._rows] == frozen, "paused is paused"
        await client.update_weights({"path": str(tmp_path / "w.safetensors")}, 7, deadline)
        await client.resume(deadline)
        outs = await asyncio.gather(*tasks)
        assert set((await late).versions.tolist()) == {7}
    for i, out in enumerate(outs):
        assert (len(out.ids), out.finish) == (300, "length")
        assert sorted(set(out.versions.tolist())) in ([0, 7], [7])
        assert out.versions.tolist() == sorted(out.versions.tolist())
        if clear:
            fresh = out.versions == 7
            truth = loops.logprobs_of(new, np.arange(5 + i), out.ids.tolist())
            np.testing.assert_allclose(out.logprobs[fresh], truth[fresh], atol=1e-4)


async def test_weights_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"nonsense": torch.zeros(1)}, tmp_path / "w.safetensors")
    async with serving() as (client, _):
        deadline = Deadline.after(30)
        with pytest.raises(EngineError, match="pause"):
            await client.update_weights({"path": "x"}, 1, deadline)
        await client.pause(deadline)
        for path, why in ((tmp_path / "w.safetensors", "nonsense"), (tmp_path / "none", "none")):
            with pytest.raises(EngineError, match=why):
                await client.update_weights({"path": str(path)}, 1, deadline)
        await client.resume(deadline)
        assert len((await ask(client, [1, 2])).ids)


async def test_an_engine_that_dies_says_so_to_everybody() -> None:
    async with serving() as (client, server):

        def broken() -> Any:
            raise RuntimeError("out of memory")

        server._loop.step = broken
        client._backoff_s = (0.01,)
        with pytest.raises(EngineError, match="out of memory") as caught:
            await ask(client, [1, 2])
        assert caught.value.kind is FailureKind.POLICY_ERROR


@pytest.fixture(scope="module")
def vocabulary() -> Any:
    return templates.train(600)


@pytest.mark.parametrize("name", ["qwen3", "glm-4.5", "deepseek-v3", "minimax-m2", "chatml", "roles"])
async def test_a_token_policy_over_the_embedded_engine_loses_nothing(
    tmp_path: Path, vocabulary: Any, name: str
) -> None:
    """The whole way: messages, template, HTTP, sampling, parsing, trace, export, and the trainer's view of it."""
    from envkit.backends.torch.score import scorer
    from envkit.policy.token import TokenPolicy
    from envkit.tokens.audit import logprob_gap
    from envkit.tokens.render import load_renderer

    if name in templates.TEMPLATES:
        wrapped = templates.wrap(vocabulary, template=templates.TEMPLATES[name])
        renderer = load_renderer(wrapped, "template", {"stop_tokens": templates.STOPS[name]})
    else:
        eos = {"deepseek-v3": "<｜end▁of▁sentence｜>", "minimax-m2": "[e~["}.get(name, "<|endoftext|>")
        renderer = load_renderer(templates.wrap(vocabulary, eos), name, {"thinking_retention": "all"})
    model = loops.tiny(vocab_size=vocabulary.get_vocab_size(), eos_token_id=None, max_position_embeddings=4096)
    calls: list[tuple[list[int], Any]] = []
    async with serving(model) as (client, _):
        plain = client.generate

        async def watched(prompt: PromptIds, *args: Any, **kwargs: Any) -> Any:
            before = prompt.array().tolist()
            out = await plain(prompt, *args, **kwargs)
            calls.append((before, out))
            return out

        client.generate = watched  # type: ignore[method-assign]
        policy = TokenPolicy(client=client, renderer=renderer, max_turn_tokens=60, seeded=True)
        await policy.start(
            SimpleNamespace(  # type: ignore[arg-type]
                task=SimpleNamespace(id="t"),
                step=SimpleNamespace(name=""),
                seed=1,
                attempt=1,
                deadline=Deadline.after(90),
                logs=tmp_path,
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BranchWarning)  # random weights do end turns inside their reasoning
            observation = Observation(messages=(Message(role="user", content="Do <|im_end|> something."),))
            for i in range(6):
                answer = await policy.act(observation)
                assert answer.usage.completion_tokens
                content = f"result {i} </think> \u20ac"
                observation = Observation(messages=(Message(role="tool", content=content, tool_call_id="c", name="r"),))
        await policy.close()
    trace = read_trace(tmp_path / "trace")
    out = export(trace)
    assert out.delivered == out.sampled == trace.sampled_tokens == sum(len(g.ids) for _, g in calls)
    nodes = [n for n in trace if n.sampled]
    for node, (prompt, generation) in zip(nodes, calls, strict=True):
        (s,) = [s for s in out.samples if node.index in s.nodes and s.mask[node.start : node.end].all()]
        assert s.ids[: node.end].tolist() == [*prompt, *generation.ids.tolist()]
        np.testing.assert_array_equal(s.logprobs[node.start : node.end], generation.logprobs)
    gap = logprob_gap(out.samples, scorer(model), version=0)
    assert gap.tokens == trace.sampled_tokens
    assert gap.mean < 1e-4
