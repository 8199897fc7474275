"""Builds megatron-core models: the one place that knows its configuration, layer specs and model class.

A built model gives hidden states, not logits: a head over a large vocabulary is applied to the tokens that train, a
chunk at a time (`logprobs.py`). Weights are not initialised, they come from a Hugging Face folder (`weights.py`).
Used by trainer ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel.layers import (
    ColumnParallelLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    set_tensor_model_parallel_attributes,
)
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
from torch import Tensor

from envkit.backends.megatron import cpu_compat, lora
from envkit.backends.megatron.config import MegatronLoraConfig, Recompute
from envkit.backends.megatron.layout import Layout
from envkit.backends.megatron.modules import Attention, Norm
from envkit.backends.megatron.shape import Shape
from envkit.failure import UserError

__all__ = ["Decoder", "build", "check", "initialize", "packed_sequences", "padded_vocab"]


def initialize(
    layout: Layout,
    *,
    rank: int,
    world: int,
    timeout_s: float,
    init_method: str | None = None,
    store: Any = None,
    seed: int = 0,
) -> None:
    """Joins the process group and makes megatron-core's own groups of it, in this process.

    Args:
        init_method: Where ranks meet, as torch has it (`tcp://host:port`, `file:///path`).
        store: Or the store through which they meet.
        timeout_s: Longest wait of a collective; a rank that is gone ends the others' step after that at the latest.

    Raises:
        UserError: The world can't be cut like that.
    """
    try:
        layout.data_ranks(world)
    except ValueError as error:
        raise UserError(str(error)) from error
    cpu_compat.install()
    from datetime import timedelta

    torch.distributed.init_process_group(
        cpu_compat.process_group_backend(),
        init_method=init_method,
        store=store,
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=timeout_s),
    )
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tensor,
        pipeline_model_parallel_size=layout.pipeline,
        virtual_pipeline_model_parallel_size=layout.virtual_stages if layout.virtual_stages > 1 else None,
        context_parallel_size=layout.context,
        expert_model_parallel_size=layout.expert,
        expert_tensor_parallel_size=layout.expert_tensor,
        distributed_timeout_minutes=max(1, round(timeout_s / 60)),
    )
    with cpu_compat.on_device():
        model_parallel_cuda_manual_seed(seed)


def check(shape: Shape, layout: Layout) -> None:
    """Whether such a model can be cut like that.

    Raises:
        UserError: It can't; says which number does not divide which.
    """
    experts = shape.experts
    cuts = [
        ("tensor", layout.tensor, "heads", shape.heads),
        ("tensor", layout.tensor, "ffn", shape.ffn),
        ("pipeline x virtual_stages", layout.pipeline * layout.virtual_stages, "layers", shape.layers),
    ]
    if shape.kv_heads >= layout.tensor:
        cuts.append(("tensor", layout.tensor, "kv_heads", shape.kv_heads))
    if experts is not None:
        cuts.append(("expert", layout.expert, "experts", experts.count))
        cuts.append(("expert_tensor", layout.expert_tensor or layout.tensor, "experts' ffn", experts.ffn))
    wrong = [f"{name} ({size}) does not divide {of} ({n})" for name, size, of, n in cuts if n % size]
    if shape.kv_heads < layout.tensor and layout.tensor % shape.kv_heads:
        wrong.append(f"kv_heads ({shape.kv_heads}) and tensor ({layout.tensor}): neither divides the other")
    if experts is None and layout.expert > 1:
        wrong.append(f"expert is {layout.expert}, but a {shape.architecture} has no experts")
    if wrong:
        raise UserError(f"this layout does not fit the model: {'; '.join(wrong)}")


def padded_vocab(shape: Shape, layout: Layout) -> int:
    """Rows of the embedding and the head, as many for every tensor rank."""
    return -(-shape.vocab // layout.tensor) * layout.tensor


class Decoder(GPTModel):  # type: ignore[misc]
    """A model, or one stage's part of it, that stops at the hidden states after the final norm."""

    def _postprocess(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return hidden_states

    @property
    def head(self) -> Tensor:
        """This rank's rows of the head [V / tensor, H]; of the last stage."""
        if self.share_embeddings_and_output_weights:
            return self.shared_embedding_or_output_weight()
        return self.output_layer.weight


def build(
    shape: Shape,
    layout: Layout,
    *,
    dtype: torch.dtype = torch.float32,
    lora_config: MegatronLoraConfig | None = None,
    recompute: Recompute | None = None,
    seed: int = 0,
) -> list[Decoder]:
    """This rank's parts of the model: one, or `virtual_stages`. Weights are whatever was in memory.

    Args:
        seed: Of the adapters.

    Raises:
        UserError: The layout does not fit the model.
    """
    check(shape, layout)
    config = transformer_config(shape, layout, dtype=dtype, recompute=recompute)
    config.envkit_lora = lora_config
    if not hasattr(moe_utils, "te_general_gemm"):
        # megatron-core 0.16 names it in every router, and has it only with Transformer Engine
        moe_utils.te_general_gemm = None
    chunks = []
    with cpu_compat.on_device():
        for part in range(layout.virtual_stages):
            stage = part if layout.virtual_stages > 1 else None
            chunk = Decoder(
                config,
                _layers(shape, config, stage),
                vocab_size=padded_vocab(shape, layout),
                max_sequence_length=shape.positions,
                pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
                post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
                share_embeddings_and_output_weights=shape.tied,
                position_embedding_type="rope",
                rotary_base=shape.rope_theta,
                vp_stage=stage,
            )
            _mark(chunk)
            chunk = chunk.to(cpu_compat.device())
            if lora_config is not None:
                lora.freeze(chunk, [layer.layer_number - 1 for layer in chunk.decoder.layers], seed)
            chunks.append(chunk)
    return chunks


def transformer_config(
    shape: Shape, layout: Layout, *, dtype: torch.dtype, recompute: Recompute | None = None
) -> TransformerConfig:
    """megatron-core's configuration of such a model."""
    experts = shape.experts
    again: dict[str, Any] = {}
    if recompute is not None:
        again = {"recompute_granularity": recompute.granularity}
        if recompute.granularity == "full":
            again |= {"recompute_method": recompute.method, "recompute_num_layers": recompute.layers}
    mixture: dict[str, Any] = {}
    if experts is not None:
        mixture = {
            "num_moe_experts": experts.count,
            "moe_router_topk": experts.chosen,
            "moe_ffn_hidden_size": experts.ffn,
            "moe_layer_freq": [int(sparse) for sparse in experts.layers],
            # softmax over the chosen ones alone is the same as over all, divided by the sum of the chosen
            "moe_router_pre_softmax": not experts.normalised,
            "moe_router_load_balancing_type": "none",
            "moe_router_dtype": "fp32",
        }
    return TransformerConfig(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_query_groups=shape.kv_heads,
        kv_channels=shape.head_dim,
        ffn_hidden_size=shape.ffn,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        normalization="RMSNorm",
        layernorm_epsilon=shape.norm_eps,
        qk_layernorm=True,
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=layout.tensor,
        pipeline_model_parallel_size=layout.pipeline,
        virtual_pipeline_model_parallel_size=layout.virtual_stages if layout.virtual_stages > 1 else None,
        context_parallel_size=layout.context,
        expert_model_parallel_size=layout.expert,
        expert_tensor_parallel_size=layout.expert_tensor or layout.tensor,
        sequence_parallel=layout.cuts_sequence,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        perform_initialization=False,
        calculate_per_token_loss=True,  # gradients are summed over ranks, not averaged
        variable_seq_lengths=layout.pipeline > 1 and layout.virtual_stages == 1,
        moe_token_dispatcher_type="alltoall",
        **mixture,
        **again,
        **cpu_compat.transformer_settings(),
    )


def packed_sequences(starts: Tensor) -> PackedSeqParams:
    """Where sequences that are laid end to end begin, and where the last one ends: [rows + 1] int32."""
    longest = int((starts[1:] - starts[:-1]).max())
    return PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=starts, cu_seqlens_kv=starts, max_seqlen_q=longest, max_seqlen_kv=longest
    )


