"""The OpenCode program and the ripgrep that it needs, as pinned npm packages in a folder below `envkit_home()`.

`python -m envkit.harnesses.opencode_cli` gets them once (about 60 MB); nothing of Node is needed. The downloads
are checked against pinned digests.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx

from envkit.failure import CapabilityError
from envkit.home import envkit_home

__all__ = ["VERSION", "find_program", "install"]

VERSION = "1.18.33"
_REGISTRY = "https://registry.npmjs.org"
_COMMAND = "python -m envkit.harnesses.opencode_cli"


@dataclass(frozen=True, slots=True)
class _Package:
    """An npm package with one program: its name, version, digest, and the program's path inside."""

    name: str
    version: str
    sha512: str
    program: str

    @property
    def url(self) -> str:
        registry = os.environ.get("NPM_CONFIG_REGISTRY", _REGISTRY).rstrip("/")
        return f"{registry}/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


_OPENCODE = {
    "x64": _Package(
        "opencode-linux-x64",
        VERSION,
        "q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
        "package/bin/opencode",
    ),
    "x64-baseline": _Package(
        "opencode-linux-x64-baseline",
        VERSION,
        "1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==",
        "package/bin/opencode",
    ),
}
_RIPGREP = {
    "x64": _Package(
        "@vscode/ripgrep-linux-x64",
        "1.18.0",
        "mQ3bVrUpnD2vs7QT0vX90Lt0cnUq467uFtEktIdsJJmW296RoSULRGqWgzG1AKxyBpNDD6l4ZO4qKf6SgyC23Q==",
        "package/bin/rg",
    ),
}


def _machine() -> str:
    machine = {"x86_64": "x64", "amd64": "x64"}.get(platform.machine().lower(), platform.machine())
    if machine not in _RIPGREP:
        raise CapabilityError(
            f"no pinned OpenCode for {platform.machine()}; install opencode-linux-arm64 {VERSION} and ripgrep yourself "
            "and name the folder that holds both programs in the harness's option `program`"
        )
    return machine


def _place() -> Path:
    return envkit_home() / "programs" / f"opencode-{VERSION}-{platform.machine()}"


def find_program(given: Path | None = None) -> Path:
    """The folder with the programs `opencode` and `rg`.

    Args:
        given: A folder of the caller's own.

    Raises:
        CapabilityError: It is not there; the message has the command that gets it.
    """
    place = given or _place()
    missing = [name for name in ("opencode", "rg") if not os.access(place / name, os.X_OK)]
    if missing:
        remedy = "it must hold both programs" if given else f"get it with `{_COMMAND}`"
        raise CapabilityError(f"the opencode-cli harness needs {' and '.join(missing)} in {place}; {remedy}")
    return place


def install() -> Path:
    """Gets the programs where they are missing; returns their folder. Raises `CapabilityError`."""
    place = _place()
    try:
        return find_program()
    except CapabilityError:
        pass
    machine = _machine()
    build = machine
    if machine == "x64" and "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"):
        build = "x64-baseline"
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    half = Path(tempfile.mkdtemp(prefix=".half-", dir=place.parent))
    try:
        half.chmod(0o755)
        for package, name in ((_OPENCODE[build], "opencode"), (_RIPGREP[machine], "rg")):
            target = half / name
            target.write_bytes(_get(package))
            target.chmod(0o755)
        try:
            half.rename(place)
        except OSError:  # somebody else was quicker
            return find_program()
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return place


def _get(package: _Package) -> bytes:
    try:
        response = httpx.get(package.url, timeout=300, follow_redirects=True)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise CapabilityError(f"can't get {package.url}: {error}; an npm registry must be within reach once") from error
    found = base64.b64encode(hashlib.sha512(response.content).digest()).decode()
    if found != package.sha512:
        raise CapabilityError(f"{package.url}: expected the digest sha512-{package.sha512}, found sha512-{found}")
    with tarfile.open(fileobj=io.BytesIO(response.content)) as tar:
        member = tar.extractfile(package.program)
        if member is None:
            raise CapabilityError(f"{package.url} has no {package.program}")
        return member.read()
