"""What a Hugging Face model folder says of its model, as the few numbers that the factory builds from.

`ARCHITECTURES` is the table of those that are known; another one is an entry here (how its config is read) and one in
`mapping.py` (what its tensors are called). A setting that would change what is computed and that we don't build is
refused by name, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.failure import UserError, did_you_mean

__all__ = ["ARCHITECTURES", "BRIDGED", "Experts", "Shape", "shape_of"]


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts.

    Attributes:
        count, chosen: Experts of a layer, and how many a token goes through.
        ffn: Width of one expert.
        layers: Per layer, whether it has experts (else it is dense).
        normalised: The chosen experts' weights sum to 1.
    """

    count: int
    chosen: int
    ffn: int
    layers: tuple[bool, ...]
    normalised: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder: grouped attention with rotary positions, RMS norms, gated feed-forward layers.

    Attributes:
        architecture: As `config.json` names it.
        ffn: Width of dense feed-forward layers.
        tied: The head is the embedding.
        positions: Longest sequence that the model was made for, in tokens.
    """

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    norm_eps: float
    rope_theta: float
    tied: bool
    positions: int
    experts: Experts | None = None

    def has_experts(self, layer: int) -> bool:
        return self.experts is not None and self.experts.layers[layer]


def _qwen3(config: Any) -> Shape:
    rope = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    # transformers 4 keeps the base beside the scaling, 5 inside
    theta = rope.get("rope_theta", getattr(config, "rope_theta", None))
    wrong = {
        "attention_bias": bool(getattr(config, "attention_bias", False)),
        "use_sliding_window": bool(getattr(config, "use_sliding_window", False)),
        f"rope_type {kind!r}": kind != "default",
        "partial_rotary_factor": rope.get("partial_rotary_factor", 1.0) != 1.0,
        f"hidden_act {config.hidden_act!r}": config.hidden_act != "silu",
        "rope_theta missing": theta is None,
    }
    if theta is None or any(wrong.values()):
        found = ", ".join(name for name, is_so in wrong.items() if is_so)
        raise UserError(f"this {config.model_type} has {found}: the Megatron trainer does not build that")
    return Shape(
        architecture=config.architectures[0],
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        ffn=config.intermediate_size,
        vocab=config.vocab_size,
        norm_eps=config.rms_norm_eps,
        rope_theta=float(theta),
        tied=bool(config.tie_word_embeddings),
        positions=config.max_position_embeddings,
        experts=_experts(config),
    )


def _experts(config: Any) -> Experts | None:
    count = getattr(config, "num_experts", 0) or 0
    if not count:
        return None
    dense = set(config.mlp_only_layers or ())
    every = config.decoder_sparse_step
    return Experts(
        count=count,
        chosen=config.num_experts_per_tok,
        ffn=config.moe_intermediate_size,
        layers=tuple(n not in dense and (n + 1) % every == 0 for n in range(config.num_hidden_layers)),
        normalised=bool(config.norm_topk_prob),
    )


#: How the configuration of an architecture is read.
ARCHITECTURES: dict[str, Callable[[Any], Shape]] = {"Qwen3ForCausalLM": _qwen3, "Qwen3MoeForCausalLM": _qwen3}

#: What the recipe trains and Megatron-Bridge knows: accepted in a plan that is only looked at.
BRIDGED = frozenset(
    {
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen3NextForCausalLM",
    }
)


def shape_of(folder: Path) -> Shape:
    """Reads `config.json`; no code from the folder is run.

    Raises:
        UserError: There is none, or its architecture or one of its settings is not supported.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(f"no Hugging Face model in {folder}: {error}") from error
    names = config.architectures or ["none"]
    if names[0] in BRIDGED:
        raise UserError(
            f"{folder} is a {names[0]}, with layers that only Megatron-Bridge builds, on GPUs; that way has not been "
            "run on hardware and is not taken: `envkit train --dry-run` checks such a plan, a run needs one of "
            f"{', '.join(sorted(ARCHITECTURES))}"
        )
    if names[0] not in ARCHITECTURES:
        raise UserError(
            f"{folder} is a {names[0]}; the Megatron trainer knows {', '.join(sorted(ARCHITECTURES))}"
            f"{did_you_mean(names[0], list(ARCHITECTURES))}"
        )
    return ARCHITECTURES[names[0]](config)
