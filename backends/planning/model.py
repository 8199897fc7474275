"""What a model weighs: a decoder's shape from its Hugging Face `config.json`, and the parameters of each of its parts.

Pure arithmetic over JSON; neither torch nor transformers is imported and no code of a model folder is run. Known are
dense decoders (Llama, Qwen2, Qwen3), mixtures of experts (Qwen3-MoE) and hybrids of linear and full attention
(Qwen3-Next, Qwen3.5, Qwen3.6); of a model with a vision tower the language model alone is counted. `parameters` equals
what transformers builds, to the last one, for every kind in `KINDS` (a test builds them). A setting that would change
the count and is not known here is refused by name. Used by the memory, speed and layout arithmetic of this package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.failure import UserError, did_you_mean

__all__ = ["KINDS", "Attention", "Experts", "LayerWeights", "Linear", "ModelShape", "known_models", "read_shape"]

_MODELS = Path(__file__).with_name("models")


@dataclass(frozen=True, slots=True)
class Attention:
    """Full attention with grouped keys.

    Attributes:
        gated: The query projection is twice as wide: half of it gates the output.
        qk_norm: Norms over a head's queries and keys.
        qkv_bias, out_bias: Biases of the projections.
    """

    heads: int
    kv_heads: int
    head_dim: int
    gated: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False


@dataclass(frozen=True, slots=True)
class Linear:
    """Gated DeltaNet: a state of constant size per sequence in place of keys and values."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int

    @property
    def conv_width(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts. `shared_ffn` is the width of the expert that every token goes through; 0 for none."""

    count: int
    chosen: int
    ffn: int
    shared_ffn: int = 0


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Parameters of one layer, by how a layout cuts them.

    Attributes:
        cut: Over tensor ranks.
        kv: The key and value projections: over tensor ranks as far as there are heads, copied beyond.
        whole: On every rank: norms, routers, gates.
        experts: Over expert ranks, and over the tensor ranks of an expert.
    """

    cut: int
    kv: int
    whole: int
    experts: int

    @property
    def total(self) -> int:
        return self.cut + self.kv + self.whole + self.experts


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder.

    Attributes:
        name: Where it was read from.
        kind: `model_type` of its configuration.
        full: Per layer, whether it has full attention (else it is linear).
        sparse: Per layer, whether it has experts (else it is dense).
        positions: The longest sequence that it was made for, in tokens.
    """

    name: str
    kind: str
    hidden: int
    vocab: int
    ffn: int
    tied: bool
    positions: int
    attention: Attention
    full: tuple[bool, ...]
    sparse: tuple[bool, ...]
    linear: Linear | None = None
    experts: Experts | None = None

    @property
    def layers(self) -> int:
        return len(self.full)

    def layer(self, number: int) -> LayerWeights:
        """The weights of one layer."""
        cut = kv = experts = 0
        whole = 2 * self.hidden  # the two norms
        if self.full[number]:
            own = self.attention
            width = own.heads * own.head_dim
            queries = width * (2 if own.gated else 1)
            cut += self.hidden * queries + width * self.hidden
            kv += 2 * self.hidden * own.kv_heads * own.head_dim
            if own.qkv_bias:
                cut += queries
                kv += 2 * own.kv_heads * own.head_dim
            if own.out_bias:
                whole += self.hidden
            if own.qk_norm:
                whole += 2 * own.head_dim
        else:
            linear = self._linear
            values = linear.value_heads * linear.value_dim
            # queries, keys and values; the output's gate; two gates per head; the convolution; the way out
            cut += self.hidden * (linear.conv_width + values + 2 * linear.value_heads)
            cut += linear.conv_width * linear.conv + values * self.hidden
            cut += 2 * linear.value_heads  # A and the time step's bias
            whole += linear.value_dim  # the gated norm
        if self.sparse[number]:
            moe = self._experts
            experts += moe.count * 3 * self.hidden * moe.ffn
            whole += moe.count * self.hidden  # the router
            if moe.shared_ffn:
                cut += 3 * self.hidden * moe.shared_ffn
                whole += self.hidden if self.kind in _SHARED_GATE else 0
        else:
            cut += 3 * self.hidden * self.ffn
        return LayerWeights(cut, kv, whole, experts)

    def kinds(self, numbers: range) -> list[tuple[int, int]]:
        """Layers by kind: the number of one of each, and how many of these there are."""
        found: dict[tuple[bool, bool], tuple[int, int]] = {}
        for number in numbers:
            kind = (self.full[number], self.sparse[number])
            first, count = found.get(kind, (number, 0))
            found[kind] = (first, count + 1)
        return list(found.values())

    @property
    def embedding(self) -> int:
        """Parameters of the embedding; the head has as many, unless it is tied."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All of them."""
        body = sum(self.layer(number).total * count for number, count in self.kinds(range(self.layers)))
        return body + self.embedding * (1 if self.tied else 2) + self.hidden

    @property
    def active(self) -> int:
        """Parameters that a token is multiplied with: the chosen experts of each layer, the head, no embedding."""
        total = self.embedding + self.hidden
        for number, count in self.kinds(range(self.layers)):
            own = self.layer(number)
            total += (own.total - own.experts) * count
            if self.sparse[number]:
                total += own.experts * self._experts.chosen // self._experts.count * count
        return total

    @property
    def kv_numbers(self) -> int:
        """Numbers that one token leaves behind in the keys and values of all layers."""
        return 2 * sum(self.full) * self.attention.kv_heads * self.attention.head_dim

    def kv_bytes(self, *, tensor: int = 1, width: int = 2) -> int:
        """Bytes of keys and values of one token on one of `tensor` ranks; heads are copied where there are too few."""
        heads = max(1, -(-self.attention.kv_heads // tensor))
        return 2 * sum(self.full) * heads * self.attention.head_dim * width

    def state_bytes(self, *, tensor: int = 1, width: int = 2, state_width: int = 4) -> int:
        """Bytes of the recurrent state of one sequence on one of `tensor` ranks, however long it is; 0 without linear
        layers. States are kept in float32, the convolution's window in the model's own type."""
        if self.linear is None or all(self.full):
            return 0
        own = self.linear
        state = own.value_heads * own.key_dim * own.value_dim * state_width
        window = own.conv_width * (own.conv - 1) * width
        return (self.layers - sum(self.full)) * -(-(state + window) // tensor)

    @property
    def _linear(self) -> Linear:
        if self.linear is None:
            raise ValueError(f"{self.name} has linear layers and says nothing of their heads")
        return self.linear

    @property
    def _experts(self) -> Experts:
        if self.experts is None:
            raise ValueError(f"{self.name} has sparse layers and says nothing of experts")
        return self.experts


#: What is known of each `model_type`: queries with a gate, norms of queries and keys, biases of q, k and v.
KINDS: dict[str, tuple[bool, bool, bool | None]] = {
    "llama": (False, False, None),
    "qwen2": (False, False, True),
    "qwen3": (False, True, None),
    "qwen3_moe": (False, True, None),
    "qwen3_next": (True, True, None),
    "qwen3_5": (True, True, None),
    "qwen3_5_text": (True, True, None),
    "qwen3_5_moe": (True, True, None),
    "qwen3_5_moe_text": (True, True, None),
}
_SHARED_GATE = frozenset({"qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"})
_HYBRID = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})


def known_models() -> list[str]:
    """Names of the configurations that come with envkit."""
    return sorted(path.stem for path in _MODELS.glob("*.json"))


def read_shape(model: str | Path) -> ModelShape:
    """A model's shape from a folder with `config.json`, such a file, or one of `known_models()` (any case; the last
    part of a hub's `owner/name` will do).

    Raises:
        UserError: There is none, or it is of a kind that is not known here.
    """
    path = Path(model)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        name = path.name.lower()
        file = _MODELS / f"{name}.json"
        if not file.is_file():
            known = known_models()
            raise UserError(
                f"no model configuration at {model}: expected a folder with config.json, or one of "
                f"{', '.join(known)}{did_you_mean(name, known)} (`--model`)"
            )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("expected an object")
        own = config.get("text_config", config)
        shape = _shape(file.stem if file.name != "config.json" else file.parent.name, own)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{file} can't be read as a model's configuration: {error}") from error
    except (KeyError, TypeError) as error:
        raise UserError(f"{file} lacks what the arithmetic needs, or has it in another form: {error}") from error
    return shape


def _shape(name: str, config: Mapping[str, Any]) -> ModelShape:
    kind = str(config.get("model_type"))
    if kind not in KINDS:
        raise UserError(
            f"{name}: model_type {kind!r} is not known{did_you_mean(kind, list(KINDS))}; known: {', '.join(KINDS)}"
        )
    gated, qk_norm, bias = KINDS[kind]
    layers = _count(config, "num_hidden_layers")
    hidden, heads = _count(config, "hidden_size"), _count(config, "num_attention_heads")
    asked = bool(config.get("attention_bias", False))
    attention = Attention(
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads") if config.get("num_key_value_heads") else heads,
        head_dim=_count(config, "head_dim") if config.get("head_dim") else hidden // heads,
        gated=gated,
        qk_norm=qk_norm,
        qkv_bias=asked if bias is None else bias,
        out_bias=asked if bias is None else False,
    )
    if config.get("mlp_bias"):
        raise UserError(f"{name}: mlp_bias is not known here")
    full, linear = (True,) * layers, None
    if kind in _HYBRID:
        full = _full(config, layers)
        linear = Linear(
            key_heads=_count(config, "linear_num_key_heads"),
            value_heads=_count(config, "linear_num_value_heads"),
            key_dim=_count(config, "linear_key_head_dim"),
            value_dim=_count(config, "linear_value_head_dim"),
            conv=_count(config, "linear_conv_kernel_dim"),
        )
    sparse, experts = (False,) * layers, None
    # newer releases of transformers write the second name
    counted = next((key for key in ("num_experts", "num_local_experts") if config.get(key)), None)
    if counted is not None:
        count = _count(config, counted)
        every, dense = int(config.get("decoder_sparse_step") or 1), set(config.get("mlp_only_layers") or ())
        sparse = tuple(n not in dense and (n + 1) % every == 0 for n in range(layers))
        experts = Experts(
            count=count,
            chosen=_count(config, "num_experts_per_tok"),
            ffn=_count(config, "moe_intermediate_size"),
            shared_ffn=int(config.get("shared_expert_intermediate_size") or 0) if kind in _SHARED_GATE else 0,
        )
        if experts.chosen > count:
            raise UserError(f"{name}: {experts.chosen} of {count} experts can't be chosen")
    return ModelShape(
        name=name,
        kind=kind,
        hidden=hidden,
        vocab=_count(config, "vocab_size"),
        ffn=_count(config, "intermediate_size") if not all(sparse) else 0,
        tied=bool(config.get("tie_word_embeddings", False)),
        positions=_count(config, "max_position_embeddings"),
        attention=attention,
        full=full,
        sparse=sparse,
        linear=linear,
        experts=experts,
    )


def _full(config: Mapping[str, Any], layers: int) -> tuple[bool, ...]:
    given = config.get("layer_types")
    if given is None:
        every = int(config.get("full_attention_interval") or 4)
        return tuple((number + 1) % every == 0 for number in range(layers))
    unknown = set(given) - {"full_attention", "linear_attention"}
    if unknown or len(given) != layers:
        raise ValueError(f"layer_types: expected {layers} of full_attention and linear_attention, found {given}")
    return tuple(kind == "full_attention" for kind in given)


def _count(config: Mapping[str, Any], key: str) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{key}: expected a whole number above 0, found {value!r}")
    return value
