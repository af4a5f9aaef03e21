"""TensorFlow Serving's clients, gRPC and REST: servables of a config.json, and Triton's models."""

import base64
import concurrent.futures
import json

import grpc
import numpy as np
import ovmsclient
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.pictures import png
from harness.repository import config, per_request
from harness.waiting import wait_until
from ovmsclient.tfs_compat.base.errors import InvalidInputError, ModelNotFoundError
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

X = np.arange(10, dtype=np.float32).reshape(1, 10)
PIXELS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]], np.uint8)


def client_of(protocol, server):
    if protocol == "grpc":
        return ovmsclient.make_grpc_client(server.grpc)
    return ovmsclient.make_http_client(server.http)


def tensor(dtype, shape, content=b"", **values):
    """Returns a TensorProto; values are its *_val fields."""
    proto = tensor_pb2.TensorProto(dtype=getattr(types_pb2, f"DT_{dtype}"), tensor_content=content, **values)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def predict_request(model, outputs=(), version=None, **inputs):
    request = predict_pb2.PredictRequest(output_filter=list(outputs))
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = version
    for name, proto in inputs.items():
        request.inputs[name].CopyFrom(proto)
    return request


def predict(server, model, body, path=""):
    """Returns (status, value) of POST :predict."""
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    status, headers, answer = server.request("POST", f"/v1/models/{model}{path}:predict", text)
    assert headers["Content-Type"] == "application/json"
    return status, json.loads(answer)


# ---- servables of a config.json ----


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfs")
    types = {name: models.identity((1, 2), kind, "x", "y") for name, kind in OPENVINO_TYPES.items()}
    config = {
        "model_config_list": [
            models.entry("dummy", models.save(models.add(), folder / "dummy")),
            models.entry("two", models.save(models.two_outputs(), folder / "two")),
            models.entry("mlp", models.save(models.mlp(), folder / "mlp")),
            models.entry("image", models.save(models.image(dtype=np.uint8), folder / "image"), layout="NHWC"),
            *[models.entry(f"is_{name}", models.save(model, folder / name)) for name, model in types.items()],
        ]
    }
    with OvmsServer(config, "--metrics_enable", workdir=folder) as server:
        yield server


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


OPENVINO_TYPES = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "HALF": np.float16,
    "BOOL": np.bool_,
}
VALUE_FIELDS = {
    "FLOAT": "float_val",
    "DOUBLE": "double_val",
    "INT64": "int64_val",
    "UINT32": "uint32_val",
    "UINT64": "uint64_val",
    "HALF": "half_val",
    "BOOL": "bool_val",
}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_ovmsclient(server, protocol):
    client = client_of(protocol, server)
    np.testing.assert_array_equal(client.predict({"b": X}, "dummy"), X + 1)
    np.testing.assert_array_equal(client.predict({"b": X.tolist()}, "dummy", 1), X + 1)
    result = client.predict({"x": X, "y": X}, "two")
    np.testing.assert_array_equal(result["sum"], X + X)
    np.testing.assert_array_equal(result["difference"], X - X)
    rows = np.random.default_rng(3).standard_normal((5, 10)).astype(np.float32)
    assert client.predict({"x": rows}, "mlp").shape == (5, 4)
    assert client.get_model_status("dummy") == {1: {"state": "AVAILABLE", "error_code": 0, "error_message": "OK"}}
    metadata = client.get_model_metadata("mlp")
    assert metadata["model_version"] == 1
    assert metadata["inputs"] == {"x": {"shape": [-1, 10], "dtype": "DT_FLOAT"}}
    assert metadata["outputs"] == {"y": {"shape": [-1, 4], "dtype": "DT_FLOAT"}}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_ovmsclient_hears_what_is_wrong(server, protocol):
    client = client_of(protocol, server)
    with pytest.raises(ModelNotFoundError, match="Pipeline with requested name is not found"):
        client.predict({"b": X}, "nope")
    with pytest.raises(ModelNotFoundError, match="Model with requested version is not found"):
        client.predict({"b": X}, "dummy", 7)
    with pytest.raises(ModelNotFoundError, match="Model with requested name is not found"):
        client.get_model_status("nope")
    with pytest.raises(ModelNotFoundError, match="Model with requested version is not found"):
        client.get_model_metadata("dummy", 7)
    with pytest.raises(InvalidInputError, match=r"Expected: \(1,10\); Actual: \(1,9\); input name: b"):
        client.predict({"b": X[:, :9]}, "dummy")
    with pytest.raises(InvalidInputError, match="Missing input with specific name - Required input: b"):
        client.predict({"c": X}, "dummy")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_an_encoded_image(server, protocol):
    result = client_of(protocol, server).predict({"image": [png(PIXELS)]}, "image")
    np.testing.assert_array_equal(result, PIXELS[None, :, :, ::-1])


