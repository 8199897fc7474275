"""The model proxy: a black-box agent's model requests as observations, and our replies as its answers.

`Door` is one trial's end of it (what a session of a black-box harness holds), `ModelProxy` serves doors over HTTP in
three dialects (Chat Completions, Responses, Anthropic Messages), on a unix socket or a loopback port. All of them give
the same observations, so that any policy answers them, and the token policy records the same trace for all three.
"""

from envkit.proxy.blackbox import SOCKET, BlackBoxSession, Program
from envkit.proxy.dialect import BadRequest, ModelRequest
from envkit.proxy.door import Closed, Door
from envkit.proxy.guard import guarded
from envkit.proxy.server import ModelProxy
from envkit.proxy.threads import ThreadBook, looks_like_side_call

__all__ = [
    "SOCKET",
    "BadRequest",
    "BlackBoxSession",
    "Closed",
    "Door",
    "ModelProxy",
    "ModelRequest",
    "Program",
    "ThreadBook",
    "guarded",
    "looks_like_side_call",
]
