"""The embedded engine's batching against the model alone: same logprobs, whatever joins, leaves or is reused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from envkit.tokens.generation import SamplingParams

pytestmark = pytest.mark.tokens


def tiny(kind: str = "qwen3", seed: int = 0, **changes: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)  # more only wait for one another on models of this size
    torch.manual_seed(seed)
    common: dict[str, Any] = {
        "vocab_size": 300,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "eos_token_id": 299,
        "initializer_range": 0.2,
        **changes,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**common)).eval()
    return Qwen3ForCausalLM(Qwen3Config(**{"head_dim": 16, **common})).eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny()


def loop_of(model: Any, **options: Any) -> Any:
    from envkit.backends.torch.engine import TokenLoop

    return TokenLoop(model, **options)


def request(id: str, prompt: Any, salt: str = "", **params: Any) -> Any:
    from envkit.backends.torch.engine import Request

    return Request(id, np.array(prompt, np.int32), SamplingParams(**{"max_tokens": 12, **params}), salt)


def drain(loop: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    steps = 0
    while loop.busy:
        out.update({d.id: d for d in loop.step()})
        steps += 1
        assert steps < 5000
    return out


def logprobs_of(model: Any, prompt: Any, ids: list[int], temperature: float = 1.0) -> Any:
    """The truth: one plain forward pass over everything."""
    import torch

    with torch.no_grad():
        whole = torch.tensor([[*map(int, prompt), *ids]])
        logits = model(whole).logits[0, len(prompt) - 1 : -1].float() / temperature
        return torch.log_softmax(logits, -1).gather(-1, torch.tensor(ids)[:, None])[:, 0].numpy()


def assert_true(model: Any, req: Any, done: Any, temperature: float = 1.0) -> None:
    assert len(done.ids) == len(done.logprobs)
    if done.ids:
        truth = logprobs_of(model, req.prompt, done.ids, temperature)
        np.testing.assert_allclose(done.logprobs, truth, atol=1e-4)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_ragged_requests_that_come_and_go_have_the_models_own_logprobs(kind: str) -> None:
    model = tiny(kind)
    rng = np.random.default_rng(1)
    loop = loop_of(model, max_rows=5, chunk_tokens=40)
    requests = [
        request(str(i), rng.integers(0, 299, rng.integers(1, 90)), max_tokens=int(rng.integers(1, 40)))
        for i in range(25)
    ]
    out: dict[str, Any] = {}
    left = list(requests)
    while left or loop.busy:
        for _ in range(int(rng.integers(0, 3))):
            if left:
                loop.add(left.pop())
        out.update({d.id: d for d in loop.step()})
    assert set(out) == {r.id for r in requests}
    for r in requests:
        done = out[r.id]
        assert_true(model, r, done)
        assert done.finish == ("stop" if done.ids[-1] == 299 else "length")
        assert len(done.ids) == r.params.max_tokens or done.finish == "stop"
        assert done.spans == [(0, 0, len(done.ids))]


def test_mean_difference_to_the_trainers_forward_is_below_the_bar(model: Any) -> None:
    loop = loop_of(model)
    requests = [request(str(i), np.arange(i, i + 30), max_tokens=200, ignore_eos=True) for i in range(8)]
    for r in requests:
        loop.add(r)
    out = drain(loop)
    gaps = [np.abs(np.array(out[r.id].logprobs) - logprobs_of(model, r.prompt, out[r.id].ids)) for r in requests]
    assert float(np.concatenate(gaps).mean()) < 1e-4


def test_turns_of_a_conversation_reuse_what_was_read_before(model: Any) -> None:
    rng = np.random.default_rng(2)
    loop = loop_of(model)
    prompt = rng.integers(0, 298, 50).astype(np.int32)
    cached = []
    for turn in range(4):
        r = request(str(turn), prompt, salt="v0", max_tokens=10, ignore_eos=True)
        loop.add(r)
        done = drain(loop)[r.id]
        assert_true(model, r, done)
        cached.append(done.cached_tokens)
        prompt = np.concatenate([prompt, np.array(done.ids, np.int32), rng.integers(0, 298, 7).astype(np.int32)])
    assert cached == [0, 59, 76, 93], "all but the last sampled token, which was never read"
    other = request("other", prompt, salt="v1")
    loop.add(other)
    assert drain(loop)["other"].cached_tokens == 0, "another salt shares nothing"


def test_a_sibling_starts_from_a_running_one(model: Any) -> None:
    loop = loop_of(model)
    prompt = np.arange(100) % 298
    first = request("a", prompt, max_tokens=30, ignore_eos=True)
    loop.add(first)
    for _ in range(3):
        loop.step()
    second = request("b", prompt, max_tokens=30, ignore_eos=True)
    loop.add(second)
    out = drain(loop)
    assert out["b"].cached_tokens == 99
    assert_true(model, first, out["a"])
    assert_true(model, second, out["b"])


def test_the_prefix_cache_keeps_to_its_budget(model: Any) -> None:
    loop = loop_of(model, stash_tokens=200)
    for i in range(10):
        loop.add(request(str(i), (np.arange(60) + 7 * i) % 298))
        drain(loop)
        assert loop._stash.tokens <= 200


def test_temperature_top_k_and_top_p_give_logprobs_of_the_distribution_sampled_from(model: Any) -> None:
    import torch

    prompt = np.arange(20)
    loop = loop_of(model)
    hot = request("hot", prompt, temperature=0.7, max_tokens=20, ignore_eos=True)
    greedy = request("greedy", prompt, temperature=0.0, ignore_eos=True)
    cut = request("cut", prompt, top_k=5, max_tokens=1)
    nucleus = request("nucleus", prompt, top_p=0.5, max_tokens=1)
    for r in (hot, greedy, cut, nucleus):
        loop.add(r)
    out = drain(loop)
    assert_true(model, hot, out["hot"], temperature=0.7)
    with torch.no_grad():
        logits = model(torch.tensor([prompt.tolist()])).logits[0, -1]
    assert out["greedy"].ids[0] == int(logits.argmax())
    top = torch.log_softmax(logits.topk(5).values, -1)
    place = logits.topk(5).indices.tolist().index(out["cut"].ids[0])
    assert out["cut"].logprobs[0] == pytest.approx(float(top[place]), abs=1e-4)
    assert out["nucleus"].logprobs[0] >= float(torch.log_softmax(logits, -1)[out["nucleus"].ids[0]])


def test_sampling_follows_the_distribution(model: Any) -> None:
    import torch

    loop = loop_of(model, max_rows=64)
    for i in range(1500):
        loop.add(request(str(i), [5, 6, 7], max_tokens=1))
    first = [d.ids[0] for d in drain(loop).values()]
    with torch.no_grad():
        p = torch.softmax(model(torch.tensor([[5, 6, 7]])).logits[0, -1], -1).numpy()
    seen = np.bincount(first, minlength=300) / len(first)
    likely = p > 0.02
    assert likely.any()
    assert np.abs(seen - p)[likely].max() < 5 * np.sqrt(p[likely].max() / len(first))


def test_a_seed_gives_the_same_tokens_in_any_company(model: Any) -> None:
    alone, crowd = loop_of(model), loop_of(model)
    alone.add(request("x", np.arange(9), seed=3, max_tokens=20))
    for i in range(6):
        crowd.add(request(str(i), np.arange(i + 2)))
    crowd.add(request("x", np.arange(9), seed=3, max_tokens=20))
    assert drain(alone)["x"].ids == drain(crowd)["x"].ids


def test_aborting_gives_what_there_is(model: Any) -> None:
    loop = loop_of(model, max_rows=2)
    for i in range(4):
        loop.add(request(str(i), np.arange(10), max_tokens=400, ignore_eos=True))
    for _ in range(5):
        loop.step()
    loop.abort({"0", "3"})
    some = {d.id: d for d in loop.step()}
    assert some["0"].finish == some["3"].finish == "abort"
    assert len(some["0"].ids) in (5, 6)
    assert some["3"].ids == []
    loop.abort(None)
    rest = drain(loop)
    assert {d.finish for d in rest.values()} == {"abort"}
    assert set(some) | set(rest) == {"0", "1", "2", "3"}


@pytest.mark.parametrize("clear", [True, False])
def test_new_weights_in_the_middle_of_a_generation(clear: bool) -> None:
    import torch

    old, new = tiny(seed=1), tiny(seed=2)
    running = tiny(seed=1)
    loop = loop_of(running, chunk_tokens=8)
    requests = [request(str(i), np.arange(5 + 6 * i), max_tokens=40, ignore_eos=True) for i in range(3)]
    for r in requests:
        loop.add(r)
    for _ in range(15):
        loop.step()
    loop.load(dict(new.state_dict()), 7, clear_cache=clear)
    out = drain(loop)
    for r in requests:
        done = out[r.id]
        (v0, a, b), (v7, c, d) = done.spans
        assert (v0, v7, a, d) == (0, 7, 0, 40)
        assert b == c
        np.testing.assert_allclose(done.logprobs[:b], logprobs_of(old, r.prompt, done.ids)[:b], atol=1e-4)
        gap = np.abs(np.array(done.logprobs[b:]) - logprobs_of(new, r.prompt, done.ids)[b:])
        assert (gap.max() < 1e-4) == clear, "only a cleared cache makes the past read anew"
    with pytest.raises(KeyError, match="no weights named"):
        loop.load({"nonsense": torch.zeros(1)}, 8)


@pytest.mark.parametrize(("prompt", "why"), [([], "empty"), ([300], "vocabulary"), ([1] * 512, "longest")])
def test_prompts_that_can_not_be_continued_are_refused(model: Any, prompt: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        loop_of(model).add(request("x", prompt))


def test_the_end_of_the_context_is_length(model: Any) -> None:
    loop = loop_of(model, max_model_len=64)
    r = request("x", np.arange(60), max_tokens=None, ignore_eos=True)
    loop.add(r)
    done = drain(loop)["x"]
    assert (len(done.ids), done.finish) == (4, "length")
    assert_true(model, r, done)


def test_models_with_sliding_windows_are_refused() -> None:
    with pytest.raises(ValueError, match="full attention"):
        loop_of(tiny(layer_types=["sliding_attention", "full_attention"], sliding_window=8, use_sliding_window=True))


@pytest.mark.parametrize("kv_tokens", [512, 1024, 1600])
def test_too_little_room_for_all_makes_them_take_turns_and_changes_nothing(model: Any, kv_tokens: int) -> None:
    """Sequences that outgrow the room are put aside and read again: the same logprobs, nothing lost."""
    rng = np.random.default_rng(5)
    prompts = [rng.integers(1, 290, n) for n in (200, 30, 130, 5, 240, 90)]
    alone = {
        str(i): drain(started(loop_of(model), request(str(i), p, seed=i, max_tokens=90, ignore_eos=True)))[str(i)]
        for i, p in enumerate(prompts)
    }
    loop = loop_of(model, kv_tokens=kv_tokens, max_model_len=400, stash_tokens=0)
    loop = started(
        loop,
        *(
            request(str(i), p, seed=i, max_tokens=90, ignore_eos=True)
            for i, p in enumerate(prompts)
            if len(p) + 90 <= loop.max_model_len
        ),
    )
    together: dict[str, Any] = {}
    most = 0
    while loop.busy:
        together.update({d.id: d for d in loop.step()})
        arena = loop._arena
        assert arena.rows * arena.capacity <= max(kv_tokens, 2 * arena.capacity)
        most = max(most, loop.running)
    assert len(together) >= 3
    assert most > 1 or kv_tokens == 512
    for name, done in together.items():
        assert done.ids == alone[name].ids
        np.testing.assert_allclose(done.logprobs, alone[name].logprobs, atol=1e-4)


def test_an_abort_reaches_those_that_were_put_aside(model: Any) -> None:
    loop = started(
        loop_of(model, kv_tokens=1024),
        *(request(str(i), [1 + i] * 200, max_tokens=200, ignore_eos=True) for i in range(3)),
    )
    for _ in range(70):
        loop.step()
    loop.abort(None)
    done = {d.id: d for d in loop.collect()}
    assert {d.finish for d in done.values()} == {"abort"}
    assert len(done) == 3
    assert max(len(d.ids) for d in done.values()) > 50
    assert not loop.busy


@pytest.mark.parametrize(
    "params", [{"seed": 2**70}, {"seed": -1}, {"temperature": 1e-40}, {"temperature": 1e38}, {"top_k": 10**6}]
)
def test_odd_wishes_do_not_end_the_engine(model: Any, params: dict[str, Any]) -> None:
    done = drain(started(loop_of(model), request("a", [1, 2, 3], **params)))["a"]
    assert len(done.ids) == len(done.logprobs)
    assert all(np.isfinite(done.logprobs))


def started(loop: Any, *requests: Any) -> Any:
    for one in requests:
        loop.add(one)
    return loop
