"""The speech activity example: the server's sequences give the same results as the network alone in OpenVINO."""

import numpy as np
import openvino as ov
import pytest
import tritonclient.grpc
from harness.examples import EXAMPLES, load, needs, run
from harness.ovms import OvmsServer

needs("silero_vad")

example = load(EXAMPLES / "speech" / "client.py")


@pytest.fixture(scope="module")
def sounds():
    return example.example_sounds()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    run("speech/prepare.py", folder)
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def heard(server, sounds):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        return example.listen(client, sounds)


def alone(sound):
    """Runs the unmodified network, and passes its state on explicitly."""
    source = load(EXAMPLES / "speech" / "prepare.py").source()
    network = ov.Core().compile_model(source, "CPU")
    state, found = np.zeros((2, 1, 128), np.float32), []
    for piece in example.pieces(sound):
        answer = network({"input": piece, "state": state})
        found.append(answer["output"].item())
        state = answer["stateN"].copy()
    return found


@pytest.mark.parametrize("name", ["voice", "noise"])
def test_probabilities(heard, sounds, name):
    np.testing.assert_allclose(heard[name], alone(sounds[name]), atol=1e-3)


def test_when_somebody_speaks(heard):
    first, second = example.spoken(heard["voice"])
    np.testing.assert_allclose(first, (1.0, 2.5), atol=0.4)
    np.testing.assert_allclose(second, (5.0, 6.5), atol=0.4)
    assert example.spoken(heard["noise"]) == []


def test_client(server):
    printed = run("speech/client.py", "--grpc", server.grpc)
    assert printed.startswith("voice: 234 pieces\n  speech from 0.99 to ")
    assert printed.endswith("\nnoise: 156 pieces\n")
