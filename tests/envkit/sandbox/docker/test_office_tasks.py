"""Our own image, built from a base that is here, and office tasks in it under two harnesses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.docker import DockerProvider
from envkit.sandbox.docker_image import OFFICE
from envkit.sandbox.runtime import REQUIREMENTS

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def test_the_images_packages_are_the_runtimes() -> None:
    lines = (OFFICE / "requirements.txt").read_text().splitlines()
    assert tuple(line for line in lines if line and not line.startswith("#")) == REQUIREMENTS


@pytest.fixture(scope="session")
def office(provider: DockerProvider, base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, from PyPI over the host's network, with this machine's certificate authorities."""
    folder = tmp_path_factory.mktemp("office") / "image"
    shutil.copytree(OFFICE, folder)
    certificates = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
    if certificates.is_file():
        shutil.copy(certificates, folder / "ca.pem")
    builder = DockerProvider(pull="never", build_network="host", build_args={"BASE": base})
    return builder.images._built(folder).name


async def test_the_office_packages_are_inside(office: str) -> None:
    async with DockerProvider(image=office, pull="never").create(SandboxSpec()) as sandbox:
        script = "import openpyxl, docx, pptx; b = openpyxl.Workbook(); b.save('x.xlsx'); print('ok')"
        result = await sandbox.exec(["python3", "-c", script])
        assert result.stdout == b"ok\n", result.stderr
        assert (await sandbox.download("/filesystem/x.xlsx")).startswith(b"PK")


def envkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envkit.cli.main", *arguments], capture_output=True, text=True, timeout=550, check=False
    )


@pytest.fixture(scope="session")
def tasks() -> list[str]:
    listed = envkit("tasks", "office/*")
    names = [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("office/")]
    assert len(names) >= 3, listed.stdout + listed.stderr
    return names


@pytest.mark.parametrize("harness", ["opencode", "archipelago"])
def test_office_tasks_are_sound_in_docker(office: str, tasks: list[str], harness: str, tmp_path: Path) -> None:
    chosen = tasks[:2] if harness == "opencode" else tasks[:1]
    done = envkit("check", *chosen, "--harness", harness, "--sandbox", f"docker:image={office},pull=never")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