@pytest.mark.parametrize("dtype", OPENVINO_TYPES)
def test_every_type_over_grpc(stub, dtype):
    array = np.array([[1, 0]], OPENVINO_TYPES[dtype])
    answer = stub.Predict(predict_request(f"is_{dtype}", x=tensor(dtype, [1, 2], array.tobytes())))
    output = answer.outputs["y"]
    assert types_pb2.DataType.Name(output.dtype) == f"DT_{dtype}"
    assert [dim.size for dim in output.tensor_shape.dim] == [1, 2]
    assert output.tensor_content == array.tobytes()
    assert (answer.model_spec.name, answer.model_spec.version.value) == (f"is_{dtype}", 1)
    values = array.ravel().view(np.uint16) if dtype == "HALF" else array.ravel()
    field = VALUE_FIELDS.get(dtype, "int_val")
    answer = stub.Predict(predict_request(f"is_{dtype}", x=tensor(dtype, [1, 2], **{field: values.tolist()})))
    assert answer.outputs["y"].tensor_content == array.tobytes()
    one = tensor(dtype, [1, 2], **{field: values[:1].tolist()})
    answer = stub.Predict(predict_request(f"is_{dtype}", x=one))
    assert answer.outputs["y"].tensor_content == np.repeat(array[:, :1], 2).tobytes()


@pytest.mark.parametrize("dtype", OPENVINO_TYPES)
def test_every_type_over_rest(server, dtype):
    values = [[True, False]] if dtype == "BOOL" else [[1, 0]]
    assert predict(server, f"is_{dtype}", {"inputs": values}) == (200, {"outputs": values})
    assert predict(server, f"is_{dtype}", {"instances": values}) == (200, {"predictions": values})


def test_the_outputs_that_are_asked_for(stub):
    proto = tensor("FLOAT", [1, 10], X.tobytes())
    answer = stub.Predict(predict_request("two", ["sum"], x=proto, y=proto))
    assert list(answer.outputs) == ["sum"]
    with pytest.raises(grpc.RpcError) as error:
        stub.Predict(predict_request("two", ["product"], x=proto, y=proto))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "product" in error.value.details()


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (
            tensor("FLOAT", [1, 10], X.tobytes()[4:]),
            "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b",
        ),
        (
            tensor("FLOAT", [1, 10], int_val=[1] * 10),
            "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b",
        ),
        (
            tensor("FLOAT", [1, 10], float_val=[1] * 9),
            "Invalid number of values in tensor proto container - Expected: 10 values; Actual: 9 values; input name: b",
        ),
        (tensor("INT32", [1, 10], X.tobytes()), "Invalid input precision - Expected: FP32; Actual: I32; input name: b"),
        (
            tensor("COMPLEX64", [1, 10], X.tobytes()),
            "Invalid input precision - Expected: FP32; Actual: ",
        ),
        (
            tensor("FLOAT", [1, 2, 5], X.tobytes()),
            "Invalid number of shape dimensions - Expected: (1,10); Actual: (1,2,5); input name: b",
        ),
        (tensor("FLOAT", [2, 10], X.tobytes() * 2), "Invalid input batch size - Expected: 1; Actual: 2; input name: b"),
        (tensor("FLOAT", [1, -10], X.tobytes()), "Invalid input shape - Negative or zero dimension size"),
        (tensor("FLOAT", [1 << 62, 10], float_val=[1]), "Invalid input batch size"),
    ],
)
def test_misfits(stub, proto, text):
    with pytest.raises(grpc.RpcError) as error:
        stub.Predict(predict_request("dummy", b=proto))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith(text)


def test_methods_that_are_not_served(server, stub):
    with pytest.raises(grpc.RpcError) as error:
        stub.Classify(classification_pb2.ClassificationRequest())
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    status, _, body = server.request("POST", "/v1/models/dummy:classify", "{}")
    assert (status, json.loads(body)) == (404, {"error": "Requested REST resource not found"})


