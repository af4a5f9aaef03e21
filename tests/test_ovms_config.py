"""A config.json end to end: loads, reloads by request and by polling, states, and faults that change nothing."""

import json
import pathlib
import shutil
import threading
import time

import numpy as np
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.server import Server
from harness.waiting import wait_until
from onnx import TensorProto, helper, numpy_helper

OK = {"error_code": "OK", "error_message": "OK"}
X = np.arange(10, dtype=np.float32).reshape(1, 10)


def predict(server, name, rows):
    """Returns (status, value) of a predict by rows."""
    return server.json("POST", f"/v1/models/{name}:predict", {"instances": rows})


def value_of(server, name, version=None):
    """Returns a model's result for zeros: for a model by add(), the added value."""
    path = f"/v1/models/{name}" + (f"/versions/{version}" if version else "") + ":predict"
    status, answer = server.json("POST", path, {"instances": [[0.0] * 10]})
    assert status == 200, answer
    return answer["predictions"][0][0]


def pipeline(name, model):
    """Returns a pipeline of one node with a model made by add()."""
    return {
        "name": name,
        "inputs": ["in"],
        "nodes": [
            {
                "name": "only",
                "type": "DL model",
                "model_name": model,
                "inputs": [{"b": {"node_name": "request", "data_item": "in"}}],
                "outputs": [{"data_item": "a", "alias": "sum"}],
            }
        ],
        "outputs": [{"out": {"node_name": "only", "data_item": "sum"}}],
    }


