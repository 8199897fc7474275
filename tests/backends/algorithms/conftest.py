"""Losses need torch (`make test-torch`), those against SkyRL an environment of their own (`make test-oracle`)."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore = (
    [] if find_spec("torch") else ["test_losses.py", "test_logprobs.py", "test_objective.py", "test_cuts.py"]
)
if not find_spec("skyrl"):
    collect_ignore.append("test_oracle.py")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors here are tiny: more threads would only wait for each other, on a busy machine for seconds."""
    if not find_spec("torch"):
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
