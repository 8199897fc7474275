"""A rank's part of a checkpoint: weights, moments and wide copies, through megatron-core's distributed checkpoints.

Writing is asynchronous: what is to be written is copied, then a forked process writes while this one trains; all ranks
are asked now and then whether theirs is done, and together make it whole. Reading takes any layout. For optimisers in
plain torch (no Transformer Engine) three things that megatron-core leaves undone are done here: an optimiser that has
never stepped is given states to be read into, a count of steps that is in no file is left alone, and every parameter
gets a count of its own afterwards, for one that all share is raised once for each. For all of them a fourth: states
are looked up where the buffer has them (`_in_place`). Used by `worker`.
"""

from __future__ import annotations

import errno
import inspect
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.strategies.async_utils import AsyncCallsQueue
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from torch.distributed.checkpoint import CheckpointException

from envkit.backends.megatron import cpu_compat
from envkit.backends.megatron.contents import STATE
from envkit.backends.megatron.rank import TrainerRank
from envkit.failure import Boundary, EnvkitError, FailureKind

__all__ = ["Writing", "load"]

#: How the state is described: every layer and every moment by itself and whole, so that any layout can take its part.
_METADATA = {
    "distrib_optim_sharding_type": "fully_reshardable",
    "chained_optim_avoid_prefix": True,
    "non_homogeneous_layers": True,
}


class Writing:
    """A checkpoint that is being written into an empty folder; begun, asked and ended on all ranks together.

    Raises:
        EnvkitError: It can't be written; on all ranks.
    """

    def __init__(self, trainer: TrainerRank, folder: Path) -> None:
        self._folder = folder
        state = folder / STATE
        if torch.distributed.get_rank() == 0:
            state.mkdir()
        torch.distributed.barrier()
        self._queue = AsyncCallsQueue()
        known = inspect.signature(dist_checkpointing.save).parameters
        with cpu_compat.on_device(), _told(folder):
            request = dist_checkpointing.save(
                _state(trainer, is_loading=False),
                str(state),
                async_sharded_save=True,
                content_metadata=dict(_METADATA),
                **({"async_strategy": "mcore"} if "async_strategy" in known else {}),
            )
            self._queue.schedule_async_request(request)

    def done(self) -> bool:
        """Whether it is whole; made so by the call that finds all ranks done.

        Raises:
            EnvkitError: A rank could not write its part; on all ranks.
        """
        with cpu_compat.on_device(), _told(self._folder):
            self._queue.maybe_finalize_async_calls()
        return bool(self._queue.get_num_unfinalized_calls() == 0)

    def abandon(self) -> None:
        """Ends the writing. What its processes have said of it must not be heard by the next: megatron-core keeps one
        queue for all checkpoints of a process."""
        for call in self._queue.async_calls:
            call.async_caller.close(abort=True)
        self._queue.async_calls.clear()
        filesystem_async._results_queue = None


def load(trainer: TrainerRank, folder: Path) -> int:
    """Reads this rank's part; the version. All ranks together.

    Raises:
        EnvkitError: The folder does not hold the state of such a model; the trainer is not to be used then.
    """
    import json

    version = int(json.loads((folder / "trainer.json").read_text())["version"])
    with cpu_compat.on_device():
        wanted = _state(trainer, is_loading=True)
        try:
            found = dist_checkpointing.load(wanted, str(folder / STATE), strict="raise_all")
            for name, chunk in _named(trainer):
                chunk.load_state_dict({k: v for k, v in found[name].items() if not k.endswith("_extra_state")})
            trainer.optimizer_state.load_state_dict(found["optimizer"])
        except (CheckpointingException, CheckpointException, RuntimeError, KeyError, ValueError, OSError) as error:
            raise EnvkitError(
                f"{folder} can't be read into this model and layout: {type(error).__name__}: {str(error)[:500]}",
                boundary=Boundary.ENVKIT,
            ) from error
        _own_counts(trainer)
    trainer.version = version
    return version


