"""The embedded trainer: a Hugging Face causal LM, AdamW, and the losses of `backends.algorithms`, in one process.

Guarantees: the loss of a step is the plain sum of its tokens' weighted losses, however the rows are cut into
micro-batches; nothing is padded, and what rows have in common is computed once (`forest`); logprobs exist only for
tokens that train, a chunk at a time; a step that fails or runs out of time leaves weights, moments and version as they
were. Weights, gradients and moments are float32; on a GPU the layers compute in bfloat16. Work happens in a thread of
its own, so that the loop goes on. Used by `envkit train` with the `torch` backend, and by the warm start of the tiny
policy.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from envkit.backend import Batch, MicroBatch, Row, StepMetrics
from envkit.backends.algorithms import AlgorithmConfig, Packed, chunked_logprobs, step_loss
from envkit.backends.torch import lora, no_model, saving
from envkit.backends.torch.attention import ATTENTION, install
from envkit.backends.torch.config import TorchTrainerConfig
from envkit.backends.torch.forest import plant
from envkit.backends.torch.optimizer import learning_rate, make_optimizer
from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.tokens.trace import FloatArray, IntArray

__all__ = ["TorchTrainer", "pick_device"]

T = TypeVar("T")


class TorchTrainer:
    """Implements `envkit.backend.Trainer`.

    Args:
        config: See `TorchTrainerConfig`.
        algorithm: What a step learns by.

    Raises:
        UserError: The folder holds no causal LM that can be trained here; a reference is needed and not named.
    """

    ranks = 1

    def __init__(self, config: TorchTrainerConfig, algorithm: AlgorithmConfig) -> None:
        self.config = config
        self.algorithm = algorithm
        self.version = 0
        self._broken: str | None = None
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self._device = pick_device(config.device)
        bfloat16 = config.dtype == "bfloat16" or (config.dtype == "auto" and self._device.type == "cuda")
        self._compute = torch.bfloat16 if bfloat16 else torch.float32
        self._model = self._load_model(config.model)
        self._reference: Any = None
        if algorithm.needs_reference:
            if config.reference is None:
                raise UserError("the algorithm compares with a reference policy; name its model folder in `reference`")
            self._reference = self._load_model(config.reference).requires_grad_(False)
        if config.lora is not None:
            lora.attach(self._model, config.lora, config.seed)
        if config.gradient_checkpointing:
            self._model.gradient_checkpointing_enable({"use_reentrant": False})
        self._model.train()
        torch.manual_seed(config.seed)
        self._trained = {n: p for n, p in self._model.named_parameters() if p.requires_grad}
        self._optimizer = make_optimizer(self._trained, config.optimizer)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="envkit-trainer")

    def _load_model(self, folder: Path) -> Any:
        from transformers import AutoModelForCausalLM

        install()
        try:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=ATTENTION)
        except (OSError, ValueError) as error:
            raise UserError(no_model(folder, error)) from error
        layers = getattr(model.config.get_text_config(), "layer_types", None) or []
        if any(kind != "full_attention" for kind in layers):
            raise UserError(
                f"the model in {folder} has layers without full attention ({', '.join(sorted(set(layers)))}); the "
                "embedded trainer packs rows and needs full attention in every layer"
            )
        return model.to(self._device)

    # ---- a step ---------------------------------------------------------------------------------------------------

    async def train_step(self, batch: Batch, *, temperature: float, deadline: Deadline) -> StepMetrics:
        """See `envkit.backend.Trainer`. Beside its metrics: `entropy_sum`, `ratio_sum`, `ratio_square_sum`, `kl_sum`,
        `computed_tokens` (what went through the model after sharing), `step_s`.

        Raises:
            DeadlineExceeded: Between two micro-batches; nothing has changed.
            EnvkitError: The gradient is not finite (nothing has changed), or an earlier step broke the trainer.
        """
        return await self._run(lambda: self._step(batch, temperature, deadline))

    def _step(self, batch: Batch, temperature: float, deadline: Deadline) -> StepMetrics:
        if temperature <= 0:
            raise EnvkitError(f"training needs a temperature above 0, found {temperature}", boundary=Boundary.ENVKIT)
        began_s = time.perf_counter()
        sums: dict[str, float] = {}
        self._optimizer.zero_grad(set_to_none=True)
        try:
            for micro in (micro for rank in batch.ranks for micro in rank if micro.rows):
                deadline.check()
                for name, value in self._micro(micro, temperature).items():
                    sums[name] = sums.get(name, 0.0) + value
            norm = self._clip()
            if not math.isfinite(norm) or not math.isfinite(sums.get("loss", 0.0)):
                raise EnvkitError(
                    f"step {batch.step}: loss {sums.get('loss')} and gradient norm {norm} must be finite; the weights "
                    "are those of before",
                    kind=FailureKind.UNKNOWN,
                    boundary=Boundary.ENVKIT,
                )
            deadline.check()
        except BaseException:
            self._optimizer.zero_grad(set_to_none=True)
            raise
        rate = learning_rate(self.config.optimizer, batch.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._broken = f"step {batch.step} ended while the weights were being written"
        self._optimizer.step()
        self._broken = None
        self._optimizer.zero_grad(set_to_none=True)
        self.version = batch.step
        trained = sums.get("trained_tokens", 0.0)
        sums["masked_share"] = sums.get("masked_tokens", 0.0) / trained if trained else 0.0
        sums["tokens"] = float(sum(len(row) for row in batch.rows))
        return {
            "loss": 0.0,
            "trained_tokens": 0.0,
            **sums,
            "grad_norm": norm,
            "lr": rate,
            "step_s": time.perf_counter() - began_s,
        }

    def _micro(self, micro: MicroBatch, temperature: float) -> dict[str, float]:
        """Forward and backward of one micro-batch; its sums."""
        packed = Packed.of(micro, self._device)
        logprobs, entropies, computed = self._logprobs(self._model, micro, packed, temperature)
        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference, *_ = self._logprobs(self._reference, micro, packed, temperature)
        loss, sums = step_loss(
            self.algorithm,
            packed,
            logprobs,
            ref_logprobs=reference,
            entropies=entropies,
            version=self.version,
        )
        if loss.requires_grad:
            loss.backward()
        return {
            "loss": float(loss.detach()),
            "computed_tokens": float(computed),
            **{k: float(v) for k, v in sums.items()},
        }

    def _logprobs(
        self, model: Any, micro: MicroBatch, packed: Packed, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor | None, int]:
        """[T] logprobs and entropies at trained tokens, 0.0 elsewhere; and how many tokens the model computed."""
        forest = plant([row.ids for row in micro.rows], share=self.config.share_prefixes)
        ids, positions = (torch.from_numpy(a).to(self._device)[None] for a in (forest.ids, forest.positions))
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._compute is torch.bfloat16):
            body = model.get_decoder()
            hidden = body(input_ids=ids, position_ids=positions, use_cache=False, segments=forest.segments)
            states = hidden.last_hidden_state[0]
        places = torch.cat([torch.from_numpy(w) for w in forest.where]).to(self._device)
        trained = packed.mask.nonzero()[:, 0]
        picked, entropies = chunked_logprobs(
            states[places[trained - 1]],
            model.get_output_embeddings().weight,
            packed.ids[trained],
            temperature=temperature,
            chunk=self.config.logprob_chunk,
            entropy=True,
        )
        zeros = torch.zeros(len(packed), device=self._device, dtype=picked.dtype)
        spread = None if entropies is None else zeros.index_put((trained,), entropies)
        return zeros.index_put((trained,), picked), spread, len(forest.ids)

    async def logprobs(
        self, sequences: Sequence[IntArray], *, temperature: float, deadline: Deadline, tokens: int = 32_768
    ) -> list[FloatArray]:
        """Logprobs of ids 1..n-1 of every sequence under the weights held: [n - 1], in nats, at `temperature`.

        Args:
            tokens: That go through the model together.
        """
        return await self._run(lambda: self._scores(sequences, temperature, deadline, tokens))

    def _scores(
        self, sequences: Sequence[IntArray], temperature: float, deadline: Deadline, tokens: int
    ) -> list[FloatArray]:
        out: list[FloatArray] = []
        waiting: list[Row] = []
        for n, ids in enumerate(sequences):
            waiting.append(_whole_row(ids))
            if n + 1 == len(sequences) or sum(map(len, waiting)) + len(sequences[n + 1]) > tokens:
                deadline.check()
                micro = MicroBatch(tuple(waiting))
                with torch.no_grad():
                    found, *_ = self._logprobs(self._model, micro, Packed.of(micro, self._device), temperature)
                out += [row[1:].float().cpu().numpy() for row in found.split([len(row) for row in waiting])]
                waiting = []
        return out

    def _clip(self) -> float:
        limit = self.config.optimizer.grad_clip
        parameters = [p for p in self._trained.values() if p.grad is not None]
        return float(torch.nn.utils.clip_grad_norm_(parameters, limit if limit > 0 else math.inf))

    # ---- weights --------------------------------------------------------------------------------------------------

    def weights(self) -> Iterator[tuple[str, Any]]:
        """(Hugging Face name, tensor) pairs; adapters are added in."""
        return lora.merged(self._model)

    async def save(self, folder: Path, deadline: Deadline) -> None:
        """Writes a model folder that any Hugging Face program loads, and beside the weights the optimiser's state.

        Raises:
            EnvkitError: The folder exists, or could not be written; then nothing is left of it.
        """
        deadline.check()
        await self._run(
            lambda: saving.save(
                folder,
                self._model,
                dict(self.weights()),
                self._optimizer,
                self._trained,
                self.version,
                self.config,
            )
        )

    async def load(self, folder: Path, deadline: Deadline) -> None:
        """Goes on from what `save` wrote.

        Raises:
            EnvkitError: The folder holds no checkpoint, or one of another model or optimiser.
        """
        deadline.check()

        def work() -> None:
            self._broken = f"loading {folder} ended half-way"
            self.version = saving.load(folder, self._model, self._optimizer, self._trained, self.config)
            self._broken = None

        await self._run(work)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        """Runs in the trainer's own thread. A cancelled caller does not leave a step half done: it ends first."""
        if self._broken is not None and "loading" not in self._broken:
            raise EnvkitError(f"the trainer is broken ({self._broken}); load a checkpoint", boundary=Boundary.ENVKIT)
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait({future})
            raise


def _whole_row(ids: IntArray) -> Row:
    """A row of which every token is asked for."""
    zeros = np.zeros(len(ids))
    return Row(
        ids=np.asarray(ids, np.int32),
        mask=np.arange(len(ids)) > 0,
        logprobs=zeros.astype(np.float32),
        versions=np.full(len(ids), -1, np.int32),
        advantages=zeros,
        weights=zeros,
        group="",
        trial="",
    )


def pick_device(wanted: str) -> torch.device:
    """`auto` is the first GPU where there is one.

    Raises:
        UserError: Torch knows no such device, or it is not here.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device {wanted!r} can't be used here: {error}") from error
    return device
