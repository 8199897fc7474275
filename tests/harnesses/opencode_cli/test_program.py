"""What OpenCode is told of the model, without running it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from envkit.deadline import Deadline
from envkit.harness import SessionContext
from envkit.harnesses.opencode_cli import OpenCodeCliHarness
from envkit.policy.chat import ChatPolicy
from envkit.proxy import SOCKET


def told(vision: bool | None, context_vision: bool) -> dict[str, Any]:
    harness = OpenCodeCliHarness(vision=vision, context_limit=9000)
    sandbox: Any = SimpleNamespace(spec=SimpleNamespace(sockets={SOCKET: "/tmp/model.sock"}))
    step: Any = SimpleNamespace(instruction="Go.")
    context = SessionContext(Deadline.never(), vision=context_vision)
    session = harness.session(SimpleNamespace(), step, sandbox, context)  # type: ignore[arg-type]
    environment = session._program._environment("http://127.0.0.1:1", "key")  # type: ignore[attr-defined]
    model: dict[str, Any] = json.loads(environment["OPENCODE_CONFIG_CONTENT"])["provider"]["envkit"]["models"]["policy"]
    assert model["limit"]["context"] == 9000
    return model


@pytest.mark.parametrize(
    ("option", "policy", "sees"), [(None, True, True), (None, False, False), (False, True, False), (True, False, True)]
)
def test_pictures_are_an_input_where_the_policy_or_the_option_says_so(
    option: bool | None, policy: bool, sees: bool
) -> None:
    model = told(option, policy)
    assert ("image" in model.get("modalities", {}).get("input", ())) is sees
    assert model.get("attachment", False) is sees


def test_a_chat_policy_says_whether_its_model_sees() -> None:
    assert ChatPolicy(model="m", base_url="http://127.0.0.1:1/v1", vision=True).vision
    assert not ChatPolicy(model="m", base_url="http://127.0.0.1:1/v1").vision