class Files:
    """A folder of models, and the config.json of a server."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, name, version=1, value=1.0):
        return models.save(models.add(value=value), self.folder / name, version)

    def config(self, *names, pipelines=(), **more):
        entries = [name if isinstance(name, dict) else models.entry(name, self.folder / name) for name in names]
        return {"model_config_list": entries, "pipeline_config_list": list(pipelines), **more}


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path / "models")


@pytest.fixture
def start(tmp_path):
    """start(config, *options) starts a server that reloads only by request, unless the options differ."""
    servers = []

    def make(config, *options):
        options = options or ("--file_system_poll_wait_seconds", "0")
        servers.append(OvmsServer(config, *options, workdir=tmp_path))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


def test_versions_come_and_go_by_reload(files, start):
    files.add("m", 1, 1.0)
    server = start(files.config("m"))
    assert server.states("m") == {1: "AVAILABLE"}
    status, states = server.reload()
    assert status == 200
    assert states["m"]["model_version_status"] == [{"version": "1", "state": "AVAILABLE", "status": OK}]

    files.add("m", 2, 2.0)
    assert server.reload()[0] == 201
    assert value_of(server, "m") == 2
    assert server.states("m") == {1: "END", 2: "AVAILABLE"}
    status, answer = server.json("POST", "/v1/models/m/versions/1:predict", {"instances": [[0.0] * 10]})
    assert (status, answer) == (404, {"error": "Model with requested version is retired"})

    shutil.rmtree(files.folder / "m" / "2")
    assert server.reload()[0] == 201
    assert value_of(server, "m") == 1
    assert server.states("m") == {1: "AVAILABLE", 2: "END"}


def test_the_version_policy(files, start):
    for version in (1, 2, 3):
        files.add("m", version, float(version))
    policy = {"model_version_policy": {"specific": {"versions": [1, 2]}}}
    server = start(files.config(models.entry("m", files.folder / "m", **policy)))
    assert server.states("m") == {1: "AVAILABLE", 2: "AVAILABLE"}
    assert (value_of(server, "m"), value_of(server, "m", 1)) == (2, 1)
    policy = {"model_version_policy": {"all": {}}}
    server.write_config(files.config(models.entry("m", files.folder / "m", **policy)))
    assert server.reload()[0] == 201
    assert server.states("m") == {1: "AVAILABLE", 2: "AVAILABLE", 3: "AVAILABLE"}


def test_a_base_path_may_name_the_file(files, start):
    files.add("m", 7, 2.0)
    server = start(files.config(models.entry("m", files.folder / "m" / "7" / "model.xml")))
    assert server.states("m") == {1: "AVAILABLE"}
    assert value_of(server, "m") == 2
    assert server.reload()[0] == 200


def exported(value):
    """Returns the ONNX file of a = b + value."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 10]) for name in "ba"]
    added = numpy_helper.from_array(np.float32([value]), "value")
    graph = helper.make_graph(
        [helper.make_node("Add", ["b", "value"], ["a"])], "add", tensors[:1], tensors[1:], [added]
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


@pytest.mark.parametrize("isolate", [(), ("--isolate", "openvino", "--worker-isolation", "strict")])
def test_models_may_share_a_folder(files, start, isolate):
    """Each base_path is a file, and its weights lie beside it."""
    for name, value in (("one", 1.0), ("two", 2.0)):
        version = pathlib.Path(files.add(name, 1, value)) / "1"
        for file in version.iterdir():
            file.rename(files.folder / f"{name}{file.suffix}")
    (files.folder / "three.onnx").write_bytes(exported(3.0))
    entries = [
        models.entry(pathlib.Path(name).stem, files.folder / name) for name in ("one.xml", "two.xml", "three.onnx")
    ]
    server = start(files.config(*entries, pipelines=[pipeline("p", "three")]), *isolate)
    assert [value_of(server, name) for name in ("one", "two", "three", "p")] == [1, 2, 3, 3]
    assert server.states("three") == {1: "AVAILABLE"}


def test_a_file_that_is_no_model(files, start):
    files.folder.mkdir()
    (files.folder / "m.txt").write_text("no model")
    files.add("alone")
    weights = files.folder / "alone" / "1" / "model.bin"
    weights.rename(weights.with_suffix(".old"))
    xml = weights.with_suffix(".xml")
    names = {"text": files.folder / "m.txt", "missing": files.folder / "m.onnx", "alone": xml}
    server = start(files.config(*(models.entry(name, path) for name, path in names.items())))
    assert f"'{files.folder}/m.txt' is not a model that OpenVINO reads; expected .xml with .bin, .onnx" in server.log
    assert f"{files.folder}/m.onnx: No such file or directory" in server.log
    assert f"the weights '{weights}' are missing" in server.log
    assert server.states("text") == server.states("alone") == {1: "LOADING"}


def test_polling_tries_a_changed_file_again(files, start):
    files.folder.mkdir()
    file = files.folder / "m.onnx"
    file.write_bytes(b"no model")
    server = start(files.config(models.entry("m", file)), "--file_system_poll_wait_seconds", "1")
    server.wait_for_log("failed to load 'm' version 1")
    file.write_bytes(exported(4.0))
    wait_until(lambda: server.states("m") == {1: "AVAILABLE"}, 20, "the model")
    assert value_of(server, "m") == 4


def test_polling(files, start):
    files.add("m")
    server = start(files.config("m"), "--file_system_poll_wait_seconds", "1")
    files.add("m", 2, 2.0)
    wait_until(lambda: server.states("m").get(2) == "AVAILABLE", 20, "version 2")
    files.add("n", 1, 5.0)
    server.write_config(files.config("m", "n", pipelines=[pipeline("p", "n")]))
    wait_until(lambda: server.states("p") == {1: "AVAILABLE"}, 20, "the pipeline")
    assert value_of(server, "n") == 5


def test_a_model_with_a_fault_does_not_stop_the_others(files, start):
    files.add("good")
    (files.folder / "bad" / "1").mkdir(parents=True)
    (files.folder / "bad" / "1" / "model.xml").write_text("this is no model")
    shape = models.entry("shape", files.add("other"), shape="(1,x)")
    server = start(files.config("good", "bad", "absent", shape))
    assert server.states("good") == {1: "AVAILABLE"}
    status, answer = server.json("GET", "/v1/models/bad")
    assert status == 200
    assert answer["model_version_status"][0]["state"] == "LOADING"
    assert answer["model_version_status"][0]["status"]["error_code"] != "OK"
    assert predict(server, "bad", [[0.0] * 10])[0] == 404
    assert server.states("shape") == {1: "LOADING"}
    assert "/model_config_list/3/config/shape: invalid shape '(1,x)'" in server.log
    assert server.states("absent") == {}
    status, answer = server.reload()
    assert status >= 400
    assert answer == {"error": "Reloading models versions failed. Check server logs for more info."}


def test_a_reload_with_a_fault_keeps_what_runs(files, start):
    files.add("m")
    server = start(files.config("m", pipelines=[pipeline("p", "m")]))
    failed = {"error": "Reloading config file failed. Check server logs for more info."}
    for text in ('{"model_config_list": [', json.dumps({"model_config_list": [], "model_confg_list": []})):
        server.config_path.write_text(text)
        assert server.reload() == (412, failed)
        assert value_of(server, "m") == 1
    assert "/model_confg_list: unknown key" in server.log
    server.config_path.unlink()
    assert server.reload() == (500, {"error": "Config file not found or cannot open."})

    # One model cannot have its new shape, and another model is new.
    files.add("new", 1, 3.0)
    server.write_config(files.config(models.entry("m", files.folder / "m", shape={"nobody": "(1,5)"}), "new"))
    status, answer = server.reload()
    assert (status >= 400, answer) == (True, failed)
    assert (value_of(server, "m"), value_of(server, "new")) == (1, 3)
    assert server.states("m") == {1: "AVAILABLE"}
    wait_until(lambda: server.states("p") == {1: "END"}, 10, "the end of the pipeline")


def test_a_pipeline_follows_its_model(files, start):
    files.add("m", 1, 1.0)
    with_both = files.config("m", pipelines=[pipeline("p", "m")])
    server = start(with_both)
    assert value_of(server, "p") == 1
    files.add("m", 2, 2.0)
    assert server.reload()[0] == 201
    assert value_of(server, "p") == 2

    server.write_config(files.config(pipelines=[pipeline("p", "m")]))
    assert server.reload()[0] == 201
    status, answer = server.json("GET", "/v1/models/p")
    assert answer["model_version_status"] == [
        {
            "version": "1",
            "state": "LOADING",
            "status": {"error_code": "FAILED_PRECONDITION", "error_message": "FAILED_PRECONDITION"},
        }
    ]
    assert predict(server, "p", [[0.0] * 10]) == (404, {"error": "Pipeline is not loaded yet"})
    server.write_config(with_both)
    assert server.reload()[0] == 201
    assert value_of(server, "p") == 2


def test_requests_do_not_notice_reloads(files, start):
    files.add("m", 1, 1.0)
    server = start(files.config("m", pipelines=[pipeline("p", "m")]))
    done = threading.Event()
    faults = []
    served = []

    def ask(name):
        while not done.is_set():
            status, answer = predict(server, name, X.tolist())
            served.append(name)
            if status != 200:
                faults.append((name, status, answer))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("m", "p") for _ in range(2)]
    for thread in threads:
        thread.start()
    for version in range(2, 10):
        if version % 2:
            files.add("m", version, float(version))
        else:
            entry = models.entry("m", files.folder / "m", nireq=version)
            server.write_config(files.config(entry, pipelines=[pipeline("p", "m")]))
        assert server.reload()[0] == 201
        time.sleep(0.1)
    done.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert {"m", "p"} <= set(served)
    assert value_of(server, "p") == 9


