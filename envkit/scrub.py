"""The secret scrubber: no key of the host's is left in what a run writes down.

A `Scrubber` is made from secret *values* and replaces them wherever they occur, also in the forms in which they
travel: JSON-escaped (once and twice, as in tool arguments inside a message), URL-encoded, HTML-escaped, and inside
base64 at any of its three alignments (an `Authorization: Basic` header, say). Streams and files are worked through in
pieces, with matches found across their borders, so memory does not grow with the file. Used by trials before results
are kept, and by policies before an error message of an endpoint is repeated.

Compressed content (a gzip, the inside of an xlsx) is not opened.
"""

from __future__ import annotations

import base64
import html
import json
import os
import stat
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["MIN_SECRET_CHARS", "REPLACEMENT", "ScrubWarning", "Scrubber"]

#: Shorter values are refused: replacing every "1234" would destroy results without protecting anything.
MIN_SECRET_CHARS = 6
REPLACEMENT = "[scrubbed]"

_CHUNK_BYTES = 1 << 20
#: A run of overlapping matches is held back as one piece up to this size, and cut beyond it.
_MAX_HELD_BYTES = 1 << 20
#: A base64 fragment shorter than this is no evidence of the secret.
_MIN_BASE64_CHARS = 7


class ScrubWarning(UserWarning):
    """A secret is too short to be searched for; the warning never contains it."""


class Scrubber:
    """Replaces a set of secret values. Immutable; an empty set makes every method a cheap no-op.

    Attributes:
        refused: How many values were too short to be searched for (each gave a `ScrubWarning`).
    """

    __slots__ = ("_forms", "_replacement", "_span", "refused")

    def __init__(self, secrets: Iterable[str], *, replacement: str = REPLACEMENT) -> None:
        forms: set[bytes] = set()
        self.refused = 0
        for secret in {s.strip() for s in secrets} - {""}:
            if len(secret) < MIN_SECRET_CHARS:
                self.refused += 1
                warnings.warn(
                    f"a secret of {len(secret)} characters is too short to be scrubbed from results "
                    f"(at least {MIN_SECRET_CHARS} are needed); make sure that it is never printed",
                    ScrubWarning,
                    stacklevel=2,
                )
                continue
            forms |= _forms_of(secret)
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._span = max((len(form) for form in self._forms), default=0)
        self._replacement = replacement.encode()

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __repr__(self) -> str:
        return f"Scrubber({len(self._forms)} forms)"

    def scrub_bytes(self, data: bytes) -> bytes:
        """`data` with every occurrence replaced; the same object where there is none."""
        spans = self._spans(data)
        return self._replaced(data, spans) if spans else data

    def scrub_text(self, text: str) -> str:
        """`text` with every occurrence replaced; the same object where there is none."""
        if not self._forms:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self.scrub_bytes(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def scrub_json(self, value: Any) -> Any:
        """A copy of a JSON-shaped value with every string in it scrubbed, keys included."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.scrub_text(value)
        if isinstance(value, dict):
            return {self.scrub_text(k) if isinstance(k, str) else k: self.scrub_json(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.scrub_json(v) for v in value]
        return value

    def scrub_stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Scrubs a stream piece by piece; matches across borders are found."""
        held = b""
        for chunk in chunks:
            held += chunk
            done, held = self._settled(held)
            if done:
                yield done
        if held:
            yield self.scrub_bytes(held)

    def scrub_file(self, path: Path) -> bool:
        """Scrubs a file in place, atomically and keeping its mode. Returns whether it held a secret.

        Anything but a regular file is left alone (a symbolic link is not followed). Raises `OSError`.
        """
        if not self._forms:
            return False
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            if path.is_symlink() or not path.is_file():
                return False
            raise
        with os.fdopen(fd, "rb") as source:
            mode = os.fstat(source.fileno()).st_mode
            if not stat.S_ISREG(mode) or not self._found_in(_chunks(source.fileno())):
                return False
            source.seek(0)
            temporary, name = tempfile.mkstemp(prefix=".scrub-", dir=path.parent)
            try:
                with os.fdopen(temporary, "wb") as sink:
                    for piece in self.scrub_stream(_chunks(source.fileno())):
                        sink.write(piece)
                    os.fchmod(sink.fileno(), stat.S_IMODE(mode))
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        return True

    def scrub_tree(self, root: Path, *, keep: Collection[str] = ()) -> list[Path]:
        """Scrubs every regular file below `root` but those of the names in `keep`; links are not followed. Returns the
        files that held a secret."""
        hit: list[Path] = []
        if not self._forms:
            return hit
        for folder, _, names in os.walk(root, followlinks=False):
            paths = (Path(folder, name) for name in sorted(names) if name not in keep)
            hit.extend(path for path in paths if self.scrub_file(path))
        return hit

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """The stretches covered by any form, merged where they overlap, in order."""
        found: list[tuple[int, int]] = []
        for form in self._forms:
            at = data.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = data.find(form, at + 1)
        found.sort()
        merged: list[tuple[int, int]] = []
        for start, end in found:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def _replaced(self, data: bytes, spans: list[tuple[int, int]]) -> bytes:
        parts: list[bytes] = []
        position = 0
        for start, end in spans:
            parts += (data[position:start], self._replacement)
            position = end
        parts.append(data[position:])
        return b"".join(parts)

    def _settled(self, data: bytes) -> tuple[bytes, bytes]:
        """Splits into what no later byte can change, scrubbed, and the rest.

        A form that starts before `cut` lies wholly in `data`. Where overlapping forms reach beyond it, the cut moves in
        front of them, so that the result does not depend on how the stream was cut into pieces.
        """
        cut = len(data) - self._span + 1 if self._span else len(data)
        if cut <= 0:
            return b"", data
        spans = self._spans(data)
        for start, end in spans:
            if start < cut < end:
                cut = start if len(data) - start <= _MAX_HELD_BYTES else end
        return self._replaced(data[:cut], [span for span in spans if span[1] <= cut]), data[cut:]

    def _found_in(self, chunks: Iterable[bytes]) -> bool:
        tail = b""
        for chunk in chunks:
            data = tail + chunk
            if any(form in data for form in self._forms):
                return True
            tail = data[-(self._span - 1) :]
        return False


def _chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, _CHUNK_BYTES):
        yield chunk


def _forms_of(secret: str) -> set[bytes]:
    """The byte sequences in which a value may have been written down."""
    texts = {secret}
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        texts |= {once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        texts |= {encoded, _lower_percent(encoded)}
    texts |= {html.escape(secret), html.escape(secret, quote=False)}
    forms = {text.encode("utf-8", "surrogatepass") for text in texts}
    raw = secret.encode("utf-8", "surrogatepass")
    return forms | {form for shift in range(3) for form in _base64_inside(raw, shift)}


def _lower_percent(encoded: str) -> str:
    head, *rest = encoded.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _base64_inside(raw: bytes, shift: int) -> Iterator[bytes]:
    """The characters of a base64 text that depend on `raw` alone when it starts `shift` bytes into a group of three."""
    first = -(-shift * 8 // 6)  # characters that also hold bits of what comes before
    last = (shift + len(raw)) * 8 // 6  # from here on, bits of what follows, or padding
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        fragment = encode(b"\0" * shift + raw)[first:last]
        if len(fragment) >= _MIN_BASE64_CHARS:
            yield fragment
