"""One rank of the trainer: its part of the model, its part of the optimiser, and a step over its share of a batch.

The loss of a step is the plain sum over every row of the batch, however it is cut into micro-batches and dealt to
ranks: gradients are summed over data-parallel and context ranks, never averaged, and the losses are those of
`envkit.backends.algorithms`, the same as the torch trainer's. Every rank goes through the same collectives whatever
the rows are: micro-batches are equally many, an empty one goes through the model too. A step whose loss or gradient is
not finite fails on all ranks alike, before a weight is changed.

Calls are made on all ranks together, in the same order, each in the thread that made the object.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.optimizer import OptimizerConfig as MegatronOptimizerConfig
from megatron.core.optimizer import get_megatron_optimizer
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe.router import TopKRouter
from torch import Tensor

from envkit.backend import Batch, MicroBatch, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig, step_loss
from envkit.backends.megatron import cpu_compat, weights
from envkit.backends.megatron.config import NO_REFERENCE, MegatronTrainerConfig
from envkit.backends.megatron.factory import build
from envkit.backends.megatron.layout import Layout
from envkit.backends.megatron.passes import Passes, Through, no_tokens
from envkit.backends.megatron.shape import Shape, shape_of
from envkit.backends.torch.config import OptimizerConfig
from envkit.backends.torch.optimizer import learning_rate
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError

__all__ = ["Routes", "TrainerRank"]


@dataclass(frozen=True, slots=True)
class Routes:
    """Where one layer sent tokens of one micro-batch.

    Attributes:
        micro: The micro-batch's number on its data-parallel rank.
        layer: Counted from 0 over the whole model.
        tokens: [n], places in the packed micro-batch.
        experts: [n, chosen] int32, ascending.
    """

    micro: int
    layer: int
    tokens: npt.NDArray[np.int64]
    experts: npt.NDArray[np.int32]


class TrainerRank:
    """This rank's part of the trainer; `factory.initialize` has been called with the same layout.

    Args:
        model: A Hugging Face model folder.
        settings: Further ones of `MegatronTrainerConfig`.

    Raises:
        UserError: A folder or the layout does not fit; a reference policy is needed and not named.
    """

    def __init__(
        self,
        model: Path,
        layout: Layout,
        algorithm: AlgorithmConfig,
        optimizer: OptimizerConfig,
        **settings: Any,
    ) -> None:
        own = MegatronTrainerConfig(
            model=model, world=torch.distributed.get_world_size(), layout=layout, optimizer=optimizer, **settings
        )
        self.layout, self.algorithm, self.optimizer = layout, algorithm, optimizer
        self.version = 0
        self.shape = shape_of(model)
        dtype = _dtype(own)
        parts = build(self.shape, layout, dtype=dtype, lora_config=own.lora, recompute=own.recompute, seed=own.seed)
        weights.load(parts, self.shape, model)
        self._config = parts[0].config
        self._config.finalize_model_grads_func = _summed
        wrapping = DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, use_distributed_optimizer=own.distributed_optimizer
        )
        if dtype is not torch.float32:
            parts = [Float16Module(self._config, part) for part in parts]
        with cpu_compat.on_device():
            self.chunks = [
                # the first part of the model is the last to have its gradients
                DistributedDataParallel(self._config, wrapping, part, disable_bucketing=n > 0)
                for n, part in enumerate(parts)
            ]
            self.optimizer_state = get_megatron_optimizer(_optimizer(own, dtype), self.chunks)
        self._policy = Passes(self.chunks, self.shape, layout, logprob_chunk=own.logprob_chunk)
        self._reference = _reference(own, self.shape, dtype) if algorithm.needs_reference else None

    @classmethod
    def of(cls, config: MegatronTrainerConfig, algorithm: AlgorithmConfig) -> TrainerRank:
        """This rank of the trainer that a user has configured."""
        named = {"model", "layout", "optimizer", "world"}
        settings = {name: getattr(config, name) for name in MegatronTrainerConfig.model_fields if name not in named}
        return cls(config.model, config.layout, algorithm, config.optimizer, **settings)

    def step(self, batch: Batch, *, temperature: float) -> StepMetrics:
        """One optimiser step; see `envkit.backend.Trainer.train_step` for what it returns, the same on all ranks.

        Raises:
            EnvkitError: The batch is dealt to other ranks than there are; loss or gradient is not finite. Nothing has
                changed then.
        """
        ranks = parallel_state.get_data_parallel_world_size()
        counts = {len(micros) for micros in batch.ranks}
        if len(batch.ranks) != ranks or len(counts) != 1 or temperature <= 0:
            raise EnvkitError(
                f"expected a batch for {ranks} data-parallel ranks, as many micro-batches on each, and a temperature "
                f"above 0; found {len(batch.ranks)} ranks with {sorted(counts)} micro-batches, and {temperature}",
                boundary=Boundary.ENVKIT,
            )
        began_s = time.perf_counter()
        with cpu_compat.on_device():
            sums = self._gradients(self._micros(batch), temperature)
            self.optimizer_state.prepare_grads()
            norm = float(self.optimizer_state.get_grad_norm())
            if not math.isfinite(norm) or not math.isfinite(sums.get("loss", 0.0)):
                raise EnvkitError(
                    f"step {batch.step}: loss {sums.get('loss')} and gradient norm {norm} must be finite; the weights "
                    "are those of before",
                    kind=FailureKind.UNKNOWN,
                    boundary=Boundary.ENVKIT,
                )
            rate = learning_rate(self.optimizer, batch.step)
            for group in self.optimizer_state.param_groups:
                group["lr"] = rate
            self.optimizer_state.step()
        self.version = batch.step
        trained = sums.get("trained_tokens", 0.0)
        return {
            "loss": 0.0,
            "trained_tokens": 0.0,
            **sums,
            "masked_share": sums.get("masked_tokens", 0.0) / trained if trained else 0.0,
            "tokens": float(sum(len(row) for row in batch.rows)),
            "grad_norm": norm,
            "lr": rate,
            "step_s": time.perf_counter() - began_s,
        }

    def export(self) -> Iterator[tuple[str, Tensor]]:
        """This rank's weights under their Hugging Face names (`weights.export`)."""
        return weights.export(self.chunks, self.shape)

    def buckets(self, bucket_bytes: int) -> Iterator[list[tuple[str, Tensor]]]:
        """The same in pieces (`weights.buckets`)."""
        return weights.buckets(self.chunks, self.shape, bucket_bytes=bucket_bytes)

    def logprobs(self, batch: Batch, *, temperature: float) -> list[Tensor] | None:
        """Logprobs [n] of the rows of this data-parallel rank that train, under the weights held, in the order of its
        micro-batches' rows; 0.0 outside the mask. None but on the first rank of the last stage."""
        micros = self._micros(batch)
        with cpu_compat.on_device():
            found = self._policy.scores(micros, temperature)
        if not found or parallel_state.get_tensor_model_parallel_rank() or parallel_state.get_context_parallel_rank():
            return None
        rows = []
        for micro, logprobs in zip(micros, found, strict=True):
            rows += list(logprobs.cpu().split([len(row) for row in micro.rows]))
        return rows

    def routes(self, batch: Batch) -> list[Routes]:
        """Which experts the tokens of this data-parallel rank are sent to, under the weights held: of the layers and
        tokens that this rank has. Empty for a model without experts."""
        noted: list[Routes] = []
        hooks = []

        def note(layer: int) -> Any:
            def hook(module: Any, given: Any, answer: Any) -> None:
                chosen = answer[1].view(-1, answer[1].shape[-1])  # [slots, experts], whether it goes there
                number, where = self._policy.at
                if len(chosen) < len(where):  # this tensor rank's share of the sequence
                    where = where.chunk(len(where) // len(chosen))[parallel_state.get_tensor_model_parallel_rank()]
                kept = where >= 0
                experts = chosen[kept].nonzero()[:, 1].view(int(kept.sum()), -1)
                noted.append(Routes(number, layer, where[kept].cpu().numpy(), experts.to(torch.int32).cpu().numpy()))

            return hook

        for chunk in self.chunks:
            for module in chunk.modules():
                if isinstance(module, TopKRouter):
                    hooks.append(module.register_forward_hook(note(module.layer_number - 1)))
        try:
            with cpu_compat.on_device():
                self._policy.scores(self._micros(batch), 1.0)
        finally:
            for hook in hooks:
                hook.remove()
        return noted

    def _micros(self, batch: Batch) -> list[MicroBatch]:
        """This rank's, and empty ones where that makes the schedule whole."""
        micros = list(batch.ranks[parallel_state.get_data_parallel_rank()])
        # an interleaved pipeline takes whole rounds of its stages; a step without micro-batches is one that is empty
        whole = self.layout.pipeline if self.layout.virtual_stages > 1 else 1
        return micros + [MicroBatch(())] * (-len(micros) % whole or (0 if micros else whole))

    def _gradients(self, micros: list[MicroBatch], temperature: float) -> dict[str, float]:
        """Forward and backward of all micro-batches; the sums of all ranks."""
        reference = None if self._reference is None else self._reference.scores(micros, temperature)

        def score(through: Through) -> tuple[Tensor, Tensor, dict[str, float]]:
            logprobs, entropies = through.logprobs(temperature)
            loss, sums = step_loss(
                self.algorithm,
                through.packed,
                logprobs,
                ref_logprobs=None if reference is None else reference[through.number],
                entropies=entropies,
                version=self.version,
            )
            if not loss.requires_grad:  # no token trains: nothing, but through the model like all others
                loss = loss + through.hidden.sum() * 0.0
            said = {"loss": float(loss.detach()), **{name: float(value) for name, value in sums.items()}}
            return loss, no_tokens(through.hidden), said

        for chunk in self.chunks:
            chunk.zero_grad_buffer()
        self.optimizer_state.zero_grad()
        return self._together(self._policy.run(micros, score))

    def _together(self, found: list[dict[str, float]]) -> dict[str, float]:
        """Every data-parallel rank's sums, counted once, on all ranks."""
        first = parallel_state.get_tensor_model_parallel_rank() == 0 and parallel_state.get_context_parallel_rank() == 0
        said: list[list[dict[str, float]]] = [[] for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather_object(said, found if first else [])
        sums: dict[str, float] = {}
        for micro in (micro for rank in said for micro in rank):
            for name, value in micro.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums


def _reference(config: MegatronTrainerConfig, policy: Shape, dtype: torch.dtype) -> Passes:
    """The policy that a KL term compares with: cut as the trained one is, frozen, in the same type."""
    folder = config.reference
    if folder is None:
        raise UserError(NO_REFERENCE)
    shape = shape_of(folder)
    if shape.vocab != policy.vocab:
        raise UserError(
            f"trainer.reference must have the policy's vocabulary of {policy.vocab} tokens, {folder} has {shape.vocab}"
        )
    parts: list[Any] = [part.requires_grad_(False) for part in build(shape, config.layout, dtype=dtype)]
    weights.load(parts, shape, folder)
    if dtype is not torch.float32:
        parts = [Float16Module(part.config, part) for part in parts]
    return Passes(parts, shape, config.layout, logprob_chunk=config.logprob_chunk)


def _dtype(config: MegatronTrainerConfig) -> torch.dtype:
    if config.dtype == "auto":
        return torch.float32 if cpu_compat.absent() else torch.bfloat16
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


def _optimizer(config: MegatronTrainerConfig, dtype: torch.dtype) -> MegatronOptimizerConfig:
    """AdamW as megatron-core has it."""
    own = config.optimizer
    offload: dict[str, Any] = {}
    if config.optimizer_offload:
        if cpu_compat.absent():
            raise UserError("trainer.optimizer_offload moves states from a GPU to the host, and there is no GPU here")
        offload = {
            "optimizer_cpu_offload": True,
            "optimizer_offload_fraction": config.optimizer_offload,
            "use_precision_aware_optimizer": True,
            "overlap_cpu_optimizer_d2h_h2d": True,
        }
    return MegatronOptimizerConfig(
        optimizer="adam",
        lr=own.lr,
        weight_decay=own.weight_decay,
        adam_beta1=own.betas[0],
        adam_beta2=own.betas[1],
        adam_eps=own.eps,
        clip_grad=own.grad_clip or math.inf,  # 0 would leave the norm unmeasured
        bf16=dtype is torch.bfloat16,
        params_dtype=dtype,
        use_distributed_optimizer=config.distributed_optimizer,
        **offload,
    )


def _summed(chunks: Any, tokens: Any = None, **groups: Any) -> None:
    """Gradients over all ranks; never divided by a number of tokens."""
    finalize_model_grads(chunks, None, **groups)
