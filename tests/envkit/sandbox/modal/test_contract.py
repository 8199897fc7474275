"""The Modal provider keeps the contract that every provider is held to, against our fake of the control plane."""

from typing import Any

import pytest

from envkit.sandbox.contract.test_contract import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def envkit_provider(service: Any) -> str:
    return "modal:image=python:3.11-slim-bookworm"
