"""All of the contract, for `pytest --envkit-provider NAME --pyargs envkit.sandbox.contract`."""

from envkit.sandbox.contract.calls import *  # noqa: F403
from envkit.sandbox.contract.commands import *  # noqa: F403
from envkit.sandbox.contract.files import *  # noqa: F403
from envkit.sandbox.contract.life import *  # noqa: F403
from envkit.sandbox.contract.limits import *  # noqa: F403
from envkit.sandbox.contract.trees import *  # noqa: F403
