"""Graphs that do not load: log lines, states, and errors for clients."""

import pytest
import tritonclient.grpc as grpcclient
from harness.graph_texts import (
    GOOD,
    NODE,
    ONE,
    OV,
    PASS,
    converter,
    inference,
    model_status,
    passing,
    python,
    refused,
    renamed,
)
from harness.graphs import Stream, config, write_graph
from harness.ovms import OvmsServer
from tritonclient.utils import InferenceServerException

BACK_EDGE = 'input_stream_info: { tag_index: "LOOPBACK:0", back_edge: true }'
SYNC_SET = """input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }"""


def looped(more, inputs=("IN:in", "LOOPBACK:back"), outputs=("OUT:out", "LOOPBACK:back")):
    return python(inputs, outputs, more)


UNPARSED = "Failed to read protobuf graph configuration file"
UNSOUND = "Failed to initialize mediapipe graph"
BOTH_SIDES = "If LOOPBACK is used, it must be defined on both input and output of the node"

# graph.pbtxt and its line in the log. A name that begins with py_ has a valid handler, which must not be initialized.
BAD = {
    # The file.
    "empty": ("", UNPARSED),
    "comment": ("# nothing but a comment\n", UNPARSED),
    "no_pbtxt": ("node {", UNPARSED),
    "unknown_field": (GOOD + "colour: 5\n", UNPARSED),
    "unknown_node_field": (GOOD.replace("node {", "node { colour: 5 "), UNPARSED),
    "unknown_any": (GOOD + 'node { calculator: "PassThroughCalculator" node_options { [type.googleapis.com/mediapipe.No] {} } }',
        UNPARSED),
    "unknown_extension": (GOOD + 'node { calculator: "PassThroughCalculator" options { [mediapipe.No.ext] {} } }', UNPARSED),
    "wrong_type": (GOOD + 'num_threads: "many"\n', UNPARSED),
    # Boundaries.
    "no_input": ('output_stream: "OVTENSOR:out"\n' + PASS, "it has no input_stream"),
    "no_output": ('input_stream: "OVTENSOR:in"\n' + PASS, "it has no output_stream"),
    "twice_in": ('input_stream: "A:in"\ninput_stream: "B:in"\noutput_stream: "out"\n' + PASS,
        "Mediapipe unexpected input stream packets name"),
    "twice_out": ('input_stream: "in"\noutput_stream: "A:out"\noutput_stream: "B:out"\n' + PASS,
        "Mediapipe unexpected output stream packets name"),
    "twice_side": (passing(more='input_side_packet: "a"\ninput_side_packet: "a"'), "input_side_packet 'a'"),
    "tflite_in": (passing("TFLITE_TENSOR:in"), "Functionality not implemented"),
    "tflite_out": (passing(stream_out="TFLITE_TENSOR:out"), "Functionality not implemented"),
    "request_alone": (passing("REQUEST:in"), "graph is missing RESPONSE: string in the output name"),
    "response_alone": (passing(stream_out="RESPONSE:out"), "graph is missing REQUEST: string in the input name"),
    "request_and_more": ('input_stream: "REQUEST:in"\ninput_stream: "OVTENSOR:more"\noutput_stream: "RESPONSE:out"\n' + PASS,
        "Mediapipe unexpected input stream packets count"),
    "response_and_more": ('input_stream: "REQUEST:in"\noutput_stream: "RESPONSE:out"\noutput_stream: "OVTENSOR:more"\n' + PASS,
        "Mediapipe unexpected output stream packets count"),
    "py_types_differ": (python().replace("OVMS_PY_TENSOR:in", "OVTENSOR:in"), UNSOUND),
    # Names and connections.
    "capital_stream": (GOOD.replace("out", "Out"), "Out"),
    "small_tag": (GOOD.replace("OVTENSOR:in", "ovtensor:in"), "ovtensor"),
    "number_stream": (GOOD.replace(":out", ":1out").replace('"out"', '"1out"'), "1out"),
    "gap_in_indices": (
        GOOD + 'node { calculator: "PassThroughCalculator" input_stream: "A:0:in" input_stream: "A:2:in" '
        'output_stream: "A:0:x" output_stream: "A:2:y" }', UNSOUND),
    "nobody_makes_it": (GOOD.replace('input_stream: "in"', 'input_stream: "nobody"'), "nobody"),
    "nobody_makes_the_output": (GOOD.replace("OVTENSOR:out", "OVTENSOR:nobody"), "nobody"),
    "two_make_it": (GOOD + PASS, "out"),
    "cycle": (OV + 'node { calculator: "MergeCalculator" input_stream: "in" input_stream: "back" output_stream: "out" }\n'
        'node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }', "back_edge: true"),
    "unknown_calculator": (GOOD.replace("PassThrough", "PassTrough"), "PassThroughCalculator"),
    "unknown_handler": (GOOD.replace("node {", 'node { input_stream_handler { input_stream_handler: "NoHandler" }'), "NoHandler"),
    "unknown_output_handler": (GOOD.replace("node {", 'node { output_stream_handler { output_stream_handler: "Other" }'),
        "InOrderOutputStreamHandler"),
    "unknown_executor": (GOOD.replace("node {", 'node { executor: "mine"'), "executor 'mine' not found"),
    "executor_type": (GOOD + 'executor { name: "mine" type: "Gpu" }', "type 'Gpu' is not known"),
    "negative_threads": (GOOD + "num_threads: -1\n", "num_threads is -1"),
    "packet_factory": (GOOD + 'packet_factory { packet_factory: "F" }', "packet_factory is not supported"),
    "packet_generator": (GOOD + 'packet_generator { packet_generator: "G" }', "packet_generator is not supported"),
    "status_handler": (GOOD + 'status_handler { status_handler: "H" }', "status_handler is not supported"),
    "sync_set_of_nobody": (GOOD.replace("node {", "node {" + SYNC_SET), "LOOPBACK:0"),
    "py_sync_set_index": (looped(BACK_EDGE + SYNC_SET.replace("LOOPBACK:0", "LOOPBACK:1")), "LOOPBACK:1"),
    "side_packet_of_nobody": (GOOD.replace("node {", 'node { input_side_packet: "nobody"'), "nobody"),
    # Python nodes.
    "py_no_resources": (python(node=lambda text: text.replace('input_side_packet: "PYTHON_NODE_RESOURCES:py"', "")),
        'input_side_packet: "PYTHON_NODE_RESOURCES:py"'),
    "py_other_resources": (python(node=lambda text: text.replace("RESOURCES:py", "RESOURCES:mine")), "mine"),
    "py_no_options": (python(node=lambda text: text.split("node_options")[0] + "}\n"), "The Python Node is missing options definition"),
    "py_empty_path": (python(node=lambda text: text.replace("model.py", "")), "The Python Node is missing options definition"),
    "py_folder": (python(node=lambda text: text.replace("model.py", ".")), "The Python Node file path does not exist"),
    "py_absolute": (python(node=lambda text: text.replace("model.py", "/not/here.py")), "The Python Node file path does not exist"),
    "py_no_inputs": (python(()), "no input_stream"),
    "py_no_outputs": (python(outputs=()), "no output_stream"),
    "py_loopback_in": (looped(BACK_EDGE + SYNC_SET, outputs=("OUT:out",)), BOTH_SIDES),
    "py_loopback_out": (looped("", inputs=("IN:in",)), BOTH_SIDES),
    "py_no_back_edge": (looped(SYNC_SET), "LOOPBACK must be marked as a back edge"),
    "py_back_edge_false": (looped(BACK_EDGE.replace("true", "false") + SYNC_SET), "LOOPBACK must be marked as a back edge"),
    "py_back_edge_index": (looped(BACK_EDGE.replace("LOOPBACK:0", "LOOPBACK:1") + SYNC_SET), "LOOPBACK"),
    "py_default_handler": (looped(BACK_EDGE), "it has the default one"),
    # The queue.
    "queue_negative": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: -1\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is '-1'"),
    "queue_garbage": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: many\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is 'many'"),
    "queue_more": ("#OVMS_GRAPH_QUEUE_MAX_SIZE:3 of them\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is '3 of them'"),
    "py_queue_loopback": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n" + looped(BACK_EDGE + SYNC_SET), "has LOOPBACK, which OVMS_GRAPH_QUEUE_MAX_SIZE"),
    # Converters.
    "converter_no_key": (passing("OVTENSOR:in", "OVMS_PY_TENSOR:out").replace(PASS, converter("OVTENSOR:in", "OVMS_PY_TENSOR:out")),
        "tag_to_output_tensor_names has no key 'OVMS_PY_TENSOR'"),
    "converter_other_key": (
        passing("OVTENSOR:in", "OVMS_PY_TENSOR:out").replace(PASS, converter("OVTENSOR:in", "OVMS_PY_TENSOR:out", "OVTENSOR")),
        "tag_to_output_tensor_names has no key 'OVMS_PY_TENSOR'"),
    "converter_same": (OV + converter("OVTENSOR:in", "OVTENSOR:out"), "the other OVMS_PY_TENSOR"),
    "converter_tag": (OV + converter("OVTENSOR:in", "PYTHON:out"), "tags must begin with OVTENSOR or OVMS_PY_TENSOR"),
    "converter_two": (
        OV + 'input_stream: "OVTENSOR2:more"\n'
        + converter("OVTENSOR:in", "OVMS_PY_TENSOR:x", "OVMS_PY_TENSOR").replace('output_stream: "OVMS', 'input_stream: "OVTENSOR_B:more" output_stream: "OVMS'),
        "as many inputs as outputs"),
    # Sessions and inference.
    "session_no_name": (inference(servable=""), "servable_name is missing"),
    "session_input": (inference().replace('SESSION:s"\n', 'SESSION:s" input_stream: "in"\n', 1), "must not have input or output streams"),
    "inference_no_session": (inference(side=""), 'input_side_packet: "SESSION:<name>"'),
    "inference_map_and_list": (inference(renamed("input", "OVTENSORS", "b") + ' input_order_list: "b"', "OVTENSORS:in"),
        "tag_to_input_tensor_names and input_order_list are both set"),
    "inference_list_alone": (inference('input_order_list: "b"'), "input_order_list is set, but no input stream carries a vector"),
    "inference_vector_alone": (inference("", "OVTENSORS:in"), "carries a vector, but input_order_list is not set"),
    "inference_vector_out": (inference("", "IN:in", "OVTENSORS:out"), "carries a vector, but output_order_list is not set"),
    "inference_unused_key": (inference(renamed("input", "OTHER", "b")), "has the key 'OTHER', which is not the tag of a stream"),
    "inference_unused_out": (inference(renamed("output", "OTHER", "b")), "has the key 'OTHER', which is not the tag of a stream"),
    "inference_tflite": (inference("", "TFLITE_TENSOR:in"), "streams tagged TFLITE_TENSOR are not supported"),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    entries = [
        write_graph(folder, name, text, **({"model": NODE} if name.startswith("py_") else {}))
        for name, (text, _) in BAD.items()
    ]
    entries += [write_graph(folder, "good", GOOD), {"name": "missing_folder", "base_path": str(folder / "not_there")}]
    with OvmsServer(config(*entries), workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


def lines_about(server, graph):
    """Returns the log lines about an unavailable graph: its line and the following ones."""
    found, within = [], False
    for line in server.log.splitlines():
        if f"graph '{graph}' is not available" in line:
            within = True
        elif "is not available" in line:
            within = False
        if within:
            found.append(line)
    return "\n".join(found)


# --- Faults


@pytest.mark.parametrize("graph", BAD)
def test_a_graph_that_is_wrong(server, client, graph):
    assert BAD[graph][1] in lines_about(server, graph)
    assert model_status(server, graph) == (1, 20, 9, "FAILED_PRECONDITION")
    assert not client.is_model_ready(graph)
    error = refused(client, graph)
    assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")


def test_nothing_of_a_graph_that_is_wrong_is_initialized(server):
    assert "initialized n" not in server.log


def test_a_folder_that_is_not_there(server, client):
    assert "File not found or cannot open" in lines_about(server, "missing_folder")
    assert model_status(server, "missing_folder") == (1, 20, 9, "FAILED_PRECONDITION")
    assert not client.is_model_ready("missing_folder")


def test_a_graph_that_is_wrong_over_rest(server):
    told = {"version": "1", "state": "LOADING", "status": {"error_code": "FAILED_PRECONDITION"}}
    told["status"]["error_message"] = "FAILED_PRECONDITION"
    status, answer = server.json("GET", "/v1/models/cycle")
    assert (status, answer) == (200, {"model_version_status": [told]})
    assert server.json("GET", "/v1/config")[1]["cycle"] == {"model_version_status": [told]}
    assert server.request("GET", "/v2/models/cycle/ready")[0] == 404
    body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [1]}]}
    status, answer = server.json("POST", "/v2/models/cycle/infer", body)
    assert status >= 500
    assert answer == {"error": "Mediapipe is not loaded yet"}


def test_metadata_of_graphs_that_are_wrong_or_unknown(client):
    with pytest.raises(InferenceServerException) as caught:
        client.get_model_metadata("cycle")
    assert caught.value.status() in ("StatusCode.UNAVAILABLE", "StatusCode.NOT_FOUND")
    for call in (client.get_model_metadata, client.is_model_ready):
        with pytest.raises(InferenceServerException) as caught:
            call("nobody_at_all")
        assert caught.value.status() == "StatusCode.NOT_FOUND"
        assert caught.value.message() == "Model with requested name is not found"


def test_graphs_are_no_models_of_tensorflow_serving(server):
    status, answer = server.json("POST", "/v1/models/good:predict", {"instances": [1]})
    assert status == 404, answer


def test_a_stream_to_a_graph_that_is_wrong(server):
    stream = Stream(server.grpc, "cycle")
    stream.send(**{"in": ONE})
    error = stream.error()
    assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")
    stream.finish()
