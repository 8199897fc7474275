"""The Docker provider: sandboxes in containers, on a daemon here or elsewhere, from any image.

A container has no network, no capability, a read-only root and bounded memory, processes, cpu and disk. Its PID 1 is
our supervisor, spoken to over the container's own standard streams, so that commands, kills and files work as in the
local sandbox and nothing but a connection to the daemon is needed; when that connection ends, so does the sandbox. An
image without Python gets what a shell can do (`envkit.sandbox.docker_shell`): commands and files, no functions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, get_args

from envkit.failure import CapabilityError, EnvkitError, UserError
from envkit.sandbox import docker_container
from envkit.sandbox.base import Capabilities, ProviderReport, SandboxSpec
from envkit.sandbox.docker_daemon import Daemon, NotThere
from envkit.sandbox.docker_image import OFFICE, Image, Images
from envkit.sandbox.docker_sandbox import DockerSandbox
from envkit.sandbox.local import _check_socket

__all__ = ["DockerProvider", "DockerSandbox"]

Network = Literal["no-network", "public", "allowlist"]


class DockerProvider:
    """Creates sandboxes in containers.

    Args:
        image: The image of every sandbox, whatever its task asks for. None: the task's image or Dockerfile, else ours
            with the office packages (built on first use).
        host: The daemon, as `unix://PATH` or `tcp://HOST:PORT`; None: $DOCKER_HOST, else the socket of this machine.
        user: Numeric `uid:gid` that everything inside runs as.
        read_only: Whether the root file system is read-only. Tasks whose tests install packages need False (and
            `user="0:0"`, `network`).
        python: False says that the images have no Python, which harnesses then refuse before anything starts.
        pull: `missing` or `never`.
        public_network: The daemon's network that `network = "public"` joins.
        build_network: What the commands of a Dockerfile reach: `default`, `host`, `none`.
        build_args: Build arguments, for the Dockerfiles that declare them (`BASE` of our own image, say).
        runtime: Another container runtime of the daemon's (`runsc`).
        filtered: Whether our system call filter replaces the daemon's.
    """

    name = "docker"

    def __init__(
        self,
        *,
        image: str | None = None,
        host: str | None = None,
        user: str = "1000:1000",
        read_only: bool = True,
        python: bool | None = None,
        pull: Literal["missing", "never"] = "missing",
        public_network: str = "bridge",
        build_network: str | None = None,
        build_args: Mapping[str, str] | None = None,
        build_timeout_s: float = 1800.0,
        runtime: str | None = None,
        filtered: bool = True,
    ) -> None:
        if not all(part.isdigit() for part in user.split(":")) or user.count(":") > 1:
            raise UserError(f"docker: user must be numeric, as in '1000:1000', found {user!r}")
        if pull not in ("missing", "never"):
            raise UserError(f"docker: pull must be 'missing' or 'never', found {pull!r}")
        self.daemon = Daemon(host)
        self.images = Images(
            self.daemon,
            pull=pull,
            build_network=build_network,
            build_arguments=build_args,
            build_timeout_s=build_timeout_s,
        )
        self.user = user
        self.read_only = read_only
        self.runtime = runtime
        self.filtered = filtered
        self.public_network = public_network
        self.python = python
        self._image = image
        #: Images that turned out to have no usable Python.
        self.without_python: set[str] = set()

    def capabilities(self) -> Capabilities:
        return Capabilities(
            images=True,
            networks=get_args(Network),
            python=self.python is not False,
            limits=frozenset({"memory", "cpu", "processes", "disk", "file"}),
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
        if spec.sockets and not self.daemon.local:
            raise CapabilityError(
                f"sockets of this machine can't be offered to containers of the daemon at {self.daemon.endpoint}; use "
                "a daemon of this machine (unix://), or sandbox='local'"
            )
        for outside in spec.sockets.values():
            _check_socket(outside, dropped=False)
            if self.user.partition(":")[0] != "0" and os.path.exists(outside) and not os.stat(outside).st_mode & 0o002:
                raise UserError(f"user {self.user} of the container may not connect to {outside}; chmod it to 0666")
        if spec.network == "allowlist" and not self.daemon.local:
            raise CapabilityError(
                "an allowlist needs the proxy's socket inside, which the daemon at "
                f"{self.daemon.endpoint} can't mount; use a daemon of this machine (unix://)"
            )
        if spec.network == "allowlist":
            from envkit.sandbox.egress import check_patterns

            check_patterns(spec.allowed_hosts)
        self.daemon.client()

    async def image_of(self, spec: SandboxSpec) -> Image:
        """The image of a sandbox, present on the daemon."""
        if self._image is not None:
            return await self.images.get(self._image, None)
        return await self.images.get(spec.image, spec.build or OFFICE)

    async def workdir_of(self, spec: SandboxSpec) -> str | None:
        """The `WORKDIR` of a spec's image, which is then present; None where it states none, or another is used."""
        if self._image is not None:
            return None
        return (await self.image_of(spec)).workdir or None

    def create(self, spec: SandboxSpec) -> DockerSandbox:
        return DockerSandbox(spec, self)

    def doctor(self) -> ProviderReport:
        """Asks the daemon what it is; starts nothing."""
        details = {"daemon": str(self.daemon.endpoint)}
        try:
            info = self.daemon.info()
        except EnvkitError as error:
            return ProviderReport(self.name, False, {**details, "problem": str(error)}, str(error))
        details["engine"] = f"{info.get('ServerVersion')} on {info.get('OperatingSystem')}, {info.get('NCPU')} cpus"
        details["cgroups"] = f"v{info.get('CgroupVersion') or '1'}, {info.get('Driver')}"
        options = " ".join(info.get("SecurityOptions") or [])
        details["system call filter"] = "on" if self.filtered and "seccomp" in options else "none"
        missing = [
            words
            for key, words in (("MemoryLimit", "memory"), ("PidsLimit", "processes"), ("CpuCfsQuota", "cpu"))
            if info.get(key) is False
        ]
        if missing:
            details["limits not enforced"] = ", ".join(missing)
        networks = [n["Name"] for n in self.daemon.ask("list networks", "networks")]
        details["networks"] = ", ".join(sorted(networks))
        remedy = None
        if self.public_network not in networks:
            remedy = f"no network {self.public_network!r} on the daemon: tasks with network 'public' will not start"
        return ProviderReport(self.name, True, details, remedy)

    def collect(self, *, dry_run: bool = False) -> list[str]:
        """Removes containers of ours whose owner is dead; what has no label of ours is never touched."""
        removed = []
        try:
            found = self.daemon.ask(
                "list containers", "containers", all=True, filters={"label": [docker_container.LABEL]}
            )
        except EnvkitError:
            return []  # no daemon, or no SDK: there is nothing of ours that we could see
        for container in found:
            marks = container.get("Labels") or {}
            if not docker_container.is_dead(marks):
                continue
            run, trial = (
                marks.get(f"{docker_container.LABEL}.run", "-"),
                marks.get(f"{docker_container.LABEL}.trial", "-"),
            )
            owner = marks.get(f"{docker_container.LABEL}.owner_pid")
            if not dry_run:
                try:
                    self.daemon.ask("remove a container", "remove_container", container["Id"], force=True, v=True)
                except NotThere:
                    continue
                except EnvkitError:
                    continue  # it stays labelled: the next collection tries again
            name = (container.get("Names") or [container["Id"]])[0].lstrip("/")
            removed.append(f"container {name} (owner {owner}, run {run}, trial {trial})")
        return removed