def test_rows_and_columns(server):
    body = {"signature_name": "serving_default", "instances": [{"b": X[0].tolist()}]}
    assert predict(server, "dummy", body) == (200, {"predictions": (X + 1).tolist()})
    assert predict(server, "dummy", {"instances": X.tolist()}) == (200, {"predictions": (X + 1).tolist()})
    assert predict(server, "dummy", {"inputs": {"b": X.tolist()}}) == (200, {"outputs": (X + 1).tolist()})
    assert predict(server, "dummy", {"inputs": X.tolist()}, "/versions/1") == (200, {"outputs": (X + 1).tolist()})
    both = {"x": X[0].tolist(), "y": X[0].tolist()}
    expected = {"sum": (X + X)[0].tolist(), "difference": (X - X)[0].tolist()}
    assert predict(server, "two", {"instances": [both]}) == (200, {"predictions": [expected]})


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("{", 412, "The file is not valid json"),
        ("[]", 400, "Request body should be JSON object"),
        ("{}", 400, "Invalid JSON structure. Could not detect row or column format"),
        ({"inputs": [[1, 2], [3]]}, 400, "Could not parse input content. Not valid ndarray detected"),
        ({"instances": [[1, 2], [3]]}, 400, "Could not parse instance content. Not valid ndarray detected"),
        ({"inputs": [["x"] * 10]}, 400, "Could not parse input content. Not valid ndarray detected"),
        ({"inputs": [[1e39] * 10]}, 400, "Could not parse input content. Not valid ndarray detected"),
        ({"inputs": {"c": X.tolist()}}, 400, "Missing input with specific name - Required input: b"),
        ({"inputs": {"b": 1, "c": 1}}, 400, "Invalid number of inputs - Expected: 1; Actual: 2"),
        ({"inputs": [[0] * 9]}, 400, "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b"),
    ],
)
def test_wrong_bodies(server, body, status, text):
    answered, value = predict(server, "dummy", body)
    assert list(value) == ["error"]
    assert value["error"].startswith(text)
    assert answered == status


@pytest.mark.parametrize("body", [{"inputs": {"image": [None]}}, {"instances": [{"image": None}]}])
def test_images_over_rest(server, body):
    image = {"b64": base64.b64encode(png(PIXELS)).decode()}
    expected = PIXELS[None, :, :, ::-1].tolist()
    text = json.dumps(body).replace("null", json.dumps(image))
    status, value = predict(server, "image", text)
    assert (status, value) == (200, {"outputs" if "inputs" in body else "predictions": expected})
    broken = json.dumps(body).replace("null", json.dumps({"b64": "bm8gaW1hZ2U="}))
    status, value = predict(server, "image", broken)
    assert status == 400
    assert value["error"].startswith("Image parsing failed")


def test_states_and_configuration(server):
    status, value = server.json("GET", "/v1/models/dummy")
    state = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}
    assert (status, value) == (200, {"model_version_status": [state]})
    assert server.json("GET", "/v1/models/dummy/versions/1") == (200, value)
    status, everything = server.json("GET", "/v1/config")
    assert status == 200
    assert everything["dummy"] == value
    assert server.json("GET", "/v1/models/nope") == (404, {"error": "Model with requested name is not found"})
    assert server.json("GET", "/v1/elsewhere") == (400, {"error": "Invalid request URL"})
    assert server.json("POST", "/v1/models/dummy") == (406, {"error": "Unsupported method"})
    assert server.json("GET", "/v1/models/../dummy")[0] == 400


def test_reload(tmp_path):
    base = models.save(models.add(), tmp_path / "dummy")
    config = {"model_config_list": [models.entry("dummy", base)]}
    with OvmsServer(config, "--file_system_poll_wait_seconds", "0", workdir=tmp_path) as server:
        status, before = server.reload()
        assert (status, list(before)) == (200, ["dummy"])
        config["model_config_list"].append(models.entry("other", base))
        server.write_config(config)
        status, after = server.reload()
        assert (status, sorted(after)) == (201, ["dummy", "other"])
        assert predict(server, "other", {"inputs": X.tolist()}) == (200, {"outputs": (X + 1).tolist()})
        config["model_config_list"].pop()
        server.write_config(config)
        assert server.reload()[0] == 201
        wait_until(lambda: server.states("other") == {1: "END"}, 10, "the end of the model")
        status, value = predict(server, "other", {"inputs": X.tolist()})
        assert (status, value) == (404, {"error": "Model with requested version is retired"})