def test_one_model_on_the_command_line(files, tmp_path):
    base = files.add("m", 3, 4.0)
    with Server([], "--model_name", "x", "--model_path", base, "--nireq", "2", workdir=tmp_path) as server:
        assert value_of(server, "x") == 4
        assert server.json("POST", "/v1/config/reload")[0] == 200


def test_one_file_on_the_command_line(files, tmp_path):
    file = f"{files.add('m', 3, 4.0)}/3/model.xml"
    with Server([], "--model_name", "x", "--model_path", file, workdir=tmp_path) as server:
        assert value_of(server, "x") == 4
        assert server.json("GET", "/v1/models/x")[1]["model_version_status"][0]["version"] == "1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model_config_list": [}', "line 1, column 24"),
        ('{"model_config_list": [{"config": {"nme": "m"}}]}', "/model_config_list/0/config/name: is missing"),
        (
            '{"model_config_list": [], "monitoring": {"metrics": {"enable": true, "metrics_list": ["x"]}}}',
            "metrics_list",
        ),
        ('{"model_config_list": [], "custom_loader_config_list": [{}]}', "custom loaders are not supported"),
    ],
)
def test_a_start_that_is_refused(tmp_path, text, said):
    (tmp_path / "wrong.json").write_text(text)
    server = OvmsServer(tmp_path / "wrong.json", workdir=tmp_path, ready=False, listening=False)
    assert server.wait_exit() != 0
    server.stopped = True
    assert said in server.log


def test_graphs_that_are_no_graphs(files, start):
    graph = files.folder / "g"
    graph.mkdir(parents=True)
    (graph / "graph.pbtxt").write_text("")
    server = start(files.config("g", mediapipe_config_list=[{"name": "h"}]))
    assert server.states("g") == {1: "LOADING"}
    assert server.states("h") == {1: "LOADING"}
    assert "Failed to read protobuf graph configuration file" in server.log
    assert "File not found or cannot open" in server.log


def test_beside_a_triton_repository(files, repository, tmp_path):
    files.add("m")
    repository.add_identity("py")
    repository.add_identity("m")
    (tmp_path / "config.json").write_text(json.dumps(files.config("m")))
    with Server(
        [repository.path],
        "--config_path",
        tmp_path / "config.json",
        "--exit-on-error=false",
        workdir=tmp_path,
        ready=False,
    ) as server:
        status, index = server.json("POST", "/v2/repository/index")
        assert status == 200
        assert {entry["name"] for entry in index} == {"m", "py"}
        assert "Given model name is already occupied" in server.log
