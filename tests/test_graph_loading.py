"""Graphs that load: spellings of graph.pbtxt, contents of streams, converters, inference, side packets."""

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from harness import openvino_models as models
from harness.graph_texts import (
    GATES,
    GOOD,
    NODE,
    ONE,
    OV,
    PASS,
    SESSION,
    ask,
    converter,
    inference,
    model_status,
    passing,
    refused,
    renamed,
)
from harness.graphs import Stream, boundary, config, python_node, tensor, write_graph
from harness.ovms import OvmsServer
from tritonclient.grpc import service_pb2, service_pb2_grpc


def options_of_a_converter(text):
    return (
        'input_stream: "OVTENSOR:in"\noutput_stream: "OVMS_PY_TENSOR:out"\nnode {\n'
        '  calculator: "PyTensorOvTensorConverterCalculator"\n  input_stream: "OVTENSOR:in"\n'
        '  output_stream: "OVMS_PY_TENSOR:out"\n' + text + "\n}\n"
    )


ANY = "type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions"
NAMES = 'tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "out" }'
SPACED = ANY.replace("/", " / ")

# Graphs that pass their input to their output.
SOUND = {
    "good": GOOD,
    "any": options_of_a_converter(f"node_options {{ [{ANY}] {{ {NAMES} }} }}"),
    "any_spaced": options_of_a_converter(f"node_options: {{ [{SPACED}]: {{ {NAMES} }} }}"),
    "any_in_a_list": options_of_a_converter(f"node_options: [ {{ [{SPACED}]: {{ {NAMES} }} }} ]"),
    "any_in_angles": options_of_a_converter(f"node_options < [{ANY}] < {NAMES} > >"),
    "any_in_lines": options_of_a_converter(f"node_options {{\n [ {SPACED} ]\n:\n {{ {NAMES} }} \n}}"),
    "any_in_bytes": options_of_a_converter(
        f'node_options {{ type_url: "{ANY}" value: "\\n\\025\\n\\016OVMS_PY_TENSOR\\022\\003out" }}'
    ),
    "extension": options_of_a_converter(
        f"options {{ [mediapipe.PyTensorOvTensorConverterCalculatorOptions.ext] {{ {NAMES} }} }}"
    ),
    "extension_colon": options_of_a_converter(
        f"options: {{ [mediapipe.PyTensorOvTensorConverterCalculatorOptions.ext]: {{ {NAMES} }}; }};"
    ),
    "map_with_colons": options_of_a_converter(
        f"node_options {{ [{ANY}] {{ tag_to_output_tensor_names: {{ key: 'OVMS_PY_TENSOR', value: 'o' \"u\" 't' }} }} }}"
    ),
    "punctuation": """# A comment
        input_stream: ["OVTENSOR:in"], output_stream: 'OVTENSOR:' # the name follows
          "out";
        node: { calculator: "PassThrough" 'Calculator', input_stream: ["in"]; output_stream: ["out"], },
    """.replace("},\n    ", "};\n"),
    "indices": OV
    + """
        node { calculator: "PassThroughCalculator" input_stream: "A:1:in" input_stream: "A:0:in"
               output_stream: "A:0:first" output_stream: "A:1:second" }
        node { calculator: "PassThroughCalculator" input_stream: ":0:second" output_stream: "out" }""",
    # Checked, but without effect: threads belong to the server.
    "threads": GOOD.replace("node {", 'node { executor: "mine" max_in_flight: 4 buffer_size_hint: 3 source_layer: 2')
    + """num_threads: 7
        max_queue_size: -1
        report_deadlock: true
        executor { name: "mine" type: "ThreadPoolExecutor"
                   options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 3 require_processor_performance: LOW } } }
        executor { type: "ApplicationThreadExecutor" }
        package: "mine" type: "Graph"
        """,
    "handlers": GOOD.replace(
        "node {",
        'node { input_stream_handler { input_stream_handler: "FixedSizeInputStreamHandler" options { '
        "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 20 target_queue_size: 10 } } } "
        'output_stream_handler { output_stream_handler: "InOrderOutputStreamHandler" }',
    ),
    **{
        f"handler_{name}": GOOD.replace(
            "node {", f'node {{ input_stream_handler {{ input_stream_handler: "{name}InputStreamHandler" {options} }}'
        )
        for name, options in {
            "Default": "options { [mediapipe.DefaultInputStreamHandlerOptions.ext] { batch_size: 1 } }",
            "Immediate": "",
            "Barrier": "",
            "EarlyClose": "",
            "SyncSet": 'options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":0" } } }',
            "TimestampAlign": "options { [mediapipe.TimestampAlignInputStreamHandlerOptions.ext] "
            '{ timestamp_base_tag_index: ":0" } }',
        }.items()
    },
    "queue_auto": "# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO\n" + GOOD,
    "queue_off": "# OVMS_GRAPH_QUEUE_MAX_SIZE: 0\n" + GOOD,
    "queue_one": GOOD + "   #OVMS_GRAPH_QUEUE_MAX_SIZE:1",
    # Boundaries of other kinds.
    "no_tag": passing("in", "out"),
    "other_tag": passing("PICTURE:in", "RESULT:out"),
    "suffix": passing("OVTENSOR_IMAGE:in", "OVTENSOR_RESULT:out"),
    "indexed": passing("OVTENSOR:0:in", "OVTENSOR:0:out"),
    "tensor": passing("TENSOR:in", "TENSOR:out"),
    "tftensor": passing("TFTENSOR:in", "TFTENSOR:out"),
    "image": passing("IMAGE:in", "IMAGE:out"),
    "back_to_ov": OV
    + converter("OVTENSOR:in", "OVMS_PY_TENSOR:middle", "OVMS_PY_TENSOR", "middle")
    + converter("OVMS_PY_TENSOR:middle", "OVTENSOR:out"),
    "to_ov": passing("OVMS_PY_TENSOR:in").replace(PASS, converter("OVMS_PY_TENSOR:in", "OVTENSOR:out")),
}

