"""Braid started like OpenVINO Model Server: its command lines, a complete config.json, and both kinds of models in one
server."""

import json
import subprocess
import sys

import numpy as np
import ovmsclient
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from harness import openvino_models as models
from harness.memory import assert_memory_settles
from harness.ovms import OvmsServer
from harness.server import BINARY, Server, children
from harness.waiting import wait_until


@pytest.fixture
def start(tmp_path):
    """start(config, *options) returns a server that ends with the test."""
    servers = []

    def make(config, *options, **more):
        servers.append(OvmsServer(config, *options, workdir=tmp_path, **more))
        return servers[-1]

    yield make
    for server in servers:
        if not server.stopped:
            server.stop()


def kserve(module, address, model, name, array, output):
    """Sends one request by tritonclient; `module` is one of its two."""
    with module.InferenceServerClient(address) as client:
        tensor = module.InferInput(name, list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        return client.infer(model, [tensor]).as_numpy(output)


def four_answers(server, model, name, array, output):
    """Returns the answers of the four APIs to the same request."""
    grpc = ovmsclient.make_grpc_client(server.grpc)
    result = grpc.predict({name: array}, model)
    yield "TFS gRPC", result[output] if isinstance(result, dict) else result
    status, body = server.json("POST", f"/v1/models/{model}:predict", {"inputs": {name: array.tolist()}})
    assert status == 200, body
    outputs = body["outputs"]
    yield "TFS REST", np.array(outputs[output] if isinstance(outputs, dict) else outputs)
    yield "KServe gRPC", kserve(grpcclient, server.grpc, model, name, array, output)
    yield "KServe REST", kserve(httpclient, server.http, model, name, array, output)


def assert_serves(server, model, name, array, output, expected):
    for api, answer in four_answers(server, model, name, array, output):
        np.testing.assert_allclose(answer, expected, rtol=1e-6, err_msg=f"{model} by {api}")


def full_config(folder):
    """Returns a config.json with every setting of the contract, and the expected answers of its servables."""
    x = np.arange(10, dtype=np.float32).reshape(1, 10)
    models.save(models.mlp(), folder / "mlp", 3)
    models.save(models.scale(factor=2), folder / "scale", 1)
    models.save(models.scale(factor=3), folder / "scale", 2)
    models.save(models.scale(factor=5), folder / "scale", 7)
    models.save(models.add((-1, 10)), folder / "add", 1)
    models.save(models.identity((1, 3, 2, 2), input_name="image", output="pixels"), folder / "image", 1)
    config = {
        "model_config_list": [
            models.entry(
                "mlp", folder / "mlp", nireq=2, target_device="CPU", allow_cache=True, shape={"x": "(1,10)"},
                plugin_config={"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1},
            ),
            models.entry("scale", "scale", model_version_policy={"specific": {"versions": [1, 2]}}),
            models.entry("scale_all", folder / "scale", model_version_policy={"all": {}}),
            models.entry("scale_new", folder / "scale", model_version_policy={"latest": {"num_versions": 2}}),
            models.entry("add", folder / "add", batch_size="1:4", stateful=False),
            models.entry("add_any", folder / "add", batch_size="auto"),
            models.entry("image", folder / "image", layout={"image": "NHWC:NCHW"}, precision="FP32"),
        ],
        "pipeline_config_list": [
            {
                "name": "twice",
                "inputs": ["number"],
                "nodes": [
                    {
                        "name": "first", "model_name": "scale", "type": "DL model", "version": 1,
                        "inputs": [{"x": {"node_name": "request", "data_item": "number"}}],
                        "outputs": [{"data_item": "y", "alias": "doubled"}],
                    },
                    {
                        "name": "second", "model_name": "scale", "type": "DL model",
                        "inputs": [{"x": {"node_name": "first", "data_item": "doubled"}}],
                        "outputs": [{"data_item": "y", "alias": "result"}],
                    },
                ],
                "outputs": [{"result": {"node_name": "second", "data_item": "result"}}],
            }
        ],
        "custom_node_library_config_list": [],
        "mediapipe_config_list": [],
        "monitoring": {"metrics": {"enable": True, "metrics_list": ["ovms_requests_success"]}},
    }  # fmt: skip
    return config, x


def test_a_config_in_full_is_served_over_all_apis(start, tmp_path):
    config, x = full_config(tmp_path)
    server = start(config)
    [expected] = models.infer(tmp_path / "mlp" / "3" / "model.xml", x)
    assert_serves(server, "mlp", "x", x, "y", expected)
    assert_serves(server, "scale", "x", x, "y", x * 3)
    assert_serves(server, "scale_all", "x", x, "y", x * 5)
    assert_serves(server, "twice", "number", x, "result", x * 6)
    rows = np.arange(40, dtype=np.float32).reshape(4, 10)
    assert_serves(server, "add", "b", rows, "a", rows + 1)
    assert_serves(server, "add_any", "b", np.tile(rows, (5, 1)), "a", np.tile(rows, (5, 1)) + 1)
    image = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    assert_serves(server, "image", "image", image, "pixels", image.transpose(0, 3, 1, 2))
    assert server.states("mlp") == {3: "AVAILABLE"}
    assert server.states("scale") == {1: "AVAILABLE", 2: "AVAILABLE"}
    assert server.states("scale_all") == {1: "AVAILABLE", 2: "AVAILABLE", 7: "AVAILABLE"}
    assert server.states("scale_new") == {2: "AVAILABLE", 7: "AVAILABLE"}
    assert server.states("twice") == {1: "AVAILABLE"}
    status, _, metrics = server.request("GET", "/metrics")
    assert status == 200
    series = [line for line in metrics.decode().splitlines() if line.startswith("ovms_requests_success{")]
    assert any('name="mlp"' in line and 'api="TensorFlowServing"' in line for line in series), series


def test_the_same_config_by_the_names_of_triton(start, tmp_path):
    """With Triton's option names, folders are relative to the file, not to the server's working directory."""
    config, x = full_config(tmp_path)
    server = start(config, "--allow-http", "--allow-grpc", "--log-verbose=1", "--id=mine")
    assert_serves(server, "scale", "x", x, "y", x * 3)
    assert server.json("GET", "/v2")[1]["name"] == "mine"


def test_one_model_from_the_command_line(tmp_path):
    models.save(models.add((1, 10)), tmp_path / "add")
    options = ["--model_name", "add", "--model_path", "add", "--shape", '{"b": "(2,10)"}', "--nireq", "1"]
    options += ["--target_device", "CPU", "--plugin_config", '{"PERFORMANCE_HINT": "LATENCY"}', "--log_level", "DEBUG"]
    options += ["--model_version_policy", '{"all": {}}', "--file_system_poll_wait_seconds", "0", "--metrics_enable"]
    with Server([], *options, workdir=tmp_path) as server:
        x = np.ones((2, 10), np.float32)
        assert_serves(server, "add", "b", x, "a", x + 1)
        assert server.json("GET", "/v2")[1]["name"] == "OpenVINO Model Server"
        assert server.request("GET", "/metrics")[0] == 200
        status, body = server.json("POST", "/v1/models/add:predict", {"inputs": {"b": np.ones((1, 10)).tolist()}})
        assert (status, body["error"]) == (400, "Invalid input batch size - Expected: 2; Actual: 1; input name: b")


def test_the_ports_of_openvino_model_server(tmp_path):
    """With only --port there is no REST port, and the number counts for gRPC."""
    models.save(models.add(), tmp_path / "add")
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": [models.entry("add", "add")]}))
    usage = subprocess.run(
        [BINARY, "serve", "--config_path", tmp_path / "config.json", "--port", "0", "--rest_port", "0"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert usage.returncode == 64
    assert "at least one is needed" in usage.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid json"),
        ('{"model_config_list": [{"config": {"name": "m", "base_path": "m", "nirek": 1}}]}', "nirek"),
        ("{}", "model_config_list"),
    ],
)
def test_a_config_with_a_fault_keeps_the_server_from_starting(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    command = [BINARY, "serve", "--config_path", path, "--grpc-port", "0", "--http-port", "0", "--host", "127.0.0.1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("{", [], "not valid json"),
        ('{"model_config_list": []}', ["--metrics_enable", "--metrics_list", "nope"], "Invalid name in metrics_list"),
    ],
)
def test_a_start_that_fails_beside_loaded_models_ends(tmp_path, text, options, message):
    folder = tmp_path / "models" / "negate" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(NEGATE)
    (folder.parent / "config.pbtxt").write_text(python_model("negate"))
    (tmp_path / "config.json").write_text(text)
    command = [BINARY, "serve", tmp_path / "models", "--python", sys.executable, "--host", "127.0.0.1", *options]
    command += ["--config_path", tmp_path / "config.json"]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert message in ended.stderr


def test_no_python_is_needed(start, tmp_path):
    models.save(models.add(), tmp_path / "add")
    config = {"model_config_list": [models.entry("add", "add")]}
    server = start(config, "--python", "/nowhere/python3", env={"PATH": "/nowhere", "VIRTUAL_ENV": ""})
    x = np.zeros((1, 10), np.float32)
    assert_serves(server, "add", "b", x, "a", x + 1)
    assert children(server.process.pid) == []


def test_routes_that_do_not_exist(start, tmp_path):
    models.save(models.add(), tmp_path / "add")
    server = start({"model_config_list": [models.entry("add", "add")]})
    for method, path, code, text in (
        ("GET", "/nowhere", 400, "Invalid request URL"),
        ("GET", "/metrics", 400, "Invalid request URL"),
        ("GET", "/v1/nowhere", 400, "Invalid request URL"),
        ("GET", "/v2/models/add/infer", 406, "Unsupported method"),
        ("GET", "/v1/models/add:predict", 406, "Unsupported method"),
        ("GET", "/v1/config/reload", 406, "Unsupported method"),
        ("POST", "/v1/models/add:classify", 404, "Requested REST resource not found"),
    ):
        assert server.json(method, path) == (code, {"error": text}), path


def test_a_faulty_servable_does_not_stop_the_others(start, tmp_path):
    models.save(models.add(), tmp_path / "add")
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.xml").write_text("no model")
    config = {"model_config_list": [models.entry("add", "add"), models.entry("broken", "broken")]}
    server = start(config)
    x = np.zeros((1, 10), np.float32)
    assert_serves(server, "add", "b", x, "a", x + 1)
    assert server.states("broken") == {1: "LOADING"}
    status, body = server.json("POST", "/v1/models/broken:predict", {"inputs": {"b": x.tolist()}})
    assert (status, body["error"]) == (404, "Model with requested version is not loaded yet")


def test_a_reload_applies_what_is_right_and_keeps_the_rest(start, tmp_path):
    models.save(models.add(value=1), tmp_path / "add")
    server = start({"model_config_list": [models.entry("add", "add")]}, "--file_system_poll_wait_seconds", "0")
    x = np.zeros((1, 10), np.float32)
    assert server.reload()[0] == 200
    server.write_config({"model_config_list": [models.entry("add", "add"), models.entry("more", "add")]})
    status, states = server.reload()
    assert status == 201
    assert states["more"]["model_version_status"][0]["state"] == "AVAILABLE"
    server.config_path.write_text("{")
    status, body = server.reload()
    assert status == 412
    assert "error" in body
    assert_serves(server, "more", "b", x, "a", x + 1)
    server.write_config({"model_config_list": [models.entry("add", "add")]})
    assert server.reload()[0] == 201
    # It ends on a separate thread once its infer requests have ended.
    wait_until(lambda: server.states("more") == {1: "END"}, what="the end of the model")
    status, body = server.json("POST", "/v1/models/more:predict", {"inputs": {"b": x.tolist()}})
    assert (status, body["error"]) == (404, "Model with requested version is retired")


PIPELINE_CALLER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            call = pb_utils.InferenceRequest(
                model_name="chain", requested_output_names=["result"], inputs=[pb_utils.Tensor("number", x)]
            )
            answer = call.exec()
            if answer.has_error():
                responses.append(pb_utils.InferenceResponse([], error=answer.error()))
                continue
            y = pb_utils.get_output_tensor_by_name(answer, "result").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", y)]))
        return responses
"""

NEGATE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", -pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())]
            )
            for request in requests
        ]
"""


def python_model(name):
    return f"""
name: "{name}"
backend: "python"
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 1, 10 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1, 10 ] }} ]
"""


def test_the_strands_cross(tmp_path):
    """A client calls a Python model, which calls a pipeline with a Python node and an OpenVINO node."""
    for name, code in (("caller", PIPELINE_CALLER), ("negate", NEGATE)):
        folder = tmp_path / "models" / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(code)
        (folder.parent / "config.pbtxt").write_text(python_model(name))
    models.save(models.add((1, 10), value=1), tmp_path / "add")
    config = {
        "model_config_list": [models.entry("add", "add")],
        "pipeline_config_list": [
            {
                "name": "chain",
                "inputs": ["number"],
                "nodes": [
                    {
                        "name": "minus", "model_name": "negate", "type": "DL model",
                        "inputs": [{"INPUT0": {"node_name": "request", "data_item": "number"}}],
                        "outputs": [{"data_item": "OUTPUT0", "alias": "negative"}],
                    },
                    {
                        "name": "plus", "model_name": "add", "type": "DL model",
                        "inputs": [{"b": {"node_name": "minus", "data_item": "negative"}}],
                        "outputs": [{"data_item": "a", "alias": "sum"}],
                    },
                ],
                "outputs": [{"result": {"node_name": "plus", "data_item": "sum"}}],
            }
        ],
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    with Server([tmp_path / "models"], "--config_path", tmp_path / "config.json", workdir=tmp_path) as server:
        x = np.arange(10, dtype=np.float32).reshape(1, 10)
        assert_serves(server, "chain", "number", x, "result", 1 - x)
        for module, address in ((grpcclient, server.grpc), (httpclient, server.http)):
            np.testing.assert_array_equal(kserve(module, address, "caller", "INPUT0", x, "OUTPUT0"), 1 - x)


@pytest.mark.parametrize("count", [2000, pytest.param(10000, marks=pytest.mark.campaign)])
def test_memory_does_not_grow_with_requests(start, tmp_path, count):
    """Requests to a pipeline, half of them faulty, leave no memory behind."""
    config, x = full_config(tmp_path)
    server = start(config)
    with grpcclient.InferenceServerClient(server.grpc) as client:

        def ask(array):
            tensor = grpcclient.InferInput("number", list(array.shape), "FP32")
            tensor.set_data_from_numpy(array)
            return client.infer("twice", [tensor])

        def ask_all():
            for _ in range(count // 2):
                ask(x)
                with pytest.raises(Exception, match="Invalid input shape"):
                    ask(np.zeros((1, 9), np.float32))

        assert_memory_settles(server.process.pid, ask_all)
