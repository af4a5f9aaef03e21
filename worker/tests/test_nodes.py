"""Python nodes of graphs: loading them, what execute() returns, and what it must not."""

from nodes_harness import array_of, fp32, node, write_handler
from worker_harness import wait_for

ECHO = """
    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", tensor.data, tensor.shape, tensor.datatype) for tensor in inputs]
"""


def test_a_list_goes_to_the_outputs_of_its_names(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def execute(self, inputs):
                a, b = (np.asarray(tensor) for tensor in inputs)
                return [Tensor("difference", a - b), Tensor("sum", a + b)]
        """,
        inputs=("a", "b"),
        outputs=("sum", "difference"),
    )
    assert running.loaded["wants_sessions"] is False
    step = running.run([fp32("a", [[1, 2]]), fp32("b", [[10, 20]])])
    assert step["kind"] == "list"
    assert [output[0] for output in step["outputs"]] == ["difference", "sum"]
    assert array_of(step["outputs"][0]) == [[-9, -18]]
    assert array_of(step["outputs"][1]) == [[11, 22]]
    running.worker.finalize()
    assert running.worker.wait() == 0
