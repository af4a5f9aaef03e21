"""The stateful example, run as in its README over all four APIs, gives the same results as its models in OpenVINO."""

import argparse
import importlib.util
import re
import subprocess
import sys

import numpy as np
import openvino as ov
import pytest
from harness.ovms import OvmsServer
from harness.server import ROOT
from openvino._offline_transformations import apply_low_latency_transformation

EXAMPLE = ROOT / "examples" / "stateful"


def module(name):
    """Loads a file of the example; files of other examples have the same names."""
    spec = importlib.util.spec_from_file_location(f"stateful_{name}", EXAMPLE / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


example = module("client")
make_models = module("make_models")

MODELS = {"running_sum": make_models.running_sum, "lstm": make_models.lstm}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stateful")
    subprocess.run([sys.executable, EXAMPLE / "prepare.py", folder], check=True, capture_output=True, timeout=60)
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


def alone(model, sequence, steps):
    """Returns OpenVINO's answers to the inputs of a sequence, with its variables as state."""
    network = MODELS[model]()
    apply_low_latency_transformation(network, use_const_initializer=True)
    request = ov.Core().compile_model(network, "CPU").create_infer_request()
    request.reset_state()
    return [request.infer({0: x})[0].copy() for x in example.inputs_of(model, sequence, steps)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("api", example.APIS)
def test_two_sequences(server, api, model):
    arguments = argparse.Namespace(grpc=server.grpc, rest=server.http)
    ids, answers = example.run(example.APIS[api](arguments), model, steps=6)
    assert len(set(ids)) == 2
    for sequence in range(2):
        np.testing.assert_array_equal(answers[sequence], alone(model, sequence, 6))


def test_what_the_readme_shows(server):
    command = [sys.executable, EXAMPLE / "client.py", "--grpc", server.grpc]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    shown = re.search(r"```\n(sequence 1\n.*?)  \.\.\.\n```", (EXAMPLE / "README.md").read_text(), re.DOTALL).group(1)
    # Earlier requests decide which ids are free.
    numbers = re.compile(r"^sequence \d+$", re.MULTILINE)
    assert numbers.sub("sequence", printed).startswith(numbers.sub("sequence", shown))
