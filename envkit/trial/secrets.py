"""Which values of the host must never be in a run's files: those that the environment and the options name as secret.

A value counts as secret by the name it goes under (`..._API_KEY`, `HF_TOKEN`, `password`), in the environment of the
process and anywhere in a trial's options; a plug-in may name more in an attribute `secrets`. `envkit.scrub` then finds
them in every form in which they travel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from envkit.scrub import MIN_SECRET_CHARS, Scrubber

__all__ = ["is_secret_name", "scrubber"]

_NAME = re.compile(
    r"(^|_|-)(api_?-?keys?|keys?|tokens?|secrets?|passwords?|passwd|pwd|credentials?|bearer|authorization)($|_|-)",
    re.IGNORECASE,
)
#: Names that match and hold no secret: counts, paths, switches.
_HARMLESS = re.compile(
    r"(max|min|num|n|total|prompt|completion|context|stop|pad|eos|bos)_?-?tokens?|public|_(path|file|dir|name|url|id|env)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret."""
    return bool(_NAME.search(name)) and not _HARMLESS.search(name) and name not in ("PWD", "OLDPWD")


def scrubber(*options: Mapping[str, Any], more: Iterable[str] = ()) -> Scrubber:
    """A scrubber for the secrets of this process's environment, of `options`, and `more`.

    Values too short to be told from ordinary text are left out in silence where only a name suggests them.
    """
    found = {value for name, value in os.environ.items() if is_secret_name(name)}
    for mapping in options:
        found.update(_within(mapping))
    found.update(more)
    return Scrubber(value for value in found if len(value.strip()) >= MIN_SECRET_CHARS)


def _within(value: Any, secret: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _within(inner, secret or (isinstance(key, str) and is_secret_name(key)))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _within(inner, secret)
    elif secret and isinstance(value, str) and not re.fullmatch(r"\$\{[^}]*\}", value):
        yield value
