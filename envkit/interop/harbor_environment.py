"""Our sandboxes as an environment of Harbor's: `harbor run -e envkit.interop.harbor_environment:EnvkitEnvironment`.

Harbor's only local environments need Docker or Podman with Compose; with this one its tasks run in any of our
providers, in the local sandbox unless told otherwise (`--ek sandbox=docker`). A task's Dockerfile is built by providers
that have images; for the others the folders beside it are laid at the root, as our own packs lay them out.
"""

from __future__ import annotations

import asyncio
import io
import shlex
import tarfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from envkit import plugins
from envkit.deadline import Deadline
from envkit.sandbox.base import Sandbox, SandboxSpec

__all__ = ["EnvkitEnvironment"]

_TRANSFER_S = 600.0
_CAP = 64 << 20


class EnvkitEnvironment(BaseEnvironment):  # type: ignore[misc]
    """See the module. Options: `sandbox`, the provider's name, and what the provider takes."""

    def __init__(self, *args: Any, sandbox: str = "local", **more: Any) -> None:
        options = {name: more.pop(name) for name in list(more) if name.startswith("sandbox_")}
        self._provider: Any = plugins.construct(
            "sandboxes", sandbox, {name.removeprefix("sandbox_"): value for name, value in options.items()}
        )
        self._sandbox: Sandbox | None = None
        super().__init__(*args, **more)

    @staticmethod
    def type() -> str:
        return "envkit"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        """Whatever there is is taken: an image, a Dockerfile, or folders."""

    @property
    def _box(self) -> Sandbox:
        if self._sandbox is None:
            raise RuntimeError("the environment was not started")
        return self._sandbox

    async def start(self, force_build: bool) -> None:
        config = self.task_env_config
        images = self._provider.capabilities().images
        dockerfile = self.environment_dir / "Dockerfile"
        networks = self._provider.capabilities().networks
        wanted = str(getattr(config.network_mode, "value", config.network_mode) or "public")
        if wanted not in networks:
            self.logger.warning(
                "the task asks for network %r, which sandbox %r has not: it runs without one",
                wanted,
                self._provider.name,
            )
        spec = SandboxSpec(
            image=config.docker_image if images else None,
            build=self.environment_dir if images and not config.docker_image and dockerfile.is_file() else None,
            cpus=float(config.cpus) if config.cpus else 1.0,
            memory_mb=int(config.memory_mb or 2048),
            network=wanted if wanted in networks else "no-network",  # type: ignore[arg-type]
            writable=("/logs", "/solution", "/tests", "/installed-agent"),
            start_timeout_s=600.0 if images else 60.0,
            env=dict(self._merge_env(None) or {}),
        )
        self._sandbox = self._provider.create(spec)
        await self._box.start()
        if spec.build is None and spec.image is None and self.environment_dir.is_dir():
            for name in ("filesystem", ".apps_data"):
                if (self.environment_dir / name).is_dir():
                    await self.upload_dir(self.environment_dir / name, f"/{name}")
        await self.exec("mkdir -p /logs/agent /logs/verifier /logs/artifacts")

    async def stop(self, delete: bool) -> None:
        if self._sandbox is not None:
            await self._sandbox.stop()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Runs a command; at its timeout it is killed inside. There is one user."""
        done = await self._box.exec(
            ["bash", "-c", command],
            cwd=cwd or self.task_env_config.workdir,
            env=self._merge_env(env),
            timeout_s=float(timeout_sec) if timeout_sec else None,
            output_cap=_CAP,
        )
        return ExecResult(
            stdout=done.stdout.decode(errors="replace"),
            stderr=done.stderr.decode(errors="replace") + ("\nkilled at its timeout" if done.timed_out else ""),
            return_code=124 if done.timed_out or done.exit_code is None else done.exit_code,
        )

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._upload({Path(target_path).name: Path(source_path)}, str(Path(target_path).parent))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._upload({".": Path(source_dir)}, target_dir)

    async def _upload(self, files: dict[str, Path], target: str) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, path in files.items():
                tar.add(path, arcname=name)
        await self._box.exec(["mkdir", "-p", target])
        await self._box.upload(out.getvalue(), target, deadline=Deadline.after(_TRANSFER_S, "an upload"))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        data = await self._box.download(source_path, max_bytes=1 << 30, deadline=Deadline.after(_TRANSFER_S))
        await asyncio.to_thread(_write, Path(target_path), data)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        packed = "/tmp/.envkit-download.tar"
        done = await self._box.exec(["bash", "-c", f"tar -C {shlex.quote(source_dir)} -cf {packed} ."])
        if not done.ok:
            raise RuntimeError(f"{source_dir} can't be read: {done.stderr.decode(errors='replace')}")
        data = await self._box.download(packed, max_bytes=1 << 30, deadline=Deadline.after(_TRANSFER_S))
        await asyncio.to_thread(_unpack, Path(target_dir), data)
        await self._box.exec(["rm", "-f", packed])


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _unpack(folder: Path, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
