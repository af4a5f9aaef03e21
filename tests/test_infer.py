"""Inference over both protocols: all data types, all encodings, and the exact error texts."""

import asyncio
import json
import struct

import numpy as np
import pytest
import tritonclient.grpc.aio
import tritonclient.http.aio
from harness.clients import WIRE_TYPES, strings
from harness.repository import IDENTITY, config, per_request
from tritonclient.utils import InferenceServerException

SAMPLES = {
    "BOOL": np.array([True, False, True]),
    "UINT8": np.array([0, 1, 255], dtype=np.uint8),
    "UINT16": np.array([0, 1, 65535], dtype=np.uint16),
    "UINT32": np.array([0, 1, 2**32 - 1], dtype=np.uint32),
    "UINT64": np.array([0, 1, 2**64 - 1], dtype=np.uint64),
    "INT8": np.array([-128, 0, 127], dtype=np.int8),
    "INT16": np.array([-32768, 0, 32767], dtype=np.int16),
    "INT32": np.array([-(2**31), 0, 2**31 - 1], dtype=np.int32),
    "INT64": np.array([-(2**63), 0, 2**63 - 1], dtype=np.int64),
    "FP16": np.array([-1.5, 0, 65504], dtype=np.float16),
    "FP32": np.array([-1.5, 0, 3.4e38], dtype=np.float32),
    "FP64": np.array([-1.5, 0, 1.7e308], dtype=np.float64),
    "BYTES": strings(b"", "größe", b"\x00\xff\x00"),
}

# Every type as an optional input and an output; returns its inputs.
ALL_TYPES = per_request(
    """
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor("OUT" + tensor.name()[2:], tensor.as_numpy()) for tensor in request.inputs()]
    )
    """
)
ADD_SUB = per_request(
    "a, b = get(request, 'INPUT0'), get(request, 'INPUT1'); return respond(OUTPUT0=a + b, OUTPUT1=a - b)"
)
# The model's view of a request, as JSON.
SEEN = per_request(
    """
    seen = {
        "id": request.request_id(),
        "correlation_id": request.correlation_id(),
        "flags": request.flags(),
        "timeout": request.timeout(),
        "parameters": json.loads(request.parameters()),
        "outputs": sorted(request.requested_output_names()),
        "inputs": {t.name(): [str(t.as_numpy().dtype), list(t.shape())] for t in request.inputs()},
    }
    return respond(SEEN=np.array([json.dumps(seen).encode()], dtype=object), MORE=np.array([1], dtype=np.int32))
    """
)
PAIR = [("INPUT0", "FP32", [4]), ("INPUT1", "FP32", [4])]


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    names = list(WIRE_TYPES)
    text_types = {"BYTES": "STRING"}
    module_repository.add(
        "all_types",
        ALL_TYPES,
        config(
            "all_types",
            [(f"IN_{n}", text_types.get(n, n), [-1], "optional: true") for n in names],
            [(f"OUT_{n}", text_types.get(n, n), [-1]) for n in names],
        ),
    )
    outputs = [("OUTPUT0", "FP32", [4]), ("OUTPUT1", "FP32", [4])]
    module_repository.add("add_sub", ADD_SUB, config("add_sub", PAIR, outputs))
    module_repository.add("batched", ADD_SUB, config("batched", PAIR, outputs, max_batch_size=4))
    module_repository.add(
        "optional",
        SEEN,
        config(
            "optional",
            [("A", "INT32", [1]), ("B", "INT32", [1], "optional: true"), ("C", "INT32", [1], "optional: true")],
            [("SEEN", "STRING", [1]), ("MORE", "INT32", [1])],
        ),
    )
    module_repository.add(
        "seen",
        SEEN,
        config("seen", [("A", "INT32", [-1])], [("SEEN", "STRING", [1]), ("MORE", "INT32", [1])]),
    )
    module_repository.add_identity("strings", "STRING", [-1])
    module_repository.add_identity("one_string", "STRING", [1])
    module_repository.add_identity("string_pair", "STRING", [2])
    module_repository.add_identity("string_matrix", "STRING", [1, 1])
    for name, dims in [("batched_string", [1]), ("batched_strings", [-1])]:
        tensors = [("IN", "STRING", dims)], [("OUT", "STRING", dims)]
        module_repository.add(name, IDENTITY, config(name, *tensors, max_batch_size=4))
    module_repository.add_identity("matrix", "INT32", [-1, 3])
    module_repository.add(
        "bf16",
        per_request(
            """
            tensor = request.inputs()[0]
            return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", tensor.to_dlpack())])
            """
        ),
        config("bf16", [("IN", "BF16", [-1])], [("OUT", "BF16", [-1])]),
    )
    return module_serve(module_repository)


