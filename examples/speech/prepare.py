#!/usr/bin/env python3
"""Writes the speech activity example to a folder, ready to be served.

prepare.py FOLDER
braid serve --config_path FOLDER/config.json --port 9000 --rest_port 8000

The network is Silero VAD (MIT), from the Python package `silero-vad` for OpenVINO. It takes audio [1,576] and a state, and
returns a probability and the next state. Here the state becomes a variable of the model, which the server keeps for each
sequence:

speech  audio [1,576] at 16 kHz from -1 to 1, the last 64 samples of the previous piece and 512 new ones -> speech [1,1]
"""

import argparse
import importlib.util
import pathlib
import shutil

import openvino as ov
from openvino._offline_transformations import apply_make_stateful_transformation

HERE = pathlib.Path(__file__).resolve().parent


def source():
    """Returns the network's path in the installed package. The package is not imported, because that needs PyTorch."""
    package = importlib.util.find_spec("silero_vad")
    if package is None:
        raise SystemExit("prepare.py: silero-vad is missing; pip install --no-deps silero-vad")
    return pathlib.Path(package.origin).parent / "data" / "silero_vad_openvino_16k.onnx"


def network():
    model = ov.Core().read_model(source())
    apply_make_stateful_transformation(model, {"state": "stateN"})
    model.input().get_tensor().set_names({"audio"})
    model.output().get_tensor().set_names({"speech"})
    return model


def prepare(folder):
    (folder / "speech" / "1").mkdir(parents=True, exist_ok=True)
    ov.save_model(network(), folder / "speech" / "1" / "model.xml", compress_to_fp16=False)
    shutil.copy2(HERE / "config.json", folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    prepare(arguments.folder)
    print(f"braid serve --config_path {arguments.folder / 'config.json'} --port 9000 --rest_port 8000")


if __name__ == "__main__":
    main()
