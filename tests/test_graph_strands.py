"""Graphs and all other servables call one another: OpenVINO and Triton models, pipelines, graphs, BLS scripts."""

import json

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import openvino_models as models
from harness.graphs import Stream, boundary, config, python_node, single, tensor, write_graph
from harness.ovms import OvmsServer
from harness.repository import Repository
from harness.repository import config as triton_config
from harness.server import Server
from tritonclient.utils import InferenceServerException

SESSION = """
node {{
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:{name}"
  node_options: {{ [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {{
    servable_name: "{servable}" {version} }} }}
}}
"""
INFERENCE = """
node {{
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:{name}"
  input_stream: "IN:{before}"
  output_stream: "OUT:{after}"
  node_options: {{ [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {{
    tag_to_input_tensor_names {{ key: "IN" value: "{tensor_in}" }}
    tag_to_output_tensor_names {{ key: "OUT" value: "{tensor_out}" }} }} }}
}}
"""


def step(name, servable, before, after, tensor_in, tensor_out, version=""):
    version = f'servable_version: "{version}"' if version else ""
    return SESSION.format(name=name, servable=servable, version=version) + INFERENCE.format(
        name=name, before=before, after=after, tensor_in=tensor_in, tensor_out=tensor_out
    )


def asks(folder, name, servable, tensor_in, tensor_out, **more):
    """Returns a graph that passes its input to a servable, and returns its output."""
    text = 'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n'
    return write_graph(folder, name, text + step("s", servable, "in", "out", tensor_in, tensor_out, **more))


PIPELINE = {
    "name": "dag",
    "inputs": ["b"],
    "nodes": [
        {
            "name": "n",
            "type": "DL model",
            "model_name": "plus",
            "inputs": [{"b": {"node_name": "request", "data_item": "b"}}],
            "outputs": [{"data_item": "a", "alias": "sum"}],
        }
    ],
    "outputs": [{"result": {"node_name": "n", "data_item": "sum"}}],
}

TRIPLE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", 3 * pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]
            )
            for r in requests
        ]
"""

BLS = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            call = pb_utils.InferenceRequest(
                model_name="python_plus", requested_output_names=["out"], inputs=[pb_utils.Tensor("in", value)]
            )
            answer = call.exec()
            if answer.has_error():
                responses.append(pb_utils.InferenceResponse(error=answer.error()))
            else:
                responses.append(
                    pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer.output_tensors()[0].as_numpy())])
                )
        return responses
"""

# A model with one instance calls a graph, whose node calls the model.
ROUND = BLS.replace("python_plus", "asks_round")
ASKS = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            value = np.array(inputs[0])
            name, given, wanted = "{model}", "{given}", "{wanted}"
            if name == "descends" and value.ravel()[0] <= 0:
                return [Tensor("out", value)]
            call = pb_utils.InferenceRequest(
                model_name=name, requested_output_names=[wanted], inputs=[pb_utils.Tensor(given, value - 1)]
            )
            answer = call.exec()
            if answer.has_error():
                raise RuntimeError(answer.error().message())
            return [Tensor("out", answer.output_tensors()[0].as_numpy() + 10)]
"""

PYTHON_PLUS = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            value = np.array(inputs[0])
            if value.ravel()[0] < 0:
                raise ValueError("below zero")
            return [Tensor("out", value + 100)]
"""

CALLS_OUT = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            call = pb_utils.InferenceRequest(
                model_name="triple", requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", np.array(inputs[0]))],
            )
            answer = call.exec()
            if answer.has_error():
                raise RuntimeError(answer.error().message())
            return [Tensor("out", answer.output_tensors()[0].as_numpy())]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strands")
    repository = Repository(folder / "triton")
    shape = [("IN", "FP32", [1, 10])], [("OUT", "FP32", [1, 10])]
    repository.add("triple", TRIPLE, triton_config("triple", *shape))
    repository.add("bls", BLS, triton_config("bls", *shape))
    repository.add("round", ROUND, triton_config("round", *shape))
    models.save(models.add(), folder / "plus")
    converter = (
        'node {{ calculator: "PyTensorOvTensorConverterCalculator" input_stream: "{0}" output_stream: "{1}" node_options: {{ '
        "[type.googleapis.com / mediapipe.PyTensorOvTensorConverterCalculatorOptions]: {{ tag_to_output_tensor_names "
        '{{ key: "OVMS_PY_TENSOR" value: "out" }} }} }} }}\n'
    )
    around = (
        'input_stream: "OVMS_PY_TENSOR:in"\noutput_stream: "OVMS_PY_TENSOR:out"\n'
        + converter.format("OVMS_PY_TENSOR:in", "OVTENSOR:a")
        + step("first", "plus", "a", "b", "b", "a")
        + step("second", "triple", "b", "c", "IN", "OUT")
        + step("third", "dag", "c", "d", "b", "result")
        + converter.format("OVTENSOR:d", "OVMS_PY_TENSOR:out")
    )
    graphs = [
        single(folder, "python_plus", PYTHON_PLUS),
        single(folder, "calls_out", CALLS_OUT),
        single(folder, "asks_round", ASKS.format(model="round", given="IN", wanted="OUT")),
        single(folder, "descends", ASKS.format(model="descends", given="in", wanted="out")),
        asks(folder, "to_model", "plus", "b", "a"),
        asks(folder, "to_version", "plus", "b", "a", version="1"),
        asks(folder, "to_other_version", "plus", "b", "a", version="9"),
        asks(folder, "to_triton", "triple", "IN", "OUT"),
        asks(folder, "to_pipeline", "dag", "b", "result"),
        asks(folder, "to_graph", "to_model", "in", "out"),
        asks(folder, "to_python", "python_plus", "in", "out"),
        asks(folder, "to_nobody", "nobody", "b", "a"),
        asks(folder, "to_itself", "to_itself", "in", "out"),
        asks(folder, "to_there", "and_back", "in", "out"),
        asks(folder, "and_back", "to_there", "in", "out"),
        asks(folder, "wrong_output", "plus", "b", "not_there"),
        write_graph(folder, "around", around),
    ]
    path = folder / "config.json"
    entries = config(*graphs, models=[models.entry("plus", folder / "plus")], pipeline_config_list=[PIPELINE])
    path.write_text(json.dumps(entries))
    with Server([repository.path], "--config_path", path, workdir=folder) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