def seen_by(result):
    return json.loads(result.as_numpy("SEEN")[0])


# ---- data types ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRE_TYPES)
def test_type_survives_the_way_there_and_back(client, name):
    result = client.infer("all_types", {f"IN_{name}": SAMPLES[name]}, [f"OUT_{name}"])
    answer = result.as_numpy(f"OUT_{name}")
    assert answer.dtype == SAMPLES[name].dtype
    assert answer.shape == (3,)
    assert list(answer) == list(SAMPLES[name])


@pytest.mark.parametrize("name", [n for n in WIRE_TYPES if n != "FP16"])
def test_type_survives_json(server, connect, name):
    client = connect("http", server)
    sample = SAMPLES[name] if name != "BYTES" else strings("", "größe", 'quo"te\n')
    tensor = client.input(f"IN_{name}", sample, binary_data=False)
    result = client.infer("all_types", [tensor], [client.output(f"OUT_{name}", binary_data=False)])
    answer = list(result.as_numpy(f"OUT_{name}"))
    # The client does not decode JSON strings.
    assert answer == [text.decode() for text in sample] if name == "BYTES" else answer == list(sample)


@pytest.mark.parametrize("name", [n for n in WIRE_TYPES if n != "FP16"])
def test_type_survives_typed_contents_of_grpc(server, connect, name):
    from tritonclient.grpc import service_pb2

    field = {
        "BOOL": "bool_contents",
        "INT64": "int64_contents",
        "UINT64": "uint64_contents",
        "FP32": "fp32_contents",
        "FP64": "fp64_contents",
        "BYTES": "bytes_contents",
    }.get(name, "uint_contents" if name.startswith("U") else "int_contents")
    request = service_pb2.ModelInferRequest(model_name="all_types")
    tensor = request.inputs.add(name=f"IN_{name}", datatype=name, shape=[3])
    getattr(tensor.contents, field).extend(SAMPLES[name].tolist())
    request.outputs.add(name=f"OUT_{name}")
    response = connect("grpc", server).raw._client_stub.ModelInfer(request)
    raw = response.raw_output_contents[0]
    if name == "BYTES":
        assert raw == b"".join(struct.pack("<I", len(e)) + e for e in SAMPLES[name])
    else:
        assert raw == SAMPLES[name].tobytes()


def test_several_types_in_one_request_keep_their_order(client):
    inputs = {f"IN_{n}": SAMPLES[n] for n in WIRE_TYPES}
    result = client.infer("all_types", inputs, [f"OUT_{n}" for n in reversed(WIRE_TYPES)])
    for name, sample in SAMPLES.items():
        assert list(result.as_numpy(f"OUT_{name}")) == list(sample)


def test_bf16_passes_as_raw_bytes(server, connect):
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name="bf16")
    request.inputs.add(name="IN", datatype="BF16", shape=[3])
    request.raw_input_contents.append(b"\x80\x3f\x00\x40\x40\x40")
    response = connect("grpc", server).raw._client_stub.ModelInfer(request)
    assert response.outputs[0].datatype == "BF16"
    assert response.raw_output_contents[0] == b"\x80\x3f\x00\x40\x40\x40"


