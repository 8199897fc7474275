"""All of the contract, for `pytest --envkit-plan PLAN.toml --pyargs envkit.backend_contract`."""

from envkit.backend_contract.parts import *  # noqa: F403
from envkit.backend_contract.runs import *  # noqa: F403
