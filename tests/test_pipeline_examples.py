"""The example pipelines, run as in their README over all four APIs, give the same results as their models in OpenVINO."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest
from harness import openvino_models as models
from harness.memory import assert_memory_settles
from harness.ovms import OvmsServer
from harness.server import BINARY, ROOT

EXAMPLE = ROOT / "examples" / "pipelines"
sys.path.insert(0, str(EXAMPLE))

import client as example  # noqa: E402
import prepare  # noqa: E402

CELL = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    prepare.prepare(folder, BINARY.parent / "examples" / "custom_nodes")
    return folder


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(params=example.APIS)
def ask(request, server):
    arguments = argparse.Namespace(grpc=server.grpc, rest=server.http)
    return lambda *rest: example.APIS[request.param](arguments, *rest)


def run(folder, model, image):
    [result] = models.infer(folder / "models" / model / "1" / "model.xml", image.transpose(0, 3, 1, 2))
    return result


def expected(folder, picture, threshold):
    """Returns the boxes, confidences and pieces of the splitter, computed by numpy."""
    image = picture[None].astype(np.float32)
    found = run(folder, "detector", image)[0, 0]
    found = found[found[:, 2] >= threshold]
    pieces = []
    for left, top, right, bottom in (found[:, 3:] * 64).astype(int):
        assert (right - left, bottom - top) == (CELL, CELL)
        pieces.append(image[:, top:bottom, left:right])
    return found[:, 3:], found[:, 2], pieces


def test_faces(folder, ask):
    picture = example.example_picture()
    boxes, confidences, pieces = expected(folder, picture, 0.5)
    assert len(pieces) == 2
    emotions = np.stack([run(folder, "emotions", piece) for piece in pieces])
    answer = ask("faces", example.FACES, example.png(picture))
    np.testing.assert_allclose(answer["boxes"], boxes[:, None], rtol=1e-6)
    np.testing.assert_allclose(answer["confidences"], confidences[:, None, None], rtol=1e-6)
    np.testing.assert_allclose(answer["ages"], np.stack([run(folder, "ages", piece) for piece in pieces]), rtol=1e-5)
    np.testing.assert_allclose(answer["emotions"], emotions, rtol=1e-5)
    best = emotions.max(axis=(1, 2)).argmax()
    answer = ask("mood", example.MOOD, example.png(picture))
    np.testing.assert_allclose(answer["emotions"], emotions[best], rtol=1e-5)
    np.testing.assert_array_equal(answer["face"], [[best]])


def test_reader(folder, ask):
    picture = example.example_picture()
    boxes, _, pieces = expected(folder, picture, 0.25)
    assert len(pieces) == 3
    answer = ask("reader", example.READER, example.png(picture))
    np.testing.assert_allclose(answer["boxes"], boxes[:, None], rtol=1e-6)
    letters = np.stack([run(folder, "letters", piece).argmax(axis=1) for piece in pieces])
    np.testing.assert_array_equal(answer["letters"], letters)


def test_a_picture_of_nothing(server):
    """A picture without objects gives empty results: ABORTED over gRPC, 204 without a body over REST."""
    import tritonclient.grpc as grpcclient

    dark = example.png(np.zeros((64, 64, 3), np.uint8))
    arguments = argparse.Namespace(grpc=server.grpc, rest=server.http)
    with pytest.raises(grpcclient.InferenceServerException) as error:
        example.ask_kserve_grpc(arguments, "faces", example.FACES, dark)
    assert error.value.status() == "StatusCode.ABORTED"
    assert error.value.message().startswith("Pipeline execution aborted due to no content from custom node")
    body = json.dumps({"inputs": {"image": np.zeros((1, 64, 64, 3)).tolist()}})
    status, _, answer = server.request("POST", "/v1/models/faces:predict", body)
    assert (status, answer) == (204, b"")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2000, pytest.param(10000, marks=pytest.mark.campaign)])
def test_memory_does_not_grow_with_requests(server, count):
    """Requests that demultiplex and gather memory of custom nodes leave none behind. One lost tensor per request would
    be at least 3 KiB: 6 MiB for 2,000."""
    import tritonclient.grpc as grpcclient

    image = grpcclient.InferInput("image", [1, 64, 64, 3], "FP32")
    image.set_data_from_numpy(example.example_picture()[None].astype(np.float32))
    with grpcclient.InferenceServerClient(server.grpc) as client:

        def ask_all():
            for _ in range(count):
                client.infer("faces", [image])

        assert_memory_settles(server.process.pid, ask_all)


@pytest.mark.parametrize("api", example.APIS)
def test_the_client_prints_what_was_found(server, api):
    command = [sys.executable, EXAMPLE / "client.py", "--api", api, "--grpc", server.grpc, "--rest", server.http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 faces\n  at [0.25, 0.0, 0.5, 0.25]: " in done.stdout
    assert "3 words\n" in done.stdout
