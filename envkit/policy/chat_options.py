"""The options of the `chat` policy: which model, where, with which keys, how it samples, how long things may take."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["OPENAI_URL", "ChatOptions", "Prices"]

OPENAI_URL = "https://api.openai.com/v1"

_CREDENTIAL_HEADER = re.compile(r"key|secret|token|password|credential|auth|cookie", re.IGNORECASE)
_REFERENCE = re.compile(r"([A-Za-z]+\s+)?\$\{\w+\}")
#: What the policy itself puts into a request; `extra_body` may not.
_OWN_KEYS = frozenset({"model", "messages", "tools", "temperature", "top_p", "stream", "n"})


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class Prices(_Strict):
    """What tokens cost, in USD per million. `cached` is the price of cached prompt tokens; the full one if None."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)


class ChatOptions(_Strict):
    """Options of `ChatPolicy`.

    Attributes:
        model: The model's name as the endpoint knows it.
        base_url: Up to and without `/chat/completions`. Default: $OPENAI_BASE_URL, else OpenAI's.
        api_key_env: Names of environment variables that hold keys. Default: OPENAI_API_KEY at the default address, no
            key at any other, so that a key never goes where nobody sent it.
        api_key_file: A file with further keys, one a line.
        rotate: When the next key is used: only when one is limited or refused (`on_limit`), or `every_request`.
        headers: Further HTTP headers; a credential must be a reference to a variable, like `${MY_TOKEN}`.
        temperature, top_p, max_tokens: Sent when given. max_tokens bounds one turn.
        max_tokens_field: Its name in the request; some models know only `max_completion_tokens`.
        send_seed: Send the trial's seed.
        send_reasoning: Send a turn's reasoning back in later turns, as some models need it between tool calls.
        vision: The model sees: images that tools return are sent to it. Without, the text says that they are left out.
        extra_body: Further fields of the request.
        context_limit: The model's context in tokens, where known; enables the context nudge and tells a full context
            from a turn that ran into max_tokens.
        prices: For the cost, where the endpoint does not state it.
        max_retries: Further tries after a broken connection, a timeout, 408, 409, 5xx or an answer that is none.
        call_budget_s: For one turn with all its waiting and retries; cut from the trial's deadline in any case.
        connect_timeout_s, read_timeout_s, request_timeout_s: Until connected; longest silence; one whole request.
        first_delay_s, longest_delay_s: Between tries; doubles from the first to the second, with jitter.
        max_response_mb: The largest answer that is read.
    """

    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: tuple[str, ...] | None = None
    api_key_file: Path | None = None
    rotate: Literal["on_limit", "every_request"] = "on_limit"
    headers: dict[str, str] = {}
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_seed: bool = False
    send_reasoning: bool = False
    vision: bool = False
    extra_body: dict[str, Any] = {}
    context_limit: int | None = Field(default=None, ge=1)
    prices: Prices | None = None
    max_retries: int = Field(default=6, ge=0)
    call_budget_s: float = Field(default=1800.0, gt=0)
    connect_timeout_s: float = Field(default=15.0, gt=0)
    read_timeout_s: float = Field(default=600.0, gt=0)
    request_timeout_s: float = Field(default=900.0, gt=0)
    first_delay_s: float = Field(default=0.5, gt=0)
    longest_delay_s: float = Field(default=30.0, gt=0)
    max_response_mb: int = Field(default=32, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _no_literal_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "api_key" in value:
            raise ValueError(
                "api_key is no option, because options are kept with the results: name the environment variable that "
                "holds the key in api_key_env, or a file in api_key_file"
            )
        return value

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """On the command line, several names are one text with commas."""
        if isinstance(value, str):
            value = tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, (list, tuple)):
            for name in value:
                if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                    raise ValueError("expected names of environment variables, not keys")
        return value

    @field_validator("base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("expected a URL like http://localhost:8000/v1")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL with a user name or password would be kept with the results; use headers")
        if parts.query or parts.fragment:
            raise ValueError("expected a URL without '?' or '#'; it ends before /chat/completions")
        return value.rstrip("/").removesuffix("/chat/completions")

    @field_validator("headers")
    @classmethod
    def _references(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not text.isprintable() or not text.isascii():
                raise ValueError(f"header {name!r} can't be sent")
            if _CREDENTIAL_HEADER.search(name) and not _REFERENCE.fullmatch(text):
                raise ValueError(f"header {name!r} carries a credential; refer to a variable, like 'Bearer ${{TOKEN}}'")
        return value

    @field_validator("extra_body")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(_OWN_KEYS & set(value))
        if taken:
            raise ValueError(f"{', '.join(taken)} can't be set here; it is the policy's own or an option of that name")
        return value

    @property
    def address(self) -> str:
        """The base URL in force."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL", "").rstrip("/") or OPENAI_URL

    @property
    def key_names(self) -> tuple[str, ...]:
        """The environment variables whose keys are used."""
        if self.api_key_env is not None:
            return self.api_key_env
        return ("OPENAI_API_KEY",) if self.base_url is None and self.api_key_file is None else ()
