"""Reading a Harbor task directory into a `Task`: strict by default, safe on hostile input, nothing executed."""

from __future__ import annotations

import re
import stat
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from envkit.failure import UserError
from envkit.task.artifacts import ArtifactConfig
from envkit.task.config import SCHEMA_VERSION, AgentConfig, StepConfig, TaskConfig, VerifierConfig
from envkit.task.environment import DEPRECATED_KEYS, EnvironmentConfig, HealthcheckConfig
from envkit.task.inherit import effective_agent, effective_artifacts, effective_verifier, healthchecks
from envkit.task.metadata import EnvkitMetadata
from envkit.task.strict import MAX_TOML_BYTES, LenientWarning, parse_toml, read_model
from envkit.task.toml_lines import LineMap
from envkit.task.tree import check_tree, digest_tree, read_file

__all__ = ["Step", "Task", "load_task_dir", "parse_task_toml", "strip_canary"]

#: The largest instruction that is read.
MAX_INSTRUCTION_BYTES = 4 << 20

_CANARY = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """One step of a task with effective values: everything inheritable is inherited (see `envkit.task.inherit`).

    Attributes:
        name: Empty in a single-step task.
        instruction: What the agent is told, canary lines removed.
        agent: `timeout_sec` None means no limit; the network policy is always stated.
        verifier: Timeout, mode and network policy are always stated; `environment` exactly in separate mode.
        environment: The task's machine.
        min_reward: What this step must earn for the next ones to run.
        healthcheck: The step's own; `healthchecks` is all that must pass before its agent starts.
        artifacts: What is collected after it, the task's first.
        tests_dir: `steps/<name>/tests`, else the shared `tests/`, else None.
        shared_tests_dir: The shared `tests/` where it lies *under* the step's own: Harbor uploads both, shared first.
        solution_dir: `steps/<name>/solution`, else the task's `solution/`, else None.
        workdir: `steps/<name>/workdir`, uploaded to the working directory before the step; its `setup.sh` is then run.
        trajectory: An ATIF trajectory that the agent's history begins with.
    """

    name: str
    instruction: str
    agent: AgentConfig
    verifier: VerifierConfig
    environment: EnvironmentConfig
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckConfig | None = None
    healthchecks: tuple[HealthcheckConfig, ...] = ()
    artifacts: tuple[ArtifactConfig, ...] = ()
    tests_dir: Path | None = None
    shared_tests_dir: Path | None = None
    solution_dir: Path | None = None
    workdir: Path | None = None
    trajectory: Path | None = None


@dataclass(frozen=True)
class Task:
    """A task as its directory states it.

    Attributes:
        id: `pack/name`, or the directory's name when loaded by path.
        dir: The directory, absolute.
        config: Every key of task.toml, as stated.
        steps: At least one; a single-step task has exactly one, named "".
        metadata: `[metadata.envkit]`.
        harbor_compat: Whether Harbor's accidents were kept when values were inherited.
    """

    id: str
    dir: Path
    config: TaskConfig
    steps: tuple[Step, ...]
    metadata: EnvkitMetadata = field(default_factory=EnvkitMetadata)
    harbor_compat: bool = False

    @property
    def name(self) -> str:
        """The id without its pack."""
        return self.id.rpartition("/")[2]

    @property
    def is_multi_step(self) -> bool:
        return bool(self.config.steps)

    @property
    def environment_dir(self) -> Path | None:
        """`environment/`, with the Dockerfile, where there is one."""
        return _folder(self.dir / "environment")

    @cached_property
    def digest(self) -> str:
        """`sha256:...` of the directory's content; the same wherever and whenever it was unpacked. A world that the
        task refers to outside its directory is not part of it."""
        return digest_tree(self.dir)

    def step(self, name: str) -> Step:
        """The step of a name. Raises `UserError` listing those there are."""
        for step in self.steps:
            if step.name == name:
                return step
        raise UserError(f"task {self.id!r} has no step {name!r}; it has: {', '.join(s.name for s in self.steps)}")


def load_task_dir(
    path: str | Path, *, id: str | None = None, lenient: bool = False, harbor_compat: bool = False
) -> Task:
    """Reads a task directory.

    Args:
        id: The task's id; the directory's name without it.
        lenient: Mistakes that Harbor overlooks are warned about (`LenientWarning`) instead of refused.
        harbor_compat: Keep Harbor's accidents (see `envkit.task.inherit`).

    Raises:
        UserError: The directory can't be used; the message says which file and line, what was expected and what was
            found.
    """
    root = Path(path).absolute()
    mode = _mode(root)
    if mode is None:
        raise UserError(f"there is no task directory at {root}")
    if not stat.S_ISDIR(mode):
        raise UserError(f"{root} is no folder; expected a task directory with task.toml and instruction.md")
    root = root.resolve()
    check_tree(root, lenient=lenient)
    config = parse_task_toml(
        read_file(root / "task.toml", max_bytes=MAX_TOML_BYTES, what="the task's configuration"),
        file=str(root / "task.toml"),
        lenient=lenient,
        stacklevel=3,
    )
    _check_folders(root, config)
    steps: list[StepConfig | None] = [*config.steps] if config.steps else [None]
    return Task(
        id=id if id is not None else root.name,
        dir=root,
        config=config,
        steps=tuple(
            _step(root, config, step, number == 0, lenient, harbor_compat) for number, step in enumerate(steps)
        ),
        metadata=config.metadata.envkit or EnvkitMetadata(),
        harbor_compat=harbor_compat,
    )


