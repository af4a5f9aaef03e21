"""Model files with absurd sizes, paths to the outside, damage, or endless text.

Each affects only its own model: the load fails with a reason, or a process ends. The server and other models continue.
"""

import base64
import json
import os
import pathlib
import re

import numpy as np
import openvino
import pytest
from harness import openvino_models as models
from harness.graph_texts import GOOD
from harness.ovms import OvmsServer
from harness.repository import config
from harness.server import children
from onnx import TensorProto, helper
from openvino import opset13 as ops

X = np.arange(10, dtype=np.float32).reshape(1, 10)
WEIGHTS = X.tobytes()


# ---- handwritten OpenVINO IR ----


def port(number, dims, name=""):
    sizes = "".join(f"<dim>{size}</dim>" for size in dims)
    return f'<port id="{number}" precision="FP32" names="{name}">{sizes}</port>'


def ir(shape="1,10", constant="1,10", offset=0, size=40, element="f32", kind="Add", edges=((0, 0), (1, 0)), version=11):
    """Returns y = x + a constant; bytes."""
    dims = shape.split(",")
    wires = "".join(
        f'<edge from-layer="{layer}" from-port="{out}" to-layer="2" to-port="{into}"/>'
        for into, (layer, out) in enumerate(edges)
    )
    return f"""<?xml version="1.0"?><net name="m" version="{version}"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="{shape}" element_type="f32"/>
  <output>{port(0, dims, "x")}</output></layer>
<layer id="1" name="c" type="Const" version="opset1">
  <data element_type="{element}" shape="{constant}" offset="{offset}" size="{size}"/>
  <output>{port(0, constant.split(","))}</output></layer>
<layer id="2" name="y" type="{kind}" version="opset1"><data auto_broadcast="numpy"/>
  <input>{port(0, dims)}{port(1, dims)}</input><output>{port(2, dims, "y")}</output></layer>
<layer id="3" name="r" type="Result" version="opset1"><input>{port(0, dims)}</input></layer>
</layers><edges>{wires}<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges><rt_info/></net>""".encode()


def of_ir(xml, weights=WEIGHTS):
    return {"1/model.xml": xml, "1/model.bin": weights}


def spread(*sizes):
    """Returns x + a constant that is broadcast to a shape."""
    x = ops.parameter([1], np.float32, name="x")
    much = ops.relu(ops.broadcast(ops.constant(np.float32([1])), ops.constant(np.int64(sizes))))
    return openvino.Model([ops.reduce_sum(ops.add(much, x), ops.constant(np.int64([0])))], [x], "spread")


# ---- ONNX ----


def onnx(tensors, nodes=(("Add", ["x", "w"], ["y"]),), dims=("n", 10)):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def inline(data, *dims):
    return {"1/model.onnx": onnx([TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=data)])}


def external(location, dims=(10,), **more):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return {"1/model.onnx": onnx([tensor]), "1/w.bin": WEIGHTS}


# An index in a constant; OpenVINO reads beyond the tensor while it compiles the model.
CRASHING = onnx(
    [
        helper.make_tensor("data", TensorProto.FLOAT, [4], [0, 1, 2, 3]),
        helper.make_tensor("place", TensorProto.INT64, [1, 1], [10**12]),
    ],
    [("GatherND", ["data", "place"], ["w"]), ("Add", ["x", "w"], ["y"])],
)
LEVELS = 300_000
NOISE = bytes(range(256)) * 40

