"""Weights through a bucket: engines elsewhere get links that need no credentials."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from envkit.storage import open_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


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


def test_a_link_needs_no_credentials_and_no_library(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an engine's host fetches a file of weights: with what Python has."""
    store: Any = open_store(f"s3://{bucket}/run/weights")
    store.put("v3/00000.safetensors", b"x" * 3_000_000)
    link = store.link("v3/00000.safetensors", lifetime_s=3600.0)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "Signature" in link
    with urllib.request.urlopen(link, timeout=30) as answer:
        assert answer.read() == b"x" * 3_000_000
