"""Pipelines of a config.json: results, demultiplexing and gathering, and error texts."""

import shutil

import grpc
import numpy as np
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.waiting import wait_until
from ovmsclient import make_grpc_client
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException


def node(name, model, inputs, outputs, **more):
    """Returns a node; inputs: {input: "node/item"}, outputs: {item: alias}."""
    return {
        "name": name,
        "type": "DL model",
        "model_name": model,
        "inputs": [{key: source(value)} for key, value in inputs.items()],
        "outputs": [{"data_item": item, "alias": alias} for item, alias in outputs.items()],
        **more,
    }


def source(text):
    name, item = text.split("/")
    return {"node_name": name, "data_item": item}


def pipeline(name, inputs, outputs, nodes, **more):
    return {
        "name": name,
        "inputs": inputs,
        "outputs": [{key: source(value)} for key, value in outputs.items()],
        "nodes": nodes,
        **more,
    }


def double(name, origin, **more):
    return node(name, "double", {"x": origin}, {"y": "y"}, **more)


def cut(name, origin, **more):
    return node(name, "same3", {"x": origin}, {"y": "y"}, **more)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "model_config_list": [
            models.entry("double", models.save(models.scale((-1, -1)), folder / "double")),
            models.entry("same3", models.save(models.scale((-1, -1, -1), 1.0), folder / "same3")),
            models.entry("add", models.save(models.add((-1, -1), 1.0), folder / "add")),
            models.entry("ints", models.save(models.scale((-1, -1), 3, np.int32), folder / "ints")),
        ],
        "pipeline_config_list": [
            pipeline(
                "chain",
                ["in"],
                {"out": "b/a", "middle": "a/y", "same": "request/in"},
                [node("b", "add", {"b": "a/y"}, {"a": "a"}), double("a", "request/in")],
            ),
            pipeline(
                "pieces",
                ["in"],
                {"out": "b/y"},
                [cut("a", "request/in", demultiply_count=-1), double("b", "a/y")],
            ),
            pipeline(
                "gathered",
                ["in"],
                {"out": "g/y"},
                [
                    cut("a", "request/in", demultiply_count=2),
                    double("b", "a/y"),
                    cut("g", "b/y", gather_from_node="a"),
                ],
            ),
            pipeline("whole", ["in"], {"out": "a/y"}, [double("a", "request/in")], demultiply_count=0),
            pipeline(
                "converted",
                ["in"],
                {"out": "b/y"},
                [double("a", "request/in"), node("b", "ints", {"x": "a/y"}, {"y": "y"})],
                convert_precision=True,
            ),
            pipeline(
                "broken",
                ["in"],
                {"out": "b/none"},
                [double("a", "request/nothing"), node("b", "missing", {"x": "a/y"}, {"y": "y"})],
            ),
        ],
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory, config):
    with OvmsServer(config, workdir=tmp_path_factory.mktemp("pipelines")) as server:
        yield server


@pytest.fixture
def client(server):
    with InferenceServerClient(server.grpc) as client:
        yield client


def infer(client, name, value):
    value = np.asarray(value, np.float32)
    tensor = InferInput("in", list(value.shape), "FP32")
    tensor.set_data_from_numpy(value)
    result = client.infer(name, [tensor])
    return {each.name: result.as_numpy(each.name) for each in result.get_response().outputs}


def shapes(client, name):
    answer = client.get_model_metadata(name)
    assert answer.versions == ["1"]
    assert answer.platform == "OpenVINO"
    return {each.name: list(each.shape) for each in [*answer.inputs, *answer.outputs]}


def test_chain(client):
    x = np.arange(6).reshape(2, 3)
    outputs = infer(client, "chain", x)
    np.testing.assert_array_equal(outputs["out"], 2 * x + 1)
    np.testing.assert_array_equal(outputs["middle"], 2 * x)
    np.testing.assert_array_equal(outputs["same"], x)
    assert client.is_model_ready("chain", "17")


