"""KServe clients of servables in a config.json: codes, texts, values, metadata, readiness and metrics."""

import json
import struct

import grpc
import numpy as np
import pytest
from harness import openvino_models as models
from harness.clients import strings
from harness.ovms import OvmsServer
from harness.pictures import png
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

X = np.arange(10, dtype=np.float32).reshape(1, 10)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ovms")
    config = {
        "model_config_list": [
            models.entry("dummy", models.save(models.add(), folder / "dummy")),
            models.entry("two", models.save(models.two_outputs(), folder / "two")),
            models.entry("mlp", models.save(models.mlp(), folder / "mlp")),
            models.entry("ranges", models.save(models.scale((-1, -1)), folder / "ranges"), shape="(1:3,10)"),
            models.entry("batch", models.save(models.scale((-1, 10)), folder / "batch"), layout="N..."),
            models.entry("half", models.save(models.identity((1, 2), np.float16), folder / "half")),
            models.entry("image", models.save(models.image(dtype=np.uint8), folder / "image"), layout="NHWC"),
            models.entry("broken", folder / "nothing"),
        ]
    }
    with OvmsServer(config, "--metrics_enable", workdir=folder) as server:
        yield server


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def grpc_fault(stub, request):
    """Returns (code, text) of a request that fails."""
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(request)
    return error.value.code(), error.value.details()


