"""Which model judges, with which keys, how hard it is tried, and how much it is shown.

The operator's choice, not a task's: a TOML file that `$ENVKIT_JUDGE` names.

```toml
model = "judge-model"
base_url = "https://llm.example/v1"
api_key_env = ["JUDGE_KEY_1", "JUDGE_KEY_2"]
votes = 3
```
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from envkit.failure import Boundary, FailureKind, UserError, did_you_mean
from envkit.home import envkit_home
from envkit.policy.chat_options import ChatOptions
from envkit.policy.options import describe_faults

__all__ = ["CONFIG_VARIABLE", "JudgeConfig", "load_judge_config", "operator_config"]

#: The environment variable that names the judge's configuration file.
CONFIG_VARIABLE = "ENVKIT_JUDGE"

#: Options of the chat policy that mean nothing here.
_NOT_OURS = frozenset({"rotate", "send_seed", "send_reasoning", "max_retries", "call_budget_s", "context_limit"})


class JudgeConfig(ChatOptions):
    """The judge's options. Model, address, keys, headers, sampling, prices and time limits of one request are those of
    the chat policy (`ChatOptions`); the rest is:

    Attributes:
        votes: How many times a criterion is judged, odd. The majority decides, and nobody is asked once it stands;
            a score is the median. Give several votes a temperature above 0.
        structured: How the form of the answer is demanded: `json_schema`, `json_object`, `none`, or `auto`, which
            takes the first of them that the endpoint accepts.
        max_concurrency: Requests in flight per key.
        requests_per_minute: Requests per key, in this process.
        max_attempts: Requests for one criterion, over all votes, retries and rate limits together.
        budget_s: Seconds for one criterion, from its first request on, with all waiting.
        artifact_tokens: How much of the agent's work is shown with a criterion, in (estimated) tokens.
        max_artifacts: How many files.
        cache, cache_dir: Keep verdicts by content; where. Default: `judge/` in envkit's home.
    """

    temperature: float | None = Field(default=0.0, ge=0)
    max_tokens: int | None = Field(default=4096, ge=64)
    read_timeout_s: float = Field(default=180.0, gt=0)
    request_timeout_s: float = Field(default=240.0, gt=0)
    max_response_mb: int = Field(default=4, ge=1)
    votes: int = Field(default=1, ge=1, le=25)
    structured: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    max_concurrency: int = Field(default=8, ge=1, le=512)
    requests_per_minute: float | None = Field(default=None, gt=0)
    max_attempts: int = Field(default=24, ge=1)
    budget_s: float = Field(default=600.0, gt=0)
    artifact_tokens: int = Field(default=60_000, ge=500)
    max_artifacts: int = Field(default=60, ge=1, le=1000)
    cache: bool = True
    cache_dir: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _judges_only(cls, value: Any) -> Any:
        taken = sorted(_NOT_OURS & set(value)) if isinstance(value, dict) else []
        if taken:
            known = tuple(name for name in cls.model_fields if name not in _NOT_OURS)
            raise ValueError(f"{taken[0]} is no option of the judge{did_you_mean(taken[0], known)}")
        return value

    @field_validator("votes")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("expected an odd number, so that there is a majority")
        return value

    @field_validator("extra_body")
    @classmethod
    def _form_is_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "response_format" in value:
            raise ValueError("response_format can't be set here; use structured")
        return value

    def cache_folder(self) -> Path:
        return self.cache_dir if self.cache_dir is not None else envkit_home() / "judge"


def load_judge_config(path: Path) -> JudgeConfig:
    """Reads a configuration file. A relative `api_key_file` or `cache_dir` counts from its folder.

    Raises:
        UserError: It can't be read, or has an unknown option (with the nearest known one) or a bad value.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(f"the judge's configuration {path} can't be read: {error}") from error
    for name in ("api_key_file", "cache_dir"):
        if isinstance(data.get(name), str):
            data[name] = path.parent / Path(data[name]).expanduser()
    try:
        return JudgeConfig.model_validate(data)
    except ValidationError as error:
        shown = describe_faults(error, JudgeConfig)
        raise _refused(f"the judge's configuration {path} is refused: {shown}") from None


def operator_config(host: Mapping[str, str] = os.environ) -> JudgeConfig:
    """The configuration that `$ENVKIT_JUDGE` names. Raises `UserError`, also where there is none."""
    named = host.get(CONFIG_VARIABLE, "").strip()
    if not named:
        raise _refused(
            f"the task has criteria for a judge, but none is configured: write a TOML file with model, base_url and "
            f"api_key_env, and name it in {CONFIG_VARIABLE}"
        )
    return load_judge_config(Path(named).expanduser())


def _refused(message: str) -> UserError:
    return UserError(message, kind=FailureKind.JUDGE_UNREACHABLE, boundary=Boundary.JUDGE)
