"""Graphs with Python nodes and single requests: the inputs of handlers, and the responses to clients over gRPC and
REST."""

import json

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from harness.graphs import TIMESTAMP, boundary, config, python_node, single, tensor, write_graph
from harness.ovms import OvmsServer
from tritonclient.utils import InferenceServerException

FAILED = "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: \n"
PREFIX = FAILED + 'Calculator::Process() for node "{node}" failed: Error occurred during graph execution'

DESCRIBE = """
    import json
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            found = []
            for tensor in inputs:
                view = tensor.data
                found.append({
                    "name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype, "size": tensor.size,
                    "format": view.format, "data_shape": view.shape, "itemsize": view.itemsize, "strides": view.strides,
                    "readonly": view.readonly, "hex": bytes(tensor).hex(),
                })
            return [Tensor("out", json.dumps(found).encode())]
"""

# Invalid results of execute(), and the errors for clients.
WRONG = {
    "raises": ('raise ValueError("too quiet")', "ValueError: too quiet"),
    "none": ("return None", "Unexpected Python object type. Expected: list or generator. Received: NoneType"),
    "a_tuple": ("return (Tensor('out', b'x'),)", "Expected: list or generator. Received: tuple"),
    "a_tensor": ("return Tensor('out', b'x')", "Expected: list or generator. Received: Tensor"),
    "no_tensors": ("return [b'x']", "Unexpected Python object type. Expected: Tensor. Received: bytes"),
    "other_name": (
        "return [Tensor('nowhere', b'x')]",
        "Unexpected Tensor found in the outputs. Tensor name: nowhere is not a valid node output",
    ),
    "twice": ("return [Tensor('out', b'x'), Tensor('out', b'y')]", "out"),
    "a_generator": (
        "return iter([[Tensor('out', b'x')]])",
        "Bad python node configuration. Execute yielded, but LOOPBACK is not defined in the node",
    ),
}
WRONG_SOURCE = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            {body}
"""

LIFE = """
    import json
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.kwargs = kwargs
            print("initialized", kwargs["node_name"])

        def execute(self, inputs):
            return [Tensor("out", json.dumps({**self.kwargs, "seen": [t.name for t in inputs]}).encode())]

        def finalize(self):
            print("finalized", self.kwargs["node_name"])
"""

ECHO = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            [tensor] = inputs
            return [Tensor("out", tensor.data, tensor.shape, tensor.datatype)]
"""

OWN_MODULE = """
    import neighbour
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", neighbour.TEXT)]
"""


