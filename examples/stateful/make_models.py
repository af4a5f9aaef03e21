#!/usr/bin/env python3
"""Writes two small models that keep state from request to request, with seeded weights: the same on every machine.

    make_models.py FOLDER        FOLDER/{running_sum,lstm}/1/model.xml

running_sum  x [1,4] -> y [1,4]
             The sum of all x of the sequence. Its state is a variable of the model (ReadValue and Assign).
lstm         x [1,1,8] -> y [1,1,16]
             One step of an LSTM in a TensorIterator, which starts with zeros. `low_latency_transformation` makes its
             hidden and its cell state variables.
"""

import pathlib
import sys

import numpy as np
import openvino as ov
import openvino.opset13 as op

WIDTH = 4
INPUTS = 8
HIDDEN = 16


def named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def running_sum():
    x = named(op.parameter([1, WIDTH], np.float32, name="x"), "x")
    before = op.read_value(
        op.constant(np.zeros([1, WIDTH], np.float32)), "sum", np.float32, ov.PartialShape([1, WIDTH])
    )
    total = named(op.add(before, x), "y")
    return ov.Model([op.result(total)], [op.assign(total, "sum")], [x], "running_sum")


def lstm_weights():
    """Returns (W, R, B) of the cell, with gates in OpenVINO's order: forget, input, cell, output."""
    rng = np.random.default_rng(2024)
    shapes = ((4 * HIDDEN, INPUTS), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,))
    return [(rng.standard_normal(shape) / 2).astype(np.float32) for shape in shapes]


def lstm():
    weights, recurrence, bias = lstm_weights()
    step = op.parameter([1, 1, INPUTS], np.float32, name="step")
    hidden = op.parameter([1, HIDDEN], np.float32, name="hidden")
    cell = op.parameter([1, HIDDEN], np.float32, name="cell")
    axis = op.constant(np.array([1], np.int64))
    after = op.lstm_cell(
        op.squeeze(step, axis), hidden, cell, op.constant(weights), op.constant(recurrence), op.constant(bias), HIDDEN
    )
    new_hidden, new_cell = op.result(after.output(0)), op.result(after.output(1))
    answer = op.result(op.unsqueeze(after.output(0), axis))
    body = ov.Model([new_hidden, new_cell, answer], [step, hidden, cell], "step")

    x = named(op.parameter([1, 1, INPUTS], np.float32, name="x"), "x")
    zeros = op.constant(np.zeros([1, HIDDEN], np.float32))
    loop = op.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(step, x.output(0), 0, 1, 1, -1, 1)
    loop.set_merged_input(hidden, zeros.output(0), new_hidden.output(0))
    loop.set_merged_input(cell, zeros.output(0), new_cell.output(0))
    y = loop.get_concatenated_slices(answer.output(0), 0, 1, 1, -1, 1)
    y.get_tensor().set_names({"y"})
    return ov.Model([op.result(y)], [x], "lstm")


def write(folder):
    for model in (running_sum(), lstm()):
        path = pathlib.Path(folder) / model.friendly_name / "1" / "model.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        ov.save_model(model, path, compress_to_fp16=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
