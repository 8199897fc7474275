"""The Modal provider: sandboxes in Modal's cloud, on the official SDK, from any image with a Python.

The same supervisor as everywhere runs inside, as root; everything else runs as the agent's user, without privileges,
so that nothing the agent does reaches it. It is spoken to over the streams of one command (`Sandbox.exec`); a sandbox
whose owner went silent ends by itself, and one whose owner died before that is found by its tags. Tested against a
control plane of ours that speaks the SDK's own messages, never against the service.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from envkit.failure import CapabilityError, EnvkitError, UserError
from envkit.sandbox import bundle
from envkit.sandbox.base import Capabilities, ProviderReport, SandboxSpec
from envkit.sandbox.modal_client import INSTALL, SIGN_IN, ask, client, configured, sdk
from envkit.sandbox.modal_image import Images
from envkit.sandbox.modal_sandbox import ModalSandbox

__all__ = ["ModalProvider", "ModalSandbox", "preload"]

Network = Literal["no-network", "public", "allowlist"]
#: The longest that asking the service about its state may take.
_ASK_S = 50.0


def preload() -> None:
    """What every sandbox needs, loaded once where trials are forked from: the SDK starts no thread until it is used."""
    with contextlib.suppress(CapabilityError):
        sdk()
    bundle.source()


class ModalProvider:
    """Creates sandboxes at Modal.

    Args:
        image: The image of every sandbox, whatever its task asks for: a registry's reference, one into ECR, or an
            image of Modal's (`im-...`). None: the task's image or Dockerfile, else ours with the office packages.
        app: The app that sandboxes and images belong to; made where it is missing.
        environment: Modal's environment; None: the profile's.
        user: Numeric `uid:gid` that commands run as. `0:0` gives up what protects the supervisor from them.
        region, cloud: Where sandboxes run, in Modal's words.
        lifetime_s: The longest a sandbox may live, at most a day; a trial's own expiry cuts it down.
        silence_s: After so long without a word from us a sandbox ends itself.
        registry_secret: The name of a Modal secret for private registries; ECR needs none.
        add_python: A Python that Modal adds to images that have none, as `3.11`.
        build_args, build_timeout_s: For Dockerfiles and pulls.
    """

    name = "modal"

    def __init__(
        self,
        *,
        image: str | None = None,
        app: str = "envkit",
        environment: str | None = None,
        user: str = "1000:1000",
        region: str | None = None,
        cloud: str | None = None,
        lifetime_s: float = 21600.0,
        silence_s: float = 600.0,
        registry_secret: str | None = None,
        add_python: str | None = None,
        build_args: Mapping[str, str] | None = None,
        build_timeout_s: float = 1800.0,
    ) -> None:
        numbers = user.split(":")
        if len(numbers) != 2 or not all(part.isdigit() for part in numbers):
            raise UserError(f"modal: user must be numeric, as in '1000:1000', found {user!r}")
        if not 60 <= lifetime_s <= 86400:
            raise UserError(f"modal: lifetime_s must be between 60 and 86400 (a day), found {lifetime_s:g}")
        if silence_s < 120:
            raise UserError(f"modal: silence_s must be at least 120, found {silence_s:g}")
        self.user = (int(numbers[0]), int(numbers[1]))
        self.app_name, self.environment = app, environment
        self.region, self.cloud = region, cloud
        self.lifetime_s, self.silence_s = lifetime_s, silence_s
        self._image = image
        self._images = Images(
            registry_secret=registry_secret,
            add_python=add_python,
            build_arguments=build_args or {},
            build_timeout_s=build_timeout_s,
        )

    def capabilities(self) -> Capabilities:
        return Capabilities(
            images=True,
            networks=get_args(Network),
            python=True,
            isolated=self.user[0] != 0,
            limits=frozenset({"cpu", "file"} if self.user[0] == 0 else {"cpu", "processes", "file"}),
        )

    def check(self, spec: SandboxSpec) -> None:
        for path in (spec.workdir, *spec.writable, *spec.sockets, *spec.readonly):
            if not path.startswith("/") or os.path.normpath(path) != path or path == "/":
                raise UserError(f"a path inside the sandbox must be absolute and plain, found {path!r}")
        for outside in spec.readonly.values():
            if not os.path.isdir(outside):
                raise UserError(
                    f"a read-only folder of the sandbox must be a folder on this machine, found {outside!r}"
                )
        for outside in spec.sockets.values():  # each is connected to when somebody inside connects
            if os.path.exists(outside) and not stat.S_ISSOCK(os.stat(outside).st_mode):
                raise UserError(f"a socket offered inside must be a unix socket, found something else at {outside}")
            if not os.path.isdir(os.path.dirname(outside)):
                raise UserError(f"the socket {outside} does not exist, and neither does its folder")
        if spec.network == "allowlist":
            from envkit.sandbox.egress import check_patterns

            check_patterns(spec.allowed_hosts)
        sdk()
        if not configured():
            raise CapabilityError(f"sandbox 'modal' has no credentials. {SIGN_IN}.")

    async def app(self) -> Any:
        """The SDK's handle of our app. Raises `EnvkitError`."""
        found = sdk().App.lookup.aio(
            self.app_name, client=await client(), environment_name=self.environment, create_if_missing=True
        )
        return await ask(f"find the app {self.app_name!r}", found)

    async def image_of(self, spec: SandboxSpec, app: Any) -> Any:
        if self._image is not None:
            return await self._images.get(self._image, None, app)
        return await self._images.get(spec.image, spec.build, app)

    def create(self, spec: SandboxSpec) -> ModalSandbox:
        return ModalSandbox(spec, self)

    # -- asked from another process: the SDK starts threads, which a process that forks trials must not have

    def doctor(self) -> ProviderReport:
        """Whether the SDK is there and the service lets us in; starts nothing at the service."""
        try:
            modal = sdk()
        except CapabilityError as error:
            return ProviderReport(self.name, False, {"problem": str(error)}, INSTALL)
        details = {"sdk": f"modal {modal.__version__}", "app": self.app_name}
        if not configured():
            return ProviderReport(self.name, False, {**details, "problem": "no credentials"}, SIGN_IN)
        try:
            self._control("hello")
        except EnvkitError as error:
            return ProviderReport(self.name, False, {**details, "problem": str(error)}, str(error))
        return ProviderReport(self.name, True, {**details, "isolation": "by the service", "state": "answers"})

    def collect(self, *, dry_run: bool = False) -> list[str]:
        """Ends sandboxes of our app whose owner is dead; what has no tag of ours is never touched. A service that does
        not answer is left alone: the tags stay."""
        if not configured():
            return []
        try:
            return list(self._control("collect", *(["--dry-run"] if dry_run else [])))
        except EnvkitError:
            return []

    def _control(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "envkit.sandbox.modal_control", *arguments, "--app", self.app_name]
        if self.environment is not None:
            command += ["--environment", self.environment]
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CapabilityError(f"Modal could not be asked: {error}") from error
        try:
            said = json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            raise CapabilityError(f"Modal could not be asked: {done.stderr.strip()[-1000:]}") from None
        if "error" in said:
            raise CapabilityError(said["error"])
        return said["found"]
