"""Braid from Python: a server as a child process, for tests, notebooks and programs.

import braid

with braid.Server("models") as server:
    outputs = server.infer("add_sub", {"INPUT0": a, "INPUT1": b})
"""

from braid._client import InferenceError
from braid._server import Server, ServerError

__all__ = ["InferenceError", "Server", "ServerError"]
