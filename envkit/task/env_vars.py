"""Environment values: `${VAR}` and `${VAR:-default}` taken from the host, by an explicit call, into a guarded map.

Task files hold templates, never secrets. `resolve_env` reads the host's variables at the moment somebody asks for
them; what it returns behaves as a mapping, but its values appear in no repr, no pydantic dump, no pickle. The values
that came from the host are listed in `secret_values` for whoever scrubs logs.

As in Harbor, a template is the *whole* value: `${TOKEN}` is replaced, `Bearer ${TOKEN}` in an env map is literal text.
A variable that is set but empty counts as set. In MCP headers (`resolve_headers`) templates may stand inside the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from envkit.failure import UserError

__all__ = ["SecretMap", "check_headers", "resolve_env", "resolve_headers"]

_WHOLE = re.compile(r"\$\{(?P<name>[^}:]+)(:-(?P<default>.*))?\}")
_INSIDE = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)(:-(?P<default>[^}]*))?\}", re.ASCII)
_CREDENTIAL_NAME = re.compile(r"key|secret|token(?!s)|password|credential|auth", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_REFERENCE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}"
_ONLY_REFERENCES = re.compile(rf"\s*([A-Za-z]+\s+)?{_REFERENCE}([\s:-]*{_REFERENCE})*\s*")
#: Values too common to be a secret; blanking them would blank half of every log.
_FLAGS = frozenset({"true", "false", "yes", "no", "none", "null", "on", "off"})
_MIN_SECRET_CHARS = 4


class SecretMap(Mapping[str, str]):
    """A mapping whose values are shown to nobody who does not ask for one by its key.

    Attributes:
        secret_values: The values to remove from logs and results: those that came from the host, without flags such as
            `true` and values shorter than four characters.
    """

    __slots__ = ("_values", "secret_values")

    def __init__(self, values: Mapping[str, str] | None = None, secret_values: frozenset[str] = frozenset()) -> None:
        self._values = dict(values or {})
        self.secret_values = secret_values

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretMap({', '.join(f'{key}=***' for key in self._values)})"

    def __copy__(self) -> SecretMap:
        return self

    def __deepcopy__(self, memo: object) -> SecretMap:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a SecretMap is not pickled: its values would reach a file or pipe; resolve them where needed")

    def union(self, other: SecretMap) -> SecretMap:
        """Both maps in one; `other` wins."""
        return SecretMap({**self._values, **other._values}, self.secret_values | other.secret_values)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: dict.fromkeys(value, "***")),
        )


def resolve_env(env: Mapping[str, str], host: Mapping[str, str], *, where: str = "env") -> SecretMap:
    """Replaces the templates of an env map by the host's values.

    Args:
        env: Names to literal values or templates.
        host: Usually `os.environ`.
        where: What the map is, for messages: "[verifier.env] of office/q3-memo".

    Raises:
        UserError: A variable without a default is not set on the host, or a name or value is none that any process
            can be given.
    """
    resolved: dict[str, str] = {}
    secrets: set[str] = set()
    for key, value in env.items():
        if not key or "=" in key or "\0" in key:
            raise UserError(f"{where}: {key!r} can't be a variable's name; expected a name without '=' and NUL")
        if "\0" in value:
            raise UserError(f"{where}: the value of {key!r} has a NUL character, which no variable can hold; remove it")
        template = _WHOLE.fullmatch(value)
        if template is None:
            resolved[key] = value
            continue
        name, default = template["name"], template["default"]
        if name in host:
            resolved[key] = host[name]
            secrets |= _secret(host[name])
        elif default is not None:
            resolved[key] = default
        else:
            raise _missing(name, key, where)
    return SecretMap(resolved, frozenset(secrets))


def resolve_headers(headers: Mapping[str, str], host: Mapping[str, str], *, where: str = "headers") -> SecretMap:
    """Replaces templates inside the values of an MCP server's HTTP headers. Raises as `resolve_env`."""
    resolved: dict[str, str] = {}
    secrets: set[str] = set()
    for key, value in headers.items():

        def fill(match: re.Match[str], key: str = key) -> str:
            name, default = match["name"], match["default"]
            if name in host:
                secrets.update(_secret(host[name]))
                return host[name]
            if default is None:
                raise _missing(name, key, where)
            return str(default)

        resolved[key] = _INSIDE.sub(fill, value)
    return SecretMap(resolved, frozenset(secrets))


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises `ValueError` for a header that can't be sent or that holds a credential in plain text."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of an HTTP header")
        if "\r" in value or "\n" in value:
            raise ValueError(f"header {name!r} contains a line break")
        templates = list(_INSIDE.finditer(value))
        if "${" in _INSIDE.sub(" ", value) or any("${" in (match["default"] or "") for match in templates):
            raise ValueError(f"header {name!r}: a '${{' that begins no ${{VAR}} or ${{VAR:-default}}")
        carries = _CREDENTIAL_NAME.search(name) is not None or name.lower() in ("cookie", "set-cookie")
        literal_default = any(
            match["default"] and (carries or _CREDENTIAL_NAME.search(match["name"])) for match in templates
        )
        if literal_default or (carries and value.strip() and not _ONLY_REFERENCES.fullmatch(value)):
            raise ValueError(
                f"header {name!r} carries a credential in plain text; refer to a host variable without default "
                "instead, as in 'Bearer ${TOKEN}'"
            )


def _secret(value: str) -> set[str]:
    return set() if len(value) < _MIN_SECRET_CHARS or value.lower() in _FLAGS else {value}


def _missing(name: str, key: str, where: str) -> UserError:
    return UserError(
        f"{where}: {key} needs the host's environment variable {name}, which is not set; "
        f"set it, or give a default in the task: ${{{name}:-...}}"
    )
