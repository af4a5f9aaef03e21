"""The built-in custom nodes, in pipelines as they are published, give the values that numpy computes."""

import io
import json
import math
import pathlib
import shutil

import numpy as np
import pytest
from harness import custom_nodes
from harness import openvino_models as models
from harness.ovms import OvmsServer
from PIL import Image
from test_check import Checked
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

PUBLISHED = "/ovms/lib/custom_nodes"


def library(node, folder=PUBLISHED, **more):
    return {"name": node, "base_path": f"{folder}/libcustom_node_{node}.so", **more}


def custom(library, inputs, outputs, params, **more):
    """Returns a pipeline's node "cut", with the request's inputs."""
    return {
        "name": "cut",
        "type": "custom",
        "library_name": library,
        "params": params,
        "inputs": [{name: {"node_name": "request", "data_item": name}} for name in inputs],
        "outputs": [{"data_item": name, "alias": name} for name in outputs],
        **more,
    }


def pipeline(name, node, inputs, outputs, params, behind=None, **more):
    """Returns a pipeline of one custom node. `behind`: (model, output of the node) of a model that runs on its pieces."""
    nodes = [custom(node, inputs, outputs, params, **more)]
    results = [{output: {"node_name": "cut", "data_item": output}} for output in outputs]
    if behind:
        model, item = behind
        nodes.append(
            {
                "name": "model",
                "type": "DL model",
                "model_name": model,
                "inputs": [{"x": {"node_name": "cut", "data_item": item}}],
                "outputs": [{"data_item": "y", "alias": "y"}],
            }
        )
        results.append({"y": {"node_name": "model", "data_item": "y"}})
    return {"name": name, "inputs": list(inputs), "nodes": nodes, "outputs": results}


def sizes(original, target, **more):
    """Returns params for pictures of these (width, height)."""
    return {
        "original_image_width": str(original[0]),
        "original_image_height": str(original[1]),
        "target_image_width": str(target[0]),
        "target_image_height": str(target[1]),
        "original_image_layout": "NHWC",
        "target_image_layout": "NHWC",
        "debug": "true",
        **more,
    }


BLUR = sizes((600, 400), (300, 200), confidence_threshold="0.7", gaussian_blur_kernel_size="51")
FACES = sizes((600, 400), (64, 64), confidence_threshold="0.7", max_output_batch="100", buffer_queue_size="24")
LINES = sizes((704, 704), (128, 32), confidence_threshold="0.3", convert_to_gray_scale="true", max_output_batch="100")
TEXTS = sizes(
    (192, 128),
    (128, 32),
    confidence_threshold="0.9",
    overlap_threshold="0.2",
    box_width_adjustment="0.1",
    box_height_adjustment="0.0",
    rotation_angle_threshold="8",
    convert_to_gray_scale="true",
    max_output_batch="100",
)
NORMAL = {
    "target_image_width": "224",
    "target_image_height": "224",
    "mean_values": "[123.675,116.28,103.53]",
    "scale_values": "[58.395,57.12,57.375]",
    "original_image_color_order": "BGR",
    "target_image_color_order": "BGR",
    "original_image_layout": "NHWC",
    "target_image_layout": "NCHW",
}
DETECTION = ("images", "coordinates", "confidences", "label_ids")
TEXT = ("text_images", "text_coordinates", "confidence_levels")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    faces = models.save(models.scale((1, 64, 64, 3)), folder / "faces")
    lines = models.save(models.scale((1, 32, 128, 1)), folder / "lines")
    detected = ("image", "detection")
    return {
        "model_config_list": [models.entry("faces", faces), models.entry("lines", lines)],
        "custom_node_library_config_list": [library(node) for node in custom_nodes.NAMES],
        "pipeline_config_list": [
            pipeline("plus", "add_one", ["input_numbers"], ["output_numbers"], {"add_number": "5", "sub_number": "2"}),
            pipeline("normal", "image_transformation", ["image"], ["image"], NORMAL),
            pipeline("blur", "face_blur", detected, ["image"], BLUR),
            pipeline(
                "people",
                "model_zoo_intel_object_detection",
                detected,
                DETECTION,
                FACES,
                ("faces", "images"),
                demultiply_count=0,
            ),
            pipeline("crops", "model_zoo_intel_object_detection", detected, DETECTION, FACES),
            pipeline(
                "reader",
                "horizontal_ocr",
                ["image", "boxes"],
                TEXT,
                LINES,
                ("lines", "text_images"),
                demultiply_count=0,
            ),
            pipeline("texts", "east_ocr", ["image", "scores", "geometry"], TEXT, TEXTS),
        ],
    }


