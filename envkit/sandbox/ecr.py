"""Images in Amazon ECR: references read, tags resolved to digests, and authorisation cached and renewed in time.

A tag may be moved between two trials; a digest may not. So a tag is resolved here, and what Docker pulls and what Modal
is told to pull is the digest. Authorisation is a token of ECR's (twelve hours), asked for once per registry and again
before it expires; the account's own credentials, which boto3 finds as it always does, go nowhere. Needs
`envkit-rl[aws]`. Used by the Docker and Modal providers.
"""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from envkit.failure import Boundary, CapabilityError, EnvkitError, FailureKind, UserError

__all__ = ["Pull", "Reference", "Registries", "parse"]

INSTALL = "Install boto3: pip install 'envkit-rl[aws]'"
_REFERENCE = re.compile(
    r"(?P<host>(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:on\.aws|amazonaws\.com(?:\.cn)?))"
    r"/(?P<repository>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
#: Asked for anew when less is left: a pull of a large image outlasts a token that is about to expire.
_RENEW_S = 1800.0
#: A tag is looked up again after this long.
_RESOLVED_S = 600.0
#: With these a tag of several platforms is answered as the one list that it is.
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONNECT_S, _READ_S, _ATTEMPTS = 10.0, 30.0, 6
_AUTH = {"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId"}
_REFUSED = {"AccessDeniedException", "AccessDenied", "InvalidSignatureException", "SignatureDoesNotMatch"}
_MISSING = {"ImageNotFoundException", "RepositoryNotFoundException"}


@dataclass(frozen=True, slots=True)
class Reference:
    """An image in ECR; with a digest, the tag is only for people."""

    host: str
    account: str
    region: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def by_digest(self) -> str:
        return f"{self.host}/{self.repository}@{self.digest}"


def parse(image: str) -> Reference | None:
    """The reference, or None for an image that lies elsewhere. Raises `UserError` for one into ECR that can't be."""
    match = _REFERENCE.fullmatch(image)
    if match is not None:
        return Reference(**match.groupdict())
    if re.match(r"[^/]*\.dkr\.ecr[.-][^/]*/", image):
        raise UserError(
            f"{image!r} is no reference into ECR; expected ACCOUNT.dkr.ecr.REGION.amazonaws.com/repository:tag, with "
            "an account of 12 digits, or @sha256:... instead of the tag"
        )
    return None


@dataclass(frozen=True, slots=True)
class Pull:
    """What a pull needs: the image by digest, and a token for its registry. `expires_s` in Unix seconds."""

    image: str
    username: str
    password: str = field(repr=False)
    expires_s: float


@dataclass(slots=True)
class _Token:
    username: str
    password: str
    expires_s: float


class Registries:
    """The registries of this process. Safe to share between threads; a forked process keeps what is cached.

    Args:
        endpoint_url: Another endpoint than AWS's own; None: as boto3 is configured (`AWS_ENDPOINT_URL_ECR`).
        now: Unix seconds.
    """

    def __init__(self, *, endpoint_url: str | None = None, now: Callable[[], float] = time.time) -> None:
        self._endpoint = endpoint_url
        self._now = now
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._digests: dict[str, tuple[str, float]] = {}
        self._clients: dict[tuple[int, str], Any] = {}

    def pull(self, reference: Reference) -> Pull:
        """Resolves a reference and gets a token for it. Blocks, with an end; call it in a thread.

        Raises:
            CapabilityError: No boto3, or no credentials, or they are refused or expired.
            UserError: There is no such repository, tag or digest.
            EnvkitError: SANDBOX_START: ECR is not reachable, or goes on throttling.
        """
        resolved = self.resolve(reference)
        token = self.token(reference)
        return Pull(resolved.by_digest, token.username, token.password, token.expires_s)

    def resolve(self, reference: Reference) -> Reference:
        """The reference with its digest; asks only for a tag, and not again for ten minutes."""
        if reference.digest is not None:
            return reference
        reference = replace(reference, tag=reference.tag or "latest")
        key = str(reference)
        with self._lock:
            known = self._digests.get(key)
            if known is not None and self._now() - known[1] < _RESOLVED_S:
                return replace(reference, digest=known[0])
            said = self._ask(
                reference,
                f"find {reference}",
                "batch_get_image",
                registryId=reference.account,
                repositoryName=reference.repository,
                imageIds=[{"imageTag": reference.tag}],
                acceptedMediaTypes=list(_MANIFESTS),
            )
            digests = [image.get("imageId", {}).get("imageDigest") for image in said.get("images") or []]
            if not digests or not digests[0]:
                why = "; ".join(str(failure.get("failureReason")) for failure in said.get("failures") or [])
                raise UserError(
                    f"there is no image {reference} ({why or 'ECR names none'}); push it, or correct the tag"
                )
            self._digests[key] = (str(digests[0]), self._now())
            return replace(reference, digest=str(digests[0]))

    def token(self, reference: Reference) -> _Token:
        """A token that has at least half an hour left."""
        key = (reference.account, reference.region)
        with self._lock:
            known = self._tokens.get(key)
            if known is not None and known.expires_s - self._now() > _RENEW_S:
                return known
            said = self._ask(
                reference, f"be let into {reference.host}", "get_authorization_token", registryIds=[reference.account]
            )
            try:
                data = said["authorizationData"][0]
                username, _, password = base64.b64decode(data["authorizationToken"]).decode().partition(":")
                expires = data["expiresAt"]
            except (KeyError, IndexError, ValueError) as error:
                raise _failed(f"be let into {reference.host}", f"ECR's answer holds no token: {error!r}") from error
            at_s = expires.timestamp() if isinstance(expires, datetime) else float(expires)
            if not password or at_s <= self._now():
                left = datetime.fromtimestamp(at_s, UTC).isoformat()
                raise _failed(f"be let into {reference.host}", f"ECR's token is empty or expired at {left} already")
            self._tokens[key] = found = _Token(username, password, at_s)
            return found

    def forget(self, reference: Reference) -> None:
        """Drops what is cached for a registry: its token was refused."""
        with self._lock:
            self._tokens.pop((reference.account, reference.region), None)

    def _ask(self, reference: Reference, what: str, call: str, **arguments: Any) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
        except ImportError as error:
            raise CapabilityError(f"an image in ECR needs boto3. {INSTALL}") from error
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        )
        try:
            who = (os.getpid(), reference.region)
            if who not in self._clients:  # making one takes a second; our lock is held
                session = boto3.session.Session()
                self._clients[who] = session.client(
                    "ecr", region_name=reference.region, endpoint_url=self._endpoint, config=config
                )
            return getattr(self._clients[who], call)(**arguments)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _AUTH or code in _REFUSED:
                hint = "sign in again" if code in _AUTH else "the policy must allow ecr:GetAuthorizationToken and pulls"
                raise CapabilityError(f"can't {what}: AWS refuses the credentials ({code}); {hint}") from error
            if code in _MISSING:
                raise UserError(f"can't {what}: {error}") from error
            raise _failed(what, str(error)) from error
        except NoCredentialsError as error:
            raise CapabilityError(f"can't {what}: there are no AWS credentials; set AWS_PROFILE or sign in") from error
        except (BotoCoreError, OSError, ValueError) as error:
            raise _failed(what, f"ECR can't be reached: {error}") from error


def _failed(what: str, why: str) -> EnvkitError:
    return EnvkitError(f"can't {what}: {why}", kind=FailureKind.SANDBOX_START, boundary=Boundary.SANDBOX)
