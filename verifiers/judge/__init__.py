"""The judge: criteria in words, put to a model behind any OpenAI-compatible endpoint.

`judge_request` is what a verifier calls for the checks of kind `judge`; `judge_criteria` and `judge_all` judge without
a trial. See `docs/judge.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit.verifiers.judge.config import CONFIG_VARIABLE, JudgeConfig, load_judge_config, operator_config
    from envkit.verifiers.judge.judge import JudgeContext, Judged, JudgeRecord, judge_all, judge_criteria
    from envkit.verifiers.judge.render import render_file
    from envkit.verifiers.judge.request import judge_request
    from envkit.verifiers.judge.schema import JudgeCheck

__all__ = [
    "CONFIG_VARIABLE",
    "JudgeCheck",
    "JudgeConfig",
    "JudgeContext",
    "JudgeRecord",
    "Judged",
    "judge_all",
    "judge_criteria",
    "judge_request",
    "load_judge_config",
    "operator_config",
    "render_file",
]

_HOMES = {
    "CONFIG_VARIABLE": "config",
    "JudgeCheck": "schema",
    "JudgeConfig": "config",
    "JudgeContext": "judge",
    "JudgeRecord": "judge",
    "Judged": "judge",
    "judge_all": "judge",
    "judge_criteria": "judge",
    "judge_request": "request",
    "load_judge_config": "config",
    "operator_config": "config",
    "render_file": "render",
}


def __getattr__(name: str) -> Any:
    """Loaded when used: a schema that names the check must not load an HTTP client."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"envkit.verifiers.judge.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
