"""The example graphs and the example calculator, run as in their READMEs."""

import argparse
import importlib.util
import sys

import numpy as np
import pytest
from harness.ovms import OvmsServer
from harness.server import BINARY, ROOT, Server

EXAMPLE = ROOT / "examples" / "graphs"
LIBRARY = BINARY.parent / "examples" / "calculators" / "libsmoothing.so"


def load(path):
    """Loads a module of an example, under a name that no other example has."""
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example():
    return load(EXAMPLE / "client.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    sys.modules["make_models"] = load(EXAMPLE / "make_models.py")
    try:
        load(EXAMPLE / "prepare.py").prepare(folder)
    finally:
        del sys.modules["make_models"]
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def run(server, example):
    """Returns all answers of one example: a list of (kind of request, answer)."""
    arguments = argparse.Namespace(grpc=server.grpc, rest=server.http)
    return lambda name: list(example.GRAPHS[name](arguments))


def test_increment(run):
    unary, rest, *stream = run("increment")
    for _, answer in (unary, rest):
        assert answer.dtype == np.float32
        assert answer.tolist() == [4, 5.5]
    assert [(name, value.tolist(), time) for _, (name, value, time) in stream] == [
        ("incremented", [3], 0),
        ("incremented", [4], 1),
        ("incremented", [5], 2),
    ]


def test_partial(run):
    (_, numbers), (_, words) = run("partial")
    assert (numbers[0], numbers[1].tolist(), numbers[2]) == ("total", [6], 0)
    assert (words[0], words[1].tolist(), words[2]) == ("count", [5], 1)


def test_generate(run, server, example):
    [(_, text)] = run("generate")
    words = (EXAMPLE / "generate" / "corpus.txt").read_text().split()
    tokens = text.split()
    assert tokens[:2] == ["A", "braid"]
    assert len(tokens) > 2
    # Each token follows the one before it somewhere.
    pairs = set(zip(words, words[1:], strict=False))
    assert all(pair in pairs for pair in zip(tokens[1:], tokens[2:], strict=False))
    assert run("generate") == [("stream", text)]
    with example.Stream(server.grpc, "generate") as stream:
        stream.send({"prompt": example.text("A braid")}, timestamp=100)
        times = [time for _, _, time in stream.finish()]
    assert times == list(range(100, 100 + len(tokens) - 2))


def test_counter(run, server):
    *streams, (_, alone) = run("counter")
    assert [(first.tolist(), second.tolist()) for _, (first, second) in streams] == [
        ([1], [10]),
        ([3], [30]),
        ([6], [60]),
    ]
    assert alone.tolist() == [7]
    assert server.wait_for_log(r"session \d+ has ended")


def test_classify(run):
    unary, rest, *stream = run("classify")
    assert unary[1] == rest[1] == "green"
    assert [answer for _, (_, answer, _) in stream] == ["red", "green", "blue"]


def test_match(run):
    unary, rest, (_, (_, streamed, time)) = run("match")
    for answer in (unary[1], rest[1], streamed):
        assert answer.shape == (3,)
        assert np.argmax(answer) == 1
        np.testing.assert_allclose(answer.sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(rest[1], unary[1], rtol=1e-6)
    assert time == 5


def test_reply(run):
    text = "three strands make a braid"
    assert run("reply") == [("whole", text), ("stream", text)]


@pytest.mark.parametrize("isolate", ["", "calculators"])
def test_a_calculator_of_whole_messages(tmp_path, isolate):
    options = ["--model_name", "totals", "--model_path", ROOT / "examples" / "calculators" / "totals"]
    options.append(f"--isolate={isolate}")
    library = LIBRARY.with_name("libtotals.so")
    with Server([], *options, "--calculator-library", library, workdir=tmp_path) as server:

        def ask(*inputs, **more):
            return server.json("POST", "/v2/models/totals/infer", {"inputs": inputs, **more})

        first = {"name": "first", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
        second = {"name": "second", "shape": [1], "datatype": "FP32", "data": [0.5]}
        status, told = ask(first, second)
        assert status == 200, told
        assert [(each["name"], each["shape"], each["data"]) for each in told["outputs"]] == [
            ("first", [1], [10.0]),
            ("second", [1], [0.5]),
        ]
        status, told = ask(first, parameters={"times": 3})
        assert (status, told["outputs"][0]["data"]) == (200, [30.0])
        status, told = ask({**second, "datatype": "INT32", "data": [1]})
        assert status == 400
        assert "second: expected FP32, found INT32" in told["error"]


@pytest.mark.parametrize("isolate", ["", "calculators"])
def test_a_calculator_of_users(tmp_path, isolate):
    client = load(ROOT / "examples" / "calculators" / "client.py")
    options = ["--model_name", "smooth", "--model_path", ROOT / "examples" / "calculators", f"--isolate={isolate}"]
    with Server([], *options, "--calculator-library", LIBRARY, workdir=tmp_path) as server:
        import tritonclient.grpc as grpcclient

        tensors = [np.array([i, i % 2], np.float32) for i in range(8)]
        with grpcclient.InferenceServerClient(server.grpc) as channel:
            averages = client.smooth(channel, tensors)
        expected = tensors[0]
        for tensor, average in zip(tensors, averages, strict=True):
            expected = expected + np.float32(0.25) * (tensor - expected)
            np.testing.assert_allclose(average, expected, rtol=1e-6)
