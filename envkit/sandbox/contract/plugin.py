"""The pytest plugin: the option `--envkit-provider` and the fixture that every test of the contract takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from envkit.sandbox.contract.under_test import Contract

pytest.register_assert_rewrite("envkit.sandbox.contract")


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("envkit").addoption(
        "--envkit-provider",
        metavar="NAME[:k=v,...]",
        help="the sandbox provider that `--pyargs envkit.sandbox.contract` tests; default: local",
    )


@pytest.fixture(scope="session")
def envkit_provider(request: pytest.FixtureRequest) -> str:
    """The provider under test, as on the command line; override it in a module that imports the suite."""
    return str(request.config.getoption("--envkit-provider") or "local")


@pytest.fixture
def contract(envkit_provider: str) -> Contract:
    """The provider under test, and sandboxes of it."""
    from envkit.sandbox.contract.under_test import Contract

    return Contract(envkit_provider)
