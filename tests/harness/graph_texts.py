"""Texts of graphs for tests of graph.pbtxt itself, and requests of such tests."""

import grpc
import numpy as np
import pytest
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc
from tritonclient.utils import InferenceServerException

from harness.graphs import boundary, python_node, tensor

ONE = np.ones(1, np.float32)
OV = 'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n'
PASS = 'node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }\n'
GOOD = OV + PASS

NODE = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            print("initialized", kwargs["node_name"])

        def execute(self, inputs):
            return [Tensor("out", bytes(inputs[0]))]
"""


def passing(stream_in="OVTENSOR:in", stream_out="OVTENSOR:out", more=""):
    return f'input_stream: "{stream_in}"\noutput_stream: "{stream_out}"\n{more}\n{PASS}'


def python(inputs=("IN:in",), outputs=("OUT:out",), more="", node=None):
    made = python_node("n", inputs, outputs, more=more)
    return boundary(["in"], ["out"]) + (node(made) if node else made)


def converter(input_stream, output_stream, key=None, value="out"):
    options = f'tag_to_output_tensor_names {{ key: "{key}" value: "{value}" }}' if key else ""
    return (
        f'node {{ calculator: "PyTensorOvTensorConverterCalculator" input_stream: "{input_stream}" '
        f'output_stream: "{output_stream}" node_options {{ '
        f"[type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {{ {options} }} }} }}\n"
    )


SESSION = """
node {{ calculator: "OpenVINOModelServerSessionCalculator" output_side_packet: "SESSION:s"
  options {{ [mediapipe.OpenVINOModelServerSessionCalculatorOptions.ext] {{ servable_name: "{0}" }} }} }}
"""


def inference(options="", before="IN:in", after="OUT:out", side='input_side_packet: "SESSION:s"', servable="plus"):
    return (
        OV + SESSION.format(servable) + f'node {{ calculator: "OpenVINOInferenceCalculator" {side} '
        f'input_stream: "{before}" output_stream: "{after}" node_options {{ '
        f"[type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {{ {options} }} }} }}\n"
    )


def renamed(direction, key, value):
    return f'tag_to_{direction}_tensor_names {{ key: "{key}" value: "{value}" }}'


# Side packets with a visible effect: a gate of a bool, and the time at which it opens.
GATES = {
    "gate": passing(more='input_side_packet: "allow"').replace(
        PASS,
        'node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" input_side_packet: "ALLOW:allow" }',
    ),
    "gate_at": passing(more='input_side_packet: "allow"\ninput_side_packet: "when"').replace(
        PASS,
        """node { calculator: "SidePacketToStreamCalculator" input_side_packet: "allow" input_side_packet: "TIMESTAMP:when"
                  output_stream: "AT_TIMESTAMP:allowed" }
           node { calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:allowed" output_stream: "out" }""",
    ),
}


def ask(client, graph, array=ONE, **parameters):
    return client.infer(graph, [tensor("in", array)], parameters=parameters or None).as_numpy("out")


def refused(client, graph, *inputs, **more):
    with pytest.raises(InferenceServerException) as caught:
        client.infer(graph, list(inputs) or [tensor("in", ONE)], **more)
    return caught.value


def model_status(server, name):
    """GetModelStatus of TensorFlow Serving: (version, state, error_code, error_message)."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    with grpc.insecure_channel(server.grpc) as channel:
        [found] = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request).model_version_status
    return found.version, found.state, found.status.error_code, found.status.error_message
