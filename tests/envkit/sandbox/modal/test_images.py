"""Images as the service is asked for them: registries, ECR by digest with a token, Dockerfiles with their context."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.modal import ModalProvider

pytestmark = pytest.mark.slow  # archives are made and sent

DIGEST = "sha256:" + "ab" * 32
ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/office"


async def _image(fake: Any, provider: ModalProvider, **spec: Any) -> Any:
    """The definition of the image that a sandbox was made from, below what takes its entrypoint away."""
    async with provider.create(SandboxSpec(**spec)) as sandbox:
        top = fake.images[fake.box(sandbox.sandbox_id).definition.image_id]
    assert list(top.dockerfile_commands) == ["FROM base", "ENTRYPOINT []"]
    return fake.images[top.base_images[0].image_id]


async def test_a_registrys_image_and_the_providers_own_wins(fake: Any) -> None:
    assert list((await _image(fake, ModalProvider(), image="python:3.12")).dockerfile_commands) == ["FROM python:3.12"]
    wins = await _image(fake, ModalProvider(image="python:3.11"), image="python:3.12")
    assert list(wins.dockerfile_commands) == ["FROM python:3.11"]


async def test_a_secret_of_the_workspace_for_a_registry(fake: Any) -> None:
    with pytest.raises(EnvkitError, match="no-such-secret"):
        await _image(fake, ModalProvider(image="ghcr.io/a/b:c", registry_secret="no-such-secret"))
    fake.secrets["st-ghcr"] = {"REGISTRY_USERNAME": "u", "REGISTRY_PASSWORD": "p"}
    found = await _image(fake, ModalProvider(image="ghcr.io/a/b:c", registry_secret="ghcr"))
    assert found.image_registry_config.secret_id == "st-ghcr"


@pytest.fixture
def ecr_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """ECR's two calls; yields what was asked. Its token has the twelve hours that moto's don't."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            call = str(self.headers["X-Amz-Target"]).rpartition(".")[2]
            asked.append(call)
            token = base64.b64encode(b"AWS:the-token").decode()
            said = {
                "BatchGetImage": {"images": [{"imageId": {"imageDigest": DIGEST, "imageTag": "v1"}}]},
                "GetAuthorizationToken": {
                    "authorizationData": [{"authorizationToken": token, "expiresAt": time.time() + 43200}]
                },
            }[call]
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-account")
    yield asked
    server.shutdown()
    server.server_close()


async def test_ecr_is_pulled_by_digest_with_a_token_and_no_credentials(fake: Any, ecr_endpoint: list[str]) -> None:
    provider = ModalProvider()
    found = await _image(fake, provider, image=f"{ECR}:v1")
    assert list(found.dockerfile_commands) == [f"FROM {ECR}@{DIGEST}"]
    secret = fake.secrets[found.image_registry_config.secret_id]
    assert secret == {"REGISTRY_USERNAME": "AWS", "REGISTRY_PASSWORD": "the-token"}
    assert "the-account" not in json.dumps(list(fake.secrets.values()))
    await _image(fake, provider, image=f"{ECR}:v1")
    assert sorted(ecr_endpoint) == ["BatchGetImage", "GetAuthorizationToken"]


async def test_a_dockerfile_is_built_with_its_folder_and_arguments(fake: Any, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE=x\nFROM ${BASE}\nCOPY data.txt /data.txt\n")
    (tmp_path / "data.txt").write_text("context")
    provider = ModalProvider(build_args={"BASE": "python:3.12", "OTHER": "unused"})
    async with provider.create(SandboxSpec(build=tmp_path)) as sandbox:
        built = fake.images[fake.box(sandbox.sandbox_id).definition.image_id]
    while built.base_images:  # the SDK may put a layer on top
        built = fake.images[built.base_images[0].image_id]
    assert "COPY data.txt /data.txt" in list(built.dockerfile_commands)
    assert dict(built.build_args) == {"BASE": "python:3.12"}
    names = [file.filename for file in fake.mounts[built.context_mount_id]]
    assert any(name.endswith("data.txt") for name in names)
    assert b"context" in fake.files.values()


async def test_a_build_that_fails_says_why_and_is_tried_again(fake: Any) -> None:
    provider = ModalProvider(image="python:0.0")
    fake.build_error = "manifest unknown"
    for _ in range(2):
        with pytest.raises(EnvkitError, match="manifest unknown") as caught:
            await provider.create(SandboxSpec()).start()
        assert caught.value.kind is FailureKind.SANDBOX_START
    fake.build_error = None
    async with provider.create(SandboxSpec()) as sandbox:
        assert (await sandbox.exec(["true"])).ok


async def test_an_image_is_built_once_for_many_sandboxes(fake: Any) -> None:
    import asyncio

    provider = ModalProvider(image="python:3.11-once")
    async with provider.create(SandboxSpec()) as sandbox:
        assert (await sandbox.exec(["true"])).ok
    before = fake.calls["ImageGetOrCreate"]

    async def one() -> None:
        async with provider.create(SandboxSpec()) as sandbox:
            assert (await sandbox.exec(["true"])).ok

    await asyncio.gather(*(one() for _ in range(4)))
    assert fake.calls["ImageGetOrCreate"] == before


async def test_an_image_of_modals_own_by_its_id(fake: Any) -> None:
    fake.images["im-given"] = object()
    async with ModalProvider(image="im-given").create(SandboxSpec()) as sandbox:
        assert fake.box(sandbox.sandbox_id).definition.image_id == "im-given"
    with pytest.raises(EnvkitError, match="im-missing"):
        await ModalProvider(image="im-missing").create(SandboxSpec()).start()


async def test_folders_and_references_that_cant_be(fake: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no reference into ECR"):
        await ModalProvider(image="1.dkr.ecr.eu-central-1.amazonaws.com/a").create(SandboxSpec()).start()
    with pytest.raises(UserError, match="Dockerfile"):
        await ModalProvider().create(SandboxSpec(build=tmp_path)).start()
    assert fake.living() == []
