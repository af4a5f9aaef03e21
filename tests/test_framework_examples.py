"""The examples in PyTorch and JAX. They run where the package is installed: in the tests' own environment, or in the one that
BRAID_TORCH_ENV or BRAID_JAX_ENV names."""

import importlib.util
import os
import sys

import numpy as np
import pytest
from harness.server import ROOT


def interpreter_with(package, variable):
    """The interpreter that has the package; skips the test when there is none."""
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
    # The network is the same each time, and rows do not depend on their batch.
    again = client.infer("torch_mlp", {"FEATURES": features[1:]}).as_numpy("SCORES")
    np.testing.assert_allclose(again, scores[1:], rtol=1e-5)


def test_jax(serve, connect):
    python = interpreter_with("jax", "BRAID_JAX_ENV")
    server = serve(ROOT / "examples" / "jax" / "models", "--python", python)
    client = connect("http", server)
    logits = np.array([[0, 0, 0], [0, np.log(2), 0]], dtype=np.float32)
    probabilities = client.infer("jax_softmax", {"LOGITS": logits}).as_numpy("PROBABILITIES")
    np.testing.assert_allclose(probabilities, [[1 / 3] * 3, [0.25, 0.5, 0.25]], rtol=1e-5)
