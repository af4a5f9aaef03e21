"""The models of bench/run-stateful: each has a state, and a twin that computes the same without one."""

import json
import pathlib

import numpy as np
import openvino as ov
import openvino.opset13 as op

HIDDEN = 64
LARGE = 262144  # 1 MiB of FP32


def _named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def _input(*shape):
    return _named(op.parameter(shape, np.float32, name="x"), "x")


def _model(name, x, y, states):
    """Makes a model. `states`: pairs of a node with the new value and its variable; empty for a twin."""
    sinks = [op.assign(value, variable) for value, variable in states]
    return ov.Model([op.result(_named(y, "y"))], sinks, [x], name)


def _state(variable, *shape, stateful):
    # Not zeros, because the twin could then skip additions.
    first = op.constant((np.arange(np.prod(shape)) % 7 / 8).astype(np.float32).reshape(shape))
    return op.read_value(first, variable, np.float32, ov.PartialShape(shape)) if stateful else first


def small(stateful):
    """An LSTM cell: x [1,16] -> y [1,64], with two states of 256 bytes."""
    rng = np.random.default_rng(3)
    x = _input(1, 16)
    hidden = _state("hidden", 1, HIDDEN, stateful=stateful)
    cell = _state("cell", 1, HIDDEN, stateful=stateful)
    shapes = ((4 * HIDDEN, 16), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,))
    weights = [op.constant((rng.standard_normal(shape) / 8).astype(np.float32)) for shape in shapes]
    after = op.lstm_cell(x, hidden, cell, *weights, HIDDEN)
    new_hidden, new_cell = (op.multiply(output, op.constant(np.float32(1))) for output in after.outputs())
    states = [(new_hidden, "hidden"), (new_cell, "cell")] if stateful else []
    return _model("small", x, new_hidden, states)


def large(stateful):
    """A running sum over 1 MiB of state: x [1,1] -> y [1,1], the largest of all sums."""
    x = _input(1, 1)
    total = op.add(_state("sum", 1, LARGE, stateful=stateful), x)
    y = op.reduce_max(total, op.constant(np.array([1], np.int64)), True)
    return _model("large", x, y, [(total, "sum")] if stateful else [])


MODELS = {"small": small, "large": large}


def write(folder):
    """Writes {name} and {name}_plain, and a config.json for both."""
    folder = pathlib.Path(folder)
    entries = []
    for name, make in MODELS.items():
        for stateful in (True, False):
            entry = {"name": name if stateful else f"{name}_plain"}
            entry["base_path"] = entry["name"]
            if stateful:
                entry["stateful"] = True
            path = folder / entry["name"] / "1" / "model.xml"
            path.parent.mkdir(parents=True)
            ov.save_model(make(stateful), path, compress_to_fp16=False)
            entries.append({"config": entry})
    (folder / "config.json").write_text(json.dumps({"model_config_list": entries}), encoding="utf-8")
