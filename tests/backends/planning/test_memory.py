"""Memory: more ranks never need more of it, what is cut adds up, and layouts that can't be are refused with reasons."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.backends.megatron.config import Recompute
from envkit.backends.megatron.layout import Layout
from envkit.backends.planning.gpus import GPUS
from envkit.backends.planning.layouts import distance, fitting, nearest
from envkit.backends.planning.memory import Training, engine_memory, layout_faults, train_memory
from envkit.backends.planning.model import known_models, read_shape

SHAPES = {name: read_shape(name) for name in known_models()}
RECOMPUTE = [None, Recompute(), Recompute(layers=4), Recompute(method="block"), Recompute(granularity="selective")]


@st.composite
def subjects(draw: st.DrawFn) -> tuple[str, Layout, int, Training]:
    name = draw(st.sampled_from(sorted(SHAPES)))
    shape = SHAPES[name]
    sizes = {axis: draw(st.sampled_from([1, 2])) for axis in ("tensor", "pipeline", "context")}
    expert = draw(st.sampled_from([1, 2, 8])) if shape.experts else 1
    inner = draw(st.sampled_from([1, sizes["tensor"]])) if shape.experts else None
    layout = Layout(**sizes, expert=expert, expert_tensor=inner)
    world = math.prod(sizes.values()) * expert * draw(st.sampled_from([2, 4]))
    training = Training(
        tokens=draw(st.sampled_from([4_096, 160_000])),
        width=draw(st.sampled_from([2, 4])),
        offload=draw(st.sampled_from([0.0, 0.5, 1.0])),
        distributed=draw(st.booleans()),
        recompute=draw(st.sampled_from(RECOMPUTE)),
    )
    return name, layout, world, training


@settings(max_examples=60, deadline=None)
@given(subjects(), st.sampled_from(["tensor", "pipeline", "context", "expert", "data"]))
def test_more_ranks_never_need_more_memory(drawn: tuple[str, Layout, int, Training], axis: str) -> None:
    name, layout, world, training = drawn
    shape = SHAPES[name]
    if layout_faults(shape, layout, world):
        return
    before = train_memory(shape, layout, world, training)
    if axis == "expert" and shape.experts is None:
        return
    wider = layout if axis == "data" else layout.model_copy(update={axis: getattr(layout, axis) * 2})
    if layout_faults(shape, wider, world * 2):
        return
    after = train_memory(shape, wider, world * 2, training)
    assert after.total <= before.total * (1 + 1e-9)
    assert after.weights <= before.weights * 1.001  # of the fullest rank, which may be another stage's
    if axis in ("tensor", "pipeline"):
        assert after.weights < before.weights


def test_what_ranks_hold_adds_up_to_the_model() -> None:
    shape = SHAPES["qwen3-30b-a3b"]
    training = Training(tokens=4_096)
    whole = train_memory(shape, Layout(), 1, training)
    assert whole.weights == pytest.approx(2 * shape.parameters, abs=8)
    assert whole.gradients == pytest.approx(4 * shape.parameters, abs=8)
    assert whole.optimizer == pytest.approx(12 * shape.parameters, abs=16)
    beside = train_memory(shape, Layout(), 1, Training(tokens=4_096, reference=True))
    assert (beside.weights, beside.gradients) == (2 * whole.weights, whole.gradients)
    # experts over 8 ranks; the rest is whole on each, its optimiser states are cut over all 8
    moe = sum(shape.layer(n).experts for n in range(shape.layers))
    spread = train_memory(shape, Layout(expert=8), 8, training)
    assert spread.weights == pytest.approx(2 * (shape.parameters - moe + moe / 8), abs=16)
    assert spread.optimizer == pytest.approx(12 * shape.parameters / 8, abs=32)
    offloaded = train_memory(shape, Layout(expert=8), 8, Training(tokens=4_096, offload=1.0))
    assert offloaded.optimizer == 0
    assert offloaded.host == pytest.approx(16 * shape.parameters / 8, abs=32)


@pytest.mark.parametrize(
    ("name", "layout", "world", "says"),
    [
        ("qwen3-8b", Layout(tensor=3), 3, "32 attention heads over 3"),
        ("qwen3-8b", Layout(pipeline=5), 5, "36 layers over 5"),
        ("qwen3-8b", Layout(expert=2), 2, "no experts"),
        ("qwen3-8b", Layout(tensor=2), 3, "multiple of 2 ranks"),
        ("qwen3-30b-a3b", Layout(expert=3), 3, "128 experts over 3"),
        ("qwen3.6-35b-a3b", Layout(tensor=8, context=4), 32, "16 and 32 linear heads over 8 tensor x 4 context"),
        ("qwen3.6-35b-a3b", Layout(tensor=8, expert=8), 32, "multiple of 64 ranks"),
    ],
)
def test_layouts_that_can_not_be_say_why(name: str, layout: Layout, world: int, says: str) -> None:
    assert says in "; ".join(layout_faults(SHAPES[name], layout, world))
    with pytest.raises(ValueError, match=r"over|multiple|experts"):
        train_memory(SHAPES[name], layout, world, Training(tokens=1_000))


def test_the_nearest_layout_fits_and_none_that_fits_is_nearer() -> None:
    shape, gpu, training = (
        SHAPES["qwen3.6-35b-a3b"],
        GPUS["H100"],
        Training(tokens=160_000, offload=1.0, recompute=Recompute()),
    )
    wanted = Layout(tensor=2)
    found = nearest(shape, gpu, wanted, 16, 8, training)
    assert found is not None
    assert found.memory.total <= gpu.memory
    assert not layout_faults(shape, found.layout, found.world)
    others = fitting(shape, gpu, found.world, 8, training)
    assert distance(wanted, found.layout) == min(distance(wanted, one.layout) for one in others)
    # a model that no number of these GPUs holds: not even one layer's work fits
    assert nearest(SHAPES["qwen3.5-397b-a17b"], GPUS["RTX-4090"], Layout(), 1, 1, Training(tokens=262_144)) is None


def test_an_engine_holds_more_over_more_gpus_and_with_a_larger_share() -> None:
    shape, gpu = SHAPES["qwen3.6-35b-a3b"], GPUS["H100"]
    held = [engine_memory(shape, gpu, tensor=n).trajectories(50_000) for n in (2, 4, 8)]
    assert held == sorted(held)
    assert held[0] > 0
    shares = [engine_memory(shape, gpu, tensor=8, share=share).tokens() for share in (0.5, 0.7, 0.9)]
    assert shares == sorted(shares)
    assert engine_memory(shape, GPUS["L40S"], tensor=1).tokens() == 0  # 65 GiB of weights
    fixed = engine_memory(shape, gpu, tensor=1, kv_cache=512 << 20)
    assert fixed.tokens() == (512 << 20) // shape.kv_bytes()
