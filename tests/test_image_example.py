"""The example that converts image files to a network's input, with OpenCV and with Pillow."""

import io

import numpy as np
import pytest
from harness.clients import strings
from harness.examples import EXAMPLES, load, needs, run

needs("cv2", "PIL", "openvino")

from PIL import Image  # noqa: E402

WAYS = ("opencv", "pillow")


@pytest.fixture(scope="module")
def server(module_serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    run("images/prepare.py", folder)
    return module_serve(folder)


@pytest.fixture(params=WAYS)
def preprocess(request, server, connect):
    client = connect("grpc", server)

    def preprocess(*files):
        inputs = {"IMAGE": strings(*files)[:, None]}
        return client.infer(f"preprocess_{request.param}", inputs).as_numpy("PIXELS")

    preprocess.client = client
    preprocess.model = f"preprocess_{request.param}"
    return preprocess


def encoded(image, kind="PNG", **more):
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def gradient(width, height):
    """Returns an image whose red grows from left to right, and green from top to bottom."""
    red = np.tile(np.linspace(0, 255, width), (height, 1))
    green = np.tile(np.linspace(0, 255, height), (width, 1)).T
    return Image.fromarray(np.stack([red, green, np.full_like(red, 90)], axis=2).astype(np.uint8))


def shown(pixels):
    """Converts normalised pixels [3,h,w] to bytes [h,w,3]."""
    example = load(EXAMPLES / "images" / "prepare.py")
    return (pixels.transpose(1, 2, 0) * example.DEVIATION + example.MEAN) * 255


def test_sizes_and_kinds_of_files(preprocess):
    picture = gradient(512, 384)
    # The middle 224 pixels of 256 high and 341 wide.
    x = np.linspace(0, 255, 341)[58 : 58 + 224]
    y = np.linspace(0, 255, 256)[16 : 16 + 224]
    files = [
        encoded(picture),
        encoded(picture, "JPEG", quality=95),
        encoded(picture.convert("RGBA")),
        encoded(picture, "WEBP", lossless=True),
    ]
    for pixels in preprocess(*files):
        assert pixels.shape == (3, 224, 224)
        image = shown(pixels)
        np.testing.assert_allclose(image[..., 0], np.tile(x, (224, 1)), atol=5)
        np.testing.assert_allclose(image[..., 1], np.tile(y, (224, 1)).T, atol=5)
        np.testing.assert_allclose(image[..., 2], 90, atol=5)
    [small] = preprocess(encoded(Image.new("L", (30, 50), 200)))
    np.testing.assert_allclose(shown(small), 200, atol=0.01)
    [line] = preprocess(encoded(Image.new("RGB", (1000, 1), (1, 2, 3))))
    np.testing.assert_allclose(shown(line), np.broadcast_to([1, 2, 3], (224, 224, 3)), atol=0.01)


def test_a_picture_that_was_taken_sideways(preprocess):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate clockwise by 90 degrees
    turned, upright = preprocess(
        encoded(gradient(320, 320), "JPEG", quality=95, exif=exif),
        encoded(gradient(320, 320).rotate(-90), "JPEG", quality=95),
    )
    np.testing.assert_allclose(shown(turned), shown(upright), atol=6)


@pytest.mark.parametrize("file", [b"", b"GIF89a", b"not an image"])
def test_what_is_no_image(preprocess, file):
    with preprocess.client.fails("INVALID_ARG", contains="IMAGE: "):
        preprocess(encoded(gradient(10, 10)), file)


def test_both_ways_agree(server, connect):
    client = connect("grpc", server)
    file = strings(encoded(gradient(900, 700)))[:, None]
    first, second = (client.infer(f"preprocess_{way}", {"IMAGE": file}).as_numpy("PIXELS")[0] for way in WAYS)
    np.testing.assert_allclose(shown(first), shown(second), atol=3)


@pytest.mark.parametrize("way", WAYS)
def test_ensemble(server, connect, way):
    client = connect("http", server)
    colours = {"red": (250, 5, 5), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255,) * 3, "black": (0,) * 3}
    files = [encoded(Image.new("RGB", (300, 200), colour), "JPEG") for colour in colours.values()]
    scores = client.infer(f"colour_{way}", {"IMAGE": strings(*files)[:, None]}).as_numpy("SCORES")
    assert scores.argmax(axis=1).tolist() == list(range(5))
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)


def test_client(server):
    printed = run("images/client.py", "--url", server.grpc)
    assert printed == "colour_opencv: blue, score 1.000\ncolour_pillow: blue, score 1.000\n"
