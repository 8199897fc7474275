"""The parts of an episode that hold no state: what sandbox a task needs, how a step is set up, what its end means.

Used by `envkit.env.AsyncEnv`, which owns the order of things and the clock.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, EnvkitError, Failure, FailureKind, UserError, did_you_mean
from envkit.harness import Harness, Limits
from envkit.messages import AssistantMessage, Message
from envkit.sandbox.base import APPS_DATA, FILESYSTEM, Sandbox, SandboxProvider, SandboxSpec
from envkit.task import HealthcheckConfig, Step, Task, resolve_env
from envkit.verifier import Criterion, Outcome, Verdict, Verifier

__all__ = [
    "StateGone",
    "await_health",
    "check_capabilities",
    "combine",
    "effective_limits",
    "harness_spec",
    "limits_of",
    "own_tests_image",
    "passes_gate",
    "pick_verifier",
    "sandbox_spec",
    "seconds_of",
    "set_up_step",
    "transcript",
    "unreadable_state",
    "verifier_env",
    "verifier_spec",
    "why_missing",
    "world_tar",
    "write_snapshot",
]

#: Limits of a sandbox whose task states none.
DEFAULT_MEMORY_MB = 2048
DEFAULT_DISK_MB = 1024


def sandbox_spec(
    task: Task, provider: SandboxProvider, labels: Mapping[str, str], overrides: Mapping[str, Any]
) -> SandboxSpec:
    """The sandbox that a task asks for.

    A task whose world envkit itself lays out (`[metadata.envkit] world`) needs no image: a provider without images
    gets none, one with images gets the task's. A network mode the task does not state is `no-network`; one it states
    is honoured or refused.
    """
    environment = task.steps[0].environment
    can = provider.capabilities()
    fields: dict[str, Any] = {
        "memory_mb": environment.memory_mb or DEFAULT_MEMORY_MB,
        "disk_mb": environment.storage_mb or DEFAULT_DISK_MB,
        "env": dict(resolve_env(environment.env, os.environ, where=f"[environment.env] of {task.id}")),
        "labels": {"owner_pid": str(os.getpid()), **labels},
    }
    if environment.cpus:
        fields["cpus"] = float(environment.cpus)
    # Harbor's default is `public`; what a task does not state is not a need, and `no-network` is the safer place.
    agent = task.steps[0].agent
    if "network_mode" in environment.model_fields_set or agent.network_mode not in (None, "public"):
        fields["network"] = agent.network_mode or environment.network_mode
        fields["allowed_hosts"] = tuple(agent.allowed_hosts or environment.allowed_hosts or ())
    if can.images or not task.metadata.world:
        fields["image"] = environment.docker_image
        build = task.dir / "environment"
        if environment.docker_image is None and (build / "Dockerfile").is_file():
            fields["build"] = build
    if environment.workdir:
        fields["workdir"] = environment.workdir
    unknown = sorted(set(overrides) - set(SandboxSpec.model_fields))
    if unknown:
        near = did_you_mean(unknown[0], sorted(SandboxSpec.model_fields))
        raise UserError(f"unknown sandbox setting {unknown[0]!r}{near}")
    return SandboxSpec(**{**fields, **overrides})


def verifier_spec(task: Task, step: Step, provider: SandboxProvider, plain: SandboxSpec) -> SandboxSpec:
    """The sandbox that a step's scripts are judged in: a fresh one like the agent's, or the machine of the verifier's
    own that the task asks for (`[verifier.environment]`, or a Dockerfile in its tests), with its network policy.

    Raises:
        CapabilityError: This provider can't make it.
    """
    environment = step.verifier.environment
    fields: dict[str, Any] = {}
    if environment is not None and environment != step.environment:
        fields = {
            "image": environment.docker_image,
            "build": None,
            "memory_mb": environment.memory_mb or DEFAULT_MEMORY_MB,
            "disk_mb": environment.storage_mb or DEFAULT_DISK_MB,
            "cpus": float(environment.cpus) if environment.cpus else None,
            "env": dict(resolve_env(environment.env, os.environ, where=f"[verifier.environment.env] of {task.id}")),
            "workdir": environment.workdir or plain.workdir,
        }
    if step.verifier.environment_mode == "separate" and not fields.get("image"):
        built = own_tests_image(step)
        fields |= {"image": None, "build": built} if built is not None else {}
    stated = [step.verifier.environment, task.config.verifier, *(s.verifier for s in task.config.steps or ())]
    if any(each is not None and "network_mode" in each.model_fields_set for each in stated):
        fields["network"] = step.verifier.network_mode
        fields["allowed_hosts"] = tuple(step.verifier.allowed_hosts or ())
    fields = {key: value for key, value in fields.items() if value is not None or key in ("image", "build")}
    if not fields:
        return plain
    spec = SandboxSpec(**{**plain.model_dump(), **fields})
    try:
        provider.check(spec)
    except CapabilityError as error:
        where = f"the verifier of step {step.name!r}" if step.name else "the verifier"
        raise CapabilityError(f"{task.id}: {where} needs a machine of its own: {error}") from error
    return spec


def own_tests_image(step: Step) -> Path | None:
    """The folder of tests that an image of the verifier's own is built from, and which brings `/tests` with it."""
    if step.verifier.environment_mode != "separate":
        return None
    if step.verifier.environment is not None and step.verifier.environment.docker_image:
        return None
    folders = (step.tests_dir, step.shared_tests_dir)
    return next((folder for folder in folders if folder is not None and (folder / "Dockerfile").is_file()), None)


