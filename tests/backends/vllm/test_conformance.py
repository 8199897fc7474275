"""Real vLLM on the CPU keeps the contract that the embedded engine keeps: ids, logprobs, aborts, caches, refusals; and
under it the token policy loses nothing, for every family of templates."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.backends.vllm import VllmServer, install
from envkit.deadline import Deadline
from envkit.engine import EngineClient, EngineError, SamplingParams
from envkit.failure import FailureKind
from envkit.messages import Message, Observation
from envkit.policy.token import TokenPolicy
from envkit.tokens import PromptIds, export
from envkit.tokens.conversation import BranchWarning
from envkit.tokens.render import load_renderer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


TESTS = Path(__file__).parents[2]
templates = load("templates_for_vllm", TESTS / "envkit" / "tokens" / "conftest.py")
loops = load("loops_for_vllm", TESTS / "backends" / "torch" / "engine" / "test_loop.py")
LIMIT = 4096


@pytest.fixture(scope="module")
def vocabulary() -> Any:
    return templates.train(600)


@pytest.fixture(scope="module")
def model(vocabulary: Any) -> Any:
    return loops.tiny(
        vocab_size=vocabulary.get_vocab_size(),
        eos_token_id=None,
        max_position_embeddings=LIMIT,
        tie_word_embeddings=False,
        head_dim=32,  # the least that vLLM's attention on a CPU takes
    )


@pytest.fixture(scope="module")
def url(model: Any, vocabulary: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests here: its start takes most of a minute."""
    install()
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    templates.wrap(vocabulary, "<|im_end|>", templates.CHATML).save_pretrained(folder)
    size = ("--max-model-len", str(LIMIT), "--max-num-seqs", "32", "--kv-cache-memory-bytes", str(256 << 20))
    server = VllmServer(folder, name="tiny", arguments=size, log=folder / "vllm.log")
    asyncio.run(server.start())
    yield server.url
    asyncio.run(server.stop())
    assert not server.alive


@pytest.fixture
async def client(url: str) -> AsyncIterator[EngineClient]:
    async with EngineClient(url) as client:
        yield client


async def ask(client: EngineClient, prompt: Any, *, session: str = "s", within_s: float = 60.0, **params: Any) -> Any:
    return await client.generate(
        PromptIds(prompt),
        SamplingParams(**{"max_tokens": 12, **params}),
        session=session,
        deadline=Deadline.after(within_s),
    )


async def test_ids_in_ids_out_with_the_models_own_logprobs(client: EngineClient, model: Any) -> None:
    info = await client.info(Deadline.after(10))
    assert (info.model, info.max_model_len) == ("tiny", LIMIT)
    prompts = [np.arange(i + 3) for i in range(12)]
    outs = await asyncio.gather(*(ask(client, p, session=str(i), seed=i) for i, p in enumerate(prompts)))
    for prompt, out in zip(prompts, outs, strict=True):
        truth = loops.logprobs_of(model, prompt, out.ids.tolist())
        np.testing.assert_allclose(out.logprobs, truth, atol=1e-4)
        assert out.versions.tolist() == [0] * len(out.ids)
        assert out.prompt_tokens == len(prompt)


async def test_logprobs_are_those_after_temperature(client: EngineClient, model: Any) -> None:
    out = await ask(client, range(40), temperature=0.7, max_tokens=60, ignore_eos=True)
    import torch

    with torch.inference_mode():
        row = torch.tensor([[*range(40), *out.ids.tolist()]])
        logits = model(input_ids=row).logits[0, 39:-1].float() / 0.7
        truth = torch.log_softmax(logits, -1).gather(-1, row[0, 40:, None])[:, 0].numpy()
    np.testing.assert_allclose(out.logprobs, truth, atol=1e-4)


async def test_the_stop_token_is_among_the_ids(client: EngineClient) -> None:
    free = await ask(client, [5, 6, 7], seed=1, max_tokens=30, ignore_eos=True)
    stop = int(free.ids[4])
    first = free.ids.tolist().index(stop)
    out = await ask(client, [5, 6, 7], seed=1, max_tokens=30, stop_token_ids=(stop,), ignore_eos=True)
    assert out.ids.tolist() == free.ids[: first + 1].tolist()
    assert out.finish == "stop"


@pytest.mark.parametrize(("prompt", "why"), [([], "."), ([100_000], "vocab"), ([1] * 5000, ".")])
async def test_bad_prompts_are_refused_and_not_repeated(client: EngineClient, prompt: list[int], why: str) -> None:
    with pytest.raises(EngineError, match=why) as caught:
        await ask(client, prompt)
    assert caught.value.kind is FailureKind.POLICY_REJECTED
    assert len((await ask(client, [1, 2])).ids), "and the engine goes on"


async def test_the_second_turn_finds_the_first_in_the_cache(client: EngineClient) -> None:
    first = await ask(client, range(300), ignore_eos=True)
    second = await ask(client, [*range(300), *first.ids.tolist(), 1, 2, 3])
    assert first.cached_tokens == 0
    assert second.cached_tokens == 256, "two blocks of 128"