def parse_task_toml(
    data: bytes | str,
    *,
    file: str = "task.toml",
    lenient: bool = False,
    deprecations: bool = True,
    stacklevel: int = 2,
) -> TaskConfig:
    """Reads the text of a task.toml.

    Args:
        file: Its name in messages.
        lenient: As in `load_task_dir`.
        deprecations: Warn about deprecated keys.

    Raises:
        UserError: With every mistake in it, one a line: file, line, key, what was expected and found.
    """
    raw, lines = parse_toml(data.encode() if isinstance(data, str) else data, file)
    config = read_model(TaskConfig, raw, lines, file, lenient=lenient, stacklevel=stacklevel + 1)
    problems = []
    if not re.fullmatch(r"1\.[0-4]", config.schema_version):
        key = "schema_version" if "schema_version" in raw else "version"
        problems.append(
            f"{_at(file, lines, key)}: {key} is {config.schema_version!r}; expected 1.0 to {SCHEMA_VERSION}, which "
            "this release of envkit reads"
        )
    if config.steps == []:
        problems.append(f"{_at(file, lines, 'steps')}: steps is empty; leave it out in a task of one step")
    for problem in problems:
        if not lenient:
            raise UserError("\n".join(problems))
        warnings.warn(problem, LenientWarning, stacklevel=stacklevel)
    if deprecations:
        _warn_deprecated(raw, lines, file, stacklevel + 1)
    return config


def strip_canary(text: str) -> str:
    """The instruction without leading canary comments (`<!-- ... canary ... -->`, `# ... canary ...`), which mark a
    file for people who filter training data, and without the blank lines that follow them."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _step(
    root: Path, config: TaskConfig, step: StepConfig | None, first: bool, lenient: bool, harbor_compat: bool
) -> Step:
    base = root / "steps" / step.name if step is not None else root
    own_tests, shared_tests = _folder(base / "tests"), _folder(root / "tests")
    trajectory = base / "trajectory.json"
    return Step(
        name=step.name if step is not None else "",
        instruction=_instruction(base / "instruction.md", step, lenient),
        agent=effective_agent(config, step),
        verifier=effective_verifier(config, step, harbor_compat=harbor_compat),
        environment=config.environment,
        min_reward=step.min_reward if step is not None else None,
        healthcheck=step.healthcheck if step is not None else None,
        healthchecks=healthchecks(config, step, first=first),
        artifacts=effective_artifacts(config, step),
        tests_dir=own_tests or shared_tests,
        shared_tests_dir=shared_tests if step is not None and own_tests is not None else None,
        solution_dir=_folder(base / "solution") or _folder(root / "solution"),
        workdir=_folder(base / "workdir") if step is not None else None,
        trajectory=trajectory if trajectory.is_file() else None,
    )


def _instruction(path: Path, step: StepConfig | None, lenient: bool) -> str:
    whose = f"the instruction of step {step.name!r}" if step is not None else "the task's instruction"
    data = read_file(path, max_bytes=MAX_INSTRUCTION_BYTES, what=whose)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: expected UTF-8 text, found the byte 0x{data[error.start]:02x}") from None
    instruction = strip_canary(text.replace("\r\n", "\n"))
    if not instruction.strip():
        message = f"{path} says nothing; expected {whose}"
        if not lenient:
            raise UserError(message)
        warnings.warn(message, LenientWarning, stacklevel=5)
    return instruction


def _check_folders(root: Path, config: TaskConfig) -> None:
    """Refuses files where folders belong, and steps without their folder."""
    folders = [root / name for name in ("environment", "tests", "solution", "steps")]
    for step in config.steps or []:
        base = root / "steps" / step.name
        mode = _mode(base)
        if mode is None:
            raise UserError(f"{root / 'task.toml'} declares step {step.name!r}, but there is no folder {base}")
        folders += [base, *(base / name for name in ("tests", "solution", "workdir"))]
    for folder in folders:
        mode = _mode(folder)
        if mode is not None and not stat.S_ISDIR(mode):
            raise UserError(f"{folder} is a file; expected a folder of that name, or nothing")


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{str(path)!r} can't be read: {error}") from None


def _at(file: str, lines: LineMap, *path: str) -> str:
    line = lines.line(path)
    return f"{file}:{line}" if line else file


def _warn_deprecated(raw: dict[str, Any], lines: LineMap, file: str, stacklevel: int) -> None:
    found: list[tuple[tuple[str | int, ...], str]] = []
    if "version" in raw:
        found.append((("version",), "schema_version"))
    tables: list[tuple[tuple[str | int, ...], Any]] = [
        (("environment",), raw.get("environment")),
        (("verifier", "environment"), raw.get("verifier", {}).get("environment")),
    ]
    for number, step in enumerate(raw.get("steps") or []):
        tables.append((("steps", number, "verifier", "environment"), step.get("verifier", {}).get("environment")))
    for path, table in tables:
        found += [((*path, key), instead) for key, instead in DEPRECATED_KEYS.items() if key in (table or {})]
    for path, instead in found:
        line = lines.line(path)
        warnings.warn(
            f"{file}:{line}: {path[-1]!r} is deprecated; write {instead}", DeprecationWarning, stacklevel=stacklevel
        )
