"""What is S3's own: uploads in parts, broken connections, refusals, forks; against moto's server, through a proxy that
breaks what it is told to."""

from __future__ import annotations

import http.client
import http.server
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.storage import NotStored, StorageError, StorageRefused, Torn
from envkit.storage.s3 import S3Store

pytestmark = pytest.mark.slow  # a server, and waits

PART = 5 << 20
_HOP = {"content-length", "transfer-encoding", "connection", "expect", "server", "date"}


class Breaker:
    """A proxy to moto. `rule(method, path, headers) -> None | int | float | bytes`: pass it on; answer that status; cut
    the body after that share of it; or answer 200 with these bytes."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.rule: Callable[[str, str, Any], Any] = lambda *_: None
        self.seen: list[tuple[str, str]] = []
        breaker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                breaker.seen.append((self.command, self.path))
                verdict = breaker.rule(self.command, self.path, self.headers)
                if isinstance(verdict, int) and not isinstance(verdict, bool):
                    code = {503: "SlowDown", 403: "AccessDenied"}.get(verdict, "InvalidRequest")
                    text = f"<Error><Code>{code}</Code><Message>on demand</Message></Error>".encode()
                    self.send_response(verdict)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                    return
                if isinstance(verdict, bytes):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(verdict)))
                    self.end_headers()
                    self.wfile.write(verdict)
                    return
                host = urllib.parse.urlsplit(breaker.target).netloc
                link = http.client.HTTPConnection(host, timeout=30)
                passed = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                link.request(self.command, self.path, body=body, headers=passed)
                answer = link.getresponse()
                content = answer.read()
                link.close()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                head = self.command == "HEAD"
                self.send_header(
                    "Content-Length", answer.headers.get("Content-Length", "0") if head else str(len(content))
                )
                self.end_headers()
                if head:
                    return
                if isinstance(verdict, float):
                    self.wfile.write(content[: int(len(content) * verdict)])
                    self.wfile.flush()
                    self.close_connection = True
                    self.connection.close()
                    return
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (OSError, ValueError):
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()


@pytest.fixture
def breaker(aws: str) -> Iterator[Breaker]:
    made = Breaker(aws)
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def broken(breaker: Breaker, bucket: str) -> S3Store:
    """A store behind the breaker."""
    return S3Store(bucket, "runs", endpoint_url=breaker.url, part_bytes=PART, attempts=3)


def _uploads(s3: Any, bucket: str) -> list[Any]:
    return list(s3.list_multipart_uploads(Bucket=bucket).get("Uploads") or [])


def test_a_large_object_goes_up_in_parts_and_comes_back(
    broken: S3Store, breaker: Breaker, tmp_path: Path, s3: Any
) -> None:
    data = os.urandom(2 * PART + 12345)
    (tmp_path / "large").write_bytes(data)
    put = broken.put("large", tmp_path / "large")
    parts = [path for method, path in breaker.seen if method == "PUT" and "partNumber" in path]
    assert len(parts) == 3
    assert broken.stat("large").sha256 == put.sha256
    assert broken.read("large") == data
    assert _uploads(s3, broken.bucket) == []


def test_an_upload_that_breaks_leaves_nothing(broken: S3Store, breaker: Breaker, s3: Any) -> None:
    broken.put("large", b"before")
    breaker.rule = lambda method, path, headers: 400 if "partNumber=2" in path else None
    with pytest.raises(StorageError):
        broken.put("large", os.urandom(2 * PART))
    breaker.rule = lambda *_: None
    assert broken.read("large") == b"before"
    assert _uploads(s3, broken.bucket) == []


def test_uploads_of_killed_writers_are_swept(broken: S3Store, s3: Any) -> None:
    s3.create_multipart_upload(Bucket=broken.bucket, Key="runs/left")
    s3.create_multipart_upload(Bucket=broken.bucket, Key="somebody/elses")
    assert broken.sweep(older_s=1e10) == []
    removed = broken.sweep()  # moto's uploads are all of 2010
    assert len(removed) == 1
    assert "runs/left" in removed[0]
    assert [upload["Key"] for upload in _uploads(s3, broken.bucket)] == ["somebody/elses"]


def test_throttling_is_waited_out(broken: S3Store, breaker: Breaker) -> None:
    times = iter([503, 503])
    breaker.rule = lambda *_: next(times, None)
    broken.put("key", b"in the end")
    assert broken.read("key") == b"in the end"
    assert len(breaker.seen) == 4


def test_a_body_that_breaks_off_is_taken_up_where_it_was(broken: S3Store, breaker: Breaker) -> None:
    data = os.urandom(4 << 20)
    broken.put("key", data)
    cuts = iter([0.6, 0.5])
    ranges: list[str | None] = []

    def rule(method: str, path: str, headers: Any) -> Any:
        ranges.append(headers.get("Range"))
        return next(cuts, None)

    breaker.rule = rule
    assert broken.read("key") == data
    assert ranges[0] is None
    assert all(range_ is not None for range_ in ranges[1:])
    assert len(ranges) == 3


def test_an_object_replaced_while_it_is_read_is_torn(broken: S3Store, breaker: Breaker, s3: Any) -> None:
    broken.put("key", os.urandom(4 << 20))
    cuts = iter([0.5])
    breaker.rule = lambda method, *_: next(cuts, None) if method == "GET" else None
    stream = broken.stream("key")
    next(stream)
    s3.put_object(Bucket=broken.bucket, Key="runs/key", Body=b"other")
    with pytest.raises(Torn):
        list(stream)


def test_a_damaged_object_is_torn_and_no_file_appears(broken: S3Store, tmp_path: Path, s3: Any) -> None:
    put = broken.put("key", b"stored as it should be")
    s3.put_object(
        Bucket=broken.bucket, Key="runs/key", Body=b"stored as it could be", Metadata={"envkit-sha256": str(put.sha256)}
    )
    with pytest.raises(Torn):
        broken.fetch("key", tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_page_is_listed(broken: S3Store) -> None:
    broken._page = 3
    names = [f"many/{number}" for number in range(8)]
    for name in names:
        broken.put(name, b"")
    assert [entry.key for entry in broken.entries("many/")] == names


def test_refusals_say_so_and_are_not_retried(broken: S3Store, breaker: Breaker, aws: str) -> None:
    with pytest.raises(StorageRefused, match="NoSuchBucket"):
        S3Store("no-such-bucket-here", endpoint_url=aws).put("key", b"x")
    breaker.rule = lambda *_: 403
    with pytest.raises(StorageRefused):
        broken.put("key", b"x")
    assert len(breaker.seen) == 1


def test_no_credentials(bucket: str, aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageRefused, match="no AWS credentials"):
        S3Store(bucket, endpoint_url=aws).read("key")


def test_garbage_is_an_error_in_words(broken: S3Store, breaker: Breaker) -> None:
    breaker.rule = lambda *_: b"<html>a login page"
    with pytest.raises(EnvkitError):
        list(broken.entries())


def test_a_deadline_ends_retries(broken: S3Store, breaker: Breaker) -> None:
    broken.put("key", os.urandom(4 << 20))
    breaker.rule = lambda *_: 0.0001
    with pytest.raises((DeadlineExceeded, StorageError)):
        broken.read("key", deadline=Deadline.after(1.0, "the budget"))


def test_a_forked_process_has_a_client_of_its_own(broken: S3Store) -> None:
    broken.put("key", b"parent")
    pid = os.fork()
    if pid == 0:
        try:
            broken.put("child", broken.read("key") + b" and child")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert broken.read("child") == b"parent and child"


def test_a_key_that_is_missing_is_missing(broken: S3Store) -> None:
    with pytest.raises(NotStored):
        broken.read("missing")
    with pytest.raises(NotStored):
        broken.stat("missing")
