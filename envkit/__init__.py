"""envkit: the practice ground on which language models learn office work.

    env = envkit.make("office/q3-revenue-memo", harness="opencode", sandbox="local")
    observation, info = env.reset(seed=0)

Names are imported where used, so that `import envkit` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.env import AsyncEnv
    from envkit.failure import Failure, FailureKind, NoVerdict, UserError
    from envkit.gym import Env, make
    from envkit.harness import Harness, Limits, Session
    from envkit.making import make_async
    from envkit.messages import AssistantMessage, End, Message, Observation, StopReason, ToolCall, ToolSpec, Usage
    from envkit.pack import TaskPack
    from envkit.pool import EnvPool
    from envkit.registry import DirectoryPack, list_tasks, load_task, register
    from envkit.sandbox.base import Sandbox, SandboxProvider, SandboxSpec
    from envkit.task import Task
    from envkit.trial.job import Job
    from envkit.trial.result import TrialResult, TrialSpec
    from envkit.verifier import Criterion, Outcome, Verdict, Verifier

__version__ = "0.1.0"

_WHERE = {
    "AssistantMessage": "messages",
    "AsyncEnv": "env",
    "Criterion": "verifier",
    "DirectoryPack": "registry",
    "End": "messages",
    "Env": "gym",
    "EnvPool": "pool",
    "Failure": "failure",
    "FailureKind": "failure",
    "Harness": "harness",
    "Job": "trial.job",
    "Limits": "harness",
    "Message": "messages",
    "NoVerdict": "failure",
    "Observation": "messages",
    "Outcome": "verifier",
    "Sandbox": "sandbox.base",
    "SandboxProvider": "sandbox.base",
    "SandboxSpec": "sandbox.base",
    "Session": "harness",
    "StopReason": "messages",
    "Task": "task",
    "TaskPack": "pack",
    "ToolCall": "messages",
    "ToolSpec": "messages",
    "TrialResult": "trial.result",
    "TrialSpec": "trial.result",
    "Usage": "messages",
    "UserError": "failure",
    "Verdict": "verifier",
    "Verifier": "verifier",
    "list_tasks": "registry",
    "load_environment": "interop.verifiers_env",
    "load_task": "registry",
    "make": "gym",
    "make_async": "making",
    "register": "registry",
}

__all__ = [
    "AssistantMessage",
    "AsyncEnv",
    "Criterion",
    "DirectoryPack",
    "End",
    "Env",
    "EnvPool",
    "Failure",
    "FailureKind",
    "Harness",
    "Job",
    "Limits",
    "Message",
    "NoVerdict",
    "Observation",
    "Outcome",
    "Sandbox",
    "SandboxProvider",
    "SandboxSpec",
    "Session",
    "StopReason",
    "Task",
    "TaskPack",
    "ToolCall",
    "ToolSpec",
    "TrialResult",
    "TrialSpec",
    "Usage",
    "UserError",
    "Verdict",
    "Verifier",
    "__version__",
    "list_tasks",
    "load_task",
    "make",
    "make_async",
    "register",
]


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'envkit' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"envkit.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
