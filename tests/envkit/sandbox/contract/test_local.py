"""The local provider keeps the contract that every provider is held to."""

import pytest

from envkit.sandbox.contract.test_contract import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def envkit_provider() -> str:
    return "local:office=false"
