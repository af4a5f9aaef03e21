"""The OCR example: the pipeline, the graph and the Python model all read the text of a picture."""

import io

import numpy as np
import pytest
import tritonclient.grpc
from harness.examples import EXAMPLES, load, needs, run
from harness.ovms import OvmsServer
from harness.server import BINARY

needs("cv2", "PIL", "openvino", "onnx", "rapidocr")

from PIL import Image, ImageDraw, ImageFont  # noqa: E402

example = load(EXAMPLES / "ocr" / "client.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ocr")
    run("ocr/prepare.py", folder, "--nodes", BINARY.parent / "examples" / "custom_nodes")
    options = ["--model-repository", folder / "bls"]
    with OvmsServer(folder / "config.json", *options, workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        yield client


def picture(*lines, size, kind="JPEG"):
    """Returns a picture file with these lines: (text, left, top, height)."""
    image = Image.new("RGB", size, "white")
    for text, left, top, height in lines:
        ImageDraw.Draw(image).text((left, top), text, font=ImageFont.load_default(size=height), fill="black")
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("way", example.WAYS)
def test_the_example_picture(client, way):
    texts, boxes = example.WAYS[way](client, example.example_picture())
    assert texts == [*example.TEXT.splitlines(), "paid"]
    assert boxes.shape == (5, 4)
    lefts, tops, rights, bottoms = boxes.T
    assert (np.diff(tops[:4]) > 0).all()
    assert (rights > lefts).all()
    # The first line was written at (40, 30), 34 pixels high.
    np.testing.assert_allclose((lefts[0], tops[0], bottoms[0]), (40, 30, 72), atol=6)


def test_a_large_picture_and_columns(client):
    file = picture(
        ("left column", 100, 150, 90),
        ("right column", 1300, 150, 90),
        ("one more line 42", 100, 700, 90),
        size=(2000, 1000),
    )
    found = [way(client, file) for way in example.WAYS.values()]
    for texts, boxes in found:
        assert texts == ["left column", "right column", "one more line 42"]
        np.testing.assert_array_equal(boxes, found[0][1])


def test_one_line(client):
    file = picture(("A-38", 40, 20, 40), size=(300, 90), kind="PNG")
    assert [way(client, file)[0] for way in example.WAYS.values()] == [["A-38"]] * 3


def test_no_text(client):
    blank = picture(size=(320, 320))
    with pytest.raises(tritonclient.grpc.InferenceServerException) as error:
        example.by_pipeline(client, blank)
    assert error.value.status() == "StatusCode.ABORTED"
    with pytest.raises(tritonclient.grpc.InferenceServerException) as error:
        example.by_graph(client, blank)
    assert "ValueError: there is no text in the picture" in error.value.message()
    texts, boxes = example.by_bls(client, blank)
    assert (texts, boxes.shape) == ([], (0, 4))


@pytest.mark.parametrize("way", example.WAYS)
def test_no_picture(client, way):
    with pytest.raises(tritonclient.grpc.InferenceServerException):
        example.WAYS[way](client, b"GIF89a")


def test_client(server):
    printed = run("ocr/client.py", "--grpc", server.grpc)
    assert printed.count("  Invoice No. 2047  at ") == 3