def grpc_request(model="dummy", **inputs):
    """Returns a request; inputs: name=(shape, datatype, raw bytes)."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (shape, datatype, raw) in inputs.items():
        request.inputs.add(name=name, shape=shape, datatype=datatype)
        request.raw_input_contents.append(raw)
    return request


def rest_infer(server, body, model="dummy", tail=b"", version=""):
    """Returns (status, value) of POST infer; a tail follows the JSON, with its header."""
    text = json.dumps(body).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if tail else {}
    status, _, answer = server.request("POST", f"/v2/models/{model}{version}/infer", text + tail, headers)
    return status, json.loads(answer)


def rest_input(name="b", shape=(1, 10), datatype="FP32", **more):
    return {"inputs": [{"name": name, "shape": list(shape), "datatype": datatype, **more}]}


def test_infers_alike(client):
    result = client.infer("dummy", {"b": X})
    np.testing.assert_array_equal(result.as_numpy("a"), X + 1)
    result = client.infer("two", {"x": X, "y": X}, outputs=["difference"])
    np.testing.assert_array_equal(result.as_numpy("difference"), X - X)
    assert result.as_numpy("sum") is None


def test_the_answer_names_model_version_and_id(stub):
    request = grpc_request(b=([1, 10], "FP32", X.tobytes()))
    request.id = "17"
    answer = stub.ModelInfer(request)
    assert (answer.model_name, answer.model_version, answer.id) == ("dummy", "1", "17")
    assert answer.raw_output_contents[0] == (X + 1).tobytes()


def test_typed_contents(stub):
    request = grpc_request()
    tensor = request.inputs.add(name="b", shape=[1, 10], datatype="FP32")
    tensor.contents.fp32_contents.extend(X.ravel())
    assert stub.ModelInfer(request).raw_output_contents[0] == (X + 1).tobytes()


RAW = X.tobytes()
# Requests as (name, shape, datatype, bytes), and the errors over both protocols.
MISFITS = [
    (
        [("b", [1, 10], "FP32", RAW), ("c", [1, 10], "FP32", RAW)],
        "Invalid number of inputs - Expected: 1; Actual: 2",
    ),
    ([("c", [1, 10], "FP32", RAW)], "Missing input with specific name - Required input: b"),
    ([("b", [1, 10], "INT32", RAW)], "Invalid input precision - Expected: FP32; Actual: INT32; input name: b"),
    (
        [("b", [1, 2, 5], "FP32", RAW)],
        "Invalid number of shape dimensions - Expected: (1,10); Actual: (1,2,5); input name: b",
    ),
    ([("b", [2, 10], "FP32", RAW * 2)], "Invalid input batch size - Expected: 1; Actual: 2; input name: b"),
    ([("b", [1, 9], "FP32", RAW[:36])], "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b"),
    (
        [("b", [1, 10], "FP32", RAW[:36])],
        "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b",
    ),
]


@pytest.mark.parametrize(("inputs", "text"), MISFITS, ids=[text.split(" - ")[0] for _, text in MISFITS])
def test_a_misfit(server, stub, inputs, text):
    request = service_pb2.ModelInferRequest(model_name="dummy")
    body = {"inputs": []}
    for name, shape, datatype, raw in inputs:
        request.inputs.add(name=name, shape=shape, datatype=datatype)
        request.raw_input_contents.append(raw)
        size = {"binary_data_size": len(raw)}
        body["inputs"].append({"name": name, "shape": shape, "datatype": datatype, "parameters": size})
    assert grpc_fault(stub, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert rest_infer(server, body, tail=b"".join(raw for *_, raw in inputs)) == (400, {"error": text})


def test_a_negative_dimension(server, stub):
    request = grpc_request(b=([1, -10], "FP32", RAW))
    text = "Invalid input shape - Negative or zero dimension size is not acceptable: (1,-10); input name: b"
    assert grpc_fault(stub, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    status, answer = rest_infer(server, rest_input(shape=(1, -10), data=[0] * 10))
    assert status == 400
    assert answer["error"].startswith("Could not parse input content. Not valid ndarray detected")


def test_too_few_values(server, stub):
    text = "Invalid number of values in tensor proto container - Expected: 10 values; Actual: 9 values; input name: b"
    request = grpc_request()
    request.inputs.add(name="b", shape=[1, 10], datatype="FP32").contents.fp32_contents.extend([0] * 9)
    assert grpc_fault(stub, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert rest_infer(server, rest_input(data=[0] * 9)) == (400, {"error": text})


BOTH = (
    "Passing buffers both in ModelInferRequest::InferInputTensor::contents and in "
    "ModelInferRequest::raw_input_contents is not allowed - "
)


def test_raw_and_typed_contents(stub):
    request = grpc_request(b=([1, 10], "FP32", RAW))
    request.raw_input_contents.append(b"more")
    text = BOTH + "Size of raw_input_contents: 2 is different than number of inputs: 1"
    assert grpc_fault(stub, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    request = grpc_request(b=([1, 10], "FP32", RAW))
    request.inputs[0].contents.fp32_contents.extend([0] * 10)
    text = (
        BOTH + "Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. "
        "Detected buffer in InferInputTensor contents for input: b"
    )
    assert grpc_fault(stub, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)


def test_ranges(client):
    for batch in (1, 3):
        x = np.ones((batch, 10), np.float32)
        np.testing.assert_array_equal(client.infer("ranges", {"x": x}).as_numpy("y"), x * 2)
    with client.fails("INVALID_ARG", "Invalid input batch size - Expected: [1~3]; Actual: 4; input name: x"):
        client.infer("ranges", {"x": np.ones((4, 10), np.float32)})
    with client.fails("INVALID_ARG", "Invalid input shape - Expected: ([1~3],10); Actual: (1,9); input name: x"):
        client.infer("ranges", {"x": np.ones((1, 9), np.float32)})


def test_any_batch(client):
    for batch in (1, 7):
        x = np.full((batch, 10), 3, np.float32)
        np.testing.assert_array_equal(client.infer("batch", {"x": x}).as_numpy("y"), x * 2)
    with client.fails("INVALID_ARG", "Invalid input shape - Expected: (-1,10); Actual: (2,3); input name: x"):
        client.infer("batch", {"x": np.ones((2, 3), np.float32)})


def test_an_unknown_output(client):
    with client.fails("INVALID_ARG", "requested output 'x' is not an output of 'dummy'"):
        client.infer("dummy", {"b": X}, outputs=["x"])


def test_binary_data_without_a_size(server):
    status, answer = rest_infer(server, rest_input(), tail=RAW)
    assert status == 200, answer
    assert answer["outputs"][0]["data"] == [x + 1 for x in range(10)]


@pytest.mark.parametrize(
    ("more", "tail", "text"),
    [
        (
            {"parameters": {"binary_data_size": "40"}},
            RAW,
            "binary_data_size parameter is invalid and cannot be parsed",
        ),
        (
            {"parameters": {"binary_data_size": 44}},
            RAW,
            "Received buffer size is smaller than binary_data_size parameter indicates",
        ),
        (
            {"data": [0] * 10, "parameters": {"binary_data_size": 40}},
            RAW,
            "Request contains values both in binary data and in content value",
        ),
        ({}, RAW + b"more", "Invalid content size of tensor proto"),
    ],
)
def test_wrong_binary_data(server, more, tail, text):
    status, answer = rest_infer(server, rest_input(**more), tail=tail)
    assert status == 400
    assert answer["error"].partition(" - ")[0] == text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        ("x", "Inference-Header-Content-Length header is invalid and couldn't be parsed"),
        ("9999", "Inference-Header-Content-Length header exceeds actual payload length"),
    ],
)
def test_a_wrong_header(server, length, text):
    status, _, answer = server.request(
        "POST", "/v2/models/dummy/infer", b"{}", {"Inference-Header-Content-Length": length}
    )
    assert (status, json.loads(answer)) == (400, {"error": text})


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 412, "The file is not valid json"),
        (b"", 412, "The file is not valid json"),
        (b"[]", 400, "Request body should be JSON object"),
        (b"{}", 400, "Invalid JSON structure, missing inputs"),
        (b'{"inputs":[1]}', 400, "Invalid JSON structure. One of inputs is not a JSON object."),
        (b'{"inputs":[],"parameters":1}', 400, "Could not parse request parameters"),
    ],
)
def test_a_wrong_document(server, body, status, text):
    actual, _, answer = server.request("POST", "/v2/models/dummy/infer", body)
    assert (actual, json.loads(answer)["error"].partition(" - ")[0]) == (status, text)


def test_half_floats_travel_in_binary_form(server, connect):
    x = np.array([[1.5, -2]], np.float16)
    client = connect("http", server)
    tensor = client.input("x", x, binary_data=True)
    result = client.infer("half", [tensor], outputs=[client.output("y", binary_data=True)])
    np.testing.assert_array_equal(result.as_numpy("y"), x)
    with client.fails("INVALID_ARG", contains="Unsupported data precision detected"):
        client.infer("half", [tensor], outputs=[client.output("y", binary_data=False)])
    status, answer = rest_infer(server, rest_input("x", (1, 2), "FP16", data=[1, 2]), "half")
    assert status == 400
    assert answer["error"].startswith("Could not parse input content. Unsupported data precision detected")


def test_names_and_versions_that_are_not_there(server, stub):
    def fault(model, version=""):
        request = grpc_request(model, b=([1, 10], "FP32", RAW))
        request.model_version = version
        return grpc_fault(stub, request)

    nobody = "Mediapipe graph definition with requested name is not found"
    assert fault("nobody") == (grpc.StatusCode.NOT_FOUND, nobody)
    assert fault("dummy", "7") == (grpc.StatusCode.NOT_FOUND, "Model with requested version is not found")
    assert fault("dummy", "x") == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid model version format in request",
    )
    assert rest_infer(server, rest_input(data=[0] * 10), "nobody") == (404, {"error": nobody})
    assert rest_infer(server, rest_input(data=[0] * 10), version="/versions/7") == (
        404,
        {"error": "Model with requested version is not found"},
    )
    assert rest_infer(server, rest_input(data=[0] * 10), version="/versions/0")[0] == 200


def test_readiness(server, stub):
    def ready(model, version=""):
        return stub.ModelReady(service_pb2.ModelReadyRequest(name=model, version=version)).ready

    assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
    assert server.request("GET", "/v2/health/ready")[0] == 200
    assert ready("dummy")
    assert ready("dummy", "1")
    assert not ready("dummy", "7")
    with pytest.raises(grpc.RpcError) as error:
        ready("nobody")
    assert (error.value.code(), error.value.details()) == (
        grpc.StatusCode.NOT_FOUND,
        "Model with requested name is not found",
    )
    assert server.request("GET", "/v2/models/dummy/ready")[0] == 200
    assert server.json("GET", "/v2/models/dummy/versions/7/ready") == (
        404,
        {"error": "Model with requested version is not loaded yet"},
    )
    assert server.json("GET", "/v2/models/nobody/ready") == (
        404,
        {"error": "Model with requested name is not found"},
    )


def test_metadata(server, client):
    expected = {
        "name": "mlp",
        "versions": ["1"],
        "platform": "OpenVINO",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 10]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }
    more = {"as_json": True} if client.protocol == "grpc" else {}
    found = client.raw.get_model_metadata("mlp", **more)
    for side in ("inputs", "outputs"):
        for tensor in found[side]:
            tensor["shape"] = [int(size) for size in tensor["shape"]]
    assert found == expected
    assert client.raw.get_server_metadata(**more)["name"] == "OpenVINO Model Server"
    with client.fails("NOT_FOUND", "Model with requested name is not found"):
        client.raw.get_model_metadata("nobody")


def test_there_are_no_configurations(client):
    with client.fails("UNSUPPORTED", contains="has no model configuration"):
        client.raw.get_model_config("dummy")


def test_statistics(server, connect):
    client = connect("http", server)

    def count():
        return client.raw.get_inference_statistics("two")["model_stats"][0]["inference_stats"]["success"]["count"]

    before = count()
    client.infer("two", {"x": X, "y": X})
    assert count() == before + 1


PIXELS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]], np.uint8)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_encoded_image(server, connect, protocol):
    client = connect(protocol, server)
    tensor = client.input("image", strings(png(PIXELS)))
    result = client.infer("image", [tensor])
    # As BGR, the order of OpenCV and its models.
    np.testing.assert_array_equal(result.as_numpy("pixels"), PIXELS[None, :, :, ::-1])


def test_an_encoded_image_in_contents(stub):
    request = grpc_request("image")
    request.inputs.add(name="image", shape=[1], datatype="BYTES").contents.bytes_contents.append(png(PIXELS))
    answer = stub.ModelInfer(request)
    assert answer.raw_output_contents[0] == PIXELS[:, :, ::-1].tobytes()


def test_an_image_behind_the_json(server):
    image = png(PIXELS)
    body = rest_input("image", (1,), "BYTES")
    status, answer = rest_infer(server, body, "image", tail=struct.pack("<I", len(image)) + image)
    assert status == 200, answer
    assert answer["outputs"][0]["data"] == PIXELS[:, :, ::-1].ravel().tolist()


def test_images_of_a_request_have_so_many_pixels_together(tmp_path, connect):
    shapes = {"many": (-1, 2, 2, 3), "one": (1, 2, 2, 3)}
    entries = []
    for name, shape in shapes.items():
        model = models.identity(shape, np.uint8, "image", "pixels")
        entries.append(models.entry(name, models.save(model, tmp_path / name), layout="NHWC"))
    image = png(PIXELS)
    text = (
        "Image parsing failed - the images of the request exceed 8 pixels (--image-max-pixels) with "
        "image 2; input name: image"
    )
    with OvmsServer({"model_config_list": entries}, "--image-max-pixels=8", workdir=tmp_path) as server:
        for protocol in ("http", "grpc"):
            client = connect(protocol, server)
            assert client.infer("many", [client.input("image", strings(image, image))]).as_numpy("pixels").shape[0] == 2
            with client.fails("INVALID_ARG", text):
                client.infer("many", [client.input("image", strings(image, image, image))])
            # Each request has its own image.
            client.infer("one", [client.input("image", strings(image))])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(
    ("images", "text"),
    [
        ([b"no image"], "Image parsing failed"),
        ([b""], "Bytes contents is empty"),
        ([png(PIXELS)] * 2, "Invalid input batch size"),
    ],
)
def test_wrong_images(server, connect, protocol, images, text):
    client = connect(protocol, server)
    with client.fails("INVALID_ARG", contains=text):
        client.infer("image", [client.input("image", strings(*images))])


def test_raw_pixels(client):
    result = client.infer("image", {"image": PIXELS[None]})
    np.testing.assert_array_equal(result.as_numpy("pixels"), PIXELS[None])


def test_a_broken_model_is_registered(server, client):
    with pytest.raises(InferenceServerException) as error:
        client.infer("broken", {"b": X})
    assert error.value.status() in ("404", "StatusCode.NOT_FOUND", "StatusCode.UNAVAILABLE")
    if client.protocol == "grpc":
        assert not client.raw.is_model_ready("broken")


def test_reload(tmp_path, connect):
    base = models.save(models.add(value=1), tmp_path / "dummy")
    policy = {"model_version_policy": {"all": {}}}
    config = {"model_config_list": [models.entry("dummy", base, **policy)]}
    with OvmsServer(config, "--file_system_poll_wait_seconds", "0", workdir=tmp_path) as server:
        client = connect("grpc", server)
        np.testing.assert_array_equal(client.infer("dummy", {"b": X}).as_numpy("a"), X + 1)
        models.save(models.add(value=2), tmp_path / "dummy", 2)
        assert server.reload()[0] in (200, 201)
        np.testing.assert_array_equal(client.infer("dummy", {"b": X}).as_numpy("a"), X + 2)
        old = client.raw.infer("dummy", [client.input("b", X)], model_version="1")
        np.testing.assert_array_equal(old.as_numpy("a"), X + 1)
        server.write_config({"model_config_list": []})
        assert server.reload()[0] == 201
        assert not client.raw.is_model_ready("dummy")
        with client.fails("NOT_FOUND", "Model with requested version is retired"):
            client.infer("dummy", {"b": X})
        status, answer = rest_infer(server, rest_input(data=[0] * 10))
        assert (status, answer) == (404, {"error": "Model with requested version is retired"})


def ovms_metrics(server):
    """Returns {series: value} of GET /metrics of the REST port."""
    status, _, text = server.request("GET", "/metrics")
    assert status == 200
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


def api_series(family, interface, method, name="mlp"):
    return f'{family}{{api="KServe",interface="{interface}",method="{method}",name="{name}",version="1"}}'


@pytest.mark.parametrize(("protocol", "interface"), [("http", "REST"), ("grpc", "gRPC")])
def test_metrics(server, connect, protocol, interface):
    client = connect(protocol, server)
    before = ovms_metrics(server)
    client.infer("mlp", {"x": X})
    with client.fails("INVALID_ARG"):
        client.infer("mlp", {"x": X.astype(np.int32)})
    client.raw.get_model_metadata("mlp")
    client.raw.is_model_ready("mlp")

    def grown(series):
        after = ovms_metrics(server)
        return after[series] - before[series]

    assert grown(api_series("ovms_requests_success", interface, "ModelInfer")) == 1
    assert grown(api_series("ovms_requests_fail", interface, "ModelInfer")) == 1
    assert grown(api_series("ovms_requests_success", interface, "ModelMetadata")) == 1
    assert grown(api_series("ovms_requests_success", interface, "ModelReady")) == 1
    assert grown(f'ovms_request_time_us_count{{interface="{interface}",name="mlp",version="1"}}') == 2
    assert grown('ovms_inference_time_us_count{name="mlp",version="1"}') == 1
    assert grown('ovms_wait_for_infer_req_time_us_count{name="mlp",version="1"}') == 1
    after = ovms_metrics(server)
    assert after['ovms_streams{name="mlp",version="1"}'] >= 1
    wait_until(lambda: ovms_metrics(server)['ovms_current_requests{name="mlp",version="1"}'] == 0)
    assert not any("infer_req_active" in series for series in after)


def test_a_list_of_metrics(tmp_path, connect):
    config = {
        "model_config_list": [models.entry("dummy", models.save(models.add(), tmp_path / "dummy"))],
        "monitoring": {"metrics": {"enable": True, "metrics_list": ["ovms_infer_req_queue_size", "ovms_streams"]}},
    }
    with OvmsServer(config, workdir=tmp_path) as server:
        families = {series.partition("{")[0] for series in ovms_metrics(server)}
        assert families == {"ovms_infer_req_queue_size", "ovms_streams"}


def test_without_metrics(tmp_path):
    config = {"model_config_list": [models.entry("dummy", models.save(models.add(), tmp_path / "dummy"))]}
    with OvmsServer(config, workdir=tmp_path) as server:
        assert server.request("GET", "/metrics")[0] in (400, 404)


def test_pipelines_answer_as_models_do(tmp_path, connect):
    source = {"node_name": "request", "data_item": "in"}
    config = {
        "model_config_list": [models.entry("dummy", models.save(models.add(), tmp_path / "dummy"))],
        "pipeline_config_list": [
            {
                "name": "once",
                "inputs": ["in"],
                "nodes": [
                    {
                        "name": "node",
                        "model_name": "dummy",
                        "type": "DL model",
                        "inputs": [{"b": source}],
                        "outputs": [{"data_item": "a", "alias": "out"}],
                    }
                ],
                "outputs": [{"result": {"node_name": "node", "data_item": "out"}}],
            }
        ],
    }
    with OvmsServer(config, workdir=tmp_path) as server:
        for protocol in ("http", "grpc"):
            client = connect(protocol, server)
            result = client.raw.infer("once", [client.input("in", X)], model_version="9")
            np.testing.assert_array_equal(result.as_numpy("result"), X + 1)
            assert result.get_response(**({"as_json": True} if protocol == "grpc" else {}))["model_version"] == "1"
            with client.fails("INVALID_ARG", "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: in"):
                client.infer("once", {"in": X[:, :9].copy()})
        status, metadata = server.json("GET", "/v2/models/once")
        assert status == 200
        assert metadata["inputs"] == [{"name": "in", "datatype": "FP32", "shape": [1, 10]}]
        assert metadata["platform"] == "OpenVINO"


def test_a_text_model(tmp_path, connect):
    import openvino as ov
    import openvino.opset13 as op

    texts = op.parameter([-1], ov.Type.string, name="texts")
    texts.output(0).get_tensor().set_names({"texts"})
    model = ov.Model([op.result(texts)], [texts], "texts")
    model.outputs[0].get_tensor().set_names({"texts", "same"})
    config = {"model_config_list": [models.entry("texts", models.save(model, tmp_path / "texts"))]}
    with OvmsServer(config, workdir=tmp_path) as server:
        for protocol in ("http", "grpc"):
            client = connect(protocol, server)
            metadata = server.json("GET", "/v2/models/texts")[1]
            sent = strings("a", "", "grüße")
            result = client.infer("texts", {metadata["inputs"][0]["name"]: sent})
            assert list(result.as_numpy(metadata["outputs"][0]["name"])) == [b"a", b"", "grüße".encode()]
            count = "Expected: 2 values; Actual: 3 values; input name: "
            with client.fails("INVALID_ARG", contains=count):
                tensor = client.input(metadata["inputs"][0]["name"], sent)
                tensor.set_shape([2])
                client.infer("texts", [tensor])