HOSTILE = {
    "offset_past_the_end": of_ir(ir(offset=1000)),
    "offset_wraps": of_ir(ir(offset=2**64 - 20)),
    "offset_negative": of_ir(ir(offset=-8)),
    "size_too_small": of_ir(ir(size=4)),
    "size_wraps": of_ir(ir(constant=f"{2**32},{2**32}")),
    "size_huge": of_ir(ir(size=2**63)),
    "elements_overflow": of_ir(ir(constant=f"{2**33},{2**33}", size=0)),
    "no_weights": of_ir(ir(), b""),
    "half_the_weights": of_ir(ir(), WEIGHTS[:20]),
    "4_terabytes": of_ir(ir(shape="1,1000000000000", constant="1", size=4)),
    "dimensions_overflow": of_ir(ir(shape=f"{2**62},{2**62}", constant="1", size=4)),
    "dimension_negative": of_ir(ir(shape="-2,10")),
    "dimension_of_digits": of_ir(ir(shape="1," + "9" * 4000)),
    "rank_of_10000": of_ir(ir(shape=",".join("1" * 10000), constant="1", size=4)),
    "version": of_ir(ir(version=10**30)),
    "element_type": of_ir(ir(element="f99")),
    "unknown_operation": of_ir(ir(kind="Evil")),
    "cycle": of_ir(ir(edges=((0, 0), (2, 2)))),
    "edge_from_nowhere": of_ir(ir(edges=((0, 0), (77, 0)))),
    "port_absurd": of_ir(ir(edges=((0, 4_000_000_000), (1, 0)))),
    "cut": of_ir(ir()[:300]),
    "empty": of_ir(b""),
    "noise": of_ir(NOISE),
    "deep": of_ir(ir().replace(b"<rt_info/>", b"<a>" * LEVELS)),
    "spread_overflows": spread(2**40, 2**40),
    "spread_to_petabytes": spread(10**15),
    "onnx_outside": external("../../../../../../../../../../../../etc/passwd", length=40),
    "onnx_absolute": external("/etc/passwd", length=40),
    "onnx_device": external("/dev/zero", length=40),
    "onnx_missing": external("nothing"),
    "onnx_offset": external("w.bin", offset=10**12, length=40),
    "onnx_wraps": external("w.bin", offset=2**64 - 8, length=40),
    "onnx_length": external("w.bin", length=2**62),
    "onnx_no_number": external("w.bin", offset="x", length="y"),
    "onnx_too_short": external("w.bin", (100,), length=400),
    "onnx_inline_short": inline(WEIGHTS, 1_000_000),
    "onnx_inline_wraps": inline(WEIGHTS, 2**32, 2**32),
    "onnx_inline_negative": inline(WEIGHTS, -10),
    "onnx_cut": {"1/model.onnx": inline(WEIGHTS, 10)["1/model.onnx"][:60]},
    "onnx_noise": {"1/model.onnx": NOISE},
    "onnx_deep": {"1/model.onnx": b"\x3a\xff\xff\xff\xff\x0f" * 100_000},
    "graphdef_noise": {"1/model.graphdef": NOISE},
    "savedmodel_noise": {"1/model.savedmodel/saved_model.pb": NOISE},
    "tflite_noise": {"1/model.tflite": b"\x1c\0\0\0TFL3" + NOISE},
    "tflite_places": {"1/model.tflite": b"\xff\xff\xff\x7fTFL3" + b"\xff" * 4000},
    "paddle_noise": {"1/model.pdmodel": NOISE},
}


def add(repository, name, files, config_text='backend: "openvino"'):
    if isinstance(files, openvino.Model):
        repository.add(name, None, config_text, versions=())
        models.save(files, repository.path / name)
    else:
        repository.add(name, None, config_text, files=files)


def load(server, name, **parameters):
    """Returns None, or the text of the error."""
    status, answer = server.json("POST", f"/v2/repository/models/{name}/load", {"parameters": parameters})
    return None if status == 200 else answer["error"]


def goes_on(server, client):
    np.testing.assert_array_equal(client.infer("line", {"b": X}).as_numpy("a"), X + 1)
    assert server.process.poll() is None


