#!/usr/bin/env python3
"""Makes a model repository: a network, two models that convert an image file to its input, and an ensemble for each.

prepare.py FOLDER
braid serve FOLDER

The network finds the colour in the middle of an image. This script builds it with OpenVINO's Python API. Its input has the
format of networks trained on ImageNet.
"""

import argparse
import pathlib
import shutil

import numpy as np
import openvino as ov
import openvino.opset13 as op

HERE = pathlib.Path(__file__).resolve().parent
SIDE = 224
# The mean and the standard deviation of each channel, as in networks trained on ImageNet.
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "white": (1, 1, 1), "black": (0, 0, 0)}


def network():
    """pixels [n,3,224,224], normalised -> scores [n,5]: how near the mean colour of the middle is to each colour."""
    pixels = op.parameter([-1, 3, SIDE, SIDE], np.float32, name="pixels")
    pixels.output(0).get_tensor().set_names({"pixels"})
    begin, end = SIDE // 4, SIDE - SIDE // 4
    middle = op.slice(pixels, *(op.constant(np.array(part)) for part in ([begin] * 2, [end] * 2, [1, 1], [2, 3])))
    mean = op.reduce_mean(middle, op.constant(np.array([2, 3])), False)
    shades = (np.array(list(COLOURS.values()), np.float32) - MEAN) / DEVIATION
    distances = op.squared_difference(op.unsqueeze(mean, op.constant(np.array([1]))), op.constant(shades[None]))
    scores = op.softmax(op.negative(op.reduce_sum(distances, op.constant(np.array([2])), False)), 1)
    scores.output(0).get_tensor().set_names({"scores"})
    return ov.Model([op.result(scores)], [pixels], "colours")


def prepare(folder):
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for ensemble in ("colour_opencv", "colour_pillow"):
        (folder / ensemble / "1").mkdir(exist_ok=True)
    (folder / "colours" / "1").mkdir(parents=True, exist_ok=True)
    ov.save_model(network(), folder / "colours" / "1" / "model.xml", compress_to_fp16=False)
    for model in ("colours", "colour_opencv", "colour_pillow"):
        (folder / model / "labels.txt").write_text("\n".join(COLOURS) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    prepare(arguments.folder)
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