@pytest.fixture(scope="module")
def server(config, tmp_path_factory):
    with OvmsServer(config, workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def ask(server):
    """Returns a function that sends arrays, or PNG files as bytes, and returns the outputs."""
    with InferenceServerClient(server.grpc) as client:

        def send(name, **inputs):
            tensors = []
            for key, value in inputs.items():
                array = np.array([value], object) if isinstance(value, bytes) else value.astype(np.float32)
                kind = "BYTES" if isinstance(value, bytes) else "FP32"
                tensors.append(InferInput(key, list(array.shape), kind))
                tensors[-1].set_data_from_numpy(array)
            answer = client.infer(name, tensors)
            return {output.name: answer.as_numpy(output.name) for output in answer.get_response().outputs}

        yield send


# ---- The reference -------------------------------------------------------------------------------


def resize(image, width, height):
    """Returns the image, resized bilinearly."""
    for axis, size in ((0, height), (1, width)):
        old = image.shape[axis]
        place = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
        first = np.floor(place).astype(int)
        part = (place - first).reshape([-1 if i == axis else 1 for i in range(3)])
        before, after = image.take(first, axis), image.take(np.minimum(first + 1, old - 1), axis)
        image = before * (1 - part) + after * part
    return image


def gray(image):
    """Returns one channel of blue, green and red."""
    return image @ np.array([[0.114], [0.587], [0.299]])


def blur(image, kernel, sigma):
    """Returns the image, blurred by a Gaussian; mirrored at its edges."""
    weights = np.exp(-((np.arange(kernel) - kernel // 2) ** 2) / (2 * sigma**2))
    half = kernel // 2
    padded = np.pad(image, ((half, half), (half, half), (0, 0)), "reflect")
    for axis in (0, 1):
        padded = np.apply_along_axis(np.convolve, axis, padded, weights / weights.sum(), "valid")
    return padded


def rotate(image, degrees):
    """Returns the image, rotated counter-clockwise about its middle pixel; black outside of it."""
    height, width, _ = image.shape
    y, x = np.mgrid[:height, :width].astype(float)
    x, y = x - width // 2, y - height // 2
    angle = math.radians(degrees)
    # Where each pixel comes from. Rows count downwards.
    from_x = math.cos(angle) * x - math.sin(angle) * y + width // 2
    from_y = math.sin(angle) * x + math.cos(angle) * y + height // 2
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    from_x, from_y = np.clip(from_x, -1, width), np.clip(from_y, -1, height)
    left, top = np.floor(from_x).astype(int), np.floor(from_y).astype(int)
    right, below = (from_x - left)[..., None], (from_y - top)[..., None]
    last_x, last_y = np.minimum(left + 2, width + 1), np.minimum(top + 2, height + 1)
    upper = padded[top + 1, left + 1] * (1 - right) + padded[top + 1, last_x] * right
    lower = padded[last_y, left + 1] * (1 - right) + padded[last_y, last_x] * right
    return upper * (1 - below) + lower * below


def picture(width, height, seed=7):
    """Returns a smooth picture, [H, W, 3]; smooth, so that a wrong place shows and rounding does not."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (9 + channel) + seed) + np.cos(y / (7 + channel) - seed) for channel in range(3)]
    return np.round((np.stack(waves, axis=2) + 2) * 63)


def png(image):
    file = io.BytesIO()
    Image.fromarray(image[:, :, ::-1].astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def detections(*rows):
    """Returns the output of a detector: 200 rows, of which the first ones are given."""
    all_rows = np.zeros((1, 1, 200, 7), np.float32)
    all_rows[0, 0, :, 0] = -1
    for i, row in enumerate(rows):
        all_rows[0, 0, i] = row
    return all_rows


# ---- The nodes -----------------------------------------------------------------------------------


def test_the_log_names_the_files_that_are_used(server):
    for node in custom_nodes.NAMES:
        text = f"'{PUBLISHED}/libcustom_node_{node}.so' of the custom node library '{node}' does not exist; the server's own"
        [line] = [line for line in server.log.splitlines() if text in line]
        assert f"'{custom_nodes.FOLDER}/libcustom_node_{node}.so' is used" in line


def test_add_one(ask):
    numbers = np.arange(10).reshape(1, 10)
    np.testing.assert_array_equal(ask("plus", input_numbers=numbers)["output_numbers"], numbers + 3)


def test_image_transformation(ask):
    image = picture(320, 200)
    mean, scale = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
    expected = (resize(image, 224, 224) - mean) / scale
    answer = ask("normal", image=png(image))["image"]
    assert answer.shape == (1, 3, 224, 224)
    np.testing.assert_allclose(answer[0].transpose(1, 2, 0), expected, atol=1e-3)


def test_face_blur(ask):
    image = picture(600, 400)
    # The second box reaches over the right edge; the third has too low a score.
    rows = [(0, 1, 0.9, 0.1, 0.2, 0.5, 0.6), (0, 1, 0.7, 0.9, 0.7, 1.1, 0.9), (0, 1, 0.6, 0, 0, 1, 1)]
    expected, blurred = image.copy(), blur(image, 51, 8.0)
    for left, top, right, bottom in ((60, 80, 300, 240), (540, 280, 600, 360)):
        expected[top:bottom, left:right] = blurred[top:bottom, left:right]
    answer = ask("blur", image=png(image), detection=detections(*rows))["image"]
    np.testing.assert_allclose(answer[0], resize(expected, 300, 200), atol=1e-2)


def test_object_detection(ask):
    image = picture(600, 400)
    rows = [
        (0, 1, 0.9, 0.1, 0.2, 0.5, 0.6),
        (0, 2, 0.69, 0, 0, 1, 1),
        (0, 3, 0.8, -0.02, 0.1, 0.1, 0.5),  # moves to the edge with its width
        (0, 4, 0.7, 0.9, 0.9, 1.1, 1.05),
    ]
    pieces = [image[80:240, 60:300], image[40:200, :72], image[360:, 540:]]
    expected = np.stack([resize(piece, 64, 64)[None] for piece in pieces])
    for name in ("people", "crops"):
        answer = ask(name, image=image[None], detection=detections(*rows))
        np.testing.assert_allclose(answer["images"], expected, atol=1e-2)
        np.testing.assert_allclose(answer["coordinates"][:, 0], [rows[i][3:] for i in (0, 2, 3)], rtol=1e-6)
        np.testing.assert_allclose(answer["confidences"][:, 0, 0], [0.9, 0.8, 0.7], rtol=1e-6)
        np.testing.assert_array_equal(answer["label_ids"][:, 0, 0], [1, 3, 4])
        if name == "people":
            np.testing.assert_allclose(answer["y"], expected * 2, atol=2e-2)


def test_horizontal_ocr(ask):
    image = picture(704, 704)
    boxes = np.array([(10.7, 20.2, 110.1, 52.9, 0.8), (5, 5, 4, 4, 0.2), (650, 600, 710, 640, 0.3)])
    pieces = [image[20:52, 10:109], image[600:640, 650:704]]
    expected = np.stack([gray(resize(piece, 128, 32))[None] for piece in pieces])
    answer = ask("reader", image=image[None], boxes=boxes)
    np.testing.assert_allclose(answer["text_images"], expected, atol=1e-2)
    np.testing.assert_array_equal(answer["text_coordinates"][:, 0], [(10, 20, 99, 32), (650, 600, 54, 40)])
    np.testing.assert_allclose(answer["confidence_levels"][:, 0, 0], [0.8, 0.3], rtol=1e-6)
    np.testing.assert_allclose(answer["y"], expected * 2, atol=2e-2)


def test_east_ocr(ask):
    image = picture(192, 128)
    scores, geometry = np.zeros((1, 32, 48, 1)), np.zeros((1, 32, 48, 5))
    cells = [
        (20, 5, 0.95, (10, 40, 10, 30, 0.1)),  # 5.7 degrees: not rotated
        (21, 5, 0.92, (10, 40, 10, 30, 0.1)),  # mostly the same text
        (24, 16, 0.99, (6, 30, 6, 30, math.radians(30))),
        (2, 30, 0.5, (6, 30, 6, 30, 0)),
    ]
    for x, y, score, sides in cells:
        scores[0, y, x], geometry[0, y, x] = score, sides
    answer = ask("texts", image=image[None], scores=scores, geometry=geometry)

    def box(x, y, sides):
        top, right, bottom, left, angle = np.float32(sides)
        height, width = top + bottom, left + right
        cos, sin = math.cos(angle), math.sin(angle)
        p2 = np.array([4 * x + int(cos * right + sin * bottom), 4 * y + int(-sin * right + cos * bottom)])
        p1 = p2 + [int(-sin * height), int(-cos * height)]
        p3 = p2 + [int(-cos * width), int(sin * width)]
        points = np.stack([p1, p2, p3, p3 + p1 - p2])
        (first_x, first_y), (last_x, last_y) = points.min(axis=0), points.max(axis=0)
        first_x = max(0, int(first_x - (last_x - first_x) * 0.1))
        last_x = min(192, int(last_x + (last_x - first_x) * 0.1))
        return first_x, max(0, first_y), last_x - first_x, min(128, last_y) - max(0, first_y)

    boxes = [box(x, y, sides) for x, y, score, sides in cells]
    tilted_box, flat_box = boxes[2], boxes[0]
    np.testing.assert_array_equal(answer["text_coordinates"][:, 0], [tilted_box, flat_box])
    np.testing.assert_allclose(answer["confidence_levels"][:, 0, 0], [0.99, 0.95], rtol=1e-6)

    def cut(x, y, width, height):
        return image[y : y + height, x : x + width]

    flat = gray(resize(cut(*flat_box), 128, 32))
    np.testing.assert_allclose(answer["text_images"][1, 0], flat, atol=1e-2)
    tilted = rotate(cut(*tilted_box), -30)
    rows = int((tilted.shape[0] - 12) / 2)
    tilted = gray(resize(tilted[rows : rows + 12], 128, 32))
    # OpenCV rounds the places of rotated pixels to 1/32.
    np.testing.assert_allclose(answer["text_images"][0, 0], tilted, atol=4)
    assert np.abs(answer["text_images"][0, 0] - tilted).mean() < 0.5


def test_without_results(server, ask):
    image, none = picture(600, 400)[None], detections()
    answer = ask("crops", image=image, detection=none)
    assert {name: value.shape for name, value in answer.items()} == {
        "images": (0, 1, 64, 64, 3),
        "coordinates": (0, 1, 4),
        "confidences": (0, 1, 1),
        "label_ids": (0, 1, 1),
    }
    with pytest.raises(InferenceServerException) as error:
        ask("people", image=image, detection=none)
    assert error.value.status() == "StatusCode.ABORTED"


def test_a_fault_of_a_request_is_told(server, ask):
    with pytest.raises(InferenceServerException) as error:
        ask("crops", image=picture(600, 400)[None], detection=detections((0, 1, 0.9, 0.5, 0, 0.5, 1)))
    assert error.value.status() == "StatusCode.INTERNAL"
    assert error.value.message() == (
        "Custom node failed during execution - library 'model_zoo_intel_object_detection', node 'cut': execute threw: "
        "input 'detection': the box 0 has no pixel in the picture; with the param skip_empty_boxes 'true' such boxes "
        "are left out (pipeline 'crops', node 'cut')"
    )


def test_metadata(server):
    status, metadata = server.json("GET", "/v2/models/people")
    assert status == 200
    assert {each["name"]: (each["datatype"], each["shape"]) for each in metadata["inputs"]} == {
        "image": ("FP32", [1, 400, 600, 3]),
        "detection": ("FP32", [1, 1, -1, 7]),
    }
    assert {each["name"]: (each["datatype"], each["shape"]) for each in metadata["outputs"]} == {
        "images": ("FP32", [-1, 1, 64, 64, 3]),
        "coordinates": ("FP32", [-1, 1, 4]),
        "confidences": ("FP32", [-1, 1, 1]),
        "label_ids": ("INT32", [-1, 1, 1]),
        "y": ("FP32", [-1, 1, 64, 64, 3]),
    }


def test_debug_shows_shapes(server, ask):
    ask("crops", image=picture(600, 400)[None], detection=detections())
    line = "custom node model_zoo_intel_object_detection: input 'detection' is FP32 [1,1,200,7]"
    server.wait_for_log(line.replace("[", r"\["))


# ---- Where libraries are found -------------------------------------------------------------------


def plus(*libraries, **params):
    return {
        "model_config_list": [],
        "custom_node_library_config_list": list(libraries),
        "pipeline_config_list": [
            pipeline("plus", libraries[0]["name"], ["input_numbers"], ["output_numbers"], params),
        ],
    }


def add(server, *numbers):
    body = {"inputs": [{"name": "input_numbers", "datatype": "FP32", "shape": [1, 10], "data": list(numbers)}]}
    status, answer = server.json("POST", "/v2/models/plus/infer", body)
    assert status == 200, answer
    return answer["outputs"][0]["data"]


def test_a_file_that_exists_is_used(tmp_path):
    """A file of a built-in node's name is not replaced: this one is another node."""
    shutil.copy(custom_nodes.FOLDER / "libcustom_node_image_transformation.so", tmp_path / "libcustom_node_add_one.so")
    config = plus(library("add_one", folder="."))
    with OvmsServer(config, workdir=tmp_path, ready=False) as server:
        server.wait_for_log("pipeline 'plus' is not available: .*param 'original_image_layout' is missing")
        assert "the server's own" not in server.log


@pytest.mark.parametrize("name", ["add_two", "add_one.so.1"])
def test_other_names_are_an_error(tmp_path, name):
    with OvmsServer(plus(library(name)), workdir=tmp_path, ready=False) as server:
        server.wait_for_log(f"failed to open the custom node library '{name}': .*No such file or directory")
        assert server.states("plus") == {1: "LOADING"}


def test_a_folder_is_no_library(tmp_path):
    (tmp_path / "libcustom_node_add_one.so").mkdir()
    with OvmsServer(plus(library("add_one", folder=".")), workdir=tmp_path, ready=False) as server:
        server.wait_for_log("failed to open the custom node library 'add_one': .*not a file")


def test_a_bad_param_is_told(tmp_path):
    with OvmsServer(plus(library("add_one"), add_number="-1"), workdir=tmp_path, ready=False) as server:
        server.wait_for_log(
            "pipeline 'plus' is not available: .*initialize threw: param 'add_number' is '-1': expected a whole number of"
        )


@pytest.mark.parametrize("level", ["basic", "strict"])
def test_it_runs_apart(tmp_path, level):
    config = plus(library("add_one", isolate=True), unknown="1")
    with OvmsServer(config, f"--worker-isolation={level}", workdir=tmp_path) as server:
        assert add(server, *range(10)) == list(range(1, 11))
        server.wait_for_log("param 'unknown' is unknown and has no effect")


def check(config, folder):
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps(config, indent=1))
    done = Checked(path, "--format=json")
    return done, json.loads(done.out)


def test_check_accepts_them(config, tmp_path):
    done, report = check(config, tmp_path)
    assert done.code == 0, done.out
    notes = [finding for finding in report["findings"] if finding["rule"] == "built-in-node"]
    assert [(each["level"], each["servable"]) for each in notes] == [("note", node) for node in custom_nodes.NAMES]
    assert notes[0]["message"] == (
        f"there is no file '{PUBLISHED}/libcustom_node_add_one.so'; the server uses its own '{custom_nodes.FOLDER}/libcustom_node_add_one.so'"
    )
    assert notes[0]["line"] == 1 + json.dumps(config, indent=1).splitlines().index(
        f'   "base_path": "{PUBLISHED}/libcustom_node_add_one.so"'
    )


def test_check_finds_a_bad_param(tmp_path):
    done, report = check(plus(library("add_one"), sub_number="-1"), tmp_path)
    assert done.code == 1
    [error] = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert "param 'sub_number' is '-1'" in error["message"]
