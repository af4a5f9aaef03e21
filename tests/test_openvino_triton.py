"""OpenVINO models in a Triton repository: found, completed, batched, or refused with advice."""

import json
import re
import subprocess
import threading

import numpy as np
import openvino
import pytest
from harness.repository import config
from harness.server import BINARY
from harness.waiting import wait_until
from onnx import TensorProto, helper
from openvino import opset13 as ops
from tritonclient.utils import InferenceServerException


def save_ir(folder, shape, name="line"):
    """Writes y = 2 x + 1."""
    x = ops.parameter(shape, np.float32, name="x")
    y = ops.add(ops.multiply(x, np.float32(2)), np.float32(1))
    y.output(0).set_names({"y"})
    path = folder / "1" / "model.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(openvino.Model([y], [x], name), path, compress_to_fp16=False)


def onnx_bytes(kind=TensorProto.FLOAT):
    """Returns y = x + x."""
    tensors = [helper.make_tensor_value_info(name, kind, ["n", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", tensors[:1], tensors[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def pick_bytes():
    """Returns y = the elements of [0, 1, 2, 3] at the positions x, which OpenVINO does not check."""
    x = helper.make_tensor_value_info("x", TensorProto.INT64, ["n", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    data = helper.make_tensor("data", TensorProto.FLOAT, [4], [0, 1, 2, 3])
    graph = helper.make_graph([helper.make_node("GatherND", ["data", "x"], ["y"])], "pick", [x], [y], [data])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8).SerializeToString()


def identity_bytes():
    """Returns y = x, for strings."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8).SerializeToString()


SMALLER = r"model 'sum': OpenVINO's CPU device computes in a smaller type: INT64 'x' in INT32, INT64 'y' in INT32"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    add = module_repository.add
    save_ir(add("plain", None, None, versions=()), [-1, 3])
    batched = config(
        None, backend="openvino", max_batch_size=8, extra="dynamic_batching { max_queue_delay_microseconds: 1000 }"
    )
    save_ir(add("batched", None, batched, versions=()), [1, 3])
    add("exported", None, 'platform: "onnxruntime_onnx"', files={"1/model.onnx": onnx_bytes()})
    add("found", None, None, files={"1/model.onnx": onnx_bytes()})
    add("words", None, 'platform: "onnxruntime_onnx"', files={"1/model.onnx": identity_bytes()})
    add("sum", None, None, files={"1/model.onnx": onnx_bytes(TensorProto.INT64)})
    add("pick", None, 'platform: "onnxruntime_onnx"', files={"1/model.onnx": pick_bytes()})
    add("torch", None, 'platform: "pytorch_libtorch"', files={"1/model.pt": b"x"})
    save_ir(add("wrong", None, config(None, [("z", "FP32", [3])], backend="openvino"), versions=()), [-1, 3])
    return module_serve(module_repository, "--exit-on-error=false", "--strict-readiness=false")


@pytest.mark.parametrize(("model", "factor", "offset"), [("plain", 2, 1), ("exported", 2, 0), ("found", 2, 0)])
def test_a_model_without_a_configuration_answers(server, client, model, factor, offset):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(client.infer(model, {"x": x}).as_numpy("y"), factor * x + offset)


def test_strings_may_be_more_with_each_request(server, client):
    for count in (2, 3, 1, 40, 0, 5):
        words = np.array([f"{i}" * (i % 40) for i in range(count)], dtype=object)
        answer = client.infer("words", {"x": words}).as_numpy("y")
        assert [word.decode() for word in answer] == list(words)


def test_positions_that_crash_openvino_cost_their_request_alone(server, client):
    server.wait_for_log(
        r"model 'pick' runs in a separate process: .*GatherND '.*' takes positions or counts from requests"
    )
    good = {"x": np.array([[3], [0]])}
    np.testing.assert_array_equal(client.infer("pick", good).as_numpy("y"), [3, 0])
    with pytest.raises(InferenceServerException, match="Stub process 'pick' is not healthy"):
        client.infer("pick", {"x": np.full((3, 1), 1_000_000_000)})
    np.testing.assert_array_equal(client.infer("pick", good).as_numpy("y"), [3, 0])


def test_the_log_says_what_is_computed_in_a_smaller_type(server):
    server.wait_for_log(r"model 'plain' .*FP32 is computed in FP32")
    server.wait_for_log(SMALLER)


@pytest.mark.parametrize("isolation", [(), ("--isolate=openvino",)])
def test_models_that_are_computed_in_a_smaller_type_can_be_refused(repository, serve, connect, isolation):
    repository.add("sum", None, None, files={"1/model.onnx": onnx_bytes(TensorProto.INT64)})
    repository.add("twice", None, None, files={"1/model.onnx": onnx_bytes()})
    server = serve(repository, "--allow-smaller-types=false", "--exit-on-error=false", *isolation, ready=False)
    wait_until(lambda: server.json("GET", "/v2/models/twice/ready")[0] == 200, what="the other model")
    assert server.json("GET", "/v2/models/sum/ready")[0] == 400
    index = {each["name"]: each for each in server.json("POST", "/v2/repository/index", {})[1]}
    assert re.search(f"{SMALLER}; the server was started with --allow-smaller-types=false$", index["sum"]["reason"])


def test_the_check_names_what_is_computed_in_a_smaller_type(repository):
    repository.add("sum", None, None, files={"1/model.onnx": onnx_bytes(TensorProto.INT64)})
    command = [BINARY, "check", repository.path, "--format=json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    [finding] = json.loads(done.stdout)["findings"]
    assert (finding["level"], finding["rule"], finding["servable"]) == ("difference", "warning", "sum")
    assert re.fullmatch(SMALLER, finding["message"])


def test_the_log_says_who_runs_models_of_other_runtimes(server):
    server.wait_for_log(r"model 'exported' is for onnxruntime; OpenVINO runs it")


def test_the_configuration_is_completed(server):
    _, body = server.json("GET", "/v2/models/plain/config")
    assert body["input"][0]["name"] == "x"
    assert body["input"][0]["dims"] == [-1, 3]
    _, body = server.json("GET", "/v2/models/batched/config")
    assert body["input"][0]["dims"] == [3]
    assert body["max_batch_size"] == 8
    _, body = server.json("GET", "/v2/models/batched")
    assert body["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]


def test_requests_of_many_clients_are_batched(server, connect):
    wrong = []

    def run(number):
        with_own = connect("grpc", server)
        for i in range(50):
            x = np.full((1 + i % 3, 3), number * 100 + i, dtype=np.float32)
            if not np.array_equal(with_own.infer("batched", {"x": x}).as_numpy("y"), 2 * x + 1):
                wrong.append((number, i))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    _, body = server.json("GET", "/v2/models/batched/stats")
    stats = body["model_stats"][0]
    assert stats["execution_count"] < stats["inference_stats"]["success"]["count"]


def test_what_cannot_run_says_why(server):
    _, body = server.json("POST", "/v2/repository/index")
    reasons = {model["name"]: model.get("reason", "") for model in body}
    assert "export the model to ONNX" in reasons["torch"]
    assert "the model has no input 'z'; its inputs are: x" in reasons["wrong"]


def test_a_gpu_is_openvinos_own(repository, serve, connect):
    """KIND_GPU means OpenVINO's GPUs; NVIDIA's do not count."""
    text = 'backend: "openvino" instance_group { kind: KIND_GPU }'
    save_ir(repository.add("m", None, text, versions=()), [-1, 3])
    save_ir(repository.add("auto", None, 'backend: "openvino" instance_group { }', versions=()), [-1, 3])
    refusing = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    refusing.wait_for_log(
        "instance group m_0 of model m has kind KIND_GPU but no GPUs are available to OpenVINO, which finds these "
        "devices: CPU"
    )
    assert refusing.json("GET", "/v2/models/auto/config")[1]["instance_group"][0]["kind"] == "KIND_CPU"
    refusing.stop()
    server = serve(repository, "--gpu-fallback=cpu")
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(connect("http", server).infer("m", {"x": x}).as_numpy("y"), 2 * x + 1)
    assert server.json("GET", "/v2/models/m/config")[1]["instance_group"][0]["kind"] == "KIND_CPU"
    assert "(--gpu-fallback=cpu)" in server.log
