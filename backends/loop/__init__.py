"""The asynchronous loop: groups out, rows in, weights back, and everything written so that a crash loses nothing."""

from envkit.backends.loop.clock import Clock, RealClock, VirtualClock, run_virtual
from envkit.backends.loop.config import (
    AdmissionConfig,
    CheckpointConfig,
    DeadlineConfig,
    EvaluationConfig,
    LoopConfig,
    RetryConfig,
)
from envkit.backends.loop.evaluating import Evaluate, EvaluationCall
from envkit.backends.loop.events import (
    CheckpointDone,
    EvaluationDone,
    EvaluationStarted,
    Event,
    Fault,
    GroupDropped,
    GroupFinished,
    GroupStarted,
    Observer,
    RolloutFinished,
    RunEnded,
    RunStarted,
    StepDone,
    SyncDone,
)
from envkit.backends.loop.loop import Loop
from envkit.backends.loop.order import Shuffled, TaskOrder
from envkit.backends.loop.remote import StoreStorage, storage_of
from envkit.backends.loop.storage import LocalStorage, MemoryStorage, Storage

__all__ = [
    "AdmissionConfig",
    "CheckpointConfig",
    "CheckpointDone",
    "Clock",
    "DeadlineConfig",
    "Evaluate",
    "EvaluationCall",
    "EvaluationConfig",
    "EvaluationDone",
    "EvaluationStarted",
    "Event",
    "Fault",
    "GroupDropped",
    "GroupFinished",
    "GroupStarted",
    "LocalStorage",
    "Loop",
    "LoopConfig",
    "MemoryStorage",
    "Observer",
    "RealClock",
    "RetryConfig",
    "RolloutFinished",
    "RunEnded",
    "RunStarted",
    "Shuffled",
    "StepDone",
    "Storage",
    "StoreStorage",
    "SyncDone",
    "TaskOrder",
    "VirtualClock",
    "run_virtual",
    "storage_of",
]