def harness_spec(harness: Harness, spec: SandboxSpec) -> SandboxSpec:
    """The task's sandbox with what the harness brings (`Harness.sandbox`), if it brings anything."""
    extend = getattr(harness, "sandbox", None)
    return spec if extend is None else extend(spec)


def check_capabilities(task: Task, harness: Harness, provider: SandboxProvider, spec: SandboxSpec) -> None:
    """Raises `CapabilityError` before anything starts, naming what is missing and who has it."""
    provider.check(spec)
    servers = task.steps[0].environment.mcp_servers
    if servers and not getattr(harness, "mcp", False):
        raise CapabilityError(
            f"{task.id} brings MCP servers ({', '.join(s.name for s in servers)}), which the {harness.name!r} harness "
            "does not offer to the model; use a harness that speaks MCP (archipelago)",
            boundary=Boundary.HARNESS,
        )
    if not provider.capabilities().python:
        raise CapabilityError(
            f"the {harness.name!r} harness runs its file tools with the Python inside the sandbox, and the "
            f"{provider.name!r} sandbox of this task has none; use an image with python3 (3.8 or newer)"
        )


def limits_of(given: Limits | Mapping[str, Any] | None) -> Limits:
    """Limits as a caller may write them. Raises `UserError` for what can't be read as such."""
    if isinstance(given, Limits):
        return given
    if not isinstance(given, Mapping | None):
        raise UserError(f"limits must be an envkit.Limits or a dict of its fields, found {given!r}")
    known = list(Limits.model_fields)
    for name in given or {}:
        if name not in known:
            raise UserError(f"no limit {name!r}{did_you_mean(str(name), known)}; there are {', '.join(known)}")
    try:
        return Limits(**(given or {}))
    except ValidationError as error:
        raise UserError("; ".join(f"limit {e['loc'][0]}: {e['msg']}" for e in error.errors())) from error


def seconds_of(given: float | None, what: str) -> float | None:
    """A span of time as a caller may write it. Raises `UserError` for what is none."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not given > 0):
        raise UserError(f"{what} must be a number of seconds above 0, or None, found {given!r}")
    return given


def effective_limits(limits: Limits, step: Step) -> Limits:
    """The run's limits, tightened by the step's own agent timeout, which is working time."""
    own = step.agent.timeout_sec
    if own is None:
        return limits
    working = own if limits.working_time_s is None else min(own, limits.working_time_s)
    return limits.model_copy(update={"working_time_s": working})


async def world_tar(world: Path) -> AsyncIterator[bytes]:
    """Streams a world folder as a tar of its two trees, file by file. The folder is ours, never an agent's."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for tree in (FILESYSTEM, APPS_DATA):
            root = world / tree.lstrip("/")
            if not root.is_dir():
                continue
            for folder, folders, files in os.walk(root):
                folders.sort()
                for name in [*folders, *sorted(files)]:
                    path = Path(folder, name)
                    info = tar.gettarinfo(path, arcname=str(path.relative_to(world)))
                    info.uid = info.gid = 0
                    info.uname = info.gname = ""
                    # The cached world is read-only; the agent's copy is its own to change.
                    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
                    if info.isreg():
                        with path.open("rb") as file:  # noqa: ASYNC230  one local file between two awaits
                            tar.addfile(info, file)
                    else:
                        tar.addfile(info)
                    if buffer.tell() > 1 << 20:
                        yield buffer.getvalue()
                        buffer.seek(0)
                        buffer.truncate()
    yield buffer.getvalue()


