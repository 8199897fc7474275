"""The verifier of task scripts: runs `tests/test.sh` in a fresh sandbox and reads the reward file it leaves.

The contract is Harbor's (`/tests`, `/logs/verifier/reward.json`, then `reward.txt`), with the holes closed: the
sandbox is new, so that nothing an agent planted or started is there; `/logs/verifier` is empty; a script that fails
after writing a reward has no verdict. Under `harbor_compat` the exit status is ignored and truth values count as
numbers, as Harbor does. The final state is unpacked inside, without links to the judge's files and without pipes
(`sifting`); the answer and the conversation are in `/logs/agent`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, DeadlineExceeded, EnvkitError, FailureKind
from envkit.sandbox.base import ExecResult, Sandbox
from envkit.verifier import Verdict, VerifyRequest
from envkit.verifiers.bounds import beyond_bounds
from envkit.verifiers.sifting import sifted

__all__ = [
    "ANSWER_FILE",
    "REWARD_JSON",
    "REWARD_TXT",
    "TRAJECTORY_FILE",
    "ScriptVerifier",
    "parse_reward_json",
    "parse_reward_txt",
    "run_script",
]

SCRIPT = "test.sh"
REWARD_JSON = "/logs/verifier/reward.json"
REWARD_TXT = "/logs/verifier/reward.txt"
ANSWER_FILE = "/logs/agent/answer.txt"
TRAJECTORY_FILE = "/logs/agent/trajectory.json"
#: The largest reward file that is read.
MAX_REWARD_BYTES = 1 << 20
OUTPUT_CAP = 4 << 20
#: The script's output goes to files, as under Harbor: a server that it leaves running then holds nothing up.
_OUTPUT = ("/tmp/.test-stdout", "/tmp/.test-stderr")


class ScriptVerifier:
    """Task scripts. Applies where `tests/test.sh` exists and typed checks don't."""

    name = "script"

    @staticmethod
    def applies(tests: Path | None) -> bool:
        return tests is not None and (tests / SCRIPT).is_file() and not (tests / "verifier.toml").is_file()

    @staticmethod
    def needs_sandbox(tests: Path | None) -> bool:
        return True

    async def verify(self, request: VerifyRequest) -> Verdict:
        """Runs the script.

        Raises:
            EnvkitError: No verdict. `REWARD_MISSING` (no reward file), `REWARD_INVALID` (none that can be read),
                `VERIFIER_TIMEOUT`, `VERIFIER_ERROR` (the script failed), or the sandbox's own failures.
        """
        beyond = await beyond_bounds(request, self.name)
        if beyond is not None:
            return beyond
        compat = bool(getattr(request.task, "harbor_compat", False))
        rewards, result = await run_script(
            request, SCRIPT, request.deadline, request.step.verifier.timeout_sec, compat=compat
        )
        return Verdict(
            reward=_overall(rewards, compat=compat),
            rewards=rewards,
            verifier=self.name,
            extra={"exit_code": result.exit_code},
        )


