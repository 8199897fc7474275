"""What megatron-core needs to run where there is no GPU: the one module of this package that knows about CPUs.

megatron-core asks `torch.cuda` for devices, random states and streams, and makes tensors on "cuda" by name. On a
machine without CUDA, `install` points the functions at the CPU, and `on_device` rewrites the names while a step runs.
Nothing of megatron-core's own files is changed, and with a GPU both do nothing. What is then computed is the same code
as on a GPU, but for the kernels: gloo for NCCL, torch's CPU kernels for CUDA's.

`on_device` holds for the thread that enters it, and torch suspends it inside `backward`; recomputed layers must
therefore not make tensors on "cuda" (ours don't: attention is given no mask).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["absent", "device", "install", "on_device", "process_group_backend", "transformer_settings"]

_CPU = torch.device("cpu")


def absent() -> bool:
    """There is no CUDA here, so this module is needed."""
    return not torch.cuda.is_available()


def device() -> torch.device:
    """Where this rank computes."""
    return _CPU if absent() else torch.device("cuda", torch.cuda.current_device())


def process_group_backend() -> str:
    """For `torch.distributed.init_process_group`."""
    return "gloo" if absent() else "cpu:gloo,cuda:nccl"


def transformer_settings() -> dict[str, Any]:
    """Settings of `TransformerConfig` that hold without a GPU: no fused kernels, weights made on the CPU, and no
    batched sends between stages, which gloo pairs wrongly without saying so. Empty with a GPU."""
    if not absent():
        return {}
    return {
        "use_cpu_initialization": True,
        "bias_activation_fusion": False,
        "bias_dropout_fusion": False,
        "masked_softmax_fusion": False,
        "apply_rope_fusion": False,
        "gradient_accumulation_fusion": False,
        "persist_layer_norm": False,
        "cross_entropy_loss_fusion": False,
        "moe_grouped_gemm": False,
        "batch_p2p_comm": False,
    }


def install() -> None:
    """Answers `torch.cuda` from the CPU, in this process, for good. Idempotent; does nothing with a GPU."""
    if not absent() or getattr(torch.cuda.current_device, "_envkit", False):
        return
    cuda: Any = torch.cuda
    stream = _Stream()

    def current_device() -> torch.device:
        return _CPU

    current_device._envkit = True  # type: ignore[attr-defined]
    cuda.current_device = current_device
    for name in ("synchronize", "empty_cache", "set_device"):
        # one function each: torch's compiler keeps a table of them and takes none twice
        setattr(cuda, name, lambda *_, **__: None)
    cuda.get_rng_state = cuda.random.get_rng_state = lambda device=None: torch.get_rng_state()
    # the generator's own method: torch.manual_seed would come back here
    cuda.manual_seed = lambda seed: torch.default_generator.manual_seed(seed)
    cuda.Stream, cuda.Event = _Stream, _Event
    for name in ("stream", "current_stream", "default_stream"):
        setattr(cuda, name, lambda *_, **__: stream)

    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import token_dispatcher

    random._set_cuda_rng_state = lambda state, device=-1, graph_safe=False: torch.set_rng_state(state)
    random._get_cuda_rng_state = lambda device="cuda", clone=False, graph_safe=False: torch.get_rng_state()
    # Small functions of the expert layers are compiled: minutes of a C++ compiler for nothing here.
    torch.compiler.set_stance("force_eager")
    # It turns split sizes into numbers only where they come from a GPU; all_to_all takes nothing but numbers.
    token_dispatcher.maybe_move_tensor_to_cpu = _as_numbers


@contextlib.contextmanager
def on_device() -> Iterator[None]:
    """Around building, steps and checkpoints, in the thread that does them."""
    if absent():
        with _Renamed():
            yield
    else:
        yield


def _as_numbers(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
    return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor


class _Stream:
    """A stream or an event of a machine that has none: there is nothing to wait for, and whatever it is asked to do
    (`record_event`, `wait_stream`) gives itself."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stream)

    def __hash__(self) -> int:
        return 0


class _Event(_Stream): ...


class _Renamed(TorchFunctionMode):  # type: ignore[misc]
    """Tensors asked for on "cuda" are made on the CPU, and say of themselves that they are on "cuda" where
    megatron-core compares type names."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if _is_cuda(named.get("device")):
            named["device"] = _CPU
        if named.get("pin_memory"):
            named["pin_memory"] = False
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], _CPU, *args[2:])
        out = func(*args, **named)
        if func is torch.Tensor.type and len(args) == 1 and not named:
            return out.replace("torch.", "torch.cuda.", 1)
        return out


def _is_cuda(device: Any) -> bool:
    return (isinstance(device, str) and device.startswith("cuda")) or (
        isinstance(device, torch.device) and device.type == "cuda"
    )
