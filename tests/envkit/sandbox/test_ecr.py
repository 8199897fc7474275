"""ECR against moto's server: tags become digests, tokens are kept and renewed, refusals are told apart from faults."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from envkit.failure import CapabilityError, EnvkitError, FailureKind, UserError
from envkit.sandbox import ecr

pytestmark = pytest.mark.slow  # a server, and waits

ACCOUNT, REGION = "123456789012", "eu-central-1"
HOST = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield f"http://{host}:{port}"
    server.stop()


def _manifest(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(content),
                "digest": f"sha256:{digest}",
            },
            "layers": [],
        }
    )


def _push(client: Any, name: str, content: bytes) -> None:
    manifest = _manifest(content)
    digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    client.put_image(repositoryName=name, registryId=ACCOUNT, imageManifest=manifest, imageTag="v1", imageDigest=digest)


@pytest.fixture(scope="module")
def client(aws: str) -> Any:
    import boto3

    return boto3.session.Session().client("ecr", region_name=REGION, endpoint_url=aws)


@pytest.fixture
def repository(client: Any) -> str:
    name = f"team/office-{uuid.uuid4().hex[:8]}"
    client.create_repository(repositoryName=name, registryId=ACCOUNT)
    _push(client, name, b"one")
    return name


class Clock:
    """Twelve hours before moto's tokens expire, which they all do at the same moment."""

    def __init__(self) -> None:
        self.at_s = datetime(2014, 12, 31, 12, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        return self.at_s


def _counted(registries: ecr.Registries) -> list[str]:
    calls: list[str] = []
    ask = registries._ask

    def counting(reference: ecr.Reference, what: str, call: str, **arguments: Any) -> Any:
        calls.append(call)
        return ask(reference, what, call, **arguments)

    registries._ask = counting  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize(
    ("image", "tag", "digest"),
    [
        (f"{HOST}/a", None, None),
        (f"{HOST}/team/a.b-c_d:v1.2", "v1.2", None),
        (f"{HOST}/a@sha256:{'0' * 64}", None, f"sha256:{'0' * 64}"),
        (f"{HOST}/a:v1@sha256:{'0' * 64}", "v1", f"sha256:{'0' * 64}"),
        (f"{ACCOUNT}.dkr.ecr-fips.us-gov-west-1.amazonaws.com/a:t", "t", None),
        (f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn/a:t", "t", None),
        (f"{ACCOUNT}.dkr-ecr.x/a", None, "other"),
    ],
)
def test_references(image: str, tag: str | None, digest: str | None) -> None:
    found = ecr.parse(image)
    if digest == "other":
        assert found is None
        return
    assert found is not None
    assert (found.tag, found.digest, str(found)) == (tag, digest, image)


@pytest.mark.parametrize(
    "image", ["python:3.12", "ghcr.io/a/b:c", "localhost:5000/a", "im-123", "public.ecr.aws/x/y:1"]
)
def test_images_elsewhere_are_nobodys_business(image: str) -> None:
    assert ecr.parse(image) is None


@pytest.mark.parametrize(
    "image", [f"12345.dkr.ecr.{REGION}.amazonaws.com/a", f"{HOST}/", f"{HOST}/A", f"{HOST}/a@sha256:1"]
)
def test_references_that_cant_be_are_refused(image: str) -> None:
    with pytest.raises(UserError, match="no reference into ECR"):
        ecr.parse(image)


def _reference(repository: str, tag: str | None = "v1") -> ecr.Reference:
    return ecr.Reference(HOST, ACCOUNT, REGION, repository, tag)


def test_a_tag_is_pulled_by_its_digest_with_a_token(aws: str, client: Any, repository: str) -> None:
    found = ecr.Registries(endpoint_url=aws, now=Clock()).pull(_reference(repository))
    digest = client.describe_images(repositoryName=repository, registryId=ACCOUNT)["imageDetails"][0]["imageDigest"]
    assert found.image == f"{HOST}/{repository}@{digest}"
    assert found.username == "AWS"
    assert found.password
    assert found.password not in repr(found)


def test_a_tag_that_moves_is_followed_after_ten_minutes(aws: str, client: Any, repository: str) -> None:
    clock = Clock()
    registries = ecr.Registries(endpoint_url=aws, now=clock)
    first = registries.resolve(_reference(repository))
    _push(client, repository, b"two")
    assert registries.resolve(_reference(repository)) == first
    clock.at_s += 601
    assert registries.resolve(_reference(repository)).digest != first.digest


def test_a_digest_needs_no_question(aws: str) -> None:
    registries = ecr.Registries(endpoint_url="http://127.0.0.1:1")
    reference = ecr.parse(f"{HOST}/a@sha256:{'0' * 64}")
    assert reference is not None
    assert registries.resolve(reference) is reference


def test_a_token_is_asked_for_once_and_again_before_it_expires(aws: str, repository: str) -> None:
    clock = Clock()
    registries = ecr.Registries(endpoint_url=aws, now=clock)
    calls = _counted(registries)
    reference = _reference(repository)
    token = registries.token(reference)
    assert registries.token(reference) is token
    assert calls == ["get_authorization_token"]
    clock.at_s = token.expires_s - 1801
    assert registries.token(reference) is token
    clock.at_s = token.expires_s - 1799
    renewed = registries.token(reference)
    assert renewed is not token
    assert calls == ["get_authorization_token"] * 2
    registries.forget(reference)
    registries.token(reference)
    assert calls == ["get_authorization_token"] * 3
    clock.at_s = token.expires_s + 1
    with pytest.raises(EnvkitError, match="expired"):
        registries.token(reference)


def test_threads_share_one_question(aws: str, repository: str) -> None:
    registries = ecr.Registries(endpoint_url=aws, now=Clock())
    calls = _counted(registries)
    threads = [threading.Thread(target=registries.pull, args=(_reference(repository),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(calls) == ["batch_get_image", "get_authorization_token"]


def test_what_is_not_there_is_the_users(aws: str, repository: str) -> None:
    registries = ecr.Registries(endpoint_url=aws)
    with pytest.raises(UserError, match="no image"):
        registries.resolve(_reference(repository, "missing"))
    with pytest.raises(UserError, match="RepositoryNotFound"):
        registries.resolve(_reference("no/such/repository"))


class Faulty:
    """An endpoint that answers what the test says: (status, code) or a body."""

    def __init__(self, answer: Callable[[int], tuple[int, str]]) -> None:
        self.count = 0
        faulty = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                faulty.count += 1
                status, text = answer(faulty.count)
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Faulty:
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def _error(code: str) -> str:
    return json.dumps({"__type": code, "message": "on demand"})


_GOOD = json.dumps({"authorizationData": [{"authorizationToken": "QVdTOnRva2Vu", "expiresAt": 4e9}]})


def test_throttling_is_waited_out(aws: str) -> None:
    with Faulty(lambda count: (400, _error("ThrottlingException")) if count < 3 else (200, _GOOD)) as faulty:
        token = ecr.Registries(endpoint_url=faulty.url).token(_reference("a"))
        assert (token.username, token.password, faulty.count) == ("AWS", "token", 3)


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException", "AccessDeniedException"])
def test_credentials_that_are_refused_are_no_fault_to_retry(aws: str, code: str) -> None:
    with Faulty(lambda count: (400, _error(code))) as faulty:
        with pytest.raises(CapabilityError, match=code):
            ecr.Registries(endpoint_url=faulty.url).token(_reference("a"))
        assert faulty.count == 1


@pytest.mark.parametrize(
    "answer",
    ["", "<html>", "{}", '{"authorizationData":[]}', '{"authorizationData":[{"authorizationToken":"!"}]}',
     '{"authorizationData":[{"authorizationToken":"QVdTOnRva2Vu","expiresAt":1}]}'],
)  # fmt: skip
def test_nonsense_is_a_fault_in_words(aws: str, answer: str) -> None:
    with Faulty(lambda count: (200, answer)) as faulty:
        with pytest.raises(EnvkitError, match="be let into") as caught:
            ecr.Registries(endpoint_url=faulty.url).token(_reference("a"))
        assert caught.value.kind is FailureKind.SANDBOX_START


def test_no_credentials_and_no_service(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvkitError, match="can't be reached") as caught:
        ecr.Registries(endpoint_url="http://127.0.0.1:1").token(_reference("a"))
    assert caught.value.kind is FailureKind.SANDBOX_START
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(CapabilityError, match="no AWS credentials"):
        ecr.Registries(endpoint_url=aws).token(_reference("a"))
