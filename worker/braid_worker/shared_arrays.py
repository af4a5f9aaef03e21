"""pb_utils.shared_arrays(): arrays that live once per server."""

import json
from collections.abc import Callable

import numpy as np
from _braid_worker import InferenceRequest, Tensor, TritonModelException

from braid_worker import arguments

_MODEL = "\x01shared_arrays"  # the server's name for these calls


def shared_arrays(key: str, loader: Callable[[], dict | list | tuple | np.ndarray]):
    """Returns the arrays that all models share under `key`.

    The first caller's `loader()` makes them: a dict of names, a list or tuple, or one array, of types with a fixed size.
    Other callers wait for it, and do not call theirs. Everyone gets the same dict, list or array of read-only views; a
    tuple becomes a list. The memory is freed when the last process that has asked has ended. An exception of loader()
    is raised here, and another caller's loader() is tried. Raises TypeError for other values.
    """
    key = arguments.text(key, "key")
    answer = _call(key)
    if "load" in json.loads(answer.parameters() or "{}"):
        try:
            structure, tensors = _pack(loader())
        except BaseException:
            _call(key, parameters={"failed": True})
            raise
        answer = _call(key, tensors, {"structure": json.dumps(structure)})
    return _unpack(json.loads(json.loads(answer.parameters())["structure"]), answer.output_tensors())


def _call(key: str, tensors=(), parameters: dict | None = None):
    request = InferenceRequest(
        model_name=_MODEL, requested_output_names=[], inputs=list(tensors), request_id=key, parameters=parameters or {}
    )
    answer = request.exec()
    if answer.has_error():
        raise TritonModelException(answer.error().message().removeprefix(f"Model {_MODEL} - "))
    return answer


def _pack(value):
    """Returns (structure, tensors): the names, types and shapes of the arrays as JSON, and their bytes."""
    if isinstance(value, dict):
        kind, names, arrays = "dict", list(value), list(value.values())
        for name in names:
            arguments.check_type(name, str, "a name of the arrays")
    elif isinstance(value, (list, tuple)):
        kind, names, arrays = "list", [], list(value)
    else:
        kind, names, arrays = "array", [], [value]
    described, tensors = [], []
    for number, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"shared_arrays: expected numpy arrays, got {type(array).__name__}")
        if array.dtype.hasobject or array.dtype.kind == "V":
            raise TypeError(
                f"shared_arrays: an array has the type {array.dtype}; expected a number, bool or fixed text"
            )
        described.append({"dtype": array.dtype.str, "shape": array.shape})
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.size:
            tensors.append(Tensor(str(number), data))
    return {"kind": kind, "names": names, "arrays": described}, tensors


def _unpack(structure, tensors):
    data = {tensor.name(): tensor.as_numpy() for tensor in tensors}
    arrays = []
    for number, described in enumerate(structure["arrays"]):
        array = data.get(str(number), np.empty(0, np.uint8)).view(described["dtype"]).reshape(described["shape"])
        array.flags.writeable = False
        arrays.append(array)
    if structure["kind"] == "dict":
        return dict(zip(structure["names"], arrays, strict=True))
    return arrays if structure["kind"] == "list" else arrays[0]
