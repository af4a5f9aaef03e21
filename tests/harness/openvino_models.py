"""Small OpenVINO models with exact numbers, and their entries of a config.json."""

import pathlib

import numpy as np
import openvino as ov
import openvino.opset13 as op


def _named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def save(model, base, version=1):
    """Writes base/version/model.xml; returns the base path as text."""
    folder = pathlib.Path(base) / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    return str(base)


def add(shape=(1, 10), value=1.0, dtype=np.float32, inputs=("b",), output="a"):
    """Returns output = the sum of the inputs, plus value. A dimension of -1 is dynamic."""
    parameters = [_named(op.parameter(list(shape), dtype, name=name), name) for name in inputs]
    total = parameters[0]
    for each in parameters[1:]:
        total = op.add(total, each)
    result = op.add(total, op.constant(np.array(value, dtype)))
    return ov.Model([op.result(_named(result, output))], parameters, "add")


def scale(shape=(1, 10), factor=2.0, dtype=np.float32, input_name="x", output="y"):
    """y = x * factor."""
    x = _named(op.parameter(list(shape), dtype, name=input_name), input_name)
    return ov.Model([op.result(_named(op.multiply(x, op.constant(np.array(factor, dtype))), output))], [x], "scale")


def identity(shape=(1, 10), dtype=np.float32, input_name="x", output="y"):
    """Returns y = x, of any type that OpenVINO can reshape."""
    x = _named(op.parameter(list(shape), dtype, name=input_name), input_name)
    same = op.reshape(x, op.shape_of(x), False)
    return ov.Model([op.result(_named(same, output))], [x], "identity")


def two_outputs(shape=(1, 10)):
    """sum = x + y, difference = x - y."""
    x = _named(op.parameter(list(shape), np.float32, name="x"), "x")
    y = _named(op.parameter(list(shape), np.float32, name="y"), "y")
    results = [op.result(_named(op.add(x, y), "sum")), op.result(_named(op.subtract(x, y), "difference"))]
    return ov.Model(results, [x, y], "two_outputs")


def mlp(inputs=10, hidden=16, outputs=4, seed=7):
    """[-1,inputs] -> relu -> [-1,outputs], with seeded weights."""
    rng = np.random.default_rng(seed)
    x = _named(op.parameter([-1, inputs], np.float32, name="x"), "x")
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((inputs, hidden), (hidden, outputs))]
    middle = op.relu(op.matmul(x, op.constant(weights[0]), False, False))
    y = op.matmul(middle, op.constant(weights[1]), False, False)
    return ov.Model([op.result(_named(y, "y"))], [x], "mlp")


def image(height=2, width=2, channels=3, layout="NHWC", dtype=np.float32):
    """Returns `image` [1,H,W,C] (or [1,C,H,W]) unchanged as `pixels`: shows the decoded image."""
    dims = {"N": 1, "H": height, "W": width, "C": channels}
    return identity([dims[letter] for letter in layout], dtype, "image", "pixels")


def infer(path, *inputs):
    """Returns OpenVINO's own results for a model's file, as a list of arrays."""
    compiled = ov.Core().compile_model(str(path), "CPU")
    results = compiled(list(inputs))
    return [np.array(results[output]) for output in compiled.outputs]


def entry(name, base, **settings):
    """Returns one element of model_config_list."""
    return {"config": {"name": name, "base_path": str(base), **settings}}
