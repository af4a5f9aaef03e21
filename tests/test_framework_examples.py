"""The examples in PyTorch and JAX. They run if the package is installed in the tests' environment, or in the one named
by BRAID_TORCH_ENV or BRAID_JAX_ENV."""

import importlib.util
import os
import sys
import tempfile

import numpy as np
import pytest
from harness.repository import config, per_request
from harness.server import ROOT, Server


def interpreter_with(package, variable):
    """Returns an interpreter with the package; skips the test if there is none."""
    environment = os.environ.get(variable)
    if environment:
        return os.path.join(environment, "bin", "python")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed, and {variable} names no environment that has it")
    return sys.executable


def test_pytorch(serve, connect):
    python = interpreter_with("torch", "BRAID_TORCH_ENV")
    server = serve(ROOT / "examples" / "pytorch" / "models", "--python", python)
    client = connect("grpc", server)
    features = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], dtype=np.float32)
    scores = client.infer("torch_mlp", {"FEATURES": features}).as_numpy("SCORES")
    assert scores.shape == (2, 3)
    np.testing.assert_allclose(scores.sum(axis=1), [1, 1], rtol=1e-5)
    # The network is always the same, and rows do not depend on their batch.
    again = client.infer("torch_mlp", {"FEATURES": features[1:]}).as_numpy("SCORES")
    np.testing.assert_allclose(again, scores[1:], rtol=1e-5)
    choice = client.infer("torch_choice", {"FEATURES": features}).as_numpy("CLASS")
    np.testing.assert_array_equal(choice, scores.argmax(axis=1).reshape(2, 1))


TORCH = per_request(
    """
    import torch, torch.multiprocessing as multiprocessing
    from torch.utils.data import DataLoader

    torch.set_num_threads(2)
    matrix = torch.arange(90000, dtype=torch.float64).reshape(300, 300)
    found = [float((matrix @ matrix)[1, 1])]
    found.append(sum(int(batch.sum()) for batch in DataLoader(torch.arange(100), batch_size=10, num_workers=2)))
    shared = torch.zeros(4).share_memory_()
    child = multiprocessing.get_context("fork").Process(target=lambda: shared.add_(3))
    child.start()
    child.join()
    found.append(float(shared.sum()))
    weight = torch.ones(3, requires_grad=True)
    (weight * 2).sum().backward()
    found.append(float(weight.grad.sum()))
    return respond(OUT=np.array(found))
    """
)


@pytest.mark.parametrize("level", ["none", "basic", "strict", "separate"])
def test_pytorch_at_each_level_of_isolation(repository, connect, level):
    """PyTorch's threads, data loading processes, and shared memory work at each level of isolation."""
    python = interpreter_with("torch", "BRAID_TORCH_ENV")
    if level == "separate" and os.geteuid() != 0:
        pytest.skip("needs root")
    repository.add("torch", TORCH, config("torch", [("IN", "INT32", [1])], [("OUT", "FP64", [4])]))
    options = ["--python", python, "--worker-isolation", level, "--worker-env", "BRAID_TEST_MARK"]
    # A short path: sockets of the processes that load data are in the worker's folder, and limited to 107 characters.
    with tempfile.TemporaryDirectory() as folder, Server([repository.path], *options, workdir=folder) as server:
        found = connect("http", server).infer("torch", {"IN": np.int32([1])}).as_numpy("OUT")
    product = sum((300 + i) * (300 * i + 1) for i in range(300))
    np.testing.assert_array_equal(found, [product, 4950, 12, 6])


def test_jax(serve, connect):
    python = interpreter_with("jax", "BRAID_JAX_ENV")
    server = serve(ROOT / "examples" / "jax" / "models", "--python", python)
    client = connect("http", server)
    logits = np.array([[0, 0, 0], [0, np.log(2), 0]], dtype=np.float32)
    probabilities = client.infer("jax_softmax", {"LOGITS": logits}).as_numpy("PROBABILITIES")
    np.testing.assert_allclose(probabilities, [[1 / 3] * 3, [0.25, 0.5, 0.25]], rtol=1e-5)
