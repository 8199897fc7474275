"""Docker pulls from ECR by digest and with a token: what the daemon is asked for, over its own protocol."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from envkit.failure import EnvkitError
from envkit.sandbox.docker import DockerProvider

DIGEST = "sha256:" + "cd" * 32
REPOSITORY = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/office"


class Endpoints:
    """ECR's two calls and the daemon's few, on one port; remembers the pulls."""

    def __init__(self) -> None:
        self.pulls: list[tuple[str, str, dict[str, str]]] = []
        self.calls: list[str] = []
        self.there: set[str] = set()
        self.refuse = False
        endpoints = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def _say(self, status: int, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                path = unquote(urlsplit(self.path).path)
                if path.endswith("/version"):
                    self._say(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.24"})
                elif "/images/" in path:
                    name = path.partition("/images/")[2].removesuffix("/json")
                    known = name in endpoints.there
                    self._say(200 if known else 404, {"Id": "sha256:1", "Config": {}} if known else {"message": "no"})
                else:
                    self._say(404, {"message": path})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                target = self.headers.get("X-Amz-Target")
                if target is not None:
                    call = target.rpartition(".")[2]
                    endpoints.calls.append(call)
                    token = base64.b64encode(b"AWS:the-token").decode()
                    data = {"authorizationToken": token, "expiresAt": time.time() + 43200}
                    found = {"imageId": {"imageDigest": DIGEST, "imageTag": "v1"}}
                    self._say(200, {"authorizationData": [data], "images": [found]})
                    return
                query = parse_qs(urlsplit(self.path).query)
                auth = json.loads(base64.urlsafe_b64decode(self.headers["X-Registry-Auth"]))
                endpoints.pulls.append((query["fromImage"][0], query.get("tag", [""])[0], auth))
                if endpoints.refuse:
                    self._say(500, {"message": "no basic auth credentials"})
                    return
                tag = query.get("tag", ["latest"])[0]
                endpoints.there.add(f"{query['fromImage'][0]}{'@' if tag.startswith('sha256:') else ':'}{tag}")
                self._say(200, {"status": "done"})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoints]:
    made = Endpoints()
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECR", f"http://127.0.0.1:{made.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-account")
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    yield made
    made.server.shutdown()
    made.server.server_close()


async def test_a_tag_is_pulled_by_its_digest_with_a_token(endpoints: Endpoints) -> None:
    images = DockerProvider(host=f"tcp://127.0.0.1:{endpoints.port}").images
    found = await images.get(f"{REPOSITORY}:v1", None)
    assert found.name == f"{REPOSITORY}@{DIGEST}"
    (name, tag, auth), *others = endpoints.pulls
    assert not others
    assert (name, tag) == (REPOSITORY, DIGEST)
    assert (auth["username"], auth["password"]) == ("AWS", "the-token")
    assert "the-account" not in json.dumps(auth)
    await images.get(f"{REPOSITORY}@{DIGEST}", None)
    assert len(endpoints.pulls) == 1


async def test_an_image_that_is_there_needs_no_aws(endpoints: Endpoints) -> None:
    endpoints.there.add(f"{REPOSITORY}:v1")
    await DockerProvider(host=f"tcp://127.0.0.1:{endpoints.port}").images.get(f"{REPOSITORY}:v1", None)
    assert endpoints.calls == []


async def test_a_refused_token_is_asked_for_anew_the_next_time(endpoints: Endpoints) -> None:
    images = DockerProvider(host=f"tcp://127.0.0.1:{endpoints.port}").images
    endpoints.refuse = True
    with pytest.raises(EnvkitError, match="no basic auth"):
        await images.get(f"{REPOSITORY}:v1", None)
    endpoints.refuse = False
    await images.get(f"{REPOSITORY}:v1", None)
    assert endpoints.calls.count("GetAuthorizationToken") == 2