VALUE = np.arange(10, dtype=np.float32).reshape(1, 10)


def ask(client, graph, name="in", value=VALUE, output="out"):
    return client.infer(graph, [tensor(name, value)]).as_numpy(output)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("to_model", VALUE + 1),
        ("to_version", VALUE + 1),
        ("to_triton", 3 * VALUE),
        ("to_pipeline", VALUE + 1),
        ("to_graph", VALUE + 1),
        ("to_python", VALUE + 100),
        ("calls_out", 3 * VALUE),
        ("around", 3 * (VALUE + 1) + 1),
    ],
)
def test_a_graph_asks_any_servable(client, server, graph, expected):
    np.testing.assert_array_equal(ask(client, graph), expected)
    with Stream(server.grpc, graph) as stream:
        for i in range(20):
            stream.send(**{"in": VALUE + i})
        for i in range(20):
            _, value, at = stream.receive()
            assert at == i
            np.testing.assert_array_equal(value, ask(client, graph, value=VALUE + i) if i % 10 == 0 else value)


def test_a_bls_script_calls_a_graph(client):
    np.testing.assert_array_equal(ask(client, "bls", "IN", output="OUT"), VALUE + 100)
    with pytest.raises(InferenceServerException, match="ValueError: below zero"):
        ask(client, "bls", "IN", VALUE - 5, "OUT")


@pytest.mark.parametrize("graph", ["to_nobody", "to_other_version"])
def test_a_servable_that_is_not_there(client, graph):
    with pytest.raises(InferenceServerException) as caught:
        ask(client, graph)
    assert caught.value.status() == "StatusCode.FAILED_PRECONDITION"
    assert "OpenVINOModelServerSessionCalculator failed to load the model" in caught.value.message()


@pytest.mark.parametrize("graph", ["to_itself", "to_there"])
def test_graphs_in_a_circle_end(client, graph):
    with pytest.raises(InferenceServerException) as caught:
        ask(client, graph)
    assert "would wait for itself" in caught.value.message()


def test_a_model_and_a_graph_in_a_circle_end(client):
    with pytest.raises(InferenceServerException) as caught:
        ask(client, "round", "IN", output="OUT")
    assert "round" in caught.value.message()
    assert "asks_round" in caught.value.message()
    # Called alone, the graph ends: no call holds the model's instance.
    with pytest.raises(InferenceServerException, match="wait"):
        ask(client, "asks_round")


def test_user_code_may_call_its_own_graph(client):
    start = np.full((1, 10), 6, np.float32)
    np.testing.assert_array_equal(ask(client, "descends", value=start), np.full((1, 10), 60, np.float32))


def test_what_a_servable_refuses(client, server):
    with pytest.raises(InferenceServerException) as caught:
        ask(client, "to_model", value=np.zeros((1, 9), np.float32))
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b" in caught.value.message()
    with pytest.raises(InferenceServerException, match="not_there"):
        ask(client, "wrong_output")
    stream = Stream(server.grpc, "to_model")
    stream.send(**{"in": np.zeros((1, 9), np.float32)})
    assert "Invalid input shape" in stream.error().message()
    stream.finish()


def test_a_model_that_a_graph_asks_comes_and_goes(tmp_path):
    models.save(models.add(), tmp_path / "plus")
    graph = asks(tmp_path / "graphs", "g", "plus", "b", "a")
    with_model = config(graph, models=[models.entry("plus", tmp_path / "plus")])
    with OvmsServer(with_model, workdir=tmp_path) as server, grpcclient.InferenceServerClient(server.grpc) as client:
        np.testing.assert_array_equal(ask(client, "g"), VALUE + 1)
        server.write_config(config(graph))
        assert server.reload()[0] == 201
        with pytest.raises(InferenceServerException, match="failed to load the model"):
            ask(client, "g")
        server.write_config(with_model)
        assert server.reload()[0] == 201
        np.testing.assert_array_equal(ask(client, "g"), VALUE + 1)


def test_several_instances_of_a_chain(tmp_path):
    """Nodes of one graph in sequence and in parallel, on tensors of a MiB, produce the right output in any order of
    execution."""
    source = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.kwargs = kwargs

        def execute(self, inputs):
            total = sum(np.array(each) for each in inputs)
            return [Tensor(name, total + 1) for name in self.kwargs["output_names"]]
    """
    text = boundary(["in"], ["out"])
    text += python_node("split", ["I:in"], ["A:a", "B:b"])
    text += python_node("left", ["I:a"], ["O:left"]) + python_node("right", ["I:b"], ["O:right"])
    text += python_node("join", ["L:left", "R:right"], ["O:out"])
    entry = write_graph(tmp_path / "graphs", "diamond", text, model=source)
    with OvmsServer(config(entry), workdir=tmp_path) as server:
        with Stream(server.grpc, "diamond") as stream:
            for i in range(40):
                stream.send(**{"in": np.full(1 << 18, i, np.float32)})
            for i in range(40):
                _, value, at = stream.receive()
                assert at == i
                assert value.shape == (1 << 18,)
                assert (value == 2 * (i + 2) + 1).all()
        server.stop()
        server.assert_nothing_left()
