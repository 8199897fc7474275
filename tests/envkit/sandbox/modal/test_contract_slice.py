"""A slice of the contract for every day; all of it is among the slow tests."""

from typing import Any

import pytest

from envkit.sandbox.contract.calls import test_values_come_back_as_they_went  # noqa: F401
from envkit.sandbox.contract.commands import test_exit_codes_are_reported, test_stdin_is_fed_and_closed  # noqa: F401
from envkit.sandbox.contract.files import test_an_upload_places_what_the_tar_holds  # noqa: F401
from envkit.sandbox.contract.life import (
    test_a_stop_ends_what_waits_with_sandbox_died,  # noqa: F401
    test_every_sandbox_starts_empty,  # noqa: F401
)
from envkit.sandbox.contract.limits import (
    test_no_privilege_can_be_had,  # noqa: F401
    test_the_supervisor_can_be_neither_read_nor_slowed,  # noqa: F401
)
from envkit.sandbox.contract.trees import (
    test_a_daemon_lives_until_kill_all,  # noqa: F401
    test_a_timeout_kills_setsid_children,  # noqa: F401
    test_kill_everybody_from_inside_ends_only_the_agents,  # noqa: F401
)


@pytest.fixture(scope="module")
def envkit_provider(service: Any) -> str:
    return "modal:image=python:3.11-slim-bookworm"