async def run_script(
    request: VerifyRequest,
    script: str,
    deadline: Deadline,
    timeout_s: float | None,
    *,
    interpreter: str = "bash",
    logs_as: str = "test",
    compat: bool = False,
) -> tuple[dict[str, float], ExecResult]:
    """Runs a script of `tests/` in a fresh sandbox and returns the rewards it wrote, and how it ended.

    Args:
        script: Its path below `tests/`.
        logs_as: Begins the names of the files with its output in the verifier's logs.

    Raises:
        EnvkitError: As `ScriptVerifier.verify`.
    """
    assert request.tests is not None, "there is no script without tests"
    from envkit import episode, work  # imported when needed: they bring the harnesses

    request.logs.mkdir(parents=True, exist_ok=True)
    spec = episode.verifier_spec(request.task, request.step, request.provider, request.spec)
    own = request.step.verifier.environment
    try:
        async with contextlib.AsyncExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="envkit-judged-"))
            # Under Harbor a machine of the verifier's own does not have the agent's working folder either.
            separate = request.step.verifier.environment_mode == "separate"
            state = [request.final] if request.work is None or separate else [request.final, request.work]
            final, *left = await sifted(state, Path(scratch))
            sandbox = await stack.enter_async_context(request.provider.create(spec))
            await sandbox.upload(final)
            if left:
                assert request.spec.work is not None
                await work.replace(sandbox, request.spec.work, left[0], deadline)
            # As Harbor does: the task's shared tests first, a step's own over them; an image made of them has them.
            folders = (request.step.shared_tests_dir, request.tests)
            for folder in () if episode.own_tests_image(request.step) is not None else folders:
                if folder is not None:
                    await sandbox.upload(_tests_archive(folder))
            if own is not None and own != request.step.environment and own.healthcheck is not None:
                await episode.await_health(request.task, own.healthcheck, sandbox, deadline)
            await sandbox.upload(_logs_archive(request))
            user = request.step.verifier.user
            result = await sandbox.exec(
                ["bash", "-c", f"exec {interpreter} /tests/{script} > {_OUTPUT[0]} 2> {_OUTPUT[1]}"],
                env=request.env,
                cwd=spec.workdir,
                user=str(user) if user is not None else None,
                deadline=deadline,
                timeout_s=timeout_s,
            )
            result = await _with_output(sandbox, result, deadline)
            _keep(request.logs, result, logs_as)
            if result.timed_out:
                raise _timeout(f"{script} ran longer than its {timeout_s} s")
            if result.exit_code != 0 and not compat:
                raise EnvkitError(
                    f"{script} ended with exit status {result.exit_code}: any reward it wrote is not trusted; "
                    f"it must end with 0 (or the task be read with harbor_compat). Last output: {_tail(result)}",
                    kind=FailureKind.VERIFIER_ERROR,
                    boundary=Boundary.VERIFIER,
                )
            return await _read_rewards(sandbox, result, script, compat=compat), result
    except DeadlineExceeded as error:
        raise _timeout(f"{script} was not done in time: {error}") from error


def _timeout(message: str) -> EnvkitError:
    return EnvkitError(message, kind=FailureKind.VERIFIER_TIMEOUT, boundary=Boundary.VERIFIER)


def _invalid(message: str) -> EnvkitError:
    return EnvkitError(message, kind=FailureKind.REWARD_INVALID, boundary=Boundary.VERIFIER)


def _add(tar: tarfile.TarFile, name: str, data: bytes | None) -> None:
    info = tarfile.TarInfo(name)
    if data is None:
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(info)
    else:
        info.size, info.mode = len(data), 0o644
        tar.addfile(info, io.BytesIO(data))


