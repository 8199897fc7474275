"""Real states judged for real: files in a snapshot archive, checks as TOML, judged in the confined child."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.sandbox.base import SandboxSpec
from envkit.task import load_task_dir
from envkit.verifier import Criterion, VerifyRequest
from envkit.verifiers.jail import Limits
from envkit.verifiers.run import Subject, judge_all_sync
from envkit.verifiers.schema import parse_checks

State = Mapping[str, bytes]


def write_tar(path: Path, files: State | Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """A snapshot archive. Given as pairs, the members are written as they are, sound or not."""
    pairs: list[tuple[tarfile.TarInfo, bytes]] = []
    if isinstance(files, Mapping):
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            pairs.append((info, data))
    else:
        pairs = list(files)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in pairs:
            tar.addfile(info, io.BytesIO(data))
    return path


def write_world(root: Path, files: State) -> Path:
    for name, data in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    root.mkdir(exist_ok=True)
    return root


class Judged:
    """The criteria of one judging, by id."""

    def __init__(self, criteria: tuple[Criterion, ...]) -> None:
        self.criteria = criteria

    def __getitem__(self, check_id: str) -> Criterion:
        return next(c for c in self.criteria if c.id == check_id)

    @property
    def outcomes(self) -> str:
        """`p`, `f` or `m` for each criterion in order."""
        return "".join(c.outcome[0] for c in self.criteria)


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., Judged]:
    """Judges checks. Each is TOML without `[[check]]` and id; ids are 0, 1, 2, ..."""

    def run(*checks: str, final: Any = None, initial: State | None = None, answer: str | None = None,
    limits: Limits | None = None,
            timeout_s: float = 60.0, calls: Any = None) -> Judged:  # fmt: skip
        text = 'schema_version = "1"\n'
        for number, check in enumerate(checks):
            text += f'[[check]]\nid = "{number}"\n{check}\n'
        world = None if initial is None else write_world(tmp_path / "world", initial)
        archive = write_tar(tmp_path / "final.tar", final or {})
        subject = Subject.of(archive, answer, world, calls)
        return Judged(judge_all_sync(parse_checks(text).check, subject, Deadline.after(timeout_s), limits))

    return run


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., VerifyRequest]:
    """A verification request for a real task directory made of the given tests files."""

    def make(tests: Mapping[str, str], *, final: Any = None, initial: State | None = None, answer: str | None = None,
             seconds: float = 60.0, harbor_compat: bool = False, messages: tuple[Any, ...] = (),
             timeout_s: float = 60.0,
             provider: Any = None) -> VerifyRequest:  # fmt: skip
        root = tmp_path / "task"
        written = {f"tests/{name}": text.encode() for name, text in tests.items()}
        toml = f'schema_version = "1.4"\n[task]\nname = "org/t"\n[verifier]\ntimeout_sec = {timeout_s}\n'
        write_world(
            root,
            {"instruction.md": b"Do it.", "task.toml": toml.encode(), "environment/Dockerfile": b"FROM x\n", **written},
        )
        task = load_task_dir(root, harbor_compat=harbor_compat)
        world = None if initial is None else write_world(tmp_path / "world", initial)
        return VerifyRequest(
            task=task, step=task.steps[0], tests=root / "tests", initial=world,
            final=write_tar(tmp_path / "final.tar", final or {}), final_answer=answer, messages=messages,
            deadline=Deadline.after(seconds), provider=provider, spec=SandboxSpec(), logs=tmp_path / "logs",
        )  # fmt: skip

    return make
