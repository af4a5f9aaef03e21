"""The examples work as their README says: each client against the example models, over both protocols."""

import pathlib
import subprocess
import sys

import pytest
from harness.server import ROOT

CLIENTS = sorted(p for p in (ROOT / "examples" / "clients").glob("*.py") if p.name != "connection.py")
EXPECTED = {
    "add_sub": ["[11. 22. 33. 44.]", "[ -9. -18. -27. -36.]"],
    "shout": ["BRAID (5 characters)", "NAÏVE (5 characters)"],
    "batched": ["[5. 5. 5.] -> [50. 50. 50.], in a batch of"],
    "shared_memory": ["[11. 22. 33. 44.]"],
    "summary": ["mean 3.000, deviation 1.414"],
}


@pytest.fixture(scope="module")
def server(module_serve):
    return module_serve(ROOT / "examples" / "models")


def test_each_client_has_its_model():
    models = {p.name for p in (ROOT / "examples" / "models").iterdir()}
    # One client shows another way to the first model.
    assert {p.stem for p in CLIENTS} == models | {"shared_memory"} == set(EXPECTED)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("path", CLIENTS, ids=lambda p: pathlib.Path(p).stem)
def test_client(server, path, protocol):
    done = subprocess.run(
        [sys.executable, path, "--protocol", protocol, "--url", getattr(server, protocol)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in EXPECTED[path.stem]:
        assert text in done.stdout


def test_error_of_one_example_request(server):
    tensor = {"name": "TEXT", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}
    import json

    head = json.dumps({"inputs": [tensor]}).encode()
    status, _, body = server.request(
        "POST",
        "/v2/models/shout/infer",
        head + b"\x01\0\0\0\xff",
        {"Inference-Header-Content-Length": str(len(head))},
    )
    assert status == 400
    assert json.loads(body)["error"].startswith("TEXT is not UTF-8: ")
