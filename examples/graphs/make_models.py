#!/usr/bin/env python3
"""Writes the small networks of the example graphs, with seeded weights: the same numbers on every machine.

    make_models.py FOLDER        FOLDER/{colors,image_encoder,text_encoder}/1/model.xml

colors         image [1,3,16,16] from 0 to 1 -> probabilities [1,3] of red, green and blue
image_encoder  image [1,3,16,16] from 0 to 1 -> embedding [1,8] of its mean color
text_encoder   counts [texts,6] of the words of match/words.txt -> embedding [texts,8] of the colors that they name
"""

import pathlib
import sys

import numpy as np
import openvino as ov
import openvino.opset13 as op

SIDE = 16
EMBEDDING = 8
COLORS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], np.float32)  # of match/words.txt


def named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def image():
    return named(op.parameter([1, 3, SIDE, SIDE], np.float32, name="image"), "image")


def mean_color(x):
    return op.reduce_mean(x, op.constant(np.array([2, 3])), False)  # [1,3]


def colors():
    x = image()
    scores = op.multiply(mean_color(x), op.constant(np.float32(10)))
    return ov.Model([op.result(named(op.softmax(scores, 1), "probabilities"))], [x], "colors")


def image_encoder(space):
    x = image()
    embedding = op.matmul(mean_color(x), op.constant(space), False, False)
    return ov.Model([op.result(named(embedding, "embedding"))], [x], "image_encoder")


def text_encoder(space):
    counts = named(op.parameter([-1, len(COLORS)], np.float32, name="counts"), "counts")
    embedding = op.matmul(counts, op.constant(COLORS @ space), False, False)
    return ov.Model([op.result(named(embedding, "embedding"))], [counts], "text_encoder")


def write(folder):
    """Writes all models, as version 1, to `folder`."""
    random = np.random.default_rng(2026).standard_normal((EMBEDDING, EMBEDDING))
    space = np.linalg.qr(random)[0][:3].astype(np.float32)  # three directions at right angles
    for each in [colors(), image_encoder(space), text_encoder(space)]:
        path = pathlib.Path(folder) / each.get_friendly_name() / "1"
        path.mkdir(parents=True, exist_ok=True)
        ov.save_model(each, path / "model.xml", compress_to_fp16=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
