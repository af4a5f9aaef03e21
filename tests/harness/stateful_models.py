"""Small stateful OpenVINO models, their expected answers, and their configurations."""

import numpy as np
import openvino as ov
import openvino.opset13 as op

from harness.openvino_models import entry, save


def _named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def _slow_zero(x, products):
    """Returns zero [1,1], after a number of matrix products that depend on x (FP32)."""
    both = np.array([0, 1])
    little = op.multiply(op.reduce_sum(x, both, True), op.constant(np.float32(1e-20)))
    matrix = op.add(op.constant(np.full([512, 512], 1 / 512, np.float32)), little)
    result = matrix
    for _ in range(products):
        result = op.matmul(result, matrix, False, False)
    # The positive part of a negative value.
    return op.relu(op.negative(op.reduce_max(op.abs(result), both, True)))


def running_sum_model(size=4, dtype=np.float32, products=0, shape=None):
    """Returns a model with y = the sum of all `x` [1,size] (or `shape`) of the sequence, this one included. Its state
    is "sum".

    `products` makes an FP32 model of rank 2 slow: each takes some milliseconds.
    """
    shape = shape or [1, size]
    x = _named(op.parameter(shape, dtype, name="x"), "x")
    before = op.read_value(op.constant(np.zeros(shape, dtype)), "sum", dtype, ov.PartialShape(shape))
    total = op.add(before, x)
    sink = op.assign(total, "sum")
    y = op.add(total, _slow_zero(x, products)) if products else total
    return ov.Model([op.result(_named(y, "y"))], [sink], [x], "running_sum")


def _lstm_weights(seed, inputs, hidden):
    """Returns (W, R, B), gates in OpenVINO's order: forget, input, cell, output."""
    rng = np.random.default_rng(seed)
    shapes = ((4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,))
    return [rng.standard_normal(shape).astype(np.float32) * np.float32(0.5) for shape in shapes]


def lstm_model(seed=7, inputs=3, hidden=5):
    """Returns a model with `y` [1,1,hidden] of `x` [1,1,inputs]: an LSTM in a TensorIterator of one step.

    It starts at zero each time, so it keeps state only when it is loaded with low_latency_transformation. Its two
    states are then "loop/h/variable_1" and "loop/c/variable_2", each [1,hidden].
    """
    weights, recurrence, bias = _lstm_weights(seed, inputs, hidden)
    step = op.parameter([1, 1, inputs], np.float32, name="step")
    h = op.parameter([1, hidden], np.float32, name="h")
    c = op.parameter([1, hidden], np.float32, name="c")
    axis = op.constant(np.array([1], np.int64))
    cell = op.lstm_cell(
        op.squeeze(step, axis), h, c, op.constant(weights), op.constant(recurrence), op.constant(bias), hidden
    )
    body_h, body_c = op.result(cell.output(0)), op.result(cell.output(1))
    body_y = op.result(op.unsqueeze(cell.output(0), axis))
    body = ov.Model([body_h, body_c, body_y], [step, h, c], "lstm_step")

    x = _named(op.parameter([1, 1, inputs], np.float32, name="x"), "x")
    zeros = op.constant(np.zeros([1, hidden], np.float32))
    iterator = op.tensor_iterator()
    iterator.set_friendly_name("loop")  # the states are named after it
    iterator.set_body(body)
    iterator.set_sliced_input(step, x.output(0), 0, 1, 1, -1, 1)
    iterator.set_merged_input(h, zeros.output(0), body_h.output(0))
    iterator.set_merged_input(c, zeros.output(0), body_c.output(0))
    y = iterator.get_concatenated_slices(body_y.output(0), 0, 1, 1, -1, 1)
    y.get_tensor().set_names({"y"})
    return ov.Model([op.result(y)], [x], "lstm")


def lstm_answers(rows, seed=7, hidden=5):
    """Returns the expected answers of lstm_model() to `rows` ([1,1,inputs] each) in one sequence; a list of
    [1,1,hidden]."""
    rows = [np.asarray(row, np.float64).reshape(-1) for row in rows]
    weights, recurrence, bias = (each.astype(np.float64) for each in _lstm_weights(seed, rows[0].size, hidden))
    h, c = np.zeros(hidden), np.zeros(hidden)
    answers = []
    for row in rows:
        forget, take, new, give = np.split(weights @ row + recurrence @ h + bias, 4)
        c = c * _sigmoid(forget) + _sigmoid(take) * np.tanh(new)
        h = _sigmoid(give) * np.tanh(c)
        answers.append(h.astype(np.float32).reshape(1, 1, hidden))
    return answers


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


# On processors with bf16, OpenVINO uses it by default. Models with exact expected numbers turn that off.
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def stateful_entry(name, model, folder, version=1, **settings):
    """Writes the model below folder/name; returns its element of model_config_list, with stateful set."""
    settings.setdefault("plugin_config", EXACT)
    return entry(name, save(model, folder / name, version), stateful=True, **settings)


def write_config(folder, models):
    """Returns the config.json for OvmsServer, for {name: model} or {name: (model, settings)} of stateful models."""
    entries = []
    for name, model in models.items():
        model, settings = model if isinstance(model, tuple) else (model, {})
        entries.append(stateful_entry(name, model, folder, **settings))
    return {"model_config_list": entries}