def _layers(shape: Shape, config: TransformerConfig, stage: int | None) -> TransformerBlockSubmodules:
    """The layers of this stage, with our norm and attention in them."""
    first = get_transformer_layer_offset(config, vp_stage=stage)
    count = get_num_layers_to_build(config, vp_stage=stage)
    specs = []
    for layer in range(first, first + count):
        experts = shape.experts.count if shape.experts is not None and shape.has_experts(layer) else None
        spec = get_gpt_layer_local_spec(num_experts=experts, qk_layernorm=True, normalization="RMSNorm")
        parts, attention = spec.submodules, spec.submodules.self_attention.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = Norm
        attention.q_layernorm = attention.k_layernorm = Norm
        attention.core_attention = Attention
        if config.envkit_lora is not None:
            dense = parts.mlp.submodules if experts is None else None
            lora.prepare(attention, dense, config.envkit_lora.targets)
        specs.append(spec)
    return TransformerBlockSubmodules(layer_specs=specs, layer_norm=Norm)


def _mark(chunk: Decoder) -> None:
    """Says of parameters that tensor ranks hold different parts of them. megatron-core does so as it initialises them;
    a gradient's norm would else count the first rank's part alone."""
    dims = {ColumnParallelLinear: 0, RowParallelLinear: 1, VocabParallelEmbedding: 0}
    dims |= {lora.AdaptedColumn: 0, lora.AdaptedRow: 1}
    for module in chunk.modules():
        weight = getattr(module, "weight", None)
        if type(module) not in dims:
            continue
        if weight is not None and not hasattr(weight, "tensor_model_parallel"):
            set_tensor_model_parallel_attributes(weight, True, dims[type(module)], 1)
        if isinstance(module, lora.AdaptedColumn):
            set_tensor_model_parallel_attributes(module.adapter_b, True, 0, 1)
        elif isinstance(module, lora.AdaptedRow):
            set_tensor_model_parallel_attributes(module.adapter_a, True, 1, 1)
