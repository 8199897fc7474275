"""A real daemon, or a failure that says how to start one; and the small images that tests are run in."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envkit.sandbox.docker import DockerProvider

BASE = os.environ.get("ENVKIT_TEST_IMAGE", "envkit/base:test")
_APPLETS = (
    "sh cat ls echo true false sleep tar mkdir rm ln touch head tail tr grep kill setsid id pwd stat chmod wc dd env "
    "readlink cp mv test printf mkfifo sort ps"
)


@pytest.fixture(scope="session")
def base() -> str:
    return BASE


@pytest.fixture(scope="session")
def provider() -> DockerProvider:
    made = DockerProvider(image=BASE, pull="never")
    report = made.doctor()
    if not report.usable:
        pytest.fail(f"no Docker daemon answers ({report.remedy}); as root, .ci/docker-up starts one")
    return made


@pytest.fixture(scope="session")
def busybox(provider: DockerProvider) -> str:
    """An image of one static busybox: no Python, no bash, no `timeout`."""
    name = "envkit/busybox:test"
    if provider.daemon.ask("list images", "images", name=name):
        return name
    listed = subprocess.run(["dpkg", "-L", "busybox-static"], capture_output=True, text=True, check=False).stdout
    program = next((line for line in listed.splitlines() if line.endswith("/busybox") and "bin/" in line), None)
    if program is None:
        pytest.fail("a static busybox is needed: apt-get install busybox-static")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("bin", "etc", "proc", "sys", "dev", "tmp"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        tar.add(program, arcname="bin/busybox")
        for applet in _APPLETS.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        passwd = b"root:x:0:0::/:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
        info = tarfile.TarInfo("etc/passwd")
        info.size = len(passwd)
        tar.addfile(info, io.BytesIO(passwd))
    provider.daemon.ask(
        "import busybox", "import_image_from_data", out.getvalue(), repository="envkit/busybox", tag="test"
    )
    return name


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="envkit-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
