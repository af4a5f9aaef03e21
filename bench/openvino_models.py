"""The models of bench/run-openvino: a tiny network, and one step over 1 MiB."""

import json
import pathlib

import numpy as np
import openvino as ov
import openvino.opset13 as op

STEP_ELEMENTS = 262144  # 1 MiB of FP32
STEPS = ("step_a", "step_b", "step_c")


def _named(node, name):
    node.output(0).get_tensor().set_names({name})
    return node


def _save(model, folder):
    folder.mkdir(parents=True)
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)


def tiny():
    """[-1,10] -> 16 -> [-1,4], with fixed weights."""
    rng = np.random.default_rng(7)
    x = _named(op.parameter([-1, 10], np.float32, name="x"), "x")
    hidden = op.relu(op.matmul(x, op.constant(rng.standard_normal((10, 16)).astype(np.float32)), False, False))
    y = op.matmul(hidden, op.constant(rng.standard_normal((16, 4)).astype(np.float32)), False, False)
    return ov.Model([op.result(_named(y, "y"))], [x], "tiny")


def step():
    """y = x + 1 over STEP_ELEMENTS."""
    x = _named(op.parameter([1, STEP_ELEMENTS], np.float32, name="x"), "x")
    y = _named(op.add(x, op.constant(np.ones((1, 1), np.float32))), "y")
    return ov.Model([op.result(y)], [x], "step")


def _node(name, model, source, item):
    return {
        "name": name,
        "model_name": model,
        "type": "DL model",
        "inputs": [{"x": {"node_name": source, "data_item": item}}],
        "outputs": [{"data_item": "y", "alias": "y"}],
    }


def write(folder):
    """Writes the models and a config.json, whose pipeline `three_steps` runs the steps one after the other."""
    folder = pathlib.Path(folder)
    _save(tiny(), folder / "tiny" / "1")
    for name in STEPS:
        _save(step(), folder / name / "1")
    sources = [("request", "x"), *((f"node_{name}", "y") for name in STEPS)]
    nodes = [_node(f"node_{name}", name, *source) for name, source in zip(STEPS, sources, strict=False)]
    config = {
        "model_config_list": [{"config": {"name": name, "base_path": name}} for name in ("tiny", *STEPS)],
        "pipeline_config_list": [
            {
                "name": "three_steps",
                "inputs": ["x"],
                "nodes": nodes,
                "outputs": [{"y": {"node_name": nodes[-1]["name"], "data_item": "y"}}],
            }
        ],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
