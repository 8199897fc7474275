"""Both stores, each empty: a folder, and a bucket of moto's server, which is spoken to over HTTP."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.storage import Store, open_store


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """moto's server, and an environment in which boto3 finds it and nothing else."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def s3(aws: str) -> Any:
    """A client of the test's own."""
    import boto3

    return boto3.session.Session().client("s3")


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"envkit-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return name


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return open_store(tmp_path / "store")
    return open_store(f"s3://{request.getfixturevalue('bucket')}/runs/one")
