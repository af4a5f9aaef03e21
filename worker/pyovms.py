"""The API for Python nodes of graphs.

A handler file has a class of this form:

    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):      # optional; a dict with node_name, input_names, output_names, base_path
            ...

        def execute(self, inputs):         # a list of Tensor; may also take `session`, see Session
            return [Tensor("output", bytes(inputs[0]))]

        def finalize(self):                # optional
            ...

execute() returns a list of tensors; each one goes to the output stream with the tensor's name. In a node with LOOPBACK,
execute() is a generator of such lists. Executions of one node may overlap, in several threads.
"""

from _braid_worker import OvmsTensor as Tensor

__all__ = ["Session", "Tensor"]


class Session:
    """A node's state for one run of its graph: one unary request, or one stream. You can set any attributes. An
    execute() whose second parameter is named `session` receives the same object in each execution of the run. A method
    end_session(self, session) is called at the end of the run."""

    def __init__(self, id: int, parameters: dict):
        self.id = id
        self.parameters = parameters  # of the request that started the run

    def __repr__(self) -> str:
        return f"Session(id={self.id!r}, parameters={self.parameters!r})"