def make_graphs(folder):
    two = ["B:in_b", "A:in_a"]
    graphs = [
        single(folder, "describe", DESCRIBE),
        single(folder, "echo", ECHO),
        write_graph(
            folder,
            "life",
            boundary(["in_b", "in_a"], ["out"]) + python_node("one", two, ["OUT:out"]),
            model=LIFE,
        ),
        # Two files of the same name, with neighbours of the same name.
        *(
            {**single(folder, name, OWN_MODULE), "name": name}
            for name in ("first", "second")
            if (folder / name).mkdir() or (folder / name / "neighbour.py").write_text(f"TEXT = b'{name}'\n")
        ),
        single(
            folder,
            "some",
            """
            from pyovms import Tensor

            class OvmsPythonModel:
                def execute(self, inputs):
                    return [Tensor("first", b"1")]
            """,
            outputs=("first", "second"),
        ),
        write_graph(
            folder,
            "side",
            boundary(["in"], ["out"], ["wanted"])
            + python_node("side", ["IN:in"], ["OUT:out"])
            + 'node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" input_side_packet: "wanted" '
            + 'output_stream: "AT_TICK:seen" }\n',
            model=ECHO,
        ),
        *(single(folder, name, WRONG_SOURCE.format(body=body)) for name, (body, _) in WRONG.items()),
    ]
    return graphs


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    with OvmsServer(config(*make_graphs(folder)), workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


@pytest.fixture(scope="module")
def rest(server):
    with httpclient.InferenceServerClient(server.http) as client:
        yield client


def infer(client, graph, *inputs, **options):
    return client.infer(graph, list(inputs), **options)


def text_of(result, name="out"):
    return result.as_numpy(name).tobytes().decode()


def refused(client, graph, *inputs, **options):
    with pytest.raises(InferenceServerException) as caught:
        infer(client, graph, *inputs, **options)
    return caught.value


# --- Inputs of a handler


@pytest.mark.parametrize(
    ("dtype", "datatype", "format"),
    [
        ("bool", "BOOL", "?"), ("uint8", "UINT8", "B"), ("uint16", "UINT16", "H"), ("uint32", "UINT32", "I"),
        ("uint64", "UINT64", "Q"), ("int8", "INT8", "b"), ("int16", "INT16", "h"), ("int32", "INT32", "i"),
        ("int64", "INT64", "q"), ("float16", "FP16", "e"), ("float32", "FP32", "f"), ("float64", "FP64", "d"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_numbers_in_a_handler(client, rest, protocol, dtype, datatype, format):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    chosen, module = (client, grpcclient) if protocol == "grpc" else (rest, httpclient)
    [seen] = json.loads(text_of(infer(chosen, "describe", tensor("in", array, module=module))))
    size = array.itemsize
    assert seen == {
        "name": "in", "shape": [2, 3], "datatype": datatype, "size": 6 * size, "format": format, "data_shape": [2, 3],
        "itemsize": size, "strides": [3 * size, size], "readonly": True, "hex": array.tobytes().hex(),
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (1, 32, 32, 0, 1)])
def test_shapes_without_or_with_empty_dimensions(client, shape):
    array = np.zeros(shape, np.float32)
    [seen] = json.loads(text_of(infer(client, "describe", tensor("in", array))))
    assert tuple(seen["shape"]) == tuple(seen["data_shape"]) == shape
    assert seen["size"] == array.nbytes


def test_strings_keep_their_lengths(client, rest):
    strings = np.array([b"ab", b"", "\u00e9".encode()], np.object_)
    expected = b"\x02\0\0\0ab\0\0\0\0\x02\0\0\0\xc3\xa9"
    for chosen, module in ((client, grpcclient), (rest, httpclient)):
        [seen] = json.loads(text_of(infer(chosen, "describe", tensor("in", strings, module=module))))
        assert bytes.fromhex(seen["hex"]) == expected
        assert (seen["datatype"], seen["format"], seen["shape"], seen["data_shape"]) == ("BYTES", "B", [3], [16])


@pytest.mark.parametrize("datatype", ["BYTES", "my_string", "BF16"])
def test_raw_bytes_arrive_untouched(client, datatype):
    data = b"\xff\xff no length in front"
    given = tensor("in", data, datatype)
    if datatype != "BF16":
        given.set_shape([3])
    if datatype == "BF16":
        given.set_shape([len(data) // 2])
    [seen] = json.loads(text_of(infer(client, "describe", given)))
    assert bytes.fromhex(seen["hex"]) == data
    assert (seen["datatype"], seen["format"], seen["data_shape"]) == (datatype, "B", [len(data)])


def test_a_type_of_users_goes_round(client):
    given = tensor("in", b"\x00\x01\x02 anything", "my_struct")
    given.set_shape([7, 2])
    response = infer(client, "echo", given).get_response()
    [out] = response.outputs
    assert (out.name, out.datatype, list(out.shape)) == ("out", "my_struct", [7, 2])
    assert list(response.raw_output_contents) == [b"\x00\x01\x02 anything"]


def test_names_and_order(client):
    arrays = [tensor(name, np.zeros(1, np.float32)) for name in ("in_a", "in_b")]
    told = json.loads(text_of(infer(client, "life", *arrays)))
    assert told["node_name"] == "one"
    assert told["input_names"] == ["in_b", "in_a"]  # as configured
    assert told["output_names"] == ["out"]
    assert told["base_path"].endswith("/life")
    assert told["seen"] == ["in_a", "in_b"]  # by tag


def test_files_of_one_name_are_modules_of_their_own(client):
    given = tensor("in", np.zeros(1, np.float32))
    assert text_of(infer(client, "first", given)) == "first"
    assert text_of(infer(client, "second", given)) == "second"


# --- Errors of a handler


@pytest.mark.parametrize("graph", WRONG)
@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_what_execute_gets_wrong(client, rest, protocol, graph):
    chosen, module = (client, grpcclient) if protocol == "grpc" else (rest, httpclient)
    error = refused(chosen, graph, tensor("in", np.zeros(1, np.float32), module=module))
    assert error.status() == ("StatusCode.INVALID_ARGUMENT" if protocol == "grpc" else "400")
    if graph != "twice":
        assert error.message().startswith(PREFIX.format(node=graph))
    assert WRONG[graph][1] in error.message()


# --- Requests


def test_an_answer_has_the_graphs_name_and_time(client, rest):
    array = np.ones(2, np.float32)
    response = infer(client, "echo", tensor("in", array), request_id="seven").get_response()
    assert (response.model_name, response.model_version, response.id) == ("echo", "1", "seven")
    assert response.parameters[TIMESTAMP].int64_param == 0
    given = tensor("in", array, module=httpclient)
    told = infer(rest, "echo", given, request_id="eight", parameters={"note": 5}).get_response()
    assert (told["model_name"], told["model_version"], told["id"]) == ("echo", "1", "eight")
    assert told["parameters"][TIMESTAMP] == 0


@pytest.mark.parametrize("time", [0, 17, -5, 2**62])
def test_a_time_of_the_clients(client, time):
    result = infer(client, "echo", tensor("in", np.ones(1, np.float32)), parameters={TIMESTAMP: time})
    assert result.get_response().parameters[TIMESTAMP].int64_param == time


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (
            "5",
            f"Malformed packet timestamp - Invalid timestamp format in request parameter {TIMESTAMP}. Should be int64",
        ),
        (
            True,
            f"Malformed packet timestamp - Invalid timestamp format in request parameter {TIMESTAMP}. Should be int64",
        ),
        (-(2**63), "Malformed packet timestamp - Timestamp::Unset()"),
        (2**63 - 1, "Malformed packet timestamp - Timestamp::Done()"),
    ],
)
def test_times_that_are_none(client, time, text):
    error = refused(client, "echo", tensor("in", np.ones(1, np.float32)), parameters={TIMESTAMP: time})
    assert (error.status(), error.message()) == ("StatusCode.INVALID_ARGUMENT", text)


def test_inputs_that_are_missing_or_unknown(client, rest):
    array = np.ones(1, np.float32)
    for chosen, module, code in ((client, grpcclient, "StatusCode.INVALID_ARGUMENT"), (rest, httpclient, "400")):
        error = refused(chosen, "life", tensor("in_a", array, module=module))
        assert error.status() == code
        assert "Invalid number of inputs - Not all input packets created" in error.message()
        error = refused(chosen, "echo", tensor("other", array, module=module))
        assert error.status() == code
        assert "Unexpected input - other is unexpected" in error.message()


def test_an_output_that_is_missing(client):
    error = refused(client, "some", tensor("in", np.ones(1, np.float32)))
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Unknown error during mediapipe execution" in error.message()


@pytest.mark.parametrize(
    ("shape", "datatype", "size", "text"),
    [
        ([2], "FP32", 7, "Invalid Python tensor buffer size. Actual: 7; Expected: 8"),
        ([2, 0], "INT64", 8, "Invalid Python tensor buffer size. Actual: 8; Expected: 0"),
        ([2**62, 4], "FP32", 4, "Provided shape and datatype declare too large buffer."),
        ([-1], "FP32", 4, "Negative dimension size is not acceptable: (-1); input name: in"),
    ],
)
def test_bytes_that_do_not_fit(client, shape, datatype, size, text):
    given = tensor("in", b"x" * size, datatype)
    given._input.ClearField("shape")
    given._input.shape.extend(shape)
    error = refused(client, "echo", given)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert text in error.message()


def test_the_version_of_a_graph_counts_for_nothing(client):
    array = np.ones(1, np.float32)
    assert infer(client, "echo", tensor("in", array), model_version="7").as_numpy("out").tolist() == [1]
    error = refused(client, "echo", tensor("in", array), model_version="abc")
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "invalid model version format in request" in error.message()


def test_a_graph_that_nobody_knows(client, rest):
    given = tensor("in", np.ones(1, np.float32))
    error = refused(client, "nobody", given)
    assert error.status() == "StatusCode.NOT_FOUND"
    assert error.message() == "Mediapipe graph definition with requested name is not found"
    with pytest.raises(InferenceServerException, match="Model with requested name is not found"):
        client.get_model_metadata("nobody")


def test_requested_outputs_are_no_filter(client):
    given = tensor("in", np.ones(2, np.float32))
    result = infer(client, "echo", given, outputs=[grpcclient.InferRequestedOutput("nothing_of_the_kind")])
    assert result.as_numpy("out").tolist() == [1, 1]


def test_side_packets(client):
    given = tensor("in", np.ones(1, np.float32))
    assert infer(client, "side", given, parameters={"wanted": "yes", "not_declared": 5}).as_numpy("out").tolist() == [1]
    error = refused(client, "side", given)
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert "wanted" in error.message()
    error = refused(client, "side", given, parameters={"wanted": "yes", "py": "mine"})
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert "Incoming input side packet: py is special reserved name and cannot be used" in error.message()


# --- Metadata and states


def test_metadata(client, rest, server):
    metadata = client.get_model_metadata("life", as_json=True)
    assert metadata["name"] == "life"
    assert metadata["versions"] == ["1"]
    assert metadata["platform"] == "OpenVINO"
    assert [(each["name"], each["datatype"]) for each in metadata["inputs"]] == [
        ("in_b", "INVALID"),
        ("in_a", "INVALID"),
    ]
    assert all(not each.get("shape") for each in metadata["inputs"] + metadata["outputs"])
    told = rest.get_model_metadata("life")
    assert (told["platform"], told["versions"]) == ("OpenVINO", ["1"])
    assert [each["name"] for each in told["outputs"]] == ["out"]
    assert client.is_model_ready("life")
    assert rest.is_model_ready("life")
    assert server.states("life") == {1: "AVAILABLE"}
    status, told = server.json("GET", "/v1/models/life")
    assert (status, told["model_version_status"][0]["state"]) == (200, "AVAILABLE")


# --- REST


def test_rest_with_json(server):
    def ask(graph, *inputs, **more):
        return server.json("POST", f"/v2/models/{graph}/infer", {"inputs": inputs, **more})

    floats = {"name": "in", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4.5]]}
    status, told = ask("echo", floats)
    assert status == 200, told
    assert told["outputs"] == [{"name": "out", "shape": [2, 2], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.5]}]
    strings = {"name": "in", "shape": [2], "datatype": "BYTES", "data": ["a", "b\u00e9"]}
    status, told = ask("echo", strings)
    assert status == 200, told
    assert told["outputs"][0]["data"] == ["a", "b\u00e9"]
    big = 2**53 + 1
    status, told = ask("echo", floats, parameters={TIMESTAMP: 2**40})
    assert (status, told["parameters"][TIMESTAMP]) == (200, 2**40)
    numbers = {"name": "in", "shape": [1], "datatype": "INT64", "data": [big]}
    assert ask("echo", numbers)[1]["outputs"][0]["data"] == [big]
    status, told = ask("echo", {**floats, "data": [1, 2, 3]})
    assert status == 400
    assert told["error"].startswith("Invalid number of values in tensor proto container")
    status, told = ask("echo", {**floats, "datatype": "my_type"})
    assert status == 400, told