def folder_tar(folder: Path) -> bytes:
    """A tar of a folder's contents, members relative to it, modes kept."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(os.listdir(folder)):
            tar.add(folder / name, arcname=name)
    return buffer.getvalue()


async def set_up_step(task: Task, step: Step, sandbox: Sandbox, deadline: Deadline) -> None:
    """Uploads the step's workdir, runs its `setup.sh`, and waits for its health check.

    Raises:
        EnvkitError: SETUP_FAILED with the tail of the output. A task's broken set-up is never the agent's fault.
    """
    if step.workdir is not None:
        await sandbox.upload(folder_tar(step.workdir), sandbox.spec.workdir)
        if (step.workdir / "setup.sh").is_file():
            result = await sandbox.exec(
                ["bash", "setup.sh"],
                cwd=sandbox.spec.workdir,
                deadline=deadline,
                merge_stderr=True,
                keep="tail",
                output_cap=8192,
            )
            if not result.ok:
                raise EnvkitError(
                    f"{task.id}: setup.sh of step {step.name!r} ended with {result.exit_code}: "
                    f"{result.stdout.decode(errors='replace')[-2000:]}",
                    kind=FailureKind.SETUP_FAILED,
                    boundary=Boundary.SANDBOX,
                )
    for check in step.healthchecks:
        await await_health(task, check, sandbox, deadline)


async def await_health(task: Task, check: HealthcheckConfig, sandbox: Sandbox, deadline: Deadline) -> None:
    """Harbor's health check: `retries` failures in a row, not counting those of the start period, are fatal."""
    started = Deadline.after(check.start_period_sec)
    failures = 0
    while True:
        result = await sandbox.exec(
            ["bash", "-c", check.command],
            timeout_s=check.timeout_sec,
            deadline=deadline,
            merge_stderr=True,
            keep="tail",
            output_cap=4096,
        )
        if result.ok:
            return
        in_start = not started.expired
        failures += 0 if in_start else 1
        if failures >= check.retries:
            raise EnvkitError(
                f"{task.id}: health check {check.command!r} failed {failures} times; last output: "
                f"{result.stdout.decode(errors='replace')[-1000:]}",
                kind=FailureKind.SETUP_FAILED,
                boundary=Boundary.SANDBOX,
            )
        await deadline.wait(asyncio.sleep(check.start_interval_sec if in_start else check.interval_sec))


class StateGone(Exception):
    """A folder that is judged was removed, or something else stands in its place: only the agent can have done so."""


async def write_snapshot(sandbox: Sandbox, to: Path, paths: Sequence[str] = (FILESYSTEM, APPS_DATA)) -> None:
    """Streams the two trees, or others, into a tar file on the host. Nothing is left at `to` unless it is complete.

    Raises:
        StateGone: One of them is not there any more. A folder of the host's that is missing is another error.
    """
    partial = to.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            chunks = aiter(sandbox.snapshot(paths))
            while True:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                except FileNotFoundError as error:
                    raise StateGone(str(error)) from error
                file.write(chunk)
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