# Parameters of any type that are passed to nodes with typed inputs.
TYPES = {
    "to_python": boundary(["in"], ["out"])
    + 'input_side_packet: "mine"\nnode { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" '
    'input_side_packet: "mine" output_stream: "AT_TICK:text" }\n' + python_node("typed", ["IN:text"], ["OUT:out"]),
    "to_converter": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" input_side_packet: "mine" '
        'output_stream: "AT_TICK:x" }\n' + converter("OVMS_PY_TENSOR:x", "OVTENSOR:out"),
    ),
    "to_limiter": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "FlowLimiterCalculator" input_stream: "in" input_stream: "FINISHED:out" output_stream: "out" '
        'input_stream_info { tag_index: "FINISHED" back_edge: true } input_side_packet: "MAX_IN_FLIGHT:mine" }',
    ),
    "to_session": OV
    + 'input_side_packet: "mine"\nnode { calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:mine" '
    'input_stream: "in" output_stream: "out" }',
    "to_resources": boundary(["in"], ["out"])
    + 'input_side_packet: "mine"\n'
    + python_node("typed", ["IN:in"], ["OUT:out"]).replace("RESOURCES:py", "RESOURCES:mine"),
}

INFERENCE = "type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions"
INFERENCES = {
    # The tag is the model's name of the tensor, unless configured otherwise.
    "by_tag": 'input_stream: "in"\noutput_stream: "out"\n'
    + SESSION.format("capitals")
    + 'node { calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s" input_stream: "X:in" output_stream: "Y:out" }',
    "by_map": inference(renamed("input", "IN", "b") + renamed("output", "OUT", "a")),
    "no_tags": inference("", "in", "out"),
    "vectors": 'input_stream: "A:x"\ninput_stream: "B:y"\noutput_stream: "A:a"\noutput_stream: "B:b"\n'
    + SESSION.format("both")
    + f"""node {{ calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s"
             input_stream: "X:x" input_stream: "Y:y" output_stream: "OVTENSORS:v"
             node_options {{ [{INFERENCE}] {{ output_order_list: ["sum", "difference"]
               {renamed("input", "X", "x")} {renamed("input", "Y", "y")} }} }} }}
           node {{ calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s"
             input_stream: "OVTENSORS:v" output_stream: "S:a" output_stream: "D:b"
             node_options {{ [{INFERENCE}] {{ input_order_list: ["y", "x"]
               {renamed("output", "S", "sum")} {renamed("output", "D", "difference")} }} }} }}""",
    "pairs": 'input_stream: "OVTENSOR_A:a"\ninput_stream: "OVMS_PY_TENSOR_B:b"\n'
    + 'output_stream: "OVTENSOR_B:out_b"\noutput_stream: "OVMS_PY_TENSOR_A:out_a"\n'
    + converter("OVTENSOR_A:a", "OVTENSOR_B:out_b", "OVMS_PY_TENSOR_A", "out_a").replace(
        "output_stream:", 'input_stream: "OVMS_PY_TENSOR_B:b" output_stream: "OVMS_PY_TENSOR_A:out_a" output_stream:'
    ),
    "nobody": inference(servable="not_there"),
    "itself": inference(renamed("input", "IN", "in") + renamed("output", "OUT", "out"), servable="itself"),
    # If a calculator accepts any type, the type is checked when a packet arrives.
    "differs": passing("OVTENSOR:in", "OVMS_PY_TENSOR:out"),
    "differs_in_type": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" input_side_packet: "mine" '
        'output_stream: "AT_TICK:out" }',
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    entries = [write_graph(folder, name, text) for name, text in {**SOUND, **GATES, **INFERENCES}.items()]
    entries += [write_graph(folder, name, text, model=NODE) for name, text in TYPES.items()]
    made = {"plus": models.add(), "capitals": models.scale(input_name="X", output="Y"), "both": models.two_outputs()}
    bases = [models.entry(name, models.save(model, folder / "models" / name)) for name, model in made.items()]
    workdir = tmp_path_factory.mktemp("server")
    with OvmsServer(config(*entries, models=bases), workdir=workdir) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


# --- Valid graphs


@pytest.mark.parametrize("graph", SOUND)
def test_a_graph_that_is_right(client, server, graph):
    assert model_status(server, graph) == (1, 30, 0, "OK")
    array = np.arange(6, dtype=np.uint8).reshape(1, 2, 3) if graph == "image" else np.arange(3, dtype=np.float32)
    answer = ask(client, graph, array)
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


@pytest.mark.parametrize("graph", ["threads", "handlers", "indices", "queue_one", "back_to_ov"])
def test_streams_to_them(server, graph):
    with Stream(server.grpc, graph) as stream:
        for number in range(5):
            stream.send(**{"in": ONE * number})
            assert stream.receive() == ("out", [number], number)


def test_an_output_has_the_name_that_a_converter_gives(client):
    assert client.infer("any", [tensor("in", ONE)]).get_response().outputs[0].name == "out"


# --- Contents of clients' streams


IMAGES = [
    ("float16", (1, 3, 4)),
    ("float32", (1, 2, 4)),
    *((t, (1, 3, 4)) for t in ("uint8", "int8", "uint16", "int16")),
]


@pytest.mark.parametrize(("dtype", "channels"), IMAGES)
def test_images(client, dtype, channels):
    for count in range(1, 6):
        array = np.arange(6 * count).reshape(2, 3, count).astype(dtype)
        if count in channels:
            answer = ask(client, "image", array)
            assert answer.dtype == array.dtype
            assert (answer == array).all()
        else:
            error = refused(client, "image", tensor("in", array))
            assert error.status() == "StatusCode.INVALID_ARGUMENT"
            assert "Invalid number of channels in binary input" in error.message()


@pytest.mark.parametrize("version", ["", "/versions/1", "/versions/7"])
def test_versions_over_rest(server, version):
    given = {"name": "in", "shape": [1], "datatype": "FP32", "data": [2]}
    status, answer = server.json("POST", f"/v2/models/good{version}/infer", {"inputs": [given]})
    assert (status, answer["model_version"], answer["outputs"][0]["data"]) == (200, "1", [2])


def test_an_image_in_json(server):
    given = {"name": "in", "shape": [1, 2, 3], "datatype": "UINT8", "data": [[[1, 2, 3], [4, 5, 6]]]}
    status, answer = server.json("POST", "/v2/models/image/infer", {"inputs": [given]})
    assert status == 200, answer
    assert answer["outputs"] == [{"name": "out", "shape": [1, 2, 3], "datatype": "UINT8", "data": [1, 2, 3, 4, 5, 6]}]


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((2, 2), np.uint8), "Invalid number of shape dimensions - Expected: (height,width,channels); Actual: (2,2)"),
        (np.zeros((1, 2, 2, 3), np.uint8), "Invalid number of shape dimensions"),
        (np.zeros((0, 2, 3), np.uint8), "Invalid input shape"),
        (np.zeros((2, 2, 3), np.int64), "Invalid input precision - Expected: FP32, FP16"),
        (np.array([[[b"x"]]], np.object_), "Invalid input precision"),
    ],
)  # fmt: skip
def test_what_is_no_image(client, array, text):
    error = refused(client, "image", tensor("in", array))
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert text in error.message()


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int32", "int8", "uint8", "bool", "int64", "uint16", "float64"]
)
def test_types_of_media_tensors(client, dtype):
    array = np.arange(4).astype(dtype)
    if dtype in ("int64", "uint16", "float64"):
        error = refused(client, "tensor", tensor("in", array))
        assert "Invalid input precision - Expected: FP32, FP16, INT32, INT8, UINT8, BOOL" in error.message()
    else:
        answer = ask(client, "tensor", array)
        assert answer.dtype == array.dtype
        assert answer.tolist() == array.tolist()