def _tests_archive(tests: Path) -> bytes:
    """The tests folder as `tests/...`, owned by nobody in particular and readable by all."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mode = 0o755 if info.isdir() or info.name.endswith(".sh") else info.mode | 0o444
        return info

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(tests, arcname="tests", filter=plain)
    return out.getvalue()


def _logs_archive(request: VerifyRequest) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("logs/verifier", "logs/agent"):
            _add(tar, folder, None)
        _add(tar, ANSWER_FILE.lstrip("/"), (request.final_answer or "").encode("utf-8", "replace"))
        trajectory = _trajectory(request)
        if trajectory is not None:
            _add(tar, TRAJECTORY_FILE.lstrip("/"), trajectory)
    return out.getvalue()


def _trajectory(request: VerifyRequest) -> bytes | None:
    """The conversation as an ATIF trajectory, None where nothing was said."""
    if not request.messages:
        return None
    from envkit.atif import build_trajectory

    trajectory = build_trajectory(request.messages, agent_name="envkit", agent_version="1", task=request.task.id)
    return json.dumps(trajectory.to_json(), ensure_ascii=False).encode("utf-8", "replace")


async def _with_output(sandbox: Sandbox, result: ExecResult, deadline: Deadline) -> ExecResult:
    """The result with the last of what the script said."""
    out, err = [
        (await sandbox.exec(["tail", "-c", str(OUTPUT_CAP), path], deadline=deadline, output_cap=OUTPUT_CAP)).stdout
        for path in _OUTPUT
    ]
    # What the shell said before the script had its files (there is no bash, say) comes first.
    return dataclasses.replace(result, stdout=result.stdout + out, stderr=result.stderr + err)


def _keep(logs: Path, result: ExecResult, name: str) -> None:
    (logs / f"{name}-stdout.txt").write_bytes(result.stdout)
    (logs / f"{name}-stderr.txt").write_bytes(result.stderr)


def _tail(result: ExecResult) -> str:
    return (result.stderr or result.stdout)[-500:].decode(errors="replace").strip() or "(none)"


async def _download(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return await sandbox.download(path, max_bytes=MAX_REWARD_BYTES)
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise _invalid(f"{path} is a folder, must be a file") from error
    except OSError as error:
        raise _invalid(f"{path} can't be read: {error}") from error
    except EnvkitError as error:
        if error.kind is FailureKind.SANDBOX_ERROR:  # a pipe, or larger than any reward
            raise _invalid(f"{path} must be a file of at most {MAX_REWARD_BYTES} bytes: {error}") from error
        raise


async def _read_rewards(sandbox: Sandbox, result: ExecResult, script: str, *, compat: bool) -> dict[str, float]:
    data = await _download(sandbox, REWARD_JSON)
    if data is not None:
        return parse_reward_json(data, compat=compat)
    data = await _download(sandbox, REWARD_TXT)
    if data is not None:
        return parse_reward_txt(data)
    raise EnvkitError(
        f"{script} (exit status {result.exit_code}) left neither {REWARD_JSON} nor {REWARD_TXT}. "
        f"Last output: {_tail(result)}",
        kind=FailureKind.REWARD_MISSING,
        boundary=Boundary.VERIFIER,
    )


def parse_reward_json(data: bytes, *, compat: bool = False) -> dict[str, float]:
    """Reads a reward.json: an object of names and finite numbers, at least one.

    Raises:
        EnvkitError: `REWARD_MISSING` for an empty file, `REWARD_INVALID` for anything else.
    """
    if not data.strip():
        raise EnvkitError(f"{REWARD_JSON} is empty", kind=FailureKind.REWARD_MISSING, boundary=Boundary.VERIFIER)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{REWARD_JSON} is not valid JSON: {error}; found {data[:80]!r}") from error
    if not isinstance(value, dict) or not value:
        raise _invalid(f"{REWARD_JSON} must hold an object of names and numbers, found {data[:80]!r}")
    out: dict[str, float] = {}
    for name, number in value.items():
        if isinstance(number, bool) and compat:
            number = float(number)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _invalid(f"{REWARD_JSON}: {name!r} must be a number, found {number!r}")
        out[name] = _finite(number, f"{REWARD_JSON}: {name!r}")
    return out


def parse_reward_txt(data: bytes) -> dict[str, float]:
    """Reads a reward.txt: one finite number. Raises as `parse_reward_json`."""
    text = data.decode("utf-8", errors="replace").strip()
    if not text:
        raise EnvkitError(f"{REWARD_TXT} is empty", kind=FailureKind.REWARD_MISSING, boundary=Boundary.VERIFIER)
    try:
        number = float(text)
    except ValueError as error:
        raise _invalid(f"{REWARD_TXT} must hold one number, found {text[:80]!r}") from error
    return {"reward": _finite(number, REWARD_TXT)}


def _finite(number: float, what: str) -> float:
    try:
        value = float(number)
    except OverflowError as error:
        raise _invalid(f"{what} is too large") from error
    if not math.isfinite(value):
        raise _invalid(f"{what} must be finite, found {value}")
    return value


def _overall(rewards: Mapping[str, float], *, compat: bool) -> float:
    """The one number: `reward`, or the only one there is. Of several without that name none is *the* reward; under
    `harbor_compat` their mean is taken."""
    if "reward" in rewards:
        return rewards["reward"]
    if len(rewards) == 1 or compat:
        return math.fsum(rewards.values()) / len(rewards)
    names = ", ".join(sorted(rewards))
    raise _invalid(f"{REWARD_JSON} gives {names}, but none is called 'reward': name the one that counts so")
