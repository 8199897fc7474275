"""Attempts at tasks of the office pack, in a real sandbox or on a copy of the world, judged by its own checks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envkit.deadline import Deadline
from envkit.episode import folder_tar, world_tar
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider
from envkit.tasks.office import OfficePack
from envkit.verifier import Verdict, VerifyRequest
from envkit.verifiers.checks_verifier import ChecksVerifier
from envkit.verifiers.run import Subject, judge_all_sync
from envkit.verifiers.schema import load_checks
from envkit.verifiers.scoring import verdict_of

TREES = ("filesystem", ".apps_data")


@dataclass(frozen=True)
class Attempt:
    """What an attempt left behind."""

    final: Path
    answer: str | None


class Desk:
    """Makes attempts at tasks and judges them; `folder` takes what they leave behind."""

    def __init__(self, folder: Path) -> None:
        self.pack, self.folder = OfficePack(), folder

    def judge(self, name: str, attempt: Attempt) -> Verdict:
        """The verdict of a task's checks on an attempt."""
        task = self.pack.load(name)
        assert task.steps[0].tests_dir is not None
        checks = load_checks(task.steps[0].tests_dir / "verifier.toml")
        subject = Subject.of(attempt.final, attempt.answer, self.pack.world(task))
        criteria = judge_all_sync(checks.check, subject, Deadline.after(120, "judging"))
        return verdict_of(criteria, checks.scoring, "checks")

    def only_answers(self, name: str, answer: str | None = None) -> Attempt:
        """The attempt of somebody who changes nothing."""
        return Attempt(self._archive(self.pack.world(self.pack.load(name)), name), answer)

    def on_a_copy(self, name: str, change: Callable[[str], str] = lambda text: text) -> Attempt:
        """Runs the solution, its program put through `change`, on a copy of the world: no sandbox, it is our own."""
        task = self.pack.load(name)
        root = self.folder / name
        for tree in TREES:
            shutil.copytree(self.pack.world(task) / tree, root / tree, copy_function=shutil.copyfile)
        shutil.copytree(task.dir / "solution", root / "solution", copy_function=shutil.copyfile)
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        solve = root / "solution/solve.py"
        solve.write_text(change(solve.read_text()))
        environment = {**os.environ, "OFFICE_ROOT": str(root)}
        result = subprocess.run([sys.executable, str(solve)], cwd=root, env=environment, capture_output=True)
        assert result.returncode == 0, result.stderr.decode()
        answer = root / "logs/agent/answer.txt"
        return Attempt(self._archive(root, name), answer.read_text() if answer.exists() else None)

    def _archive(self, root: Path, name: str) -> Path:
        target = self.folder / f"{name}.tar"
        with tarfile.open(target, "w") as tar:
            for tree in TREES:
                tar.add(root / tree, tree)
        return target

    async def in_a_sandbox(self, name: str) -> Verdict:
        """The whole way: world and solution into a sandbox, `solve.sh`, a snapshot, and the verifier itself."""
        task = self.pack.load(name)
        world, final = self.pack.world(task), self.folder / f"{name}.tar"
        spec, provider = SandboxSpec(), LocalProvider()
        async with provider.create(spec) as sandbox:
            await sandbox.upload(world_tar(world))
            await sandbox.upload(folder_tar(task.dir / "solution"), "/solution")
            result = await sandbox.exec(["bash", "/solution/solve.sh"], timeout_s=120)
            assert result.ok, result.stderr.decode()
            answer = (await sandbox.download("/logs/agent/answer.txt")).decode()
            await sandbox.kill_all()
            with final.open("wb") as out:
                async for part in sandbox.snapshot():
                    out.write(part)
        step = task.steps[0]
        return await ChecksVerifier().verify(
            VerifyRequest(
                task=task, step=step, tests=step.tests_dir, initial=world, final=final, final_answer=answer,
                messages=(), deadline=Deadline.after(120, "judging"), provider=provider, spec=spec, logs=self.folder,
            )
        )  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
