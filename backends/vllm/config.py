"""What a user writes about vLLM engines that sample for training: the `[engines]` table. Strict and frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["VllmEnginesConfig"]


class VllmEnginesConfig(BaseModel):
    """vLLM servers on this machine, or elsewhere by their URLs.

    Attributes:
        replicas: Servers to start.
        urls: Roots of servers that run elsewhere, started by `envkit engine serve`; none are started then.
        device: `cpu` (float32, nothing compiled) or `cuda`; `auto` takes GPUs where there are some.
        dtype: Of the weights in the engine; `auto` is float32 on a CPU and bfloat16 on a GPU.
        max_model_len: Longest sequence in tokens; None for the model's own.
        max_rows: Sequences that one replica samples at a time.
        kv_cache_mb: Room for keys and values of one replica; None leaves it to vLLM (nine tenths of a GPU; on a CPU
            that would be most of the memory, so 1024 there).
        tensor_parallel: GPUs of one replica.
        gpus: Numbers of the GPUs that replicas share out in order; None for all, from 0 on.
        threads: Cores of one replica on a CPU; None for what vLLM takes.
        arguments: Further arguments of `vllm serve`.
        environment: Further variables of its environment.
        python: The Python that has vLLM; None for the environment of `envkit engine install vllm`, or `$ENVKIT_VLLM`.
        transfer: How weights travel. `file`: through memory-backed files of this host. `store`: through `store`, for
            engines on other hosts. `nccl`: from GPU to GPU; vLLM must be installed in the trainer's environment too.
        store: Where weights are put for engines elsewhere: `s3://bucket/prefix`, or a folder that all hosts share.
        master_address: Of the trainer's host, as engines reach it, for `nccl`.
        file_mb: Weights are written in files of this size.
        clear_kv: Read the past of running requests again under new weights. Exact; without it they go on with keys and
            values of the old ones, and prefixes are told apart by version.
        start_timeout_s: Longest wait for a replica to answer.
        health_every_s: How often replicas are looked at.
        restarts: How often one replica is started again before it counts as lost for the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    replicas: int = Field(default=1, ge=1)
    urls: tuple[str, ...] = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = Field(default=None, ge=2)
    max_rows: int = Field(default=64, ge=1)
    kv_cache_mb: int | None = Field(default=None, ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    gpus: tuple[int, ...] | None = None
    threads: int | None = Field(default=None, ge=1)
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    python: Path | None = None
    transfer: Literal["file", "store", "nccl"] = "file"
    store: str | None = None
    master_address: str = "127.0.0.1"
    file_mb: int = Field(default=1024, ge=1)
    clear_kv: bool = True
    start_timeout_s: float = Field(default=600.0, gt=0)
    health_every_s: float = Field(default=5.0, gt=0)
    restarts: int = Field(default=8, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> VllmEnginesConfig:
        if self.transfer == "store" and self.store is None:
            raise ValueError("transfer = 'store' needs `store`: s3://bucket/prefix, or a folder that all hosts share")
        if self.store is not None and self.transfer != "store":
            raise ValueError(f"`store` is only used with transfer = 'store', found transfer = {self.transfer!r}")
        if self.transfer == "nccl" and self.device == "cpu":
            raise ValueError("transfer = 'nccl' needs GPUs, found device = 'cpu'")
        if self.gpus is not None and len(self.gpus) < self.replicas * self.tensor_parallel:
            raise ValueError(
                f"{self.replicas} replicas of {self.tensor_parallel} GPUs need {self.replicas * self.tensor_parallel} "
                f"GPUs, `gpus` names {len(self.gpus)}"
            )
        return self

    @property
    def on_cpu(self) -> bool:
        """Whether engines run on a CPU here."""
        if self.device == "auto":
            return not Path("/dev/nvidiactl").exists()
        return self.device == "cpu"

    @property
    def weights_dtype(self) -> str:
        """Of the weights as they are sent."""
        if self.dtype == "auto":
            return "float32" if self.on_cpu else "bfloat16"
        return self.dtype
