"""Losses need torch (`make test-torch`), those against SkyRL an environment of their own (`make test-oracle`)."""

from importlib.util import find_spec

import pytest

collect_ignore = (
    [] if find_spec("torch") else ["test_losses.py", "test_logprobs.py", "test_objective.py", "test_cuts.py"]
)
if not find_spec("skyrl"):
    collect_ignore.append("test_oracle.py")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tensors here are tiny: more threads would only wait for each other, on a busy machine for seconds."""
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
