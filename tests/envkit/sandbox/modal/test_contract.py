"""The Modal provider keeps the contract that every provider is held to, against our fake of the control plane."""

from typing import Any

import pytest

from envkit.sandbox.contract.test_contract import *  # noqa: F403

# Modal's own service bounds these, and our provider promises nothing of them: see its capabilities.
del test_a_memory_bomb_is_killed_and_named, test_a_full_disk_is_an_error_and_nothing_else  # noqa: F821

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def envkit_provider(service: Any) -> str:
    return "modal:image=python:3.11-slim-bookworm"
