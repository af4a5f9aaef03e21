"""What the Python nodes of graphs work with.

A handler file has a class of this form:

    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):      # optional; a dict with node_name, input_names, output_names, base_path
            ...

        def execute(self, inputs):         # a list of Tensor; may take `session` too, see Session
            return [Tensor("output", bytes(inputs[0]))]

        def finalize(self):                # optional
            ...

execute() returns a list of tensors, each of which goes to the output stream that has the tensor's name; or, in a
node with LOOPBACK, it is a generator of such lists. Executions of one node may overlap, in several threads.
"""

from _braid_worker import OvmsTensor as Tensor

__all__ = ["Session", "Tensor"]


class Session:
    """What a node keeps for one run of its graph: one unary request, or one stream of them. Attributes can be set
    freely. Given to an execute() whose second parameter is called `session`, the same object in each execution of
    the run; a method end_session(self, session) is called when the run has ended."""

    def __init__(self, id: int, parameters: dict):
        self.id = id
        self.parameters = parameters  # of the request that began the run

    def __repr__(self) -> str:
        return f"Session(id={self.id!r}, parameters={self.parameters!r})"
