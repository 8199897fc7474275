"""Weights through a bucket: engines elsewhere get links that need no credentials, and nothing stays behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.backends.vllm import VllmEngines, VllmEnginesConfig

pytestmark = [pytest.mark.tokens, pytest.mark.timeout(300)]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """moto's server, and an environment in which boto3 finds it and nothing else."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    import boto3

    boto3.session.Session().client("s3").create_bucket(Bucket="weights")
    yield "weights"
    server.stop()


class Weights:
    def weights(self) -> Iterator[tuple[str, Any]]:
        import torch

        draws = torch.Generator().manual_seed(1)
        return ((f"w{n}", torch.randn((300, 1000), generator=draws)) for n in range(4))


async def test_weights_travel_by_links(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envkit.backends.vllm.inside import envkit_weights as files

    config = VllmEnginesConfig(
        urls=("http://127.0.0.1:1",), device="cpu", transfer="store", store=f"s3://{bucket}/run/weights", file_mb=2
    )
    engines = VllmEngines(config, "model")
    assert engines._store is not None
    written = engines._write(Weights(), 3)  # type: ignore[arg-type]
    told = engines._told(written)
    assert len(told["source"]["links"]) == 2, "two tensors of 1.2 MB a file"
    keys = [entry.key for entry in engines._store.entries()]
    assert len(keys) == 3
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)  # as on the engine's host
    manifest = files.Manifest.read(told["manifest"])
    where = files.fetch(told["source"], tmp_path / "engine" / "v3")
    files.check(where, manifest)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    engines._discard(written)
    assert not list(engines._store.entries())
    await engines.close()