def _state(trainer: TrainerRank, *, is_loading: bool) -> dict[str, Any]:
    _materialise(trainer)
    metadata = {**_METADATA, "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    state: dict[str, Any] = {name: chunk.sharded_state_dict(metadata=metadata) for name, chunk in _named(trainer)}
    models = dict(state)
    if len(models) == 1:
        (models,) = models.values()
    state["optimizer"] = trainer.optimizer_state.sharded_state_dict(models, is_loading=is_loading, metadata=metadata)
    return state


def _named(trainer: TrainerRank) -> Iterator[tuple[str, Any]]:
    for n, chunk in enumerate(trainer.chunks):
        model = chunk.module
        yield f"model{n}", getattr(model, "module", model)  # as wrapped for a narrow type


def _optimizers(trainer: TrainerRank) -> list[Any]:
    whole = trainer.optimizer_state
    return list(getattr(whole, "chained_optimizers", [whole]))


def _materialise(trainer: TrainerRank) -> None:
    """Gives an optimiser that has not stepped the states that it would have before its first step."""
    for optimizer in _optimizers(trainer):
        inner = optimizer.optimizer
        if isinstance(optimizer, DistributedOptimizer):
            optimizer._set_main_param_and_optimizer_states = _setter(optimizer)
            optimizer.get_parameter_state_dp_zero = partial(_in_place, optimizer)
        if inner is None or inner.state or not any(group["params"] for group in inner.param_groups):
            continue
        rates = [group["lr"] for group in inner.param_groups]
        for group in inner.param_groups:
            group["lr"] = 0.0  # no decay, and nothing to go by: the step changes nothing
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        inner.step()
        inner.zero_grad()
        for group, rate in zip(inner.param_groups, rates, strict=True):
            group["lr"] = rate
        for state in inner.state.values():
            if torch.is_tensor(state.get("step")):
                state["step"] = torch.zeros_like(state["step"])


def _in_place(optimizer: Any, **named: Any) -> Any:
    """The states of all parameters of a buffer, each where the buffer has the parameter. megatron-core leaves out what
    pads the buffer's buckets (a tied embedding of a pipeline has one of its own) and then looks in the places of
    before: every parameter behind the first bucket would be written with its neighbour's numbers."""
    state = type(optimizer).get_parameter_state_dp_zero(optimizer, **named)
    for n, buffer in enumerate(optimizer.buffers) if state is not None else ():
        for tensors in state[n].values():
            for key, flat in tensors.items():
                if torch.is_tensor(flat):
                    tensors[key] = whole = flat.new_zeros(buffer.numel)
                    at = 0
                    for bucket in buffer.buckets:
                        size = bucket.numel_unpadded
                        whole[bucket.offset : bucket.offset + size] = flat[at : at + size]
                        at += size
    return state


def _setter(optimizer: Any) -> Any:
    """Puts one parameter's state in place."""

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def put(model_param: Any, tensors: dict[str, Any]) -> None:
        own = optimizer._get_main_param_and_optimizer_states(model_param)
        for key, tensor in tensors.items():
            own[key].copy_(tensor)

    # an optimiser with a form of its own for states (Transformer Engine's) keeps its own way
    theirs = type(optimizer)._set_main_param_and_optimizer_states
    return put if type(optimizer.optimizer).__module__.startswith("torch.optim") else theirs.__get__(optimizer)


def _own_counts(trainer: TrainerRank) -> None:
    for optimizer in _optimizers(trainer):
        for state in optimizer.optimizer.state.values() if optimizer.optimizer is not None else ():
            if torch.is_tensor(state.get("step")):
                state["step"] = state["step"].clone()


class _told:
    """What the disk said, as an error that all ranks share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, CheckpointingException | CheckpointException | OSError):
            return
        said = str(error)
        number = re.search(r"\[Errno (\d+)\]|os error (\d+)", said)
        full = number is not None and int(number[1] or number[2]) in (errno.ENOSPC, errno.EDQUOT)
        raise EnvkitError(
            f"the checkpoint {self._folder} can't be written: {said[-500:]}",
            kind=FailureKind.DISK_FULL if full else FailureKind.UNKNOWN,
            boundary=Boundary.ENVKIT,
        ) from error