async def test_aborting_brings_the_partial_ids_back(client: EngineClient, url: str) -> None:
    task = asyncio.create_task(ask(client, [1, 2, 3], max_tokens=4000, ignore_eos=True))
    other = asyncio.create_task(ask(client, [1, 2, 3], session="other", max_tokens=400, ignore_eos=True))
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        while 'vllm:num_requests_running{engine="0",model_name="tiny"} 2.0' not in (await http.get("/metrics")).text:
            await asyncio.sleep(0.05)
    await client.abort("s")
    out = await task
    assert out.finish == "abort"
    assert 0 < len(out.ids) < 4000
    assert len(out.logprobs) == len(out.ids)
    assert (await other).finish == "length", "only the session's own"


async def test_a_seed_gives_the_same_tokens_in_any_company(client: EngineClient) -> None:
    alone = await ask(client, [9, 8], seed=3, max_tokens=30)
    company = [ask(client, [i], session=str(i), max_tokens=30) for i in range(8)]
    together = await asyncio.gather(ask(client, [9, 8], seed=3, max_tokens=30), *company)
    assert together[0].ids.tolist() == alone.ids.tolist()


def renderer_of(vocabulary: Any, name: str) -> Any:
    if name in templates.TEMPLATES:
        wrapped = templates.wrap(vocabulary, template=templates.TEMPLATES[name])
        return load_renderer(wrapped, "template", {"stop_tokens": templates.STOPS[name]})
    eos = {"deepseek-v3": "<｜end▁of▁sentence｜>", "minimax-m2": "[e~["}.get(name, "<|endoftext|>")
    return load_renderer(templates.wrap(vocabulary, eos), name, {"thinking_retention": "all"})


#: Byte-split UTF-8, strings that merge over a border, special tokens written out, tags of reasoning and calls.
AWKWARD = st.sampled_from(
    [
        "€",
        "ä\u0301",
        "👩‍👩‍👧",
        "\ud7ff",
        "  \n\n",
        "\t\t",
        "</think>",
        "<|im_end|>",
        "<tool_call>",
        "[gMASK]",
        "a",
        " a",
        "aa",
    ]
)
TEXT = st.lists(AWKWARD | st.text(max_size=8), max_size=6).map("".join)


@pytest.mark.parametrize("name", ["qwen3", "glm-4.5", "deepseek-v3", "minimax-m2", "llama-3", "chatml", "roles"])
def test_exported_ids_are_the_engines_exactly(url: str, vocabulary: Any, name: str) -> None:
    renderer = renderer_of(vocabulary, name)

    @given(user=TEXT, results=st.lists(TEXT, min_size=1, max_size=3), cap=st.integers(1, 40), seed=st.integers(0, 99))
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    def holds(user: str, results: list[str], cap: int, seed: int) -> None:
        asyncio.run(episode(url, renderer, user, results, cap, seed))

    holds()


async def episode(url: str, renderer: Any, user: str, results: list[str], cap: int, seed: int) -> None:
    calls: list[tuple[list[int], Any]] = []
    async with EngineClient(url) as client:
        plain = client.generate

        async def watched(prompt: PromptIds, *args: Any, **kwargs: Any) -> Any:
            before = prompt.array().tolist()
            out = await plain(prompt, *args, **kwargs)
            calls.append((before, out))
            return out

        client.generate = watched  # type: ignore[method-assign]
        policy = TokenPolicy(client=client, renderer=renderer, max_turn_tokens=cap, seeded=True)
        await policy.start(
            SimpleNamespace(  # type: ignore[arg-type]
                task=SimpleNamespace(id="t"),
                step=SimpleNamespace(name=""),
                seed=seed,
                attempt=1,
                deadline=Deadline.after(90),
                logs=None,
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BranchWarning)  # random weights do end turns inside their reasoning
            await policy.act(Observation(messages=(Message(role="user", content=user),), tools=templates.TOOLS))
            for content in results:
                answer = policy.trace.node(len(policy.trace) - 1).messages[0]
                ids = [call.id for call in answer.tool_calls] or ["c"]  # type: ignore[union-attr]
                said = tuple(Message(role="tool", content=content, tool_call_id=i, name="read") for i in ids)
                await policy.act(Observation(messages=said))
        trace = policy.trace
        await policy.close()
    out = export(trace)
    assert out.delivered == out.sampled == sum(len(g.ids) for _, g in calls)
    for node, (prompt, generation) in zip([n for n in trace if n.sampled], calls, strict=True):
        (sample,) = [s for s in out.samples if node.index in s.nodes and s.mask[node.start : node.end].all()]
        assert sample.ids[: node.end].tolist() == [*prompt, *generation.ids.tolist()]
        np.testing.assert_array_equal(sample.logprobs[node.start : node.end], generation.logprobs)
