"""Parameter counts: as transformers builds them at tiny size, and as models are known by at full size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.planning.model import KINDS, known_models, read_shape
from envkit.failure import UserError

COMMON: dict[str, Any] = dict(
    vocab_size=101, hidden_size=32, intermediate_size=56, num_hidden_layers=5, num_attention_heads=4,
    num_key_value_heads=2, head_dim=12, max_position_embeddings=256,
)  # fmt: skip
MOE: dict[str, Any] = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20)
SHARED: dict[str, Any] = dict(shared_expert_intermediate_size=28)
HYBRID: dict[str, Any] = dict(
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=14,
    linear_conv_kernel_dim=3,
    layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
)  # fmt: skip

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", COMMON),
    "llama-biased-tied": ("Llama", {**COMMON, "attention_bias": True, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2", {k: v for k, v in COMMON.items() if k != "head_dim"}),
    "qwen3": ("Qwen3", COMMON),
    "qwen3-biased": ("Qwen3", {**COMMON, "attention_bias": True}),
    "qwen3_moe": ("Qwen3Moe", {**COMMON, **MOE, "mlp_only_layers": [1], "decoder_sparse_step": 1}),
    "qwen3_moe-every-other": ("Qwen3Moe", {**COMMON, **MOE, "decoder_sparse_step": 2}),
    "qwen3_next": ("Qwen3Next", {**COMMON, **MOE, **SHARED, **HYBRID, "mlp_only_layers": [0]}),
    "qwen3_5": ("Qwen3_5", {**COMMON, **HYBRID}),
    "qwen3_5_moe": ("Qwen3_5Moe", {**{k: v for k, v in COMMON.items() if k != "intermediate_size"}, **MOE, **SHARED,
                                   **HYBRID}),
}  # fmt: skip


@pytest.mark.tokens
@pytest.mark.parametrize("case", CASES)
def test_parameters_are_those_that_transformers_builds(case: str, tmp_path: Path) -> None:
    import torch
    import transformers

    family, settings = CASES[case]
    config_class = getattr(transformers, f"{family}TextConfig", None) or getattr(transformers, f"{family}Config")
    config = config_class(**settings)
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForCausalLM")(config)
    config.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert shape.kind in KINDS
    # what a layer counts is what that layer has, cut by cut
    for number, layer in enumerate(model.model.layers):
        own = shape.layer(number)
        assert own.total == sum(p.numel() for p in layer.parameters())
        experts = [p.numel() for name, p in layer.named_parameters() if ".experts." in name]
        assert own.experts == sum(experts)
        kv = [p.numel() for name, p in layer.named_parameters() if "k_proj" in name or "v_proj" in name]
        assert own.kv == sum(kv)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("qwen3.6-35b-a3b", 35e9, 3e9),
        ("qwen3.5-397b-a17b", 397e9, 17e9),
        ("qwen3-8b", 8.19e9, 7.57e9),
        ("qwen3-30b-a3b", 30.53e9, 3.04e9),
    ],
)
def test_the_models_that_come_along_weigh_what_they_are_called(name: str, total: float, active: float) -> None:
    shape = read_shape(f"Qwen/{name.upper()}")
    assert shape.parameters == pytest.approx(total, rel=0.01)
    assert shape.active == pytest.approx(active, rel=0.05)
    assert name in known_models()


def test_keys_and_values_take_what_vllm_reports() -> None:
    """Measured with vLLM on the CPU: 512 MiB held 262,144 tokens of a Qwen3 of four layers, two key heads of 64."""
    config = {
        **COMMON, "model_type": "qwen3", "hidden_size": 128, "num_hidden_layers": 4, "head_dim": 64,
    }  # fmt: skip
    shape = _shape(config)
    assert (512 << 20) // shape.kv_bytes() == 262_144
    # in a hybrid only full attention layers have any, and the rest a state that no length changes
    hybrid = _shape({**COMMON, **HYBRID, "model_type": "qwen3_5_text"})
    assert hybrid.kv_bytes() == 2 * 2 * 2 * 12 * 2
    assert hybrid.state_bytes() == 3 * (4 * 10 * 14 * 4 + (2 * 2 * 10 + 4 * 14) * 2 * 2)
    assert shape.state_bytes() == 0
    # too few heads for the ranks: each has one, copied
    assert shape.kv_bytes(tensor=8) == shape.kv_bytes(tensor=2) == shape.kv_bytes() // 2


def _shape(config: dict[str, Any]) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        return read_shape(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "qwen3_mo"}, "did you mean 'qwen3_moe'"),
        ({"hidden_size": "many"}, "hidden_size: expected a whole number"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_experts": 4, "num_experts_per_tok": 8, "moe_intermediate_size": 8}, "8 of 4 experts"),
        ({"model_type": "qwen3_5_text", **HYBRID, "layer_types": ["full_attention"]}, "layer_types: expected 5"),
    ],
    ids=["kind", "type", "missing", "experts", "layers"],
)
def test_what_can_not_be_counted_is_refused_by_name(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        _shape({**COMMON, "model_type": "qwen3", **change})
    with pytest.raises(UserError, match="did you mean 'qwen3-8b'"):
        read_shape("qwen3-8c")