def test_pieces_are_gathered_in_the_response(client):
    assert shapes(client, "pieces") == {"in": [-1, -1, -1], "out": [-1, -1, -1]}
    x = np.arange(24).reshape(4, 2, 3)
    np.testing.assert_array_equal(infer(client, "pieces", x)["out"], 2 * x)


def test_pieces_are_gathered_by_a_node(client):
    assert shapes(client, "gathered")["out"] == [-1, -1, -1]
    x = np.arange(12).reshape(2, 2, 3)
    np.testing.assert_array_equal(infer(client, "gathered", x)["out"], 2 * x)
    with pytest.raises(InferenceServerException, match="Wrong dimension size. Should match demultiply count"):
        infer(client, "gathered", np.zeros((3, 2, 3)))


def test_request_is_cut(client):
    assert shapes(client, "whole") == {"in": [-1, -1, -1], "out": [-1, -1, -1]}
    x = np.arange(30).reshape(5, 2, 3)
    np.testing.assert_array_equal(infer(client, "whole", x)["out"], 2 * x)


@pytest.mark.parametrize("count", [1000, 10000])
def test_many_pieces(client, count):
    x = np.arange(count).reshape(count, 1, 1)
    np.testing.assert_array_equal(infer(client, "pieces", x)["out"], 2 * x)


def test_too_many_pieces(client):
    with pytest.raises(InferenceServerException, match="Too large dynamic demultiplication requested."):
        infer(client, "pieces", np.zeros((10001, 1, 1)))


def test_precisions_are_converted(client):
    outputs = infer(client, "converted", [[1.3, -2.9]])
    np.testing.assert_array_equal(outputs["out"], np.array([[6, -15]], np.int32))


def test_tensorflow_serving(server):
    client = make_grpc_client(server.grpc)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(client.predict({"in": x}, "chain")["out"], 2 * x + 1)
    status, answer = server.json("POST", "/v1/models/pieces:predict", {"inputs": x.reshape(1, 2, 3).tolist()})
    assert status == 200, answer
    assert answer["outputs"] == (2 * x.reshape(1, 2, 3)).tolist()


def test_requests_are_checked(client):
    with pytest.raises(InferenceServerException, match="Invalid number of shape dimensions - Expected: "):
        infer(client, "chain", [1.0])


def test_a_broken_pipeline_is_known_and_says_why(server, client):
    assert not client.is_model_ready("broken")
    with pytest.raises(InferenceServerException, match="Pipeline is not loaded yet") as error:
        infer(client, "broken", [[1.0]])
    assert error.value.status() == "StatusCode." + grpc.StatusCode.UNAVAILABLE.name
    for text in [
        "pipeline 'broken', node 'a', input 'x': takes 'nothing', which is not among the pipeline's inputs",
        "(pipeline 'broken', node 'b')",
        "pipeline 'broken', output 'out': takes 'none', which is not an alias among the outputs of node 'b'",
    ]:
        server.wait_for_log(text.replace("(", r"\(").replace(")", r"\)"))


def test_a_model_goes_away_and_comes_back(tmp_path, config):
    base = tmp_path / "double"
    models.save(models.scale((-1, -1)), base)
    entry = models.entry("double", base)
    chain = pipeline("p", ["in"], {"out": "a/y"}, [double("a", "request/in")])
    with (
        OvmsServer({"model_config_list": [entry], "pipeline_config_list": [chain]}, workdir=tmp_path) as server,
        InferenceServerClient(server.grpc) as client,
    ):
        np.testing.assert_array_equal(infer(client, "p", [[2.0]])["out"], [[4.0]])
        server.write_config({"model_config_list": [], "pipeline_config_list": [chain]})
        server.reload()
        wait_until(lambda: not client.is_model_ready("p"))
        with pytest.raises(InferenceServerException, match="Pipeline is not loaded yet"):
            infer(client, "p", [[2.0]])
        shutil.rmtree(base)
        models.save(models.scale((-1, -1), 5.0), base)
        server.write_config({"model_config_list": [entry], "pipeline_config_list": [chain]})
        server.reload()
        wait_until(lambda: client.is_model_ready("p"))
        np.testing.assert_array_equal(infer(client, "p", [[2.0]])["out"], [[10.0]])