@pytest.mark.parametrize("name", ["FP32", "INT64", "BYTES"])
def test_zero_size_tensor_is_legal(client, name):
    empty = np.empty((0,), dtype=WIRE_TYPES[name])
    result = client.infer("all_types", {f"IN_{name}": empty}, [f"OUT_{name}"])
    assert result.as_numpy(f"OUT_{name}").shape == (0,)


def test_zero_dimension_keeps_the_others(client):
    result = client.infer("matrix", {"IN": np.empty((0, 3), dtype=np.int32)})
    assert result.as_numpy("OUT").shape == (0, 3)


def test_json_and_binary_mix_in_one_request(server, connect):
    client = connect("http", server)
    a = np.arange(4, dtype=np.float32)
    for first, second in ((True, False), (False, True)):
        inputs = [client.input("INPUT0", a, binary_data=first), client.input("INPUT1", a, binary_data=second)]
        outputs = [client.output("OUTPUT0", binary_data=second), client.output("OUTPUT1", binary_data=first)]
        result = client.infer("add_sub", inputs, outputs)
        assert list(result.as_numpy("OUTPUT0")) == [0, 2, 4, 6]
        assert list(result.as_numpy("OUTPUT1")) == [0, 0, 0, 0]


def test_nested_json_data_is_row_major(server):
    tensor = {"name": "IN", "shape": [2, 3], "datatype": "INT32", "data": [[1, 2, 3], [4, 5, 6]]}
    status, body = server.json("POST", "/v2/models/matrix/infer", {"inputs": [tensor]})
    assert status == 200
    assert body["outputs"] == [{"name": "OUT", "datatype": "INT32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]


def test_json_response_has_the_fields_in_order(server):
    inputs = [{"name": n, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for n in ("INPUT0", "INPUT1")]
    status, headers, body = server.request(
        "POST", "/v2/models/add_sub/infer", json.dumps({"id": "x1", "inputs": inputs}), {}
    )
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert "Inference-Header-Content-Length" not in headers
    assert list(json.loads(body)) == ["id", "model_name", "model_version", "outputs"]
    assert json.loads(body)["model_version"] == "1"


def test_no_id_in_the_request_means_none_in_the_response(server):
    inputs = [{"name": n, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for n in ("INPUT0", "INPUT1")]
    status, body = server.json("POST", "/v2/models/add_sub/infer", {"inputs": inputs})
    assert status == 200
    assert "id" not in body


def test_binary_data_output_makes_binary_the_default(server):
    request = {
        "parameters": {"binary_data_output": True},
        "inputs": [{"name": n, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for n in ("INPUT0", "INPUT1")],
    }
    status, headers, body = server.request("POST", "/v2/models/add_sub/infer", json.dumps(request))
    assert status == 200
    assert headers["Content-Type"] == "application/octet-stream"
    length = int(headers["Inference-Header-Content-Length"])
    description = json.loads(body[:length])
    assert [o["parameters"]["binary_data_size"] for o in description["outputs"]] == [16, 16]
    assert np.frombuffer(body[length:], np.float32).tolist() == [2, 4, 6, 8, 0, 0, 0, 0]


def test_raw_request_is_the_one_input(server):
    status, headers, body = server.request(
        "POST",
        "/v2/models/seen/infer",
        np.arange(5, dtype=np.int32).tobytes(),
        {"Inference-Header-Content-Length": "0"},
    )
    assert status == 200, body
    length = int(headers["Inference-Header-Content-Length"])
    assert [o["name"] for o in json.loads(body[:length])["outputs"]] == ["SEEN", "MORE"]
    assert b'"A": ["int32", [5]]' in body[length:]


@pytest.mark.parametrize("model", ["strings", "string_pair", "string_matrix", "batched_strings"])
def test_raw_strings_have_shape_one(server, model):
    status, _, body = server.request(
        "POST", f"/v2/models/{model}/infer", b"text", {"Inference-Header-Content-Length": "0"}
    )
    assert status == 400
    assert json.loads(body)["error"] == "For BYTE datatype raw input 'IN', the model must have input shape [1]"


@pytest.mark.parametrize("model", ["one_string", "batched_string"])
def test_a_raw_body_is_one_string(server, model):
    status, headers, body = server.request(
        "POST", f"/v2/models/{model}/infer", b"\x04\x00text", {"Inference-Header-Content-Length": "0"}
    )
    assert status == 200, body
    assert body[int(headers["Inference-Header-Content-Length"]) :] == b"\x06\0\0\0\x04\x00text"


def test_raw_request_needs_exactly_one_input(server):
    status, _, body = server.request(
        "POST", "/v2/models/add_sub/infer", b"1234", {"Inference-Header-Content-Length": "0"}
    )
    assert status == 400
    assert json.loads(body)["error"] == (
        "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'add_sub' model configuration"
    )


def test_only_requested_outputs_come_back(client):
    a = np.ones(4, dtype=np.float32)
    result = client.infer("add_sub", {"INPUT0": a, "INPUT1": a}, ["OUTPUT1"])
    assert result.as_numpy("OUTPUT0") is None
    assert result.as_numpy("OUTPUT1") is not None


# ---- the model's view -------------------------------------------------------------------------------


def test_model_sees_id_timeout_and_parameters(client):
    result = client.infer(
        "seen",
        {"A": np.array([1], dtype=np.int32)},
        ["SEEN"],
        request_id="r-1",
        timeout=11000000000,
        parameters={"text": "t", "number": 7, "yes": True},
    )
    seen = seen_by(result)
    assert seen["id"] == "r-1"
    assert seen["timeout"] == 11000000000
    assert seen["parameters"] == {"text": "t", "number": 7, "yes": True}
    assert seen["outputs"] == ["SEEN"]
    assert seen["correlation_id"] == 0
    assert seen["flags"] == 0
    assert seen["inputs"] == {"A": ["int32", [1]]}


def test_all_outputs_are_requested_when_none_is_named(client):
    assert seen_by(client.infer("seen", {"A": np.array([1], dtype=np.int32)}))["outputs"] == ["MORE", "SEEN"]


def test_model_sees_sequence_fields(client):
    one = {"A": np.array([1], dtype=np.int32)}
    seen = seen_by(client.infer("seen", one, sequence_id=42, sequence_start=True))
    assert (seen["correlation_id"], seen["flags"]) == (42, 1)
    seen = seen_by(client.infer("seen", one, sequence_id="text", sequence_end=True))
    assert (seen["correlation_id"], seen["flags"]) == ("text", 2)
    assert "sequence_id" not in seen["parameters"]


def test_optional_inputs_can_be_left_out(client):
    one = np.array([1], dtype=np.int32)
    assert list(seen_by(client.infer("optional", {"A": one}))["inputs"]) == ["A"]
    assert list(seen_by(client.infer("optional", {"C": one, "A": one}))["inputs"]) == ["C", "A"]


@pytest.mark.parametrize("key", ["triton_x", "triton_final_response"])
def test_reserved_parameter_keys_are_refused_over_http(server, key):
    request = {"parameters": {key: 1}, "inputs": [{"name": "A", "shape": [1], "datatype": "INT32", "data": [1]}]}
    status, body = server.json("POST", "/v2/models/seen/infer", request)
    assert (status, body["error"]) == (
        400,
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    )


def test_reserved_parameter_keys_are_refused_over_grpc(server, connect):
    from tritonclient.grpc import service_pb2

    client = connect("grpc", server)
    request = service_pb2.ModelInferRequest(model_name="seen")
    request.inputs.add(name="A", datatype="INT32", shape=[1])
    request.raw_input_contents.append(b"\x01\0\0\0")
    request.parameters["triton_x"].bool_param = True
    with pytest.raises(Exception, match="allowed: triton_enable_empty_final_response"):
        client.raw._client_stub.ModelInfer(request)


# ---- invalid requests (14.6) -----------------------------------------------------------------------

ONE = np.ones(4, dtype=np.float32)


def test_missing_input(client):
    with client.fails(
        "INVALID_ARG",
        "[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'add_sub'. Got input(s) ['INPUT0'], "
        "but missing required input(s) ['INPUT1']. Please provide all required input(s).",
    ):
        client.infer("add_sub", {"INPUT0": ONE})


def test_request_id_stands_before_the_text(client):
    with client.fails("INVALID_ARG", contains="[request id: my-id] expected 2 inputs but got 1 inputs"):
        client.infer("add_sub", {"INPUT0": ONE}, request_id="my-id")


def test_missing_required_input_beside_optional_ones(client):
    with client.fails(
        "INVALID_ARG",
        contains="expected number of inputs between 1 and 3 but got 0 inputs for model 'optional'. Got input(s) []",
    ):
        client.infer("optional", {})


def test_unknown_input(client):
    with client.fails("INVALID_ARG", "unexpected inference input 'NOPE' for model 'add_sub'"):
        client.infer("add_sub", {"INPUT0": ONE, "NOPE": ONE})


def test_unknown_output(client):
    with client.fails("INVALID_ARG", "unexpected inference output 'NOPE' for model 'add_sub'"):
        client.infer("add_sub", {"INPUT0": ONE, "INPUT1": ONE}, ["NOPE"])


def test_duplicate_input(client):
    with client.fails("INVALID_ARG", "[request id: <id_unknown>] input 'INPUT0' already exists in request"):
        client.infer("add_sub", [client.input("INPUT0", ONE), client.input("INPUT0", ONE)])


def test_duplicate_output(client):
    with client.fails("INVALID_ARG", "[request id: <id_unknown>] output 'OUTPUT0' already exists in request"):
        client.infer("add_sub", {"INPUT0": ONE, "INPUT1": ONE}, ["OUTPUT0", "OUTPUT0"])


def test_wrong_type(client):
    with client.fails(
        "INVALID_ARG",
        "[request id: <id_unknown>] inference input 'INPUT0' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
    ):
        client.infer("add_sub", {"INPUT0": ONE.astype(np.int32), "INPUT1": ONE})


def test_wrong_shape(client):
    with client.fails(
        "INVALID_ARG",
        "[request id: <id_unknown>] unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [4], got [5]. ",
    ):
        client.infer("add_sub", {"INPUT0": np.ones(5, dtype=np.float32), "INPUT1": ONE})


def test_wrong_shape_of_a_batching_model_comes_with_a_note(client):
    row = np.ones((1, 4), dtype=np.float32)
    with client.fails(
        "INVALID_ARG",
        contains="unexpected shape for input 'INPUT0' for model 'batched'. Expected [-1,4], got [1,5]. NOTE: ",
    ):
        client.infer("batched", {"INPUT0": np.ones((1, 5), dtype=np.float32), "INPUT1": row})


def test_batch_too_big(client):
    rows = np.ones((5, 4), dtype=np.float32)
    with client.fails(
        "INVALID_ARG", "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'batched'"
    ):
        client.infer("batched", {"INPUT0": rows, "INPUT1": rows})


def test_batch_mismatch(client):
    with client.fails(
        "INVALID_ARG", "[request id: <id_unknown>] input 'INPUT1' batch size does not match other inputs for 'batched'"
    ):
        client.infer(
            "batched", {"INPUT0": np.ones((2, 4), dtype=np.float32), "INPUT1": np.ones((3, 4), dtype=np.float32)}
        )


def test_unknown_model(client):
    with client.fails("NOT_FOUND", contains="Request for unknown model: 'nope' is not found"):
        client.infer("nope", {"IN": ONE})


def test_unknown_version(client):
    with client.fails("NOT_FOUND", contains="Request for unknown model: 'add_sub' version 9 is not found"):
        client.infer("add_sub", {"INPUT0": ONE, "INPUT1": ONE}, model_version="9")


def infer_json(server, model, *inputs, **more):
    status, body = server.json("POST", f"/v2/models/{model}/infer", {"inputs": list(inputs), **more})
    return status, body.get("error")


def tensor(name, shape, datatype, data=None, **parameters):
    value = {"name": name, "shape": shape, "datatype": datatype}
    if data is not None:
        value["data"] = data
    if parameters:
        value["parameters"] = parameters
    return value


@pytest.mark.parametrize(
    ("value", "status", "text"),
    [
        (
            tensor("IN", [2, 3], "INT32", [1, 2, 3]),
            500,
            "Unable to parse 'data': Shape does not match true shape of 'data' field",
        ),
        (
            tensor("IN", [1, 3], "INT32", [1, 2, 3, 4]),
            500,
            "Unable to parse 'data': Shape does not match true shape of 'data' field",
        ),
        (tensor("IN", [1, 3], "WEIRD", [1, 2, 3]), 400, "invalid datatype for input IN"),
        (
            tensor("IN", [1, 3], "INT32"),
            400,
            "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
            "'shared_memory_region' in 'parameters'. But no field is set",
        ),
        (
            tensor("IN", [1, -3], "INT32", [1, 2, 3]),
            500,
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        (
            tensor("IN", [1, 3], "FP16", [1, 2, 3]),
            400,
            "receiving FP16 data via JSON is not supported. Please use the binary data format for input IN",
        ),
    ],
)
def test_wrong_json_tensor(server, value, status, text):
    if value["datatype"] == "FP16":
        value["name"] = "IN_FP16"
        text = text.replace("input IN", "input IN_FP16")
        assert infer_json(server, "all_types", value) == (status, text)
    else:
        assert infer_json(server, "matrix", value) == (status, text)


def test_wrong_kind_of_json_element(server):
    status, text = infer_json(
        server, "add_sub", tensor("INPUT0", [4], "FP32", ["a", 2, 3, 4]), tensor("INPUT1", [4], "FP32", [1, 2, 3, 4])
    )
    assert (status, text) == (500, "Unable to parse 'data': attempt to access JSON non-number as double")


def test_fp16_output_through_json_is_refused(server, connect):
    client = connect("http", server)
    half = np.ones(2, dtype=np.float16)
    with client.fails(
        "INVALID_ARG",
        contains="sending FP16 data via JSON is not supported. Please use the binary data format for output",
    ):
        client.infer("all_types", [client.input("IN_FP16", half)], [client.output("OUT_FP16", binary_data=False)])


def test_json_that_is_none(server):
    status, _, body = server.request("POST", "/v2/models/matrix/infer", "{nonsense")
    assert status == 500
    assert json.loads(body)["error"].startswith("failed to parse the request JSON buffer: ")


def test_deep_json_is_refused(server):
    deep = "[" * 200 + "1" + "]" * 200
    status, _, body = server.request(
        "POST",
        "/v2/models/matrix/infer",
        '{"inputs":[{"name":"IN","shape":[1,3],"datatype":"INT32","data":' + deep + "}]}",
    )
    assert status in (400, 500)
    assert "JSON nesting depth exceeds maximum allowed limit (100)" in json.loads(body)["error"]


def binary_request(server, model, description, data, header=None):
    text = json.dumps(description).encode()
    return server.request(
        "POST",
        f"/v2/models/{model}/infer",
        text + data,
        {"Inference-Header-Content-Length": str(len(text)) if header is None else header},
    )


def test_too_little_binary_data(server):
    status, _, body = binary_request(
        server, "matrix", {"inputs": [tensor("IN", [1, 3], "INT32", binary_data_size=12)]}, b"\0" * 8
    )
    assert status == 400
    assert "unexpected size for input 'IN', expecting " in json.loads(body)["error"]


def test_too_much_binary_data(server):
    status, _, body = binary_request(
        server, "matrix", {"inputs": [tensor("IN", [1, 3], "INT32", binary_data_size=12)]}, b"\0" * 16
    )
    assert status == 400
    assert json.loads(body)["error"] == "unexpected additional input data for model 'matrix'"


def test_byte_size_that_differs_from_the_shape(client):
    if client.protocol == "http":
        tensor_in = client.input("IN", np.zeros((1, 3), dtype=np.int32))
        tensor_in.set_shape([2, 3])
    else:
        tensor_in = client.module.InferInput("IN", [1, 3], "INT32")
        tensor_in.set_data_from_numpy(np.zeros((1, 3), dtype=np.int32))
        tensor_in.set_shape([2, 3])
    with client.fails(
        "INVALID_ARG",
        contains="input byte size mismatch for input 'IN' for model 'matrix'. Expected 24, got 12",
    ):
        client.infer("matrix", [tensor_in])


@pytest.mark.parametrize("header", ["x", "-1", "99999", "99999999999999999999999"])
def test_bad_header_length(server, header):
    status, _, body = binary_request(server, "matrix", {"inputs": []}, b"", header)
    assert status == 400
    error = json.loads(body)["error"]
    assert (
        "Unable to parse Inference-Header-Content-Length, got: " in error
        or "inference header size should be in range (0, " in error
    )


def test_binary_input_without_header_length(server):
    status, text = infer_json(server, "matrix", tensor("IN", [1, 3], "INT32", binary_data_size=12))
    assert status == 400
    assert text == (
        "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when passing inputs "
        "in binary data format"
    )


def test_wrong_number_of_strings(server):
    status, text = infer_json(server, "strings", tensor("IN", [3], "BYTES", ["a", "b"]))
    assert (status, text) == (500, "Unable to parse 'data': Shape does not match true shape of 'data' field")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            b"\x01\0\0\0a",
            "expected 2 string elements for inference input 'IN' for model 'strings', got 1",
        ),
        (b"\x01\0\0\0a\x05\0", "incomplete string length indicator for inference input 'IN'"),
        (
            b"\x01\0\0\0a\x05\0\0\0xy",
            "incomplete string data for inference input 'IN' for model 'strings', expecting string of length 5 but "
            "only 2 bytes available",
        ),
        (b"\x01\0\0\0a\xff\xff\xff\xffxy", "expecting string of length 4294967295 but only 2 bytes available"),
    ],
)
def test_malformed_string_buffer(server, data, text):
    status, _, body = binary_request(
        server, "strings", {"inputs": [tensor("IN", [2], "BYTES", binary_data_size=len(data))]}, data
    )
    assert status == 400
    assert text in json.loads(body)["error"]


def test_shape_that_overflows_is_refused(server):
    for huge in ([2**40, 2**40], [2**61, 1], [2**63, 1], [2**64 - 1]):
        status, text = infer_json(server, "matrix", tensor("IN", huge, "INT32", [1]))
        assert status == 400
        assert text.startswith("byte size overflow for input 'IN': ")
    assert server.json("GET", "/v2/health/live")[0] == 200


def test_the_last_of_several_wrong_inputs_is_named(client):
    wrong = np.ones(3, dtype=np.float32)
    for names in (["INPUT0", "INPUT1"], ["INPUT1", "INPUT0"]):
        with client.fails("INVALID_ARG", contains="unexpected shape for input 'INPUT1' for model 'add_sub'"):
            client.infer("add_sub", dict.fromkeys(names, wrong))


def test_grpc_must_not_mix_raw_and_typed_contents(server, connect):
    from tritonclient.grpc import service_pb2

    client = connect("grpc", server)
    request = service_pb2.ModelInferRequest(model_name="matrix")
    one = request.inputs.add(name="IN", datatype="INT32", shape=[1, 3])
    one.contents.int_contents.extend([1, 2, 3])
    request.raw_input_contents.append(b"\0" * 12)
    with pytest.raises(
        Exception,
        match="contents field must not be specified when using raw_input_contents for 'IN' for model 'matrix'",
    ):
        client.raw._client_stub.ModelInfer(request)


def test_grpc_input_without_data(server, connect):
    from tritonclient.grpc import service_pb2

    client = connect("grpc", server)
    request = service_pb2.ModelInferRequest(model_name="matrix")
    request.inputs.add(name="IN", datatype="INT32", shape=[1, 3])
    with pytest.raises(Exception, match="unable to find data for input tensor 'IN' for model 'matrix' in request."):
        client.raw._client_stub.ModelInfer(request)


def test_grpc_input_in_the_wrong_typed_field(server, connect):
    from tritonclient.grpc import service_pb2

    client = connect("grpc", server)
    request = service_pb2.ModelInferRequest(model_name="matrix")
    request.inputs.add(name="IN", datatype="INT32", shape=[1, 3]).contents.fp32_contents.extend([1, 2, 3])
    with pytest.raises(Exception, match="unexpected explicit tensor data for input tensor 'IN' for model 'matrix'"):
        client.raw._client_stub.ModelInfer(request)


# ---- metadata ------------------------------------------------------------------------------------


def test_server_metadata(server):
    status, body = server.json("GET", "/v2")
    assert status == 200
    assert body["name"] == "triton"
    assert {"binary_tensor_data", "parameters", "statistics", "model_repository", "model_configuration"} <= set(
        body["extensions"]
    )


def test_model_metadata(server):
    status, body = server.json("GET", "/v2/models/batched")
    assert status == 200
    assert body == {
        "name": "batched",
        "versions": ["1"],
        "platform": "python",
        "inputs": [{"name": n, "datatype": "FP32", "shape": [-1, 4]} for n in ("INPUT0", "INPUT1")],
        "outputs": [{"name": n, "datatype": "FP32", "shape": [-1, 4]} for n in ("OUTPUT0", "OUTPUT1")],
    }
    assert server.json("GET", "/v2/models/batched/versions/1") == (status, body)


def test_model_config(client):
    if client.protocol == "http":
        answer = client.raw.get_model_config("batched")
    else:
        answer = client.raw.get_model_config("batched", as_json=True)["config"]
    assert answer["name"] == "batched"
    assert answer["max_batch_size"] == 4
    assert [i["name"] for i in answer["input"]] == ["INPUT0", "INPUT1"]
    assert answer["input"][0]["data_type"] == "TYPE_FP32"


def test_readiness_of_models(client):
    assert client.raw.is_server_live()
    assert client.raw.is_server_ready()
    assert client.raw.is_model_ready("add_sub")
    assert client.raw.is_model_ready("add_sub", "1")


# ---- asynchronous clients ------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_asyncio_client_runs_many_requests_at_once(server, protocol):
    module = {"http": tritonclient.http.aio, "grpc": tritonclient.grpc.aio}[protocol]

    async def run():
        client = module.InferenceServerClient(getattr(server, protocol))
        try:

            async def one(number):
                inputs = []
                for name in ("INPUT0", "INPUT1"):
                    value = module.InferInput(name, [4], "FP32")
                    value.set_data_from_numpy(np.full(4, number, dtype=np.float32))
                    inputs.append(value)
                result = await client.infer("add_sub", inputs, request_id=str(number))
                return result.as_numpy("OUTPUT0")[0]

            return await asyncio.gather(*(one(n) for n in range(50)))
        finally:
            await client.close()

    assert asyncio.run(run()) == [2 * n for n in range(50)]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_asyncio_client_gets_errors(server, protocol):
    module = {"http": tritonclient.http.aio, "grpc": tritonclient.grpc.aio}[protocol]

    async def run():
        client = module.InferenceServerClient(getattr(server, protocol))
        try:
            value = module.InferInput("INPUT0", [4], "FP32")
            value.set_data_from_numpy(ONE)
            with pytest.raises(InferenceServerException, match="expected 2 inputs but got 1 inputs"):
                await client.infer("add_sub", [value])
        finally:
            await client.close()

    asyncio.run(run())