def test_rest_with_a_type_of_users(server):
    head = {"inputs": [{"name": "in", "shape": [1], "datatype": "my_type", "parameters": {"binary_data_size": 4}}]}

    def ask(more):
        body = json.dumps({**head, **more}).encode()
        return server.request(
            "POST", "/v2/models/echo/infer", body + b"wxyz", {"Inference-Header-Content-Length": str(len(body))}
        )

    status, headers, answer = ask({"parameters": {"binary_data_output": True}, "outputs": [{"name": "out"}]})
    assert status == 200, answer
    assert answer.endswith(b"wxyz")
    told = json.loads(answer[: int({k.lower(): v for k, v in headers.items()}["inference-header-content-length"])])
    assert told["outputs"] == [
        {"name": "out", "shape": [1], "datatype": "my_type", "parameters": {"binary_data_size": 4}}
    ]
    status, _, answer = ask({})
    assert status == 400
    assert b"Unsupported data precision detected" in answer


# --- Lifetime


def test_finalize_is_called_once(tmp_path):
    folder = tmp_path / "graphs"
    entry = write_graph(
        folder, "life", boundary(["in"], ["out"]) + python_node("one", ["IN:in"], ["OUT:out"]), model=LIFE
    )
    with OvmsServer(config(entry), workdir=tmp_path) as server:
        server.wait_for_log("initialized one")
        server.stop()
        assert server.log.count("initialized one") == 1
        assert server.log.count("finalized one") == 1


