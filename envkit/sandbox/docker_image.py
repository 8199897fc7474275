"""Images for Docker sandboxes: found, pulled, or built from a folder, each once; and what an image has where we mount.

A build is named by the content of its folder, so that the same Dockerfile and files are built once per daemon, under a
lock of this machine. The SDK builds with the daemon's classic builder, which every daemon has. A writable place of a
sandbox is a tmpfs, which hides what the image has there: `contents` reads that from the image, once, as a tar that the
sandbox is then given.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind, UserError
from envkit.home import envkit_home
from envkit.sandbox import ecr
from envkit.sandbox.docker_daemon import Daemon, NotThere
from envkit.sandbox.runtime import find_interpreter

__all__ = ["OFFICE", "Image", "Images", "build_tag"]

#: The folder of our own image.
OFFICE = Path(__file__).parent / "office"
_WORDS = 3000


@dataclass(frozen=True, slots=True)
class Image:
    """What a container is made of: the daemon's id, and what the image says of itself."""

    id: str
    name: str
    env: Mapping[str, str]
    volumes: tuple[str, ...] = ()
    workdir: str = ""


def build_tag(folder: Path, arguments: Mapping[str, str]) -> str:
    """The tag of what is built from a folder: changes with any name, mode or byte in it, and with the arguments."""
    digest = hashlib.sha256(repr(sorted(arguments.items())).encode())
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*files, *folders]):
            path = Path(here, name)
            found = path.lstat()
            digest.update(
                f"\0{path.relative_to(folder)}\0{stat.S_IFMT(found.st_mode)}:{found.st_mode & 0o111}".encode()
            )
            if stat.S_ISLNK(found.st_mode):
                digest.update(os.readlink(path).encode())
            elif stat.S_ISREG(found.st_mode):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"envkit/build:{digest.hexdigest()[:32]}"


