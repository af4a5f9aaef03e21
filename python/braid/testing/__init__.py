"""Tests of models, graphs and pipelines, on the real server, without clients and addresses.

from braid.testing import load_model

with load_model("models/add_sub") as model:
    outputs = model.execute({"INPUT0": [1.0, 2.0], "INPUT1": [3.0, 4.0]})
    assert outputs["OUTPUT0"].tolist() == [4.0, 6.0]

Each loaded model has a server of its own, as a child process. By default its Python runs in worker processes, as in
production. With `in_process=True` it runs in threads of this process, for breakpoints and coverage.
"""

from braid._client import InferenceError
from braid._server import ServerError
from braid.testing._models import Model, Sequence, load_model, load_node

__all__ = ["InferenceError", "Model", "Sequence", "ServerError", "load_model", "load_node"]