def pick_verifier(task: Task, step: Step) -> Verifier:
    """The verifier the task names, or the first registered one that reads what its tests folder declares."""
    from envkit import plugins

    named = task.metadata.verifier
    if named not in (None, "auto"):
        made = plugins.resolve("verifiers", named)
        # A task is data: it may choose among verifiers, not have any function of any module called.
        if not (isinstance(made, type) and callable(getattr(made, "verify", None)) and hasattr(made, "applies")):
            raise UserError(
                f"{task.id}: [metadata.envkit] verifier = {named!r} is no verifier class; expected one of "
                f"{', '.join(plugins.names('verifiers'))}, or 'module:Class' of another"
            )
        found: Verifier = made()
        return found
    for name in plugins.names("verifiers"):
        kind = plugins.resolve("verifiers", name)
        if kind.applies(step.tests_dir):
            found = kind()
            return found
    raise EnvkitError(
        f"{task.id}: no registered verifier ({', '.join(plugins.names('verifiers'))}) reads "
        f"{step.tests_dir or 'its tests: it has no tests folder'}; expected a tests/verifier.toml or a tests/test.sh",
        kind=FailureKind.TASK_INVALID,
        boundary=Boundary.VERIFIER,
    )


def unreadable_state(message: str) -> Verdict:
    """The agent left more than can be read, or nothing to read: its own doing, hence a verdict."""
    criterion = Criterion(
        id="final-state",
        description="the final state can be read",
        gate=True,
        outcome=Outcome.FAILED,
        score=0.0,
        message=message,
    )
    return Verdict(criteria=(criterion,), reward=0.0, lower=0.0, upper=0.0, rewards={"reward": 0.0}, verifier="env")


def why_missing(verdict: Verdict) -> Failure:
    """Why a verdict has no reward."""
    failures = verdict.failures()
    if failures:
        return failures[0]
    return Failure.of(
        FailureKind.VERIFIER_ERROR, Boundary.VERIFIER, f"verifier {verdict.verifier!r} gave a verdict without a reward"
    )


def verifier_env(step: Step) -> dict[str, str]:
    """The verifier's environment, `${VAR}` resolved on the host. Never stored."""
    return dict(resolve_env(step.verifier.env, os.environ))


def passes_gate(step: Step, verdict: Verdict) -> bool:
    """Whether the following steps are run: each required reward is there and large enough."""
    if step.min_reward is None:
        return True
    required = step.min_reward if isinstance(step.min_reward, dict) else {"reward": step.min_reward}
    have = {**({"reward": verdict.reward} if verdict.reward is not None else {}), **verdict.rewards}
    return all(have.get(key, -math.inf) >= least for key, least in required.items())


def combine(task: Task, verdicts: Sequence[Verdict]) -> Verdict:
    """The task's verdict out of its steps': Harbor's `mean` (an absent key counts 0) or `final`."""
    if len(task.steps) == 1:
        return verdicts[0]
    criteria = tuple(
        criterion.model_copy(update={"id": f"{step.name}/{criterion.id}"})
        for step, verdict in zip(task.steps, verdicts, strict=False)
        for criterion in verdict.criteria
    )
    strategy = str(task.config.multi_step_reward_strategy or "mean")
    counted = verdicts if strategy == "mean" else verdicts[-1:]
    maps = [{**v.rewards, **({"reward": v.reward} if v.reward is not None else {})} for v in counted]
    keys = sorted({key for rewards in maps for key in rewards})
    rewards = {key: sum(m.get(key, 0.0) for m in maps) / len(maps) for key in keys}
    whole = all(verdict.reward is not None for verdict in verdicts)
    return Verdict(
        criteria=criteria,
        reward=rewards.get("reward") if whole else None,
        lower=_mean([v.lower for v in counted]),
        upper=_mean([v.upper for v in counted]),
        rewards=rewards if whole else {},
        verifier=verdicts[-1].verifier,
        extra={"multi_step_reward_strategy": strategy, "steps_run": len(verdicts), "steps": len(task.steps)},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(values) if values and len(known) == len(values) else None


def transcript(messages: Sequence[Message | AssistantMessage]) -> str:
    """The conversation as plain text, for `render` and for people."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            lines.append("[assistant] " + message.text)
            for call in message.tool_calls:
                shown = (
                    json.dumps(call.arguments, ensure_ascii=False) if call.arguments is not None else call.raw_arguments
                )
                lines.append(f"  -> {call.name} {shown}")
        else:
            lines.append(f"[{message.role}] {message.content}")
    return "\n".join(lines)
