"""The examples work as described in their README: each client against the example models, over both protocols."""

import pathlib
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from harness.server import ROOT

CLIENTS = sorted(p for p in (ROOT / "examples" / "clients").glob("*.py") if p.name != "connection.py")
EXPECTED = {
    "add_sub": ["[11. 22. 33. 44.]", "[ -9. -18. -27. -36.]"],
    "shout": ["BRAID (5 characters)", "NAÏVE (5 characters)"],
    "batched": ["[5. 5. 5.] -> [50. 50. 50.], in a batch of"],
    "shared_memory": ["[11. 22. 33. 44.]"],
    "repeat": ["0: hello\n1: hello\n2: hello\n3: hello\n4: hello\n"],
    "square": ["1 4 9 16\n"],
    "patient": ["10 requests waited together"],
    "digits": [f"drawn {digit}, read {digit} (" for digit in (0, 1, 2, 4)],
    "instance_kind": [": steady_0 on CPU", ": steady_1 on CPU", ": chooser_0 on MODEL"],
    "running_sum": ["after 4: 10 and -10"],
    "running_mean": ["mean of 3: 5"],
    "countdown": ["from 10: 10 runs, ", "from 30: 30 runs, "],
    "summary": ["mean 3.000, deviation 1.414"],
    "custom_metrics": ["to be or not to be: 6 words", "that is the question: 4 words"],
    "chained": ["* 2 = [22. 44. 66. 88.]"],
    "gathered": ["doubled: [ 2.  4.  6.  8. 10.]"],
    "collected": ["repeat sent 4 times: hello"],
}


@pytest.fixture(scope="module")
def server(module_serve):
    return module_serve(ROOT / "examples" / "models")


def test_each_client_has_its_model():
    models = {p.name for p in (ROOT / "examples" / "models").iterdir()}
    steps = {name for name in models if name.rpartition("_")[0] == "digits"}  # of the ensemble, which has a client
    # One client shows another way to call a model that also has its own client.
    assert {p.stem for p in CLIENTS} == (models - steps) | {"shared_memory"} == set(EXPECTED)


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


def test_images_of_all_kinds(server, connect):
    """The preprocessing step's decoder reads all kinds of images, with every filter of PNG."""
    client = connect("grpc", server)
    grey = np.full((24, 18), 230, np.uint8)
    grey[3:21, 8:11] = 20  # draws a one
    drawn = {"pgm": b"P5 18 24 255\n" + grey.tobytes()}
    colours = np.repeat(grey[:, :, None], 3, axis=2)
    drawn["ppm"] = b"P6\n18 24\n255\n" + colours.tobytes()
    for name, kind, pixels in (("grey", 0, grey[:, :, None]), ("colour", 2, colours)):
        drawn[f"png {name}"] = png(pixels, kind)
    files = np.array([[file] for file in drawn.values()], dtype=np.object_)
    result = client.infer("digits_preprocess", {"IMAGE": files}).as_numpy("PIXELS")
    assert result.shape == (4, 16, 16)
    for name, pixels in zip(drawn, result, strict=True):
        np.testing.assert_allclose(pixels, result[0], atol=1e-6, err_msg=name)
    assert client.infer("digits", {"IMAGE": files}).as_numpy("DIGIT").ravel().tolist() == [b"1"] * 4
    with client.fails("INVALID_ARG", "in ensemble 'digits', IMAGE: neither a PNG nor a binary PGM or PPM file"):
        client.infer("digits", {"IMAGE": np.array([[b"GIF89a"]], dtype=np.object_)})
    with client.fails("INVALID_ARG", contains="IMAGE: the PNG file is too short"):
        client.infer("digits", {"IMAGE": np.array([[drawn["png grey"][:60]]], dtype=np.object_)})


def png(pixels, kind):
    """Returns a PNG file whose rows use the five filters in turn."""
    height, width, channels = pixels.shape
    flat = pixels.reshape(height, -1).astype(int)
    rows = b""
    for y in range(height):
        above = flat[y - 1] if y else np.zeros_like(flat[0])
        left = np.concatenate([np.zeros(channels, int), flat[y][:-channels]])
        corner = np.concatenate([np.zeros(channels, int), above[:-channels]])
        guess = left + above - corner
        off = [abs(guess - left), abs(guess - above), abs(guess - corner)]
        nearest = np.where((off[0] <= off[1]) & (off[0] <= off[2]), left, np.where(off[1] <= off[2], above, corner))
        predicted = [np.zeros_like(above), left, above, (left + above) // 2, nearest][y % 5]
        rows += bytes([y % 5]) + ((flat[y] - predicted) % 256).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        file += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return file


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
