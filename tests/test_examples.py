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
    "summary": ["mean 3.000, deviation 1.414"],
    "custom_metrics": ["to be or not to be: 6 words", "that is the question: 4 words"],
}


@pytest.fixture(scope="module")
def server(module_serve):
    return module_serve(ROOT / "examples" / "models")


def test_each_client_has_its_model():
    assert {p.stem for p in CLIENTS} == {p.name for p in (ROOT / "examples" / "models").iterdir()} == set(EXPECTED)


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


def test_metrics_of_the_example(server):
    before = server.metric_values().get('words_total{model="custom_metrics"}', 0)
    tensor = {"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["one two three"]}
    assert server.json("POST", "/v2/models/custom_metrics/infer", {"inputs": [tensor]})[0] == 200
    values = server.metric_values()
    assert values['words_total{model="custom_metrics"}'] == before + 3
    assert values['text_length_bucket{le="100"}'] >= 1
