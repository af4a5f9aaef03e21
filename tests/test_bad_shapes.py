"""Requests with shapes that an OpenVINO model cannot compute get an error with the shape; other requests are
unaffected."""

import json
import threading

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest
from harness import openvino_models as models
from harness.ensembles import ensemble, step
from harness.pipelines import node, pipeline
from harness.repository import Repository, config
from harness.server import Server
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
ONES = np.ones((2, 4), np.float32)
SUMS = np.array([[18, 22, 26]] * 2, np.float32)
CANNOT = "cannot take inputs of these shapes: "

SERVED = ["several", "single", "ranged", "automatic", "chain", "ensemble", "triton", "exported", "batched"]


def product(shape=(-1, -1)):
    """y = x [rows,4] * WEIGHTS"""
    x = op.parameter(list(shape), np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    y = op.matmul(x, op.constant(WEIGHTS), False, False)
    y.output(0).get_tensor().set_names({"y"})
    return ov.Model([op.result(y)], [x], "product")


def onnx_product():
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", tensors[:1], tensors[1:], [numpy_helper.from_array(WEIGHTS, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    base = models.save(product(), folder / "product")
    entries = [
        models.entry("several", base, nireq=3, plugin_config={"NUM_STREAMS": "2"}),
        models.entry("single", base, nireq=1),
        models.entry("ranged", base, shape="(1:8,1:8)"),
        models.entry("automatic", models.save(product((1, 4)), folder / "static"), shape="auto"),
    ]
    chain = pipeline("chain", node("first", "several", "request/in"))
    (folder / "config.json").write_text(json.dumps({"model_config_list": entries, "pipeline_config_list": [chain]}))

    repository = Repository(folder / "repository")
    model = folder / "product" / "1" / "model.xml"
    files = {"1/model.xml": model.read_bytes(), "1/model.bin": model.with_suffix(".bin").read_bytes()}
    repository.add("triton", None, config(backend="openvino"), versions=(), files=files)
    repository.add("exported", None, config(backend="onnxruntime"), versions=(), files={"1/model.onnx": onnx_product()})
    extra = "dynamic_batching { max_queue_delay_microseconds: 1000 }"
    repository.add("batched", None, config(backend="openvino", max_batch_size=8, extra=extra), (), files)
    tensors = [("x", "FP32", [-1, -1])], [("y", "FP32", [-1, -1])]
    ensemble(repository, "ensemble", [step("triton", {"x": "x"}, {"y": "y"})], *tensors)
    options = ("--config_path", folder / "config.json")
    with Server([repository.path], *options, workdir=folder) as served:
        yield served


def ask(client, name, array):
    source, result = ("in", "out") if name == "chain" else ("x", "y")
    return client.infer(name, {source: array}).as_numpy(result)


@pytest.mark.parametrize("name", SERVED)
def test_the_request_after_a_bad_one_is_answered(server, client, name):
    np.testing.assert_array_equal(ask(client, name, ONES), SUMS)
    for columns in (5, 3, 5):
        with client.fails("INVALID_ARG", contains=CANNOT):
            ask(client, name, np.ones((2, columns), np.float32))
        np.testing.assert_array_equal(ask(client, name, ONES), SUMS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("single", "Invalid input shape - model 'single' cannot take inputs of these shapes: x (2,5): "),
        ("automatic", "Invalid input shape - model 'automatic' cannot take inputs of these shapes: x (2,5): "),
        ("triton", "model 'triton' cannot take inputs of these shapes: x [2,5]: "),
        ("exported", "model 'exported' cannot take inputs of these shapes: x [2,5]: "),
    ],
)
def test_the_text_names_the_shapes_and_no_place_in_openvino(server, client, name, text):
    with pytest.raises(InferenceServerException) as caught:
        ask(client, name, np.ones((2, 5), np.float32))
    message = caught.value.message()
    assert message.startswith(text)
    assert "src/" not in message
    assert "pp:" not in message


@pytest.mark.parametrize("name", SERVED)
def test_one_bad_among_eighty(server, connect, name):
    refused, wrong = [], []

    def run(number):
        with_own = connect("grpc", server)
        for i in range(20):
            bad = (number, i) == (2, 9)
            try:
                if not np.array_equal(ask(with_own, name, np.ones((2, 5), np.float32) if bad else ONES), SUMS):
                    wrong.append((number, i))
            except InferenceServerException as error:
                refused.append((number, i, error.message()))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [each[:2] for each in refused] == [(2, 9)], refused
    assert CANNOT in refused[0][2]


def test_a_model_is_compiled_anew_once(server, client):
    """After the first bad shape, each new shape is tried before it reaches the device."""
    for columns in range(5, 15):
        with client.fails("INVALID_ARG", contains=CANNOT):
            ask(client, "single", np.ones((3, columns), np.float32))
    assert server.log.count("recompiling model 'single'") == 1