@pytest.mark.parametrize("graph", ["good", "tftensor", "no_tag"])
def test_types_of_tensors_for_models(client, graph):
    for dtype in (
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float64",
    ):
        array = np.arange(4).astype(dtype)
        answer = ask(client, graph, array)
        assert answer.dtype == array.dtype
        assert answer.tolist() == array.tolist()
    assert ask(client, graph, np.array([b"a", b"bc"], np.object_)).tolist() == [b"a", b"bc"]
    error = refused(client, graph, tensor("in", b"xyz", "my_type"))
    assert "Invalid input precision" in error.message()


def test_bytes_that_do_not_fit(client):
    given = tensor("in", b"xyz", "FP32")
    error = refused(client, "good", given)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message() == (
        "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 3 bytes; input name: in"
    )


# --- Converters


def test_what_a_converter_refuses(client):
    for datatype, data in (("BYTES", b"abc"), ("my_type", b"abc")):
        error = refused(client, "to_ov", tensor("in", data, datatype))
        assert error.status() == "StatusCode.INVALID_ARGUMENT"
        assert f"Undefined precision in input python tensor: {datatype}" in error.message()
    error = refused(client, "any", tensor("in", np.array([b"a"], np.object_)))
    assert "Undefined precision in input tensor: BYTES" in error.message()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
                                   "float32", "float64"])  # fmt: skip
