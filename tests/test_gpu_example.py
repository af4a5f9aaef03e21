"""The example of models on a GPU works as described in its README, on the stand-in for NVIDIA's driver."""

import os
import subprocess
import sys

import pytest
from harness.gpus import Gpus
from harness.server import ROOT

EXAMPLE = ROOT / "examples" / "gpu"


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    gpus = Gpus(tmp_path_factory.mktemp("standin") / "gpus")
    yield gpus
    gpus.assert_nothing_left()


@pytest.fixture(scope="module")
def server(gpus, module_serve):
    return module_serve(EXAMPLE / "models", env={**gpus.env, "PYTHONPATH": str(EXAMPLE)})


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_client(server, gpus, protocol):
    gpus.delay(10)
    before = len(gpus.calls("from-device", "on-device"))
    done = subprocess.run(
        [sys.executable, EXAMPLE / "client.py", "--protocol", protocol, "--url", getattr(server, protocol)],
        env={**os.environ, **gpus.env, "PYTHONPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (EXAMPLE / "README.md").read_text()
    assert f"```text\n{done.stdout}```" in text
    # Of the data between front and join, only the answer leaves the device. The other copies concern the client's
    # memory: two inputs that the server reads, join's answer, and the client's read.
    moved = [words for _, words in gpus.calls("from-device", "on-device")[before:]]
    assert [int(words[1]) for words in moved if words[0] == "from-device"][:1] == [24]
    assert sum(1 for words in moved if words[0] == "from-device") == 5
