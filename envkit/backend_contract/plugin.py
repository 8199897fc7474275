"""The pytest plugin: the option `--envkit-plan` and the fixture that every test of the contract takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from envkit.backend_contract.under_test import BackendUnderTest

pytest.register_assert_rewrite("envkit.backend_contract.runs", "envkit.backend_contract.parts")


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("envkit").addoption(
        "--envkit-plan",
        metavar="PLAN.toml",
        help="the plan whose backend `--pyargs envkit.backend_contract` tests; it names a small model",
    )


@pytest.fixture(scope="session")
def envkit_plan(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The plan's table; override it in a module that imports the suite."""
    import tomllib

    name = request.config.getoption("--envkit-plan")
    if name is None:
        pytest.fail("give the plan of the backend under test: --envkit-plan PLAN.toml")
    return tomllib.loads(Path(str(name)).read_text(encoding="utf-8"))


@pytest.fixture
def backend_under_test(envkit_plan: dict[str, Any], tmp_path: Path) -> BackendUnderTest:
    """The backend, with a plan of few and small steps."""
    from envkit.backend_contract.under_test import BackendUnderTest

    return BackendUnderTest(envkit_plan, tmp_path)
