#!/usr/bin/env python3
"""Lays out the OCR example in a folder, ready to be served: models, custom nodes, a graph, a Python model, config.json.

prepare.py FOLDER [--nodes FOLDER]
braid serve --config_path FOLDER/config.json --model-repository FOLDER/bls --port 9000 --rest_port 8000

The models are PaddleOCR's PP-OCRv6, small, from the Python package `rapidocr` (Apache-2.0). OpenVINO reads their ONNX files
and writes them as IR with two additions. The first is the normalisation of pixels in front. The second, after the
recognition, chooses the likeliest character at each step, so that the probabilities of all characters are not sent.

text_detection    image [1,h,w,3], BGR from 0 to 255, h and w multiples of 32 -> map [1,1,h,w]: the probability of text
text_recognition  lines [n,48,w,3] -> characters [n,t]: an index at each step, 0 for none
"""

import argparse
import importlib.util
import pathlib
import shutil

import openvino as ov
import openvino.opset13 as op

HERE = pathlib.Path(__file__).resolve().parent
# Maps pixels from 0..255 to -1..1.
MEAN = SCALE = 127.5


def source(name):
    """Returns a model's path in the installed package. The package is not imported, because that needs all its dependencies."""
    package = importlib.util.find_spec("rapidocr")
    if package is None:
        raise SystemExit("prepare.py: rapidocr is missing; pip install --no-deps rapidocr")
    return pathlib.Path(package.origin).parent / "models" / name


def read(name, input_name, shape):
    """Reads a model, and changes its input to the pixels of images, [n,h,w,3]."""
    model = ov.Core().read_model(source(name))
    steps = ov.preprocess.PrePostProcessor(model)
    steps.input().tensor().set_layout(ov.Layout("NHWC"))
    steps.input().model().set_layout(ov.Layout("NCHW"))
    steps.input().preprocess().mean(MEAN).scale(SCALE)
    model = steps.build()
    model.reshape(shape)
    model.input().get_tensor().set_names({input_name})
    return model


def detection():
    model = read("PP-OCRv6_det_small.onnx", "image", [1, -1, -1, 3])
    model.output().get_tensor().set_names({"map"})
    return model


def recognition():
    """Returns (the model, its characters by index)."""
    model = read("PP-OCRv6_rec_small.onnx", "lines", [-1, 48, -1, 3])
    scores = model.output().get_node().input_value(0)
    likeliest = op.squeeze(op.topk(scores, op.constant(1), 2, "max", "none").output(1), op.constant([2]))
    likeliest.output(0).get_tensor().set_names({"characters"})
    return ov.Model([op.result(likeliest)], model.get_parameters(), "text_recognition"), characters()


def characters():
    """Index 0 means no character, the last index is a space; those between are in the ONNX file's metadata."""
    import onnx

    file = onnx.load(source("PP-OCRv6_rec_small.onnx"), load_external_data=False)
    [listed] = [entry.value for entry in file.metadata_props if entry.key == "character"]
    return ["", *listed.split("\n"), " "]


def prepare(folder, nodes):
    folder.mkdir(parents=True, exist_ok=True)
    recognizer, names = recognition()
    for name, model in (("text_detection", detection()), ("text_recognition", recognizer)):
        (folder / "models" / name / "1").mkdir(parents=True, exist_ok=True)
        ov.save_model(model, folder / "models" / name / "1" / "model.xml", compress_to_fp16=False)
    (folder / "nodes").mkdir(exist_ok=True)
    for library in sorted(nodes.glob("libtext_*.so")):
        shutil.copy2(library, folder / "nodes")
    for part in ("graph", "bls"):
        shutil.copytree(HERE / part, folder / part, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    # The graph and the Python model share reading.py; each served folder gets a copy.
    for place in (folder / "graph", folder / "bls" / "ocr_bls" / "1"):
        shutil.copy2(HERE / "reading.py", place)
        (place / "characters.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    shutil.copy2(folder / "graph" / "characters.txt", folder)
    config = (HERE / "config.json").read_text(encoding="utf-8")
    # A custom node gets only its params, so the path of its file must be absolute.
    config = config.replace("characters.txt", str(folder.resolve() / "characters.txt"))
    (folder / "config.json").write_text(config, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--nodes",
        type=pathlib.Path,
        default=HERE.parent / "custom_nodes" / "lib",
        help="where the libraries are (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if not list(arguments.nodes.glob("libtext_*.so")):
        parser.error(f"there are no libraries in {arguments.nodes}; build them: make -C {HERE.parent / 'custom_nodes'}")
    prepare(arguments.folder, arguments.nodes)
    print(
        f"braid serve --config_path {arguments.folder / 'config.json'} --model-repository {arguments.folder / 'bls'}"
        " --port 9000 --rest_port 8000"
    )


if __name__ == "__main__":
    main()