class Images:
    """The images of one daemon.

    Args:
        pull: `missing` pulls an image that the daemon does not have; `never` makes that an error.
        build_network: What a build's commands reach, in Docker's words (`default`, `host`, `none`).
        build_arguments: Given to every build of a Dockerfile that knows them.
        build_timeout_s: The longest a build or a pull may take.
    """

    def __init__(
        self,
        daemon: Daemon,
        *,
        pull: str = "missing",
        build_network: str | None = None,
        build_arguments: Mapping[str, str] | None = None,
        build_timeout_s: float = 1800.0,
    ) -> None:
        self._daemon = daemon
        self._pull = pull
        self._network = build_network
        self._arguments = dict(build_arguments or {})
        self._timeout_s = build_timeout_s
        self._registries = ecr.Registries()

    async def get(self, image: str | None, build: Path | None) -> Image:
        """The image by name, or built from a folder; `image` wins.

        Raises:
            UserError: The folder has no Dockerfile; the image is not there and may not be pulled.
            EnvkitError: SANDBOX_START with the last words of a build or pull that failed.
        """
        if image is not None:
            return await self._named(image)
        if build is None:
            raise UserError("the task names no image and has no environment/Dockerfile; give one: docker:image=NAME")
        return await asyncio.to_thread(self._built, build)

    async def _named(self, name: str) -> Image:
        try:
            return _image(name, await self._daemon.call(f"find image {name}", "inspect_image", name))
        except NotThere:
            if self._pull == "never":
                raise CapabilityError(f"the daemon has no image {name!r}, and pull='never'") from None
        auth = None
        reference = ecr.parse(name)
        if reference is not None:  # by digest, so that every daemon and every trial has the same
            found = await asyncio.to_thread(self._registries.pull, reference)
            name, auth = found.image, {"username": found.username, "password": found.password}
        work = asyncio.to_thread(self._pulled, name, auth)
        try:
            await asyncio.wait_for(work, self._timeout_s)
        except TimeoutError:
            raise _failed(f"image {name} was not pulled within {self._timeout_s:g} s") from None
        except EnvkitError:
            if reference is not None:  # its token may be what was refused
                self._registries.forget(reference)
            raise
        return _image(name, await self._daemon.call(f"find image {name}", "inspect_image", name))

    def _pulled(self, name: str, auth: Mapping[str, str] | None) -> None:
        with _locked(f"pull-{name}"):
            tag = None if "@" in name or ":" in name.rpartition("/")[2] else "latest"
            try:
                self._follow(
                    self._daemon.ask(f"pull {name}", "pull", name, tag=tag, stream=True, decode=True, auth_config=auth)
                )
            except EnvkitError as error:
                raise _failed(f"image {name} is not on the daemon and can't be pulled: {error}") from error

    def _built(self, folder: Path) -> Image:
        if not (folder / "Dockerfile").is_file():
            raise UserError(f"an image is built from a folder with a Dockerfile; there is none in {folder}")
        known = (folder / "Dockerfile").read_text(errors="replace")
        arguments = {name: value for name, value in self._arguments.items() if f"ARG {name}" in known}
        if folder == OFFICE:
            arguments.setdefault("BASE", _office_base())
        tag = build_tag(folder, arguments)
        with _locked(tag):
            with contextlib.suppress(NotThere):
                return _image(tag, self._daemon.ask(f"find image {tag}", "inspect_image", tag))
            options: dict[str, Any] = {} if self._network is None else {"network_mode": self._network}
            said = self._daemon.ask(
                f"build {folder}", "build", path=str(folder), tag=tag, rm=True, forcerm=True, decode=True,
                buildargs=arguments, labels={"envkit.build": tag}, timeout=int(self._timeout_s), **options,
            )  # fmt: skip
            try:
                self._follow(said)
            except EnvkitError as error:
                raise _failed(f"the image of {folder} can't be built: {error}") from error
            return _image(tag, self._daemon.ask(f"find image {tag}", "inspect_image", tag))

    @staticmethod
    def _follow(lines: Iterator[dict[str, Any]]) -> None:
        """Reads a build's or a pull's reports to their end. Raises `EnvkitError` with the last of them."""
        said = ""
        for line in lines:
            said = (said + line.get("stream", ""))[-_WORDS:]
            if "error" in line:
                raise _failed(f"{line['error']}\n{said}".strip())

    async def contents(self, image: Image, container: str, path: str) -> Path | None:
        """A tar of what the image has at a path (members relative to it), or None where that is nothing.

        Read once per image and path, and kept below `envkit_home()`; `container` is one of the image, not started.
        """
        key = hashlib.sha256(f"{image.id}:{path}".encode()).hexdigest()[:32]
        kept = envkit_home() / "docker" / f"contents-{key}.tar"
        return await asyncio.to_thread(self._contents, kept, container, path)

    def _contents(self, kept: Path, container: str, path: str) -> Path | None:
        if not kept.exists():
            kept.parent.mkdir(mode=0o755, exist_ok=True)
            fd, half = tempfile.mkstemp(prefix=".half-", dir=kept.parent)
            try:
                with os.fdopen(fd, "w+b") as file:
                    try:
                        chunks, _ = self._daemon.ask(f"read {path} of an image", "get_archive", container, path)
                        _below(chunks, PurePosixPath(path).name, file)
                    except NotThere:
                        pass
                os.replace(half, kept)
            finally:
                Path(half).unlink(missing_ok=True)
        return kept if kept.stat().st_size else None


def _below(chunks: Iterator[bytes], top: str, target: Any) -> None:
    """Rewrites a tar of `top/...` as one of what is below; writes nothing where there is nothing."""
    import tarfile

    with tempfile.TemporaryFile() as whole:
        for chunk in chunks:
            whole.write(chunk)
        whole.seek(0)
        with tarfile.open(fileobj=whole) as source:
            inner = [member for member in source if member.name.strip("/") != top]
            if not inner:
                return
            with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as out:
                for member in inner:
                    member.name = member.name.removeprefix(top + "/")
                    if member.islnk():
                        member.linkname = member.linkname.removeprefix(top + "/")
                    out.addfile(member, source.extractfile(member) if member.isreg() else None)


def _office_base() -> str:
    """The Python of this machine's runtime: what harnesses bring inside is compiled for that one."""
    try:
        return f"python:{find_interpreter().tag}-slim-bookworm"
    except CapabilityError:
        return "python:3.12-slim-bookworm"


def _image(name: str, found: Mapping[str, Any]) -> Image:
    config = found.get("Config") or {}
    pairs = (line.partition("=") for line in config.get("Env") or [])
    volumes = tuple(path.rstrip("/") for path in config.get("Volumes") or {} if path.strip("/"))
    workdir = os.path.normpath("/" + str(config.get("WorkingDir") or "").lstrip("/"))
    return Image(found["Id"], name, {key: value for key, _, value in pairs}, volumes, workdir.rstrip("/"))


def _failed(why: str) -> EnvkitError:
    return EnvkitError(why, kind=FailureKind.SANDBOX_START, boundary=Boundary.SANDBOX)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    folder = envkit_home() / "docker"
    folder.mkdir(mode=0o755, exist_ok=True)
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
