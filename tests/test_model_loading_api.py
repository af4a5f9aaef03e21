"""load_model, unload_model and is_model_ready, called by models."""

import json

import numpy as np
import pytest
from harness.clients import strings
from harness.repository import IDENTITY, config, per_request
from harness.waiting import wait_until

PROBE = per_request(
    """
    names = {"pb_utils": pb_utils, "result": None, "json": json}
    try:
        exec(get(request, "CODE")[0].decode(), names)
        answer = {"result": names["result"]}
    except Exception as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    return respond(RESULT=np.array([json.dumps(answer).encode()], dtype=object))
    """
)
PROBE_CONFIG = config("probe", [("CODE", "STRING", [1])], [("RESULT", "STRING", [1])])
IDENTITY_CONFIG = config("identity", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])])
DOUBLING = per_request("return respond(OUT=get(request, 'IN') * 2)")


def json_config(name, **more):
    return json.dumps(
        {
            "name": name,
            "backend": "python",
            "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
            **more,
        }
    )


@pytest.fixture
def server(repository, serve):
    repository.add("probe", PROBE, PROBE_CONFIG)
    repository.add("identity", IDENTITY, IDENTITY_CONFIG, versions=(1, 2))
    return serve(repository, "--model-control-mode", "explicit", "--load-model", "probe")


@pytest.fixture
def run(server, connect):
    client = connect("grpc", server)

    def go(code, **values):
        text = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + code
        return json.loads(client.infer("probe", {"CODE": strings(text)}).as_numpy("RESULT")[0])

    return go


def infer(connect, server, model, version=""):
    client = connect("http", server)
    array = np.array([1, 2], dtype=np.float32)
    return client.infer(model, {"IN": array}, model_version=version).as_numpy("OUT").tolist()


def test_load_and_unload(run, server, connect):
    code = """
before = pb_utils.is_model_ready("identity")
pb_utils.load_model("identity")
result = [before, pb_utils.is_model_ready("identity"), pb_utils.is_model_ready("identity", "2"),
          pb_utils.is_model_ready("identity", "1")]
"""
    assert run(code) == {"result": [False, True, True, False]}
    assert infer(connect, server, "identity") == [1, 2]
    assert run('pb_utils.unload_model("identity")') == {"result": None}
    wait_until(lambda: run('result = pb_utils.is_model_ready("identity")') == {"result": False})


def test_a_failed_load_says_why_and_leaves_what_there_was(run, server, connect):
    answer = run('pb_utils.load_model("nobody")')
    assert answer["error"] == "TritonModelException"
    assert answer["text"] == (
        "Failed to load model: Failed to process the request for model 'probe_0', message: failed to load 'nobody', "
        "failed to poll from model repository"
    ).replace("probe_0", answer["text"].split("'")[1])
    assert answer["text"].split("'")[1].startswith("probe")
    run('pb_utils.load_model("identity")')
    answer = run("pb_utils.load_model('identity', config='{\"backend\": 5}')")
    assert answer["error"] == "TritonModelException"
    assert answer["text"].startswith("Failed to load model: ")
    assert infer(connect, server, "identity") == [1, 2]


def test_an_override_of_the_configuration(run, server, connect):
    override = json_config("identity", version_policy={"specific": {"versions": [1]}})
    code = """
pb_utils.load_model("identity", config=override)
result = [pb_utils.is_model_ready("identity", "1"), pb_utils.is_model_ready("identity", "2")]
"""
    assert run(code, override=override) == {"result": [True, False]}
    assert infer(connect, server, "identity", "1") == [1, 2]


def test_files_make_a_model_that_is_only_in_memory(run, server, connect):
    code = """
pb_utils.load_model(model_name=name, config=override, files={"file:1/model.py": source.encode()})
result = pb_utils.is_model_ready(name)
"""
    assert run(code, name="copy", override=json_config("copy"), source=DOUBLING) == {"result": True}
    assert infer(connect, server, "copy") == [2, 4]
    run('pb_utils.load_model("identity")')
    assert infer(connect, server, "identity") == [1, 2]
    assert run(code, name="identity", override=json_config("identity"), source=DOUBLING) == {"result": True}
    assert infer(connect, server, "identity") == [2, 4]


def test_wrong_arguments(run):
    answer = run('pb_utils.load_model("identity", config="{}", files=["file:1/model.py"])')
    assert "failed to load model 'identity'" in answer["text"] or "failed to load 'identity'" in answer["text"]
    assert "files should be a dictionary of file paths and file contents" in answer["text"]
    answer = run('pb_utils.is_model_ready("identity", "two")')
    assert answer["error"] == "TritonModelException"
    assert answer["text"].startswith("Failed to check model readiness: ")
    assert answer["text"].endswith(
        "failed to get model version from specified version string 'two' (details: stol), version should be an "
        "integral value > 0"
    )
    answer = run('pb_utils.is_model_ready("identity", "-1")')
    assert answer["text"].endswith(
        "failed to get model version from specified version string '-1', version should be an integral value > 0"
    )


def test_a_model_that_unloads_itself(run, server):
    assert run('pb_utils.unload_model("probe")') == {"result": None}
    wait_until(lambda: server.request("GET", "/v2/models/probe/ready")[0] == 400)


def test_a_model_that_loads_another_in_initialize(repository, serve, connect):
    loader = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model("inner" if args["model_name"] == "outer" else "identity")
        self.ready = pb_utils.is_model_ready("identity")
        assert self.ready

    def execute(self, requests):
        return []
"""
    for name in ("outer", "inner"):
        repository.add(name, loader, config(name))
    repository.add("identity", IDENTITY, IDENTITY_CONFIG)
    server = serve(repository, "--model-control-mode", "explicit")
    client = connect("http", server)
    client.raw.load_model("outer")
    assert infer(connect, server, "identity") == [1, 2]


def test_while_the_server_starts(repository, serve):
    source = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        try:
            pb_utils.load_model("identity")
        except pb_utils.TritonModelException as error:
            print(str(error), flush=True)
        print("ready:", pb_utils.is_model_ready("identity"), flush=True)

    def execute(self, requests):
        return []
"""
    repository.add("early", source, config("early"))
    server = serve(repository, "--model-control-mode", "explicit", "--load-model", "early")
    server.wait_for_log("Failed to load model: .*Server not ready")
    server.wait_for_log("ready: False")


def test_only_in_explicit_mode(repository, serve, connect):
    repository.add("probe", PROBE, PROBE_CONFIG)
    server = serve(repository)
    answer = connect("http", server).infer("probe", {"CODE": strings('pb_utils.load_model("probe")')})
    answer = json.loads(answer.as_numpy("RESULT")[0])
    assert answer["error"] == "TritonModelException"
    assert answer["text"].endswith("explicit model load / unload is not allowed if polling is enabled")
