"""The additions of CONTRIBUTING.md's recipes, as their users see them."""

import re
import subprocess

import numpy as np
import pytest
from harness.graphs import tensor, write_graph
from harness.ovms import OvmsServer
from harness.repository import config
from harness.server import BINARY

MIRROR = config(
    "m", [("A", "FP32", [2]), ("B", "INT64", [1])], [("X", "FP32", [2]), ("Y", "INT64", [1])], backend="mirror"
)


def test_an_option_is_read_and_shown():
    command = [BINARY, "serve", "models", "--print-config", "--greeting", "good day"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"^greeting +good day +hello +command line$", shown.stdout, re.MULTILINE)
    described = subprocess.run([BINARY, "serve", "--help-all"], capture_output=True, text=True, check=True)
    assert "A text without effect" in described.stdout


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_backend_runs_its_models(repository, serve, connect, protocol):
    repository.add("m", source=None, config_text=MIRROR)
    server = serve(repository)
    result = connect(protocol, server).infer("m", {"A": np.float32([1, 2]), "B": np.int64([3])})
    assert result.as_numpy("X").tolist() == [1, 2]
    assert result.as_numpy("Y").tolist() == [3]
    checked = subprocess.run([BINARY, "check", repository.path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_a_route_and_a_protocol_answer_and_are_described(repository, serve):
    repository.add("m", source=None, config_text=MIRROR)
    server = serve(repository)
    assert server.json("GET", "/v2/greeting") == (200, {"greeting": "hello"})
    assert server.json("GET", "/hello/m") == (200, {"hello": "ready"})
    assert server.json("GET", "/hello/n") == (200, {"hello": "not ready"})
    paths = server.json("GET", "/openapi.json")[1]["paths"]
    assert {"/v2/greeting", "/hello/{model}"} <= set(paths)


def test_a_calculator_runs_in_graphs(tmp_path, connect):
    text = """
        input_stream: "OVTENSOR1:a" input_stream: "OVTENSOR2:b" output_stream: "OVTENSOR1:x" output_stream: "OVTENSOR2:y"
        node { calculator: "SwapCalculator" input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y" }
    """
    entry = write_graph(tmp_path, "g", text)
    with OvmsServer({"model_config_list": [], "mediapipe_config_list": [entry]}, workdir=tmp_path) as server:
        inputs = [tensor("a", np.float32([1])), tensor("b", np.float32([2]))]
        result = connect("grpc", server).infer("g", inputs)
    assert (result.as_numpy("x").tolist(), result.as_numpy("y").tolist()) == ([2], [1])
