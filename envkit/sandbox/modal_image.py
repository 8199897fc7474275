"""Images for sandboxes at Modal: from a registry, from ECR, from a folder with a Dockerfile, or one of Modal's own.

Each is built (or found built) by the service before a sandbox is asked for, under its own time, because a first build
takes minutes and a start seconds. References into ECR are resolved to a digest here and pulled with a token of ours
that lives twelve hours: the service never sees the credentials of the account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.failure import Boundary, EnvkitError, FailureKind, UserError
from envkit.sandbox import ecr
from envkit.sandbox.docker_image import OFFICE, _office_base
from envkit.sandbox.modal_client import ask, client, sdk

__all__ = ["Images"]


class Images:
    """The images of one app.

    Args:
        registry_secret: A secret of the workspace's for private registries, by name.
        add_python: A Python that Modal adds to images without one, as `3.11`.
        build_arguments: For Dockerfiles that declare them.
        build_timeout_s: The longest a pull or a build may take.
    """

    def __init__(
        self,
        *,
        registry_secret: str | None,
        add_python: str | None,
        build_arguments: Mapping[str, str],
        build_timeout_s: float,
    ) -> None:
        self._secret = registry_secret
        self._python = add_python
        self._arguments = dict(build_arguments)
        self._timeout_s = build_timeout_s
        self._built: dict[tuple[int, str], asyncio.Task[Any]] = {}
        self._registries = ecr.Registries()

    async def get(self, image: str | None, build: Path | None, app: Any) -> Any:
        """The SDK's handle of an image that is built. `image` wins; neither is our own office image.

        Raises:
            UserError: The folder has no Dockerfile; the service refuses the reference.
            EnvkitError: SANDBOX_START: it was not built, with the last words.
        """
        folder = None if image is not None else build or OFFICE
        key = (id(asyncio.get_running_loop()), image or str(folder))
        task = self._built.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            self._built = {known: kept for known, kept in self._built.items() if known[0] == key[0]}
            task = self._built[key] = asyncio.create_task(self._build(image, folder, app))
        return await asyncio.shield(task)

    async def _build(self, image: str | None, folder: Path | None, app: Any) -> Any:
        end = Deadline.after(self._timeout_s, f"the {self._timeout_s:g} s of a build")
        what = f"get image {image or folder}"
        reference = None if image is None else ecr.parse(image)
        try:
            described = await self._described(image, reference, folder, end)
            return await ask(what, described.build.aio(app), end)
        except EnvkitError as error:
            if reference is not None:  # its token may be what was refused
                self._registries.forget(reference)
            if isinstance(error, UserError):
                raise
            raise EnvkitError(str(error), kind=FailureKind.SANDBOX_START, boundary=Boundary.SANDBOX) from error

    async def _described(
        self, image: str | None, reference: ecr.Reference | None, folder: Path | None, end: Deadline
    ) -> Any:
        modal = sdk()
        if image is None:
            assert folder is not None
            dockerfile = folder / "Dockerfile"
            if not dockerfile.is_file():
                raise UserError(f"an image is built from a folder with a Dockerfile; there is none in {folder}")
            known = dockerfile.read_text(errors="replace")
            arguments = {name: value for name, value in self._arguments.items() if f"ARG {name}" in known}
            if folder == OFFICE:
                arguments.setdefault("BASE", _office_base())
            return modal.Image.from_dockerfile(
                dockerfile, context_dir=folder, build_args=arguments, add_python=self._python
            ).entrypoint([])  # it speaks of the image's own command, which is not run
        if image.startswith("im-"):
            return modal.Image.from_id(image, client=await client())
        secret = None if self._secret is None else modal.Secret.from_name(self._secret)
        if reference is not None and secret is None:
            found = await end.wait(asyncio.to_thread(self._registries.pull, reference))
            secret = modal.Secret.from_dict({"REGISTRY_USERNAME": found.username, "REGISTRY_PASSWORD": found.password})
            image = found.image
        return modal.Image.from_registry(image, secret=secret, add_python=self._python).entrypoint([])
