"""Which variables trials on other machines get: those that their options name, and no others."""

from __future__ import annotations

import pytest

from envkit.trial.ray_executor import environment_of
from envkit.trial.result import Plugin, TrialSpec


def test_variables_that_options_name_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY", "FIRST", "SECOND", "ALSO", "OTHER", "ENVKIT_OWN", "ENVKIT_HOME"):
        monkeypatch.setenv(name, name.lower())
    monkeypatch.delenv("UNSET", raising=False)
    # A training run's policy says `api_key_env: None` where its engines want no key.
    options = [{"api_key_env": None}, {"api_key_env": "KEY", "secrets_env": ["FIRST", "SECOND", "UNSET"]}]
    specs = [TrialSpec(task="office/a", policy=Plugin(name="token", options=one)) for one in options]
    found = environment_of(specs, ["ALSO"])
    assert {k: v for k, v in found.items() if not k.startswith("ENVKIT_")} == {
        "ALSO": "also", "FIRST": "first", "KEY": "key", "SECOND": "second",
    }  # fmt: skip
    assert found["ENVKIT_OWN"] == "envkit_own"
    assert "ENVKIT_HOME" not in found