def test_many_at_once(server, stub):
    proto = tensor("FLOAT", [1, 10], X.tobytes())

    def ask(number):
        if number % 2:
            return stub.Predict(predict_request("dummy", b=proto)).outputs["a"].tensor_content == (X + 1).tobytes()
        return predict(server, "dummy", {"inputs": X.tolist()}) == (200, {"outputs": (X + 1).tolist()})

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(400)))


# ---- Triton's models ----


@pytest.fixture(scope="module")
def triton(module_repository, module_serve):
    repository = module_repository
    pair = [("INPUT0", "FP32", [4]), ("INPUT1", "FP32", [4])]
    outputs = [("OUTPUT0", "FP32", [4]), ("OUTPUT1", "FP32", [4])]
    source = per_request(
        "a, b = get(request, 'INPUT0'), get(request, 'INPUT1'); return respond(OUTPUT0=a + b, OUTPUT1=a - b)"
    )
    repository.add("add_sub", source, config("add_sub", pair, outputs))
    repository.add_identity("strings", "STRING")
    repository.add_identity("batched", "INT16", [-1], max_batch_size=8)
    decoupled = "model_transaction_policy { decoupled: true }"
    repository.add_identity("decoupled", extra=decoupled)
    return module_serve(repository)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_python_model(triton, protocol):
    client = client_of(protocol, triton)
    a = np.array([1, 2, 3, 4], np.float32)
    result = client.predict({"INPUT0": a, "INPUT1": a}, "add_sub")
    np.testing.assert_array_equal(result["OUTPUT0"], a + a)
    np.testing.assert_array_equal(result["OUTPUT1"], a - a)
    batch = np.arange(6, dtype=np.int16).reshape(3, 2)
    np.testing.assert_array_equal(client.predict({"IN": batch}, "batched"), batch)
    assert client.get_model_status("add_sub")[1]["state"] == "AVAILABLE"
    assert client.get_model_metadata("batched")["inputs"] == {"IN": {"shape": [-1, -1], "dtype": "DT_INT16"}}
    with pytest.raises(ModelNotFoundError, match="Request for unknown model: 'nope' is not found"):
        client.predict({"x": a}, "nope")
    with pytest.raises(InvalidInputError, match="expected 2 inputs but got 1 inputs for model 'add_sub'"):
        client.predict({"INPUT0": a}, "add_sub")
    assert result["OUTPUT0"].dtype == (np.float32 if protocol == "grpc" else np.float64)


def test_strings(triton):
    values = [b"", "größe".encode(), b"\x00\xff", b"x" * 10_000]
    with grpc.insecure_channel(triton.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(predict_request("strings", IN=tensor("STRING", [4], string_val=values)))
    assert list(answer.outputs["OUT"].string_val) == values
    assert answer.outputs["OUT"].dtype == types_pb2.DT_STRING
    texts = ["", "größe", 'quo"te\n']
    assert predict(triton, "strings", {"inputs": texts}) == (200, {"outputs": texts})
    encoded = {"b64": base64.b64encode(values[2]).decode()}
    assert predict(triton, "strings", {"inputs": [encoded]}) == (200, {"outputs": [encoded]})


def test_models_that_answer_more_than_once(triton):
    body = {"inputs": [1.0]}
    text = "Predict doesn't support models with decoupled transaction policy"
    assert predict(triton, "decoupled", body) == (501, {"error": text})


def test_all_apis_share_the_ports(triton):
    assert triton.json("GET", "/v2/models/add_sub")[0] == 200
    status, states = triton.json("GET", "/v1/config")
    assert status == 200
    assert sorted(states) == ["add_sub", "batched", "decoupled", "strings"]
    status, value = triton.json("POST", "/v1/config/reload")
    assert status == 412
    assert "config.json" in value["error"]
    with grpc.insecure_channel(triton.grpc) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "add_sub"
        assert len(stub.GetModelStatus(request).model_version_status) == 1


def test_large_tensors(triton):
    rows = np.random.default_rng(1).integers(-9, 9, (8, 200_000)).astype(np.int16)
    for protocol in ("grpc", "http"):
        np.testing.assert_array_equal(client_of(protocol, triton).predict({"IN": rows}, "batched"), rows)