BAD = {
    "no_class": ("x = 1", "OvmsPythonModel"),
    "no_execute": ("class OvmsPythonModel:\n    pass\n", "execute"),
    "bad_import": ("import not_there_at_all\n", "not_there_at_all"),
    "bad_init": ("class OvmsPythonModel:\n    def __init__(self):\n        raise RuntimeError('in the constructor')\n"
        "    def execute(self, inputs):\n        return []\n", "in the constructor"),
    "wants_more": ("class OvmsPythonModel:\n    def __init__(self, more):\n        pass\n    def execute(self, inputs):\n        return []\n", "more"),
    "bad_initialize": (
        "class OvmsPythonModel:\n    def initialize(self, kwargs):\n        raise RuntimeError('not today')\n"
        "    def execute(self, inputs):\n        return []\n    def finalize(self):\n        print('finalized bad_initialize')\n",
        "not today",
    ),
}  # fmt: skip


def test_graphs_that_do_not_load(tmp_path):
    folder = tmp_path / "graphs"
    entries = [single(folder, name, source) for name, (source, _) in BAD.items()]
    missing = boundary(["in"], ["out"]) + python_node("n", ["IN:in"], ["OUT:out"], handler="missing.py")
    entries.append(write_graph(folder, "no_file", missing))
    unnamed = missing.replace('  name: "n"\n', "")
    entries.append(write_graph(folder, "no_name", unnamed, missing=ECHO))
    two = (
        boundary(["in"], ["out"]) + python_node("n", ["IN:in"], ["OUT:mid"]) + python_node("n", ["IN:mid"], ["OUT:out"])
    )
    entries.append(write_graph(folder, "same_name", two, model=ECHO))
    entries.append(write_graph(folder, "unknown", missing.replace("PythonExecutorC", "PythonExecuterC", 1)))
    entries.append(write_graph(folder, "empty", ""))
    entries.append(single(folder, "good", ECHO))
    with OvmsServer(config(*entries), workdir=tmp_path) as server:
        with grpcclient.InferenceServerClient(server.grpc) as client:
            for entry in entries[:-1]:
                name = entry["name"]
                assert not client.is_model_ready(name), name
                error = refused(client, name, tensor("in", np.ones(1, np.float32)))
                assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet"), (
                    name
                )
                assert server.states(name) == {1: "LOADING"}, name
            assert infer(client, "good", tensor("in", np.ones(1, np.float32))).as_numpy("out").tolist() == [1]
        log = server.log
        for name, (_, text) in BAD.items():
            [line] = [line for line in log.splitlines() if f"graph '{name}' is not available" in line]
            assert text in line, name
        assert "The Python Node file path does not exist" in log
        assert "The Python Node is missing name definition" in log
        assert "The Python Node name is already present in nodes list" in log
        assert "'PythonExecutorCalculator'" in log  # the known name nearest to the unknown one
        assert "Failed to read protobuf graph configuration file" in log
        server.wait_for_log("finalized bad_initialize")
        assert server.log.count("finalized bad_initialize") == 1