def test_what_a_converter_takes(client, dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)
    answer = ask(client, "back_to_ov", array)
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


def test_nodes_without_a_name_have_that_of_their_calculator(client):
    strings = tensor("in", np.array([b"a"], np.object_))
    node = 'Calculator::Process() for node "PyTensorOvTensorConverterCalculator{}" failed'
    assert node.format("") in refused(client, "any", strings).message()
    assert node.format("_1") in refused(client, "back_to_ov", strings).message()


def test_a_converter_takes_bf16(client):
    given = tensor("in", b"abcdef", "BF16")
    given.set_shape([3])
    response = client.infer("back_to_ov", [given]).get_response()
    assert (response.outputs[0].datatype, response.raw_output_contents[0]) == ("BF16", b"abcdef")


# --- Inference


def test_names_of_a_model(client):
    row = np.arange(10, dtype=np.float32).reshape(1, 10)
    assert ask(client, "by_tag", row).tolist() == (2 * row).tolist()
    assert ask(client, "by_map", row).tolist() == (row + 1).tolist()
    assert ask(client, "no_tags", row).tolist() == (row + 1).tolist()


def test_vectors_have_the_order_of_their_lists(client):
    x, y = np.full((1, 10), 3, np.float32), np.full((1, 10), 5, np.float32)
    answer = client.infer("vectors", [tensor("x", x), tensor("y", y)])
    # First the sum, 8, and the difference, -2; then y is the sum, and x the difference.
    assert answer.as_numpy("a").tolist() == [[6] * 10]
    assert answer.as_numpy("b").tolist() == [[-10] * 10]


def test_inference_needs_all_of_its_inputs(server):
    stream = Stream(server.grpc, "vectors")
    stream.send(x=np.ones((1, 10), np.float32))
    [(_, error)] = stream.finish()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Mediapipe execution failed" in error.message()
    assert "input stream 'y' has no packet at 0" in error.message()


def test_a_converter_of_several_streams(client):
    answer = client.infer("pairs", [tensor("a", ONE), tensor("b", ONE * 2)])
    assert (answer.as_numpy("out_a").tolist(), answer.as_numpy("out_b").tolist()) == ([1], [2])


def test_what_a_model_refuses_is_an_error_of_the_node(client):
    error = refused(client, "by_map", tensor("in", np.zeros((1, 3), np.float32)))
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message().startswith("Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed")
    assert "Expected: (1,10); Actual: (1,3)" in error.message()


def test_a_session_to_nobody_fails_when_the_graph_starts(client, server):
    assert model_status(server, "nobody") == (1, 30, 0, "OK")
    error = refused(client, "nobody")
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert "OpenVINOModelServerSessionCalculator failed to load the model" in error.message()


def test_a_session_to_itself_ends(client):
    error = refused(client, "itself", tensor("in", np.ones((1, 10), np.float32)))
    assert "graph 'itself' would wait for itself: itself -> itself" in error.message()


