#!/usr/bin/env python3
"""Writes the small models of the example pipelines, with seeded weights: the same numbers on every machine.

    make_models.py FOLDER        FOLDER/{detector,ages,emotions,letters}/1/model.xml

detector  image [1,3,64,64] -> detections [1,1,16,7]
          The confidence of a detection is the brightness of one of 4 x 4 cells.
          A row is [image, label, confidence, x_min, y_min, x_max, y_max], as in detection networks, with coordinates from
          0 to 1.
ages      image [1,3,16,16] -> age [1,1]
emotions  image [1,3,16,16] -> probabilities [1,4]
letters   image [1,3,16,16] -> scores [4,11]
          For each quarter of the image, row by row, the similarity to each of eleven letters.
"""

import pathlib
import sys

import numpy as np
import openvino as ov
import openvino.opset13 as op

CELLS = 4
SIDE = 64
CROP = 16
LETTERS = 11


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def image(side):
    return named(op.parameter([1, 3, side, side], np.float32, name="image"), "image")


def model(result, parameter, name):
    return ov.Model([op.result(result)], [parameter], name)


def detector():
    x = image(SIDE)
    gray = op.reduce_mean(x, op.constant(np.array([1])), True)
    cell = SIDE // CELLS
    bright = op.avg_pool(gray, [cell, cell], [0, 0], [0, 0], [cell, cell], True)
    confidence = op.reshape(op.divide(bright, op.constant(np.float32(255))), op.constant([1, 1, CELLS**2, 1]), False)
    rows, columns = np.divmod(np.arange(CELLS**2), CELLS)
    labels = np.tile(np.array([0, 1], np.float32), (CELLS**2, 1))
    boxes = np.stack([columns, rows, columns + 1, rows + 1], axis=1).astype(np.float32) / CELLS
    parts = [op.constant(labels[None, None]), confidence, op.constant(boxes[None, None])]
    return model(named(op.concat(parts, 3), "detections"), x, "detector")


def flat(x):
    """Returns the pixels as one row, from 0 to 1."""
    return op.reshape(op.divide(x, op.constant(np.float32(255))), op.constant([1, 3 * CROP * CROP]), False)


def ages(rng):
    x = image(CROP)
    hidden = op.relu(op.matmul(flat(x), op.constant(weights(rng, 3 * CROP * CROP, 8)), False, False))
    years = op.matmul(hidden, op.constant(np.abs(weights(rng, 8, 1)) * 20), False, False)
    return model(named(years, "age"), x, "ages")


def emotions(rng):
    x = image(CROP)
    scores = op.matmul(flat(x), op.constant(weights(rng, 3 * CROP * CROP, 4)), False, False)
    return model(named(op.softmax(scores, 1), "probabilities"), x, "emotions")


def letters(rng):
    x = image(CROP)
    half = CROP // 2
    kernel = op.constant(weights(rng, LETTERS, 3, half, half))
    scores = op.convolution(x, kernel, [half, half], [0, 0], [0, 0], [1, 1])  # [1,11,2,2]
    rows = op.reshape(op.transpose(scores, op.constant([0, 2, 3, 1])), op.constant([4, LETTERS]), False)
    return model(named(rows, "scores"), x, "letters")


def write(folder):
    """Writes all models, as version 1, to `folder`."""
    rng = np.random.default_rng(2026)
    made = [detector(), ages(rng), emotions(rng), letters(rng)]
    for each in made:
        path = pathlib.Path(folder) / each.get_friendly_name() / "1"
        path.mkdir(parents=True, exist_ok=True)
        ov.save_model(each, path / "model.xml", compress_to_fp16=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
