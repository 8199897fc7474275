"""The Docker provider keeps the contract that every provider is held to, against a real daemon."""

import os

import pytest

from envkit.sandbox.contract.test_contract import *  # noqa: F403

pytestmark = pytest.mark.docker


@pytest.fixture(scope="session")
def envkit_provider() -> str:
    return f"docker:image={os.environ.get('ENVKIT_TEST_IMAGE', 'envkit/base:test')},pull=never"
