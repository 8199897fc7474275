"""A bucket of S3 (or of anything that speaks it) as a store.

An object is one PUT, or a multipart upload where it is large; both appear whole or not at all. Its SHA-256 is kept as
metadata and checked by every read; each request carries a checksum that the service checks. A read that breaks off goes
on where it was, in the same version of the object, or fails. boto3 finds credentials, region and endpoint as it always
does (`AWS_PROFILE`, `AWS_ENDPOINT_URL_S3`, ...). Making a client takes a second, so a process has one for all its
stores; a forked process makes its own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from envkit.deadline import Deadline
from envkit.failure import CapabilityError, EnvkitError, UserError
from envkit.storage.base import (
    CHUNK,
    Exists,
    NotStored,
    Source,
    StorageError,
    StorageRefused,
    Stored,
    Torn,
    checked,
    checked_key,
    readable,
)
from envkit.storage.local import write_whole

__all__ = ["S3Store"]

T = TypeVar("T")
INSTALL = "Install boto3: pip install 'envkit-rl[aws]'"
_META = "envkit-sha256"
#: A PUT up to here, parts of at least this size beyond. S3 takes at most 10,000 parts.
_PART = 16 << 20
_MOST_PARTS = 9000
_AT_ONCE = 4
_TOTAL_S = 3600.0
_CONNECT_S, _READ_S, _ATTEMPTS = 10.0, 60.0, 6
#: How often one read is taken up again without having got on.
_RESUMES = 5
#: What decides whose credentials a client has.
_WHO = ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
_MISSING = {"NoSuchKey", "404", "NotFound"}
_REFUSED = {
    "NoSuchBucket", "AccessDenied", "403", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
    "InvalidToken", "PermanentRedirect", "AuthorizationHeaderMalformed", "AllAccessDisabled", "InvalidBucketName",
}  # fmt: skip

_lock = threading.Lock()
_clients: dict[tuple[Any, ...], Any] = {}


class S3Store:
    """See `envkit.storage.Store`.

    Args:
        endpoint_url: Another service than AWS's; None: as boto3 is configured.
        attempts: How often a request is made that fails for reasons that pass (throttling, a lost connection).
        part_bytes: From which size on, and in what pieces, an object is uploaded in parts; S3 takes at least 5 MiB.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        part_bytes: int = _PART,
        attempts: int = _ATTEMPTS,
    ) -> None:
        if not bucket:
            raise UserError("a store in S3 needs a bucket: s3://bucket/prefix")
        if part_bytes < 5 << 20:
            raise UserError(f"part_bytes must be at least 5 MiB, which is S3's least, found {part_bytes}")
        self.bucket = bucket
        self.prefix = checked_key(prefix.strip("/")) + "/" if prefix.strip("/") else ""
        self.url = f"s3://{bucket}/{self.prefix}".rstrip("/")
        self._endpoint = endpoint_url
        self._part = part_bytes
        self._attempts = attempts
        self._page = 1000

    # -- the client

    def _client(self) -> Any:
        who = (os.getpid(), self._endpoint, self._attempts, *(os.environ.get(name) for name in _WHO))
        with _lock:
            if who not in _clients:
                _clients[who] = self._make()
            return _clients[who]

    def _make(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise CapabilityError(f"a store in S3 needs boto3. {INSTALL}") from error
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"mode": "standard", "total_max_attempts": self._attempts},
            max_pool_connections=16,
        )
        try:
            session = boto3.session.Session()
            region = session.region_name or "us-east-1"
            return session.client("s3", endpoint_url=self._endpoint, config=config, region_name=region)
        except (BotoCoreError, ValueError) as error:
            raise StorageRefused(f"{self.url} can't be used: {error}") from error

    def _call(self, what: str, end: Deadline, call: Callable[[Any], T]) -> T:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        end.check()
        try:
            return call(self._client())
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in _MISSING:
                raise NotStored(f"can't {what}: there is no such object") from error
            if code in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
                raise Exists(f"can't {what}: it is there already") from error
            if code in _REFUSED or status in (401, 403):
                raise StorageRefused(f"can't {what}: the service refuses: {error}") from error
            raise StorageError(f"can't {what}: {error}") from error
        except NoCredentialsError as error:
            raise StorageRefused(f"can't {what}: there are no AWS credentials; set AWS_PROFILE or sign in") from error
        except (BotoCoreError, OSError) as error:
            raise StorageError(f"can't {what}: {error}") from error

    def _key(self, key: str) -> str:
        return self.prefix + checked_key(key)

    def _name(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{key}"

    # -- writing

    def put(self, key: str, source: Source, *, if_absent: bool = False, deadline: Deadline | None = None) -> Stored:
        end, full = _end(deadline), self._key(key)
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        try:
            with readable(source, end) as (file, size, sha256):
                if size <= self._part:
                    body = file.read(size)
                    self._call(
                        f"store {self._name(key)}",
                        end,
                        lambda client: client.put_object(
                            Bucket=self.bucket,
                            Key=full,
                            Body=body,
                            Metadata={_META: sha256},
                            ChecksumSHA256=base64.b64encode(bytes.fromhex(sha256)).decode(),
                            **condition,
                        ),
                    )
                else:
                    self._put_parts(key, full, file, size, sha256, condition, end)
        except OSError as error:
            if isinstance(error, EnvkitError):
                raise
            raise StorageError(f"can't store {self._name(key)}: its source can't be read: {error}") from error
        return Stored(key, size, sha256, time.time())

    def _put_parts(
        self, key: str, full: str, file: IO[bytes], size: int, sha256: str, condition: dict[str, str], end: Deadline
    ) -> None:
        what = f"store {self._name(key)}"
        made = self._call(
            what,
            end,
            lambda client: client.create_multipart_upload(
                Bucket=self.bucket, Key=full, Metadata={_META: sha256}, ChecksumAlgorithm="SHA256"
            ),
        )
        upload = made["UploadId"]
        part_bytes = max(self._part, -(-size // _MOST_PARTS))
        hashed, reading, stop = hashlib.sha256(), threading.Lock(), threading.Event()
        parts: list[dict[str, Any]] = []

        def work() -> None:
            while not stop.is_set():
                with reading:
                    end.check()
                    number = next(numbers)
                    body = file.read(part_bytes)
                    hashed.update(body)
                if not body:
                    return
                parts.append(self._put_part(what, full, upload, number, body, end))

        numbers = iter(range(1, 10001))
        try:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="envkit-s3") as pool:
                futures = [pool.submit(work) for _ in range(_AT_ONCE)]
                try:
                    for future in futures:
                        future.result()
                finally:
                    stop.set()
            if hashed.hexdigest() != sha256:
                raise Torn(f"can't {what}: its source changed while it was read")
            parts.sort(key=lambda part: int(part["PartNumber"]))
            self._call(
                what,
                end,
                lambda client: client.complete_multipart_upload(
                    Bucket=self.bucket, Key=full, UploadId=upload, MultipartUpload={"Parts": parts}, **condition
                ),
            )
        except BaseException:
            with contextlib.suppress(EnvkitError):  # what can't be taken back now is swept later
                self._call(
                    "abort an upload",
                    Deadline.after(60.0),
                    lambda client: client.abort_multipart_upload(Bucket=self.bucket, Key=full, UploadId=upload),
                )
            raise

    def _put_part(self, what: str, full: str, upload: str, number: int, body: bytes, end: Deadline) -> dict[str, Any]:
        checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
        said = self._call(
            what,
            end,
            lambda client: client.upload_part(
                Bucket=self.bucket,
                Key=full,
                UploadId=upload,
                PartNumber=number,
                Body=body,
                ChecksumSHA256=checksum,
            ),
        )
        return {"ETag": said["ETag"], "PartNumber": number, "ChecksumSHA256": checksum}

    def link(self, key: str, *, lifetime_s: float) -> str:
        """A URL by which anybody can read an object, without credentials, for so long.

        Raises:
            StorageRefused: No credentials to sign it with.
        """
        what = {"Bucket": self.bucket, "Key": self._key(key)}
        end = _end(None)
        url: str = self._call(
            f"make a link to {self._name(key)}",
            end,
            lambda s3: s3.generate_presigned_url("get_object", Params=what, ExpiresIn=round(lifetime_s)),
        )
        return url

    def delete(self, key: str, *, deadline: Deadline | None = None) -> None:
        full = self._key(key)
        with contextlib.suppress(NotStored):
            self._call(
                f"remove {self._name(key)}",
                _end(deadline),
                lambda client: client.delete_object(Bucket=self.bucket, Key=full),
            )

    def sweep(self, *, older_s: float = 86400.0) -> list[str]:
        """Aborts uploads below the prefix that were begun so long ago and never completed."""
        end, removed = _end(None), []
        marker: dict[str, str] = {}
        while True:
            page = self._call(
                f"look for uploads in {self.url}",
                end,
                lambda client, marker=marker: client.list_multipart_uploads(  # type: ignore[misc]
                    Bucket=self.bucket, Prefix=self.prefix, **marker
                ),
            )
            for upload in page.get("Uploads") or []:
                if time.time() - upload["Initiated"].timestamp() > older_s:
                    self._call(
                        "abort an upload",
                        end,
                        lambda client, upload=upload: client.abort_multipart_upload(  # type: ignore[misc]
                            Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                        ),
                    )
                    removed.append(f"s3://{self.bucket}/{upload['Key']} (an upload never completed)")
            if not page.get("IsTruncated"):
                return removed
            marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    # -- reading

    def stat(self, key: str, *, deadline: Deadline | None = None) -> Stored:
        full = self._key(key)
        said = self._call(
            f"look at {self._name(key)}",
            _end(deadline),
            lambda client: client.head_object(Bucket=self.bucket, Key=full),
        )
        return self._stored(key, said)

    def read(self, key: str, *, max_bytes: int = 1 << 28, deadline: Deadline | None = None) -> bytes:
        found, pieces = self._content(key, deadline)
        with contextlib.closing(pieces):
            if found.size > max_bytes:
                raise StorageError(f"{self._name(key)} has {found.size} bytes; at most {max_bytes} are read at once")
            return b"".join(pieces)

    def stream(self, key: str, *, deadline: Deadline | None = None) -> Iterator[bytes]:
        return self._content(key, deadline)[1]

    def _content(self, key: str, deadline: Deadline | None) -> tuple[Stored, Generator[bytes, None, None]]:
        """Both of one version of the object."""
        end, full = _end(deadline), self._key(key)
        what = f"read {self._name(key)}"
        said = self._call(what, end, lambda client: client.get_object(Bucket=self.bucket, Key=full))
        found = self._stored(key, said)
        return found, checked(
            self._name(key), self._pieces(what, full, said, found.size, end), found.size, found.sha256
        )

    @staticmethod
    def _stored(key: str, said: Any) -> Stored:
        sha256 = said.get("Metadata", {}).get(_META)
        return Stored(key, int(said["ContentLength"]), sha256, said["LastModified"].timestamp())

    def _pieces(self, what: str, full: str, said: Any, size: int, end: Deadline) -> Iterator[bytes]:
        """The body; taken up again where a connection broke, in the same version of the object."""
        from botocore.exceptions import BotoCoreError
        from urllib3.exceptions import HTTPError

        at, left, version = 0, _RESUMES, said["ETag"]
        while True:
            body = said["Body"]
            try:
                while piece := body.read(CHUNK):
                    end.check()
                    at, left = at + len(piece), _RESUMES
                    yield piece
                broken: Exception | None = None
            except (BotoCoreError, HTTPError, OSError) as error:
                broken = error
            finally:
                body.close()
            if broken is None or at >= size:
                return
            left -= 1
            if left < 0:
                raise StorageError(f"can't {what}: it broke off at {at} of {size} bytes: {broken}") from broken
            time.sleep(min(0.2 * 2 ** (_RESUMES - left - 1), end.remaining_s))
            try:
                said = self._call(
                    what,
                    end,
                    lambda client, at=at: client.get_object(  # type: ignore[misc]
                        Bucket=self.bucket, Key=full, Range=f"bytes={at}-", IfMatch=version
                    ),
                )
            except (Exists, NotStored) as error:  # the condition failed, or it is gone
                raise Torn(f"can't {what}: the object was replaced or removed while it was read") from error

    def fetch(self, key: str, target: Path, *, deadline: Deadline | None = None) -> Stored:
        found, pieces = self._content(key, deadline)
        write_whole(target, pieces)
        return found

    def entries(self, prefix: str = "", *, deadline: Deadline | None = None) -> Iterator[Stored]:
        end = _end(deadline)
        more: dict[str, str] = {}
        while True:
            page = self._call(
                f"list {self.url}/{prefix}",
                end,
                lambda client, more=more: client.list_objects_v2(  # type: ignore[misc]
                    Bucket=self.bucket, Prefix=self.prefix + prefix, MaxKeys=self._page, **more
                ),
            )
            for entry in page.get("Contents") or []:
                key = entry["Key"][len(self.prefix) :]
                yield Stored(key, int(entry["Size"]), None, entry["LastModified"].timestamp())
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}


def _end(deadline: Deadline | None) -> Deadline:
    return (deadline or Deadline.never()).within(_TOTAL_S, None if deadline else f"the {_TOTAL_S:g} s of a transfer")