def resident_bytes(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    add(module_repository, "line", models.add(), None)
    return module_serve(module_repository, "--model-control-mode=explicit", "--load-model=line")


@pytest.fixture
def client(server, connect):
    return connect("http", server)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_is_refused_or_costs_itself_alone(server, module_repository, client, name):
    add(module_repository, name, HOSTILE[name])
    error = load(server, name)
    assert re.match(f"load failed for model '{name}': version 1 is at UNAVAILABLE state: [A-Z].{{12}}", error), error
    assert "root:" not in error
    goes_on(server, client)


def test_the_memory_of_what_was_refused_comes_back(server, module_repository, client):
    names = ["4_terabytes", "deep", "rank_of_10000", "spread_to_petabytes", "onnx_deep", "onnx_too_short"]
    for name in names:
        add(module_repository, f"again_{name}", HOSTILE[name])
        load(server, f"again_{name}")
    before = resident_bytes(server)
    for _ in range(5):
        for name in names:
            assert load(server, f"again_{name}")
    assert resident_bytes(server) - before < 48 << 20
    goes_on(server, client)


def test_links_of_weights_are_the_operators(server, module_repository, client, tmp_path):
    """A symbolic link in the repository is followed, because the operator made it. A file name inside a model is not."""
    (tmp_path / "w.bin").write_bytes(WEIGHTS)
    add(module_repository, "linked", external("w.bin"))
    (module_repository.path / "linked/1/w.bin").unlink()
    (module_repository.path / "linked/1/w.bin").symlink_to(tmp_path / "w.bin")
    error = load(server, "linked")
    assert error is None or "outside the base directory" in error
    goes_on(server, client)


def test_a_file_that_crashes_its_reader_costs_a_process(module_repository, serve, connect):
    """With --isolate, a file of the operator that crashes its reader ends only a process."""
    add(module_repository, "crashing", {"1/model.onnx": CRASHING})
    server = serve(
        module_repository,
        "--isolate=openvino",
        "--model-control-mode=explicit",
        "--load-model=line",
        "--load-model=crashing",
        "--exit-on-error=false",
        "--strict-readiness=false",
    )
    client = connect("http", server)
    server.wait_for_log("failed to load 'crashing' version 1: .*signal 11")
    for _ in range(3):
        assert "signal 11" in load(server, "crashing")
        goes_on(server, client)
    add(module_repository, "absurd", HOSTILE["4_terabytes"])
    assert "load failed for model 'absurd'" in load(server, "absurd")
    goes_on(server, client)


def test_what_a_client_brings_runs_apart(server, client):
    """Model files from a client are read in a separate process, without any option. One that crashes its reader ends
    only that process."""
    before = children(server.process.pid)
    for settings in ({}, {"parameters": {"ISOLATE": {"string_value": "false"}}}):
        text = json.dumps({"backend": "openvino", **settings})
        crashing = {"config": text, "file:1/model.onnx": base64.b64encode(CRASHING).decode()}
        assert "signal 11" in load(server, "brought", **crashing)
        goes_on(server, client)
        good = {"config": text, "file:1/model.onnx": base64.b64encode(inline(WEIGHTS, 10)["1/model.onnx"]).decode()}
        assert load(server, "brought", **good) is None
        np.testing.assert_array_equal(client.infer("brought", {"x": X}).as_numpy("y"), X + X)
        assert len(children(server.process.pid)) == len(before) + 1
        assert server.json("POST", "/v2/repository/models/brought/unload", {})[0] == 200


MUCH = 100_000_000
LONG = "a" * 4_000_000


def test_a_configuration_too_large_or_too_deep_is_refused(server, module_repository, client):
    plain = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
    texts = {
        "much": plain + "#" * MUCH,
        "deep": plain + "ensemble_scheduling { step {" * LEVELS,
        "lists": plain + "input [" * LEVELS,
        "unknown": plain + "a { a: [" * LEVELS,
        "any": plain + "[type.googleapis.com/inference.ModelConfig] {" * LEVELS,
        "name": plain + f'name: "{LONG}"',
        "field": plain + f"{LONG}: 1",
        "value": plain + f"input {{ data_type: {LONG} }}",
        "tensor": plain + f'input {{ name: "{LONG}" data_type: TYPE_FP32 dims: [0] }}',
        "file": plain + f'default_model_filename: "{LONG}"',
    }
    for kind, text in texts.items():
        module_repository.add(f"text_{kind}", config_text=text)
    resident = []
    for _ in range(3):
        for kind in texts:
            error = load(server, f"text_{kind}")
            assert error.startswith(("failed to load 'text_", "load failed for model 'text_")), error[:1000]
            assert len(error) < 5000, error[:1000]
            goes_on(server, client)
        resident.append(resident_bytes(server))
    # Memory of the first round is reused.
    assert max(resident) - resident[0] < 64 << 20, resident


def test_a_config_json_or_a_graph_too_large_or_too_deep_is_refused(tmp_path):
    entries = [models.entry("line", models.save(models.add(), tmp_path / "line"))]
    graphs = {
        "much": GOOD + "#" * MUCH,
        "deep": GOOD + 'node { calculator: "PassThroughCalculator" options {' * LEVELS,
        "any": GOOD + "node { node_options { [type.googleapis.com/mediapipe.CalculatorGraphConfig] {" * LEVELS,
    }
    listed = []
    for kind, text in graphs.items():
        (tmp_path / f"{kind}.pbtxt").write_text(text)
        listed.append({"name": kind, "base_path": str(tmp_path), "graph_path": f"{kind}.pbtxt"})
    good = {"model_config_list": entries, "mediapipe_config_list": listed}
    with OvmsServer(good, workdir=tmp_path) as server:

        def answers():
            status, answer = server.json("POST", "/v1/models/line:predict", {"instances": X.tolist()})
            assert (status, answer) == (200, {"predictions": (X + 1).tolist()})

        before = resident_bytes(server)
        for kind in graphs:
            assert server.json("GET", f"/v2/models/{kind}/ready")[0] == 404
        for text in (
            json.dumps(good) + " " * MUCH,
            json.dumps(good)[:-1] + ', "a": ' + "[" * LEVELS,
            json.dumps(good)[:-1] + ', "a": ' + '{"a":' * LEVELS,
            '{"model_config_list": [' + '{"config": {}},' * 200_000,
        ):
            server.config_path.write_text(text)
            assert server.reload()[0] >= 400
            answers()
        assert resident_bytes(server) - before < 128 << 20
        server.write_config(good)
        answers()
