"""Model repositories that tests write to disk."""

import pathlib
import shutil
import textwrap


def config(name=None, inputs=(), outputs=(), max_batch_size=None, backend="python", extra=""):
    """Returns the text of a config.pbtxt. An input or output is (name, type, dims) or (name, type, dims, "more
    fields")."""
    lines = []
    if name is not None:
        lines.append(f'name: "{name}"')
    if backend is not None:
        lines.append(f'backend: "{backend}"')
    if max_batch_size is not None:
        lines.append(f"max_batch_size: {max_batch_size}")
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            tensor_name, data_type, dims, *more = tensor
            fields = f'name: "{tensor_name}" data_type: TYPE_{data_type} dims: {list(dims)} {" ".join(more)}'
            lines.append(f"{kind} [ {{ {fields} }} ]")
    lines.append(extra)
    return "\n".join(lines) + "\n"


# A model whose execute runs `per_request` for each request; it sees `request` and leaves a response in `response`.
PER_REQUEST = """
import json, os, sys, time
import numpy as np
import triton_python_backend_utils as pb_utils


def get(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def respond(**outputs):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
{body}
"""


def per_request(body):
    """Returns the source of a model that answers each request by `body`, the body of a function of (self, request)."""
    return PER_REQUEST.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))


IDENTITY = per_request("return respond(OUT=get(request, 'IN'))")


class Repository:
    """A folder of models."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def add(self, name, source=IDENTITY, config_text="", versions=(1,), files=None):
        """Writes model `name`. `config_text` None omits config.pbtxt; `files` maps further paths to contents."""
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        if config_text is not None:
            (folder / "config.pbtxt").write_text(config_text)
        for version in versions:
            (folder / str(version)).mkdir(exist_ok=True)
            if source is not None:
                (folder / str(version) / "model.py").write_text(textwrap.dedent(source))
        for path, content in (files or {}).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                target.write_text(content)
        return folder

    def add_identity(self, name, data_type="FP32", dims=(-1,), **more):
        text = config(name, [("IN", data_type, dims)], [("OUT", data_type, dims)], **more)
        return self.add(name, IDENTITY, text)

    def remove(self, name):
        shutil.rmtree(self.path / name)
