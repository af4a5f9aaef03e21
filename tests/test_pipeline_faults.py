"""Errors of pipelines over all four APIs: invalid definitions, and nodes that fail during a request."""

import copy
import json

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.server import BINARY
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

NODES = BINARY.parent / "src" / "pipeline" / "testing" / "nodes"
X = np.arange(10, dtype=np.float32).reshape(1, 10)


def model_node(name, model, source, item, **more):
    return {
        "name": name,
        "model_name": model,
        "type": "DL model",
        "inputs": [{"x": {"node_name": source, "data_item": item}}],
        "outputs": [{"data_item": "y", "alias": "y"}],
        **more,
    }


def custom_node(name, fault="", library="faulty", **more):
    return {
        "name": name,
        "library_name": library,
        "type": "custom",
        "params": {"fault": fault, "addend": "1", "items": "1"},
        "inputs": [{"in": {"node_name": "request", "data_item": "x"}}],
        "outputs": [{"data_item": "sum", "alias": "y"}],
        **more,
    }


def pipeline(name, nodes, source=None, **more):
    outputs = [{"y": {"node_name": source or nodes[-1]["name"], "data_item": "y"}}]
    return {"name": name, "inputs": ["x"], "nodes": nodes, "outputs": outputs, **more}


# ---- definitions: name -> (entry, first line in the log) ----


def definitions():
    """Each definition has one fault."""
    first, second = model_node("a", "m", "request", "x"), model_node("b", "m", "a", "y")

    def changed(node, **more):
        return {**copy.deepcopy(node), **more}

    def fed(node, source, item, name="x"):
        return changed(node, inputs=[{name: {"node_name": source, "data_item": item}}])

    loop = [fed(first, "b", "y"), second]
    twice = changed(first, inputs=first["inputs"] * 2)
    wide = model_node("b", "wide", "a", "y")
    precise = model_node("b", "precise", "a", "y")
    flat = model_node("a", "flat", "request", "x", demultiply_count=10)
    deep = model_node("a", "deep", "request", "x", demultiply_count=3)
    return {
        "duplicate_node": (pipeline("", [first, changed(second, name="a")]), "more than one node with the same name"),
        "no_model": (pipeline("", [model_node("a", "nobody", "request", "x")]), "a model that is not available"),
        "automatic": (pipeline("", [model_node("a", "auto", "request", "x")]), "automatic batch size or shape"),
        "no_node": (pipeline("", [fed(first, "c", "y")]), "a node that does not exist"),
        "no_input": (pipeline("", [fed(first, "request", "x", "z")]), "an input that the node does not have"),
        "twice": (pipeline("", [twice]), "to more than one source"),
        "no_item": (pipeline("", [first, fed(second, "a", "z")]), "that the source node does not give"),
        "no_output": (
            pipeline("", [changed(first, outputs=[{"data_item": "z", "alias": "y"}])]),
            "an output that the node does not have",
        ),
        "not_connected": (pipeline("", [changed(first, inputs=[])]), "leaves an input of a node unconnected"),
        "cycle": (pipeline("", loop), "contains a cycle"),
        "unused": (pipeline("", [first, second], source="a"), "whose results are not used"),
        "shape": (pipeline("", [first, wide]), "Invalid input shape"),
        "precision": (pipeline("", [first, precise]), "Invalid input precision"),
        "few_dimensions": (pipeline("", [flat]), "Not enough dimensions"),
        "other_count": (pipeline("", [deep]), "Demultiply count does not match"),
        "gather_nobody": (
            pipeline("", [first, changed(second, gather_from_node="z")]), "gathers from a node that does not exist"
        ),
        "gather_nothing": (
            pipeline("", [first, changed(second, gather_from_node="a")]), "gathers from a node that is not a demultiplexer"
        ),
        "no_library": (pipeline("", [custom_node("a", library="nobody")]), "library"),
        "unfinished": (pipeline("", [custom_node("a", library="unfinished")]), "library"),
        "initialize": (pipeline("", [custom_node("a", "init_fail")]), "Custom node failed to initialize"),
        "metadata": (pipeline("", [custom_node("a", "info_fail")]), "Custom node failed on metadata call"),
    }  # fmt: skip


# ---- faults during a request: fault of the node -> text ----

RUN_TIME = {
    "fail": "Custom node failed during execution",
    "throw": "Custom node failed during execution",
    "null": "Custom node library has returned corrupted outputs handle",
    "none": "Custom node library has produced corrupted number of outputs",
    "negative": "Custom node library has produced corrupted number of outputs",
    "no_dims": "Custom node has produced tensor with invalid shape",
    "overflow": "Custom node has produced tensor with invalid shape",
    "unspecified": "Custom node has produced tensor with unspecified precision",
    "wrong_bytes": "Custom node output has invalid content size",
    "no_data": "Custom node output has invalid content size",
    "no_name": "Custom node output is missing",
}