def test_packets_of_another_type(client, server):
    error = refused(client, "differs")
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message() == (
        "Mediapipe execution failed. MP status - INTERNAL: output_stream 'out' with the tag 'OVMS_PY_TENSOR' carries "
        "braid::PythonTensor; its packet has braid::OvTensor"
    )
    assert "its packet has std::string" in refused(client, "differs_in_type", parameters={"mine": "text"}).message()
    stream = Stream(server.grpc, "differs_in_type")
    stream.send(parameters={"mine": 5}, **{"in": ONE})
    error = stream.error()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "'out' with the tag 'OVTENSOR' carries braid::OvTensor; its packet has" in error.message()
    stream.finish()


# --- Side packets


def test_a_bool(client):
    assert ask(client, "gate", allow=True).tolist() == [1]
    assert "Unknown error during mediapipe execution" in refused(client, "gate", parameters={"allow": False}).message()


def test_a_bool_and_a_number(client):
    assert ask(client, "gate_at", allow=True, when=5, OVMS_MP_TIMESTAMP=5).tolist() == [1]
    late = refused(client, "gate_at", parameters={"allow": True, "when": 5, "OVMS_MP_TIMESTAMP": 6})
    assert "Unknown error during mediapipe execution" in late.message()


def test_over_rest(server):
    with httpclient.InferenceServerClient(server.http) as rest:
        given = tensor("in", ONE, module=httpclient)
        answer = rest.infer("gate_at", [given], parameters={"allow": True, "when": 5, "OVMS_MP_TIMESTAMP": 5})
        assert answer.as_numpy("out").tolist() == [1]
    body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [1]}], "parameters": {"allow": 1.5}}
    status, answer = server.json("POST", "/v2/models/gate/infer", body)
    assert status >= 400, answer


@pytest.mark.parametrize("value", ["text", 5, True])
@pytest.mark.parametrize("graph", [*TYPES, "gate_at"])
def test_parameters_of_another_type_than_nodes_want(server, client, graph, value):
    if graph == "to_limiter" and value == 5:
        assert ask(client, graph, mine=value).tolist() == [1]  # an int64 is one of the valid types
        return
    parameters = {"allow": True, "when": value} if graph == "gate_at" else {"mine": value}
    if graph == "gate_at" and value == 5:
        parameters = {"allow": "text", "when": 0}
    error = refused(client, graph, parameters=parameters)
    assert error.status() in ("StatusCode.FAILED_PRECONDITION", "StatusCode.INVALID_ARGUMENT")
    assert "type" in error.message()
    stream = Stream(server.grpc, graph)
    stream.send(parameters=parameters, **{"in": ONE})
    assert "type" in stream.error().message()
    stream.finish()


def test_a_side_packet_of_a_kind_that_is_none(server):
    request = service_pb2.ModelInferRequest(model_name="gate", raw_input_contents=[ONE.tobytes()])
    request.inputs.add(name="in", datatype="FP32", shape=[1])
    request.parameters["allow"].double_param = 1.5
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert caught.value.details().startswith("Functionality not implemented - parameter 'allow'")


@pytest.mark.parametrize(("value", "kind"), [("yes", "std::string"), (1, "long")])
def test_a_side_packet_of_another_type(client, value, kind):
    error = refused(client, "gate", parameters={"allow": value})
    assert error.status() in ("StatusCode.FAILED_PRECONDITION", "StatusCode.INVALID_ARGUMENT")
    assert kind in error.message()
    assert "bool" in error.message()


def test_side_packets_that_are_missing_or_reserved(client):
    error = refused(client, "gate_at", parameters={"when": 0})
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert error.message().startswith("Failed to start mediapipe graph")
    assert '"allow"' in error.message()
    error = refused(client, "gate", parameters={"allow": True, "py": "mine"})
    assert error.message() == (
        "Failed to initialize mediapipe graph - Incoming input side packet: py is special reserved name and cannot be used"
    )


def test_only_the_first_message_of_a_stream_has_side_packets(server):
    with Stream(server.grpc, "gate") as stream:
        stream.send(parameters={"allow": True}, **{"in": ONE})
        assert stream.receive()[2] == 0
        stream.send(parameters={"allow": False}, **{"in": ONE})
        assert stream.receive()[2] == 1
    stream = Stream(server.grpc, "gate_at")
    stream.send(parameters={"when": 0}, **{"in": ONE})
    error = stream.error()
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert '"allow"' in error.message()
    stream.finish()


@pytest.mark.parametrize("graph", ["queue_auto", "queue_one"])
def test_a_queue_takes_no_side_packets(client, graph):
    assert ask(client, graph, OVMS_MP_TIMESTAMP=9).tolist() == [1]
    error = refused(client, graph, parameters={"mine": 1})
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert error.message().endswith("Input side packets are not supported for graphs with queue enabled")
