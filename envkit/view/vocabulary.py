"""What tokens say: a tokenizer's vocabulary, read from its `tokenizer.json` with nothing but the standard library.

Enough to show each token of a trace by itself, on a machine without `tokenizers` and without a network: the file is
looked for where the trace says the tokenizer is, and in Hugging Face's cache. Byte-level and SentencePiece-like
vocabularies are known; a token that is only a part of a character is shown as its bytes. Used by the token view.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

__all__ = ["Vocabulary", "find_tokenizer", "load_vocabulary"]

_MOST_BYTES = 256 << 20
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Vocabulary:
    """Texts by token id."""

    def __init__(self, tokens: dict[int, str], special: Iterable[int], *, byte_level: bool) -> None:
        self._tokens = tokens
        self._byte_level = byte_level
        self.special = frozenset(special)

    def __len__(self) -> int:
        return len(self._tokens)

    def text(self, id: int) -> str | None:
        """What a token says; None for one that is not in the vocabulary."""
        token = self._tokens.get(id)
        if token is None or id in self.special:
            return token
        if self._byte_level:
            table = _byte_table()
            if all(char in table for char in token):
                return _shown(bytes(table[char] for char in token))
            return token
        match = _BYTE.fullmatch(token)
        return _shown(bytes([int(match[1], 16)])) if match else token.replace("\u2581", " ")


def _shown(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in data)


@cache
def _byte_table() -> dict[str, int]:
    """The characters by which byte-level vocabularies write bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


def find_tokenizer(source: str) -> Path | None:
    """The `tokenizer.json` of a folder or of a model in the local cache; None where neither is there."""
    if not source or "\0" in source:
        return None
    direct = Path(source).expanduser()
    for path in (direct / "tokenizer.json", direct):
        if path.name == "tokenizer.json" and path.is_file():
            return path
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", source):
        home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
        hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
        found = sorted(hub.glob(f"models--{source.replace('/', '--')}/snapshots/*/tokenizer.json"))
        if found:
            return found[-1]
    return None


def load_vocabulary(source: str) -> Vocabulary | None:
    """The vocabulary that a trace names; None where it is not on this machine or can't be read."""
    try:
        path = find_tokenizer(source)
        if path is None:
            return None
        status = path.stat()
        return _load(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, TypeError, KeyError, IndexError, RuntimeError, OverflowError, AttributeError):
        return None


@lru_cache(maxsize=4)
def _load(path: Path, _changed: int, size: int) -> Vocabulary:
    if size > _MOST_BYTES:
        raise ValueError(f"{path} has {size} bytes")
    value = json.loads(path.read_bytes())
    model = value["model"]
    vocab = model["vocab"]
    tokens: dict[int, str]
    if isinstance(vocab, dict):
        tokens = {int(id): str(token) for token, id in vocab.items()}
    else:
        tokens = {number: str(entry[0]) for number, entry in enumerate(vocab)}
    special = []
    for added in value.get("added_tokens") or ():
        tokens[int(added["id"])] = str(added["content"])
        special.append(int(added["id"]))
    return Vocabulary(tokens, special, byte_level=_names_byte_level(value))


def _names_byte_level(value: Any) -> bool:
    parts = json.dumps([value.get("decoder"), value.get("pre_tokenizer")])
    return '"ByteLevel"' in parts