@pytest.fixture(scope="module", params=[(), ("--isolate", "custom-nodes")], ids=["inside", "apart"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    made = {
        "m": models.scale((1, 10)),
        "wide": models.scale((1, 12)),
        "precise": models.scale((1, 10), dtype=np.float64),
        "flat": models.scale((10,)),
        "deep": models.identity((2, 1, 10)),
    }
    entries = [models.entry(name, models.save(model, folder / name)) for name, model in made.items()]
    entries.append(models.entry("auto", models.save(models.scale((-1, 10)), folder / "auto"), batch_size="auto"))
    pipelines = [{**entry, "name": name} for name, (entry, _) in definitions().items()]
    pipelines += [pipeline(f"run_{fault}", [custom_node("node", fault)]) for fault in RUN_TIME]
    pipelines.append(pipeline("good", [custom_node("node")]))
    config = {
        "model_config_list": entries,
        "pipeline_config_list": pipelines,
        "custom_node_library_config_list": [
            {"name": "faulty", "base_path": str(NODES / "faulty_node.so")},
            {"name": "unfinished", "base_path": str(NODES / "unfinished_node.so")},
        ],
    }
    with OvmsServer(config, *request.param, workdir=folder) as server:
        yield server


def answers(server, name):
    """Returns {API: (code, text)} of the same request; codes are those of gRPC, or of HTTP."""
    found = {}
    with grpcclient.InferenceServerClient(server.grpc) as client:
        tensor = grpcclient.InferInput("x", [1, 10], "FP32")
        tensor.set_data_from_numpy(X)
        with pytest.raises(grpcclient.InferenceServerException) as error:
            client.infer(name, [tensor])
        found["KServe gRPC"] = (error.value.status(), error.value.message())
    with grpc.insecure_channel(server.grpc) as channel:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = name
        request.inputs["x"].dtype = types_pb2.DT_FLOAT
        request.inputs["x"].tensor_content = X.tobytes()
        for size in X.shape:
            request.inputs["x"].tensor_shape.dim.add(size=size)
        with pytest.raises(grpc.RpcError) as error:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=30)
        found["TFS gRPC"] = (str(error.value.code()), error.value.details())
    body = {"inputs": [{"name": "x", "shape": [1, 10], "datatype": "FP32", "data": X.ravel().tolist()}]}
    status, answer = server.json("POST", f"/v2/models/{name}/infer", body)
    found["KServe REST"] = (status, answer["error"])
    status, answer = server.json("POST", f"/v1/models/{name}:predict", {"inputs": {"x": X.tolist()}})
    found["TFS REST"] = (status, answer["error"])
    return found


@pytest.mark.parametrize("name", definitions())
def test_a_definition_that_does_not_fit(server, name):
    """An invalid definition is registered but unavailable, and the log names it with the reason."""
    for api, (code, text) in answers(server, name).items():
        assert text == "Pipeline is not loaded yet", api
        assert code == ("StatusCode.UNAVAILABLE" if "gRPC" in api else 404), api
    status, states = server.json("GET", f"/v1/models/{name}")
    assert status == 200
    [version] = states["model_version_status"]
    assert version["state"] == "LOADING"
    assert version["status"] == {"error_code": "FAILED_PRECONDITION", "error_message": "FAILED_PRECONDITION"}
    lines = [line for line in server.stderr.splitlines() if f"'{name}'" in line]
    assert any(definitions()[name][1] in line for line in lines), lines


@pytest.mark.parametrize("fault", RUN_TIME)
def test_a_node_that_fails_at_work(server, fault):
    for api, (code, text) in answers(server, f"run_{fault}").items():
        assert text.startswith(RUN_TIME[fault]), api
        assert "node" in text.removeprefix(RUN_TIME[fault]), api
        assert code == ("StatusCode.INTERNAL" if "gRPC" in api else 500), api


def test_the_same_library_works_beside_its_faults(server):
    status, answer = server.json("POST", "/v1/models/good:predict", {"inputs": {"x": X.tolist()}})
    assert status == 200
    np.testing.assert_array_equal(answer["outputs"], X + 1)


def test_all_faults_of_a_definition_are_told_at_once(tmp_path):
    models.save(models.scale((1, 10)), tmp_path / "m")
    bad = pipeline(
        "bad",
        [model_node("a", "nobody", "request", "x"), model_node("b", "m", "c", "y"), model_node("d", "m", "b", "z")],
    )
    config = {"model_config_list": [models.entry("m", tmp_path / "m")], "pipeline_config_list": [bad]}
    with OvmsServer(config, workdir=tmp_path) as server:
        for part in ("'nobody'", "node 'b', input 'x'", "node 'd', input 'x'"):
            assert part in server.stderr, json.dumps(server.stderr.splitlines(), indent=1)
